/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Congestion control: the window of bytes that may be under way on a path.
 * doc/congestion.md has the reasons and figures. The algorithm follows Swift (Kumar et al.,
 * SIGCOMM 2020, algorithm 1): additive increase while the queueing delay is below a target,
 * multiplicative decrease in proportion to the excess, at most once a round trip.
 * Differences from Swift:
 *   - the receiver tells its senders how many peers send at a time. A sender begins with
 *     its part of the initial bytes of all senders, and grows the window by its part: the
 *     queue at the receiver's link is equal for 8 senders and for 1,024;
 *   - the delay of a round is the least delay of its acknowledgements, as in Copa (NSDI
 *     2018): a process that lost its core for a moment is no queue;
 *   - delay in the network and time of a packet at the receiver are apart: a receiver that
 *     waits for a processor is no queue in the network, and never takes the window below
 *     the initial window;
 *   - a window may be less than the longest packet: the sender then shortens packets, and
 *     paces the shortest packets;
 *   - ECN marks reduce the window as in DCTCP (RFC 8257), by the marked share;
 *   - a loss halves the window, as in Swift, only if there was a queue at that time;
 *     otherwise the share of lost packets counts like a share of marks: random loss costs
 *     in proportion;
 *   - the target is relative to the least round trip seen. A flow that begins while there
 *     is a queue would take the queue for a part of the path. The receiver therefore tells
 *     its senders now and then to pause for a round trip, and all senders see the path
 *     without their queue (in LEDBAT++ and BBR each flow pauses by its own clock). The
 *     pause also cuts the part of the window that makes the queue, at most half;
 *   - a queue after the pause belongs to flows that fill queues, like TCP with cubic. Then
 *     losses count and delay does not, as in Copa's competitive mode;
 *   - slow start (RFC 9002, 7.3.1) grows the window while half of it is used, as Linux
 *     does: senders ask for acknowledgements from half of the window on. Slow start also
 *     ends when the receiver counts more senders.
 */
#ifndef PF_NET_CONGESTION_H
#define PF_NET_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

/* Longest round trip, ns: a sample of 4 s or longer says nothing of a path and counts as none. */
#define TRIP_MOST UINT32_MAX

struct congestion {
	uint64_t window;                /* bytes, in 256ths */
	uint64_t round;                 /* the round ends when this packet number is acknowledged */
	uint64_t before;                /* window before the cut for the mourned packets */
	uint32_t delay;                 /* least round trip of this round, in the network, ns */
	uint32_t waited;                /* least round trip with the time at the receiver, ns */
	uint32_t trip;                  /* delay of the last round, 0: none yet, ns */
	uint32_t rtt_min, rtt_min_next; /* least round trip of the last 5 to 10 s, ns */
	uint32_t rtt_min_time;          /* start of the period of rtt_min_next, 1024 ns */
	uint32_t paused;                /* time of the last pause, 1024 ns */
	uint16_t acknowledged, lost, marked; /* packets in this round, WINDOW_NUMBERS at most */
	uint16_t mourned;                    /* lost packets behind the last cut */
	uint16_t marked_share, lost_share;   /* moving averages, in 1/65536 */
	uint16_t senders;                    /* senders that the receiver counts */
	bool slow_start : 1;
	bool limited : 1, was_limited : 1; /* this round, the last round used up the window */
	bool half_used : 1;                /* this round used half of the window */
	uint8_t samples;                   /* counted samples of this round */
	uint8_t crowded;                   /* pauses in a row after which there was a queue */
	bool after_pause : 1;
};

static inline uint32_t trip_time(uint64_t nanoseconds)
{
	return nanoseconds < TRIP_MOST ? (uint32_t)nanoseconds : TRIP_MOST;
}

/* Contents of an acknowledgement. */
struct congestion_news {
	uint32_t packets, bytes; /* packets newly acknowledged, and their bytes */
	uint32_t marks;          /* CE marks newly reported */
	uint64_t rtt;            /* sample of the round trip in the network, ns, 0: none */
	uint64_t waited;         /* sample with the time at the receiver, ns */
	uint64_t largest;        /* number of the largest packet acknowledged */
	uint64_t next;           /* number of the next packet to be sent */
};

/* packet: bytes of the longest packet, here and below. senders: count of the receiver. */
void congestion_init(struct congestion *congestion, uint32_t packet, uint16_t senders);
/* Handle an acknowledgement. target: of the queueing delay, ns. */
void congestion_acknowledged(struct congestion *congestion, uint64_t now,
			     const struct congestion_news *news, uint64_t target, uint32_t packet);
/* Longer packets pass than was known: grow the window to their initial window. */
void congestion_packet_grew(struct congestion *congestion, uint32_t packet);
/* Set the number of senders counted by the receiver. */
void congestion_senders(struct congestion *congestion, uint16_t senders);
void congestion_lost(struct congestion *congestion, uint32_t packets);
/*
 * A packet declared lost was only overtaken. When all packets behind a cut were
 * only overtaken, undo the cut (RFC 4015).
 */
void congestion_spurious(struct congestion *congestion);
/* Start anew, after several time-outs without an answer, or after idle time. */
void congestion_restart(struct congestion *congestion, uint32_t packet);
/*
 * The receiver told its senders to pause. next: number of the next packet. Returns the
 * length of the pause, ns; 0: this flow makes no queue.
 */
uint32_t congestion_paused(struct congestion *congestion, uint64_t now, uint64_t next,
			   uint32_t packet);
/* Bytes of the longest packet to be sent now: small windows, too, send once a round trip. */
uint32_t congestion_packet(const struct congestion *congestion, uint32_t packet);
/* ns from a packet of some bytes to the next packet, 0: the window alone decides. */
uint64_t congestion_pause(const struct congestion *congestion, uint64_t target, uint32_t bytes,
			  uint32_t packet);

static inline uint64_t congestion_window(const struct congestion *congestion)
{
	return congestion->window >> 8;
}

#endif
