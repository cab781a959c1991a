/* SPDX-License-Identifier: BSD-3-Clause */
#include "congestion.h"

#include "base/check.h"
#include "base/number.h"
#include "net.h"
#include "window.h"

/* benchmarks/incast chose the numbers without another source. */
#define INITIAL_PACKETS 10 /* RFC 6928 */
#define INITIAL_BYTES (64u << 10)
#define INCREASE_BYTES (16u << 10)     /* growth in a round trip, bytes */
#define ALL_BYTES (128u << 10)         /* initial windows of all senders of a receiver together */
#define ALL_INCREASE_BYTES (32u << 10) /* growth of all windows in a round trip together */
#define WINDOW_LEAST 8                 /* bytes: Swift's 0.001 packets */
#define WINDOW_MOST ((uint64_t)64 << 20)
#define PACED_PACKETS 4        /* smaller windows are paced, packets */
#define LOST_MANY (65536 / 8)  /* lost share of many losses */
#define WAITED_TARGET 100000u  /* ns at the receiver */
#define PAUSE_TRIPS 16         /* least distance of two pauses, round trips */
#define QUEUE_MOST 5000000u    /* ns: 6 MB at 10 Gbit/s, more than the buffer of a switch's port */
#define RTT_MIN_PERIOD 5000000 /* 1024 ns */
/* Swift's beta and max_mdf */
#define BETA_PERCENT 80
#define CUT_MOST_PERCENT 50
/* Flows of this protocol leave a queue of less than CROWDED_TARGETS targets after a pause, */
#define CROWDED_TARGETS 2
#define CROWDED_PAUSES 3     /* and never a longer queue after 3 pauses in a row */
#define SAMPLES_MOST 4       /* number of samples in small windows */
#define RIVAL_CUT_PERCENT 30 /* cubic's, RFC 9438 */
#define RIVAL_PACKETS 2      /* growth in a round trip: cubic recovers its losses within seconds */
/* Part of the target that depends on the window; the part is whole at SHARED_BYTES / senders, */
#define SHARED_PERCENT 60
#define SHARED_BYTES (256u << 10)
#define SHARED_MOST 358 /* and its largest factor is 358 / 256 */

#define UNITS(bytes) ((uint64_t)(bytes) << 8)

static uint32_t time_coarse(uint64_t nanoseconds)
{
	return (uint32_t)(nanoseconds >> 10);
}

static void window_set(struct congestion *congestion, uint64_t window)
{
	if (window < UNITS(WINDOW_LEAST))
		window = UNITS(WINDOW_LEAST);
	congestion->window = number_min(window, UNITS(WINDOW_MOST));
}

/* Initial window. */
static uint64_t window_initial(const struct congestion *congestion, uint32_t packet)
{
	uint64_t bytes = number_min((uint64_t)INITIAL_PACKETS * packet, INITIAL_BYTES);

	assert_that(congestion->senders && packet >= NET_PACKET_LEAST && packet <= NET_PACKET_MOST);
	return UNITS(number_min(bytes, ALL_BYTES / congestion->senders));
}

/* Growth of the window in a round trip. */
static uint64_t window_increase(const struct congestion *congestion, uint32_t packet)
{
	uint64_t bytes = INCREASE_BYTES > 2 * packet ? INCREASE_BYTES : 2 * packet;

	return number_min(UNITS(bytes), UNITS(ALL_INCREASE_BYTES) / congestion->senders);
}

static void forget_round(struct congestion *congestion)
{
	congestion->delay = congestion->waited = TRIP_MOST;
	congestion->acknowledged = congestion->lost = congestion->marked = 0;
	congestion->was_limited = congestion->limited;
	congestion->limited = congestion->half_used = false;
	congestion->samples = 0;
}

void congestion_init(struct congestion *congestion, uint32_t packet, uint16_t senders)
{
	*congestion = (struct congestion){
		.rtt_min = TRIP_MOST,
		.rtt_min_next = TRIP_MOST,
		.senders = senders ? senders : 1,
		.slow_start = true,
	};
	congestion->window = window_initial(congestion, packet);
	forget_round(congestion);
}

static bool congestion_has_rivals(const struct congestion *congestion)
{
	return congestion->crowded >= CROWDED_PAUSES;
}

/* Keep the least round trip of the last one to two periods: routes change. */
static void congestion_sample(struct congestion *congestion, uint64_t now,
			      const struct congestion_news *news)
{
	uint32_t rtt = trip_time(news->rtt), waited = trip_time(news->waited);

	/* Flows that keep a queue hide the path: learn nothing new beside them. */
	if (congestion_has_rivals(congestion))
		congestion->rtt_min_time = time_coarse(now);
	if (time_coarse(now) - congestion->rtt_min_time > RTT_MIN_PERIOD) {
		congestion->rtt_min = congestion->rtt_min_next;
		congestion->rtt_min_next = rtt;
		congestion->rtt_min_time = time_coarse(now);
	}
	if (rtt < congestion->rtt_min)
		congestion->rtt_min = rtt;
	if (rtt < congestion->rtt_min_next)
		congestion->rtt_min_next = rtt;
	/* Count only some samples: more samples have a lower least, and large windows have more. */
	if (congestion->samples >= SAMPLES_MOST)
		return;
	congestion->samples++;
	if (rtt < congestion->delay)
		congestion->delay = rtt;
	if (waited < congestion->waited)
		congestion->waited = waited;
}

/* Return the moving average with g = 1/8, in 1/65536. */
static uint16_t share_average(uint16_t share, uint32_t part, uint32_t whole)
{
	uint32_t now;

	assert_that(part <= whole);
	if (!part && !share)
		return 0;
	now = whole ? (uint32_t)((uint64_t)65535 * part / whole) : 0;

	return (uint16_t)(share - share / 8 + now / 8);
}

static uint64_t window_cut(uint64_t window, uint64_t percent)
{
	assert_that(window && window <= UNITS(WINDOW_MOST));
	return window - window / 100 * number_min(percent, CUT_MOST_PERCENT);
}

/*
 * Weight of the signals of a round, in 256ths. A change takes effect only after the next
 * packet, which is later than a round trip if the window is less than a packet.
 */
static uint64_t window_gain(uint64_t window)
{
	uint64_t part = window / NET_PACKET_LEAST / 2;

	if (window >= UNITS(NET_PACKET_LEAST))
		return 256;
	/* The least window grows, too. */
	return part ? part : 1;
}

/* Beside flows that fill the queue, let losses decide, like in cubic. */
static uint64_t window_compete(const struct congestion *congestion, uint32_t packet)
{
	uint64_t window = congestion->window;

	if (congestion->lost)
		return window_cut(window, RIVAL_CUT_PERCENT);
	if (congestion->marked)
		return window - (window >> 17) * congestion->marked_share;
	return congestion->limited ? window + UNITS(RIVAL_PACKETS * packet) : window;
}

static uint32_t square_root(uint64_t square)
{
	uint32_t root = 0, bit;

	for (bit = 1u << 8; bit; bit >>= 1) {
		if ((uint64_t)(root | bit) * (root | bit) <= square)
			root |= bit;
	}
	return root;
}

/*
 * The target falls with the root of the window, as in Swift. Without the fall, flows with a
 * slightly longer least round trip than competing flows would take all bandwidth.
 */
static uint64_t own_target(const struct congestion *congestion, uint64_t target)
{
	uint64_t part = UNITS(SHARED_BYTES) / congestion->senders;
	uint32_t root = square_root(
		number_min((part << 16) / congestion->window, SHARED_MOST * SHARED_MOST));

	return target * (100 - SHARED_PERCENT) / 100 + target * SHARED_PERCENT * root / 25600;
}

static void end_round(struct congestion *congestion, uint64_t target, uint32_t packet)
{
	uint64_t window, queue = 0, waited = 0, safe;
	uint32_t whole = congestion->acknowledged + congestion->lost;

	target = own_target(congestion, target);
	if (congestion->delay != TRIP_MOST) {
		queue = congestion->delay - congestion->rtt_min;
		if (congestion->waited > congestion->rtt_min)
			waited = congestion->waited - congestion->rtt_min;
		/*
		 * Delay beyond the longest queue is a process at either end that waited for a
		 * processor. Pauses and pacing do not count the excess.
		 */
		congestion->trip = (uint32_t)number_min(congestion->delay,
							(uint64_t)congestion->rtt_min + QUEUE_MOST);
	}
	window = congestion->window;
	congestion->marked_share =
		share_average(congestion->marked_share,
			      congestion->marked < whole ? congestion->marked : whole, whole);
	congestion->lost_share = share_average(congestion->lost_share, congestion->lost, whole);
	assert_that(!congestion->lost || whole);

	if (queue > target) {
		window = window_cut(window, BETA_PERCENT * (queue - target) * window_gain(window) /
						    congestion->delay / 256);
		congestion->slow_start = false;
	} else if (waited > WAITED_TARGET) {
		window = window_cut(window,
				    BETA_PERCENT * (waited - WAITED_TARGET) / congestion->waited);
		congestion->slow_start = false;
	} else if (congestion->limited && !congestion->slow_start) {
		window += window_increase(congestion, packet) * window_gain(window) / 256;
	}
	if (congestion->marked) {
		window -= (window >> 17) * congestion->marked_share * window_gain(window) / 256;
		congestion->slow_start = false;
	}
	congestion->mourned = congestion->marked ? 0 : congestion->lost;
	congestion->before = congestion->window;
	if (congestion->lost && queue > target / 2) {
		if (queue <= target)
			window = window_cut(window, CUT_MOST_PERCENT);
		congestion->slow_start = false;
	} else if (congestion->lost) {
		window -= (window >> 17) * congestion->lost_share;
		/* A queue too short to be measured overflows by half of the bytes of a doubling. */
		if (congestion->lost * 4 > whole)
			congestion->slow_start = false;
	}
	/*
	 * Delay may come from a peer or a kernel that waits for a processor, and no window
	 * helps against that; few losses are no queue either. Below the safe initial window,
	 * only losses in a queue, many losses, and marks count.
	 */
	safe = number_min(window_initial(congestion, packet), congestion->window);
	if (!(congestion->lost && queue > target / 2) && congestion->lost_share < LOST_MANY &&
	    !congestion->marked && window < safe)
		window = safe;
	window_set(congestion,
		   congestion_has_rivals(congestion) ? window_compete(congestion, packet) : window);
	forget_round(congestion);
}

/* Judge the first packets after a pause: if most of the queue is still there, rivals fill it. */
static void end_pause(struct congestion *congestion, uint64_t target, uint32_t packet)
{
	uint64_t before = congestion->trip - congestion->rtt_min, queue;

	congestion->after_pause = false;
	if (congestion->delay == TRIP_MOST)
		return;
	queue = congestion->delay - congestion->rtt_min;
	/* A switch that marks packets keeps the queue short by itself. */
	if (queue < CROWDED_TARGETS * target || queue < before / 2 || congestion->marked_share)
		congestion->crowded = 0;
	else if (!congestion_has_rivals(congestion) &&
		 congestion->window <= window_initial(congestion, packet) &&
		 ++congestion->crowded == CROWDED_PAUSES)
		congestion->window = UNITS(RIVAL_PACKETS * packet);
}

void congestion_acknowledged(struct congestion *congestion, uint64_t now,
			     const struct congestion_news *news, uint64_t target, uint32_t packet)
{
	assert_that(news->packets && news->largest < news->next);
	if (news->rtt)
		congestion_sample(congestion, now, news);
	assert_that(congestion->acknowledged + news->packets <= 2 * WINDOW_NUMBERS);
	congestion->acknowledged = (uint16_t)(congestion->acknowledged + news->packets);
	congestion->marked = (uint16_t)(congestion->marked + news->marks);
	if (congestion->slow_start && congestion->half_used) {
		window_set(congestion,
			   congestion->window + number_min(UNITS(news->bytes), congestion->window));
		if (news->rtt && congestion->delay - congestion->rtt_min > target / 2)
			congestion->slow_start = false;
	}
	if (news->largest < congestion->round)
		return;
	if (congestion->after_pause)
		end_pause(congestion, target, packet);
	end_round(congestion, target, packet);
	congestion->round = news->next;
}

void congestion_packet_grew(struct congestion *congestion, uint32_t packet)
{
	uint64_t window = window_initial(congestion, packet);

	/* Only losses and marks justify less than the initial window. */
	if (!congestion->marked_share && !congestion->lost && !congestion->lost_share &&
	    !congestion_has_rivals(congestion) && congestion->window < window)
		congestion->window = window;
}

void congestion_senders(struct congestion *congestion, uint16_t senders)
{
	/* In slow start, flows that begin one after another would overfill the queue. */
	if (senders > congestion->senders)
		congestion->slow_start = false;
	congestion->senders = senders ? senders : 1;
}

void congestion_lost(struct congestion *congestion, uint32_t packets)
{
	assert_that(congestion->lost + packets <= 2 * WINDOW_NUMBERS);
	congestion->lost = (uint16_t)(congestion->lost + packets);
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

void congestion_restart(struct congestion *congestion, uint32_t packet)
{
	congestion->window = number_min(congestion->window, window_initial(congestion, packet));
	congestion->slow_start = true;
	congestion->crowded = 0;
	forget_round(congestion);
}

/* Cut the bytes beyond a round trip without queue: these bytes would make an equal queue again. */
static void cut_queue(struct congestion *congestion, uint32_t packet)
{
	uint64_t safe = number_min(window_initial(congestion, packet), congestion->window), window;

	/* A change below a packet takes effect late: see window_gain(). */
	if (congestion_has_rivals(congestion) || congestion->trip <= congestion->rtt_min ||
	    congestion->window <= UNITS(NET_PACKET_LEAST))
		return;
	window = window_cut(congestion->window,
			    (congestion->trip - congestion->rtt_min) * 100ull / congestion->trip);
	window_set(congestion, window > safe ? window : safe);
	congestion->mourned = 0;
}

uint32_t congestion_paused(struct congestion *congestion, uint64_t now, uint64_t next,
			   uint32_t packet)
{
	uint32_t since = time_coarse(now) - congestion->paused;

	if ((!congestion->limited && !congestion->was_limited) || !congestion->trip ||
	    since < time_coarse((uint64_t)PAUSE_TRIPS * congestion->trip))
		return 0;
	congestion->paused = time_coarse(now);
	congestion->after_pause = true;
	cut_queue(congestion, packet);
	congestion->round = next;
	forget_round(congestion);
	return congestion->trip;
}

uint32_t congestion_packet(const struct congestion *congestion, uint32_t packet)
{
	uint64_t window = congestion_window(congestion) & ~7ull;

	assert_that(packet >= NET_PACKET_LEAST);
	if (window >= packet)
		return packet;
	return window > NET_PACKET_LEAST ? (uint32_t)window : NET_PACKET_LEAST;
}

uint64_t congestion_pause(const struct congestion *congestion, uint64_t target, uint32_t bytes,
			  uint32_t packet)
{
	uint64_t window = congestion_window(congestion), allowed = target;
	int64_t more = 0;

	assert_that(window && bytes);
	if (window >= PACED_PACKETS * packet)
		return 0;
	if (congestion->rtt_min != TRIP_MOST)
		allowed += congestion->rtt_min;
	if (congestion->trip)
		more = ((int64_t)congestion->trip - (int64_t)allowed) *
		       (int64_t)window_gain(UNITS(window)) / 256;
	return (uint64_t)((int64_t)allowed + more) * bytes / window;
}
