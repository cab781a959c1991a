/* SPDX-License-Identifier: BSD-3-Clause */
#include "congestion.h"

#define INITIAL_PACKETS 10 /* RFC 6928 */
#define LEAST_PACKETS 2
#define INITIAL_BYTES (64u << 10)
#define INCREASE_BYTES (16u << 10) /* a round trip */
#define WINDOW_MOST ((uint64_t)64 << 20)
#define LOST_MANY (65536 / 8)   /* a share */
#define SLOW_PERIOD 16000000ull /* ns, and */
#define SLOW_PERIOD_TRIPS 64
#define SLOW_ROUNDS 2
#define SLOW_LEAST 4 /* packets; who has less makes no queue */
#define RTT_MIN_PERIOD 5000000000ull
/* Swift's beta and max_mdf */
#define BETA_PERCENT 80
#define CUT_MOST_PERCENT 50

static uint64_t least(uint32_t packet)
{
	return ((uint64_t)packet << 8) * LEAST_PACKETS;
}

static void set(struct congestion *congestion, uint64_t window, uint32_t packet)
{
	if (window < least(packet))
		window = least(packet);
	if (window > WINDOW_MOST << 8)
		window = WINDOW_MOST << 8;
	congestion->window = window;
}

static uint64_t initial(uint32_t packet)
{
	uint64_t bytes = (uint64_t)INITIAL_PACKETS * packet;

	return (bytes < INITIAL_BYTES ? bytes : INITIAL_BYTES) << 8;
}

void congestion_init(struct congestion *congestion, uint32_t packet)
{
	*congestion = (struct congestion){
		.window = initial(packet),
		.delay = TRIP_MOST,
		.rtt_min = TRIP_MOST,
		.rtt_min_next = TRIP_MOST,
		.slow_start = true,
	};
}

/* The least of the last one to two periods: routes change. */
static void sample(struct congestion *congestion, uint64_t now, uint32_t rtt)
{
	if (now - congestion->rtt_min_time > RTT_MIN_PERIOD) {
		congestion->rtt_min = congestion->rtt_min_next;
		congestion->rtt_min_next = rtt;
		congestion->rtt_min_time = now;
	}
	if (rtt < congestion->rtt_min)
		congestion->rtt_min = rtt;
	if (rtt < congestion->rtt_min_next)
		congestion->rtt_min_next = rtt;
	if (rtt < congestion->delay)
		congestion->delay = rtt;
}

/* g = 1/8, in 1/65536 */
static uint16_t average(uint16_t share, uint32_t part, uint32_t whole)
{
	uint32_t now;

	if (!part && !share)
		return 0;
	now = whole ? (uint32_t)((uint64_t)65535 * part / whole) : 0;

	return (uint16_t)(share - share / 8 + now / 8);
}

static uint64_t cut(uint64_t window, uint64_t percent)
{
	if (percent > CUT_MOST_PERCENT)
		percent = CUT_MOST_PERCENT;
	return window - window / 100 * percent;
}

static uint32_t root(uint64_t x)
{
	uint32_t r = 0, bit;

	for (bit = 1u << 20; bit; bit >>= 1) {
		if ((uint64_t)(r | bit) * (r | bit) <= x)
			r |= bit;
	}
	return r;
}

/*
 * Swift's flow scaling (3.5): the smaller a window, the more delay it bears, so
 * that shares become even. Up to 3 targets more at a tenth of a packet, none at
 * a hundred.
 */
static uint64_t scaled(uint64_t target, uint64_t window, uint32_t packet)
{
	uint64_t more = 4014 / (root(window / packet) + 1);

	more = more > 25 ? more - 25 : 0;
	return target + target * (more < 768 ? more : 768) / 256;
}

static void end_round(struct congestion *congestion, uint64_t target, uint32_t packet)
{
	uint64_t window = congestion->window, queue = 0, increase;
	uint32_t whole = congestion->acknowledged + congestion->lost;

	if (congestion->delay != TRIP_MOST)
		queue = congestion->delay - congestion->rtt_min;
	if (queue > target / 2)
		target = scaled(target, window, packet);
	congestion->marked_share = average(congestion->marked_share,
					   congestion->marked < whole ? congestion->marked : whole,
					   whole);
	congestion->lost_share = average(congestion->lost_share, congestion->lost, whole);

	if (queue > target) {
		window = cut(window, BETA_PERCENT * (queue - target) / congestion->delay);
		congestion->slow_start = false;
	} else if (congestion->limited && !congestion->slow_start) {
		increase = INCREASE_BYTES > 2 * packet ? INCREASE_BYTES : 2 * packet;
		/* Below one packet as if it were one: Swift's ai * num_acked. */
		if (window < (uint64_t)packet << 8)
			increase = packet / 4;
		window += increase << 8;
	}
	if (congestion->marked) {
		window -= (window >> 17) * congestion->marked_share;
		congestion->slow_start = false;
	}
	congestion->mourned = congestion->marked ? 0 : congestion->lost;
	congestion->before = congestion->window;
	if (congestion->lost && queue > target / 2) {
		if (queue <= target)
			window = cut(window, CUT_MOST_PERCENT);
		congestion->slow_start = false;
	} else if (congestion->lost) {
		window -= (window >> 17) * congestion->lost_share;
		/* A queue too short to be seen overflows by the half of what doubling sends. */
		if (congestion->lost * 4 > whole)
			congestion->slow_start = false;
	}
	/*
	 * Delay may be a peer that waits for a processor, which no window helps
	 * against, and few losses are no queue either: below what is safe to begin
	 * with only many of them, and marks, count.
	 */
	if (congestion->lost_share < LOST_MANY && !congestion->marked) {
		uint64_t safe = initial(packet) < congestion->window ? initial(packet) :
								       congestion->window;

		if (window < safe)
			window = safe;
	}
	set(congestion, window, packet);
	congestion->delay = TRIP_MOST;
	congestion->acknowledged = congestion->lost = congestion->marked = 0;
	congestion->limited = false;
}

static void shrink(struct congestion *congestion, uint64_t now, uint64_t rtt, uint32_t packet)
{
	if (congestion->slow_start)
		congestion->slow_time = now;
	if (now - congestion->slow_time < SLOW_PERIOD ||
	    congestion->window < (uint64_t)SLOW_LEAST * packet << 8 ||
	    now - congestion->slow_time < SLOW_PERIOD_TRIPS * rtt)
		return;
	congestion->slow_time = now;
	congestion->slow = SLOW_ROUNDS;
}

void congestion_acknowledged(struct congestion *congestion, uint64_t now, uint32_t packets,
			     uint32_t bytes, uint32_t marks, uint64_t rtt, uint64_t largest,
			     uint64_t next, uint64_t target, uint32_t packet)
{
	if (rtt)
		sample(congestion, now, trip_time(rtt));
	congestion->acknowledged += packets;
	congestion->marked += marks;
	if (congestion->slow_start && congestion->limited) {
		set(congestion, congestion->window + ((uint64_t)bytes << 8), packet);
		if (rtt && congestion->delay - congestion->rtt_min > target)
			congestion->slow_start = false;
	}
	if (largest < congestion->round)
		return;
	if (congestion->slow) {
		/* What it sees in these rounds is what others do. */
		congestion->slow--;
		congestion->delay = TRIP_MOST;
		congestion->acknowledged = congestion->lost = congestion->marked = 0;
	} else {
		end_round(congestion, target, packet);
		shrink(congestion, now, rtt, packet);
	}
	congestion->round = next;
}

void congestion_lost(struct congestion *congestion, uint32_t packets)
{
	congestion->lost += packets;
}

void congestion_spurious(struct congestion *congestion)
{
	if (congestion->lost) {
		congestion->lost--;
		return;
	}
	if (!congestion->mourned || --congestion->mourned)
		return;
	if (congestion->window < congestion->before)
		congestion->window = congestion->before;
}

void congestion_silent(struct congestion *congestion, uint32_t packet)
{
	uint64_t window = initial(packet);

	if (window < congestion->window)
		congestion->window = window;
	congestion->slow_start = true;
	congestion->acknowledged = congestion->lost = congestion->marked = 0;
	congestion->delay = TRIP_MOST;
}
