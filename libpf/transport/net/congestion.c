/* SPDX-License-Identifier: BSD-3-Clause */
#include "congestion.h"

#define INITIAL_PACKETS 10       /* RFC 6928 */
#define INITIAL_BYTES (64u << 10)
#define INCREASE_BYTES (16u << 10) /* a round trip */
#define WINDOW_MOST ((uint64_t)64 << 20)
#define RTT_MIN_PERIOD 5000000000ull
/* Swift's beta and max_mdf */
#define BETA_PERCENT 80
#define CUT_MOST_PERCENT 50

static uint64_t least(uint32_t packet)
{
	return ((uint64_t)packet << 8) / 16;
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
		.delay = UINT64_MAX,
		.rtt_min = UINT64_MAX,
		.rtt_min_next = UINT64_MAX,
		.slow_start = true,
	};
}

/* The least of the last one to two periods: routes change. */
static void sample(struct congestion *congestion, uint64_t now, uint64_t rtt)
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
	uint32_t now = whole ? (uint32_t)((uint64_t)65535 * part / whole) : 0;

	return (uint16_t)(share - share / 8 + now / 8);
}

static uint64_t cut(uint64_t window, uint64_t percent)
{
	if (percent > CUT_MOST_PERCENT)
		percent = CUT_MOST_PERCENT;
	return window - window / 100 * percent;
}

static void end_round(struct congestion *congestion, uint64_t target, uint32_t packet)
{
	uint64_t window = congestion->window, queue = 0, increase;
	uint32_t whole = congestion->acknowledged + congestion->lost;

	if (congestion->delay != UINT64_MAX)
		queue = congestion->delay - congestion->rtt_min;
	congestion->marked_share = average(
		congestion->marked_share, congestion->marked < whole ? congestion->marked : whole, whole);
	congestion->lost_share = average(congestion->lost_share, congestion->lost, whole);

	if (queue > target) {
		window = cut(window, BETA_PERCENT * (queue - target) / congestion->delay);
		congestion->slow_start = false;
	} else if (congestion->limited && !congestion->slow_start) {
		increase = INCREASE_BYTES > 2 * packet ? INCREASE_BYTES : 2 * packet;
		/* Below one packet as if it were one: Swift's ai * num_acked. */
		if (window < (uint64_t)packet << 8)
			increase = packet / 8;
		window += increase << 8;
	}
	if (congestion->marked) {
		window -= (window >> 17) * congestion->marked_share;
		congestion->slow_start = false;
	}
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
	set(congestion, window, packet);
	congestion->delay = UINT64_MAX;
	congestion->acknowledged = congestion->lost = congestion->marked = 0;
	congestion->limited = false;
}

void congestion_acknowledged(struct congestion *congestion, uint64_t now, uint32_t packets,
			     uint32_t bytes, uint32_t marks, uint64_t rtt, uint64_t largest,
			     uint64_t next, uint64_t target, uint32_t packet)
{
	if (rtt)
		sample(congestion, now, rtt);
	congestion->acknowledged += packets;
	congestion->marked += marks;
	if (congestion->slow_start && congestion->limited) {
		set(congestion, congestion->window + ((uint64_t)bytes << 8), packet);
		if (rtt && congestion->delay - congestion->rtt_min > target)
			congestion->slow_start = false;
	}
	if (largest < congestion->round)
		return;
	end_round(congestion, target, packet);
	congestion->round = next;
}

void congestion_lost(struct congestion *congestion, uint32_t packets)
{
	congestion->lost += packets;
}

void congestion_silent(struct congestion *congestion, uint32_t packet)
{
	uint64_t window = initial(packet);

	if (window < congestion->window)
		congestion->window = window;
	congestion->slow_start = true;
	congestion->acknowledged = congestion->lost = congestion->marked = 0;
	congestion->delay = UINT64_MAX;
}
