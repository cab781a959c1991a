/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much may be under way on a path. Follows Swift (Kumar et al., SIGCOMM
 * 2020, algorithm 1): additive increase while the queueing delay is below a
 * target, multiplicative decrease in proportion to the excess, at most once a
 * round trip; the window is two packets at least. It differs in this:
 *   - the delay of a round is the least that its acknowledgements saw, as in
 *     Copa (NSDI 2018): a process that lost its core for a moment is no queue;
 *   - ECN marks reduce it as in DCTCP (RFC 8257), by the marked share;
 *   - a loss halves the window, as in Swift, only if there was a queue at that
 *     time; otherwise the share of lost packets counts as a share of marks
 *     would, so that random loss costs in proportion;
 *   - the target is over the least round trip that was seen. Who came when there
 *     was a queue already would take that for the path's: so everybody shrinks
 *     for a moment now and then, as in LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus),
 *     and all see the path without his queue;
 *   - it starts with slow start (RFC 9002, 7.3.1), and what that begins with, ten
 *     packets or 64 KiB, remains the least unless there are marks or an eighth is
 *     lost. It is also what is left beside a TCP that fills the queue, as cubic
 *     does: whoever keeps a queue short yields to that.
 */
#ifndef PF_NET_CONGESTION_H
#define PF_NET_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#define CONGESTION_SHRINK 3 /* log2 */

/* Round trips are in ns. One of 4 s or longer says nothing of a path: it is as good as none. */
#define TRIP_MOST UINT32_MAX

struct congestion {
	uint64_t window;                /* bytes, in 256ths */
	uint64_t round;                 /* ends when this packet number is acknowledged */
	uint32_t delay;                 /* least round trip of this round */
	uint32_t rtt_min, rtt_min_next; /* of the last 5 to 10 s */
	uint64_t rtt_min_time;
	uint32_t acknowledged, lost, marked; /* packets in this round */
	uint16_t marked_share, lost_share;   /* moving averages, in 1/65536 */
	uint64_t before;                     /* the window, before it was cut for */
	uint32_t mourned;                    /* so many packets lost */
	bool slow_start, limited;
	uint8_t slow;       /* rounds for which it is shrunk */
	uint64_t slow_time; /* when last */
};

static inline uint32_t trip_time(uint64_t nanoseconds)
{
	return nanoseconds < TRIP_MOST ? (uint32_t)nanoseconds : TRIP_MOST;
}

void congestion_init(struct congestion *congestion, uint32_t packet);
/*
 * An acknowledgement: packets and bytes that it newly covers, CE marks that it
 * newly reports, a sample of the round trip (0: none), the number of the
 * largest packet and of the next one to be sent.
 */
void congestion_acknowledged(struct congestion *congestion, uint64_t now, uint32_t packets,
			     uint32_t bytes, uint32_t marks, uint64_t rtt, uint64_t largest,
			     uint64_t next, uint64_t target, uint32_t packet);
void congestion_lost(struct congestion *congestion, uint32_t packets);
/* One of them had only been overtaken. When all that a cut was for had, it is undone (RFC 4015). */
void congestion_spurious(struct congestion *congestion);
/* Several time-outs without a word: start anew. */
void congestion_silent(struct congestion *congestion, uint32_t packet);

static inline uint64_t congestion_window(const struct congestion *congestion)
{
	return congestion->window >> (congestion->slow ? 8 + CONGESTION_SHRINK : 8);
}

#endif
