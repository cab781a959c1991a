/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much may be under way on a path. doc/congestion.md has the reasons and figures. It
 * follows Swift (Kumar et al., SIGCOMM 2020, algorithm 1): additive increase while the
 * queueing delay is below a target, multiplicative decrease in proportion to the excess,
 * at most once a round trip. It differs in this:
 *   - the receiver tells how many peers send to it at a time. A sender begins with its
 *     part of what all of them may begin with, and its window grows by its part, so that
 *     the queue at the receiver's link is the same for 8 senders and for 1,024;
 *   - the delay of a round is the least that its acknowledgements saw, as in Copa
 *     (NSDI 2018): a process that lost its core for a moment is no queue;
 *   - the delay in the network and the time that a packet waited at the receiver are two
 *     things: a receiver that waits for a processor is no queue in the network, and never
 *     takes the window below what it begins with;
 *   - a window may be less than the longest packet: packets are shorter then, and below
 *     the shortest one, paced;
 *   - ECN marks reduce it as in DCTCP (RFC 8257), by the marked share;
 *   - a loss halves the window, as in Swift, only if there was a queue at that time;
 *     otherwise the share of lost packets counts as a share of marks would, so that random
 *     loss costs in proportion;
 *   - the target is over the least round trip that was seen. A flow that begins when there
 *     is a queue already would take that for the path's. So the receiver tells its senders
 *     now and then to pause for a round trip, and all of them see the path without their
 *     queue (LEDBAT++ and BBR do so by each flow's own clock). What of the window makes
 *     the queue is cut off then, at most half;
 *   - a queue that is there after the pause belongs to flows that fill it, as TCP with cubic
 *     does. Then losses count and delay does not, as in Copa's competitive mode;
 *   - it starts with slow start (RFC 9002, 7.3.1), in which the window grows while half of it
 *     is used, as in Linux: senders ask for acknowledgements from there on. It also ends when the
 *     receiver hears more senders.
 */
#ifndef PF_NET_CONGESTION_H
#define PF_NET_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

/* Round trips are in ns. One of 4 s or longer says nothing of a path: it is as good as none. */
#define TRIP_MOST UINT32_MAX

struct congestion {
	uint64_t window;                     /* bytes, in 256ths */
	uint64_t round;                      /* ends when this packet number is acknowledged */
	uint64_t before;                     /* the window, before it was cut for mourned packets */
	uint32_t delay;                      /* least round trip of this round, in the network */
	uint32_t waited;                     /* ... with the time that the receiver took */
	uint32_t trip;                       /* delay of the last round, 0: none yet */
	uint32_t rtt_min, rtt_min_next;      /* of the last 5 to 10 s */
	uint32_t rtt_min_time;               /* since when, 1024 ns */
	uint32_t paused;                     /* when it did so last, 1024 ns */
	uint16_t acknowledged, lost, marked; /* packets in this round, WINDOW_NUMBERS at most */
	uint16_t mourned;                    /* so many packets lost */
	uint16_t marked_share, lost_share;   /* moving averages, in 1/65536 */
	uint16_t senders;                    /* that the receiver hears */
	bool slow_start : 1;
	bool limited : 1, was_limited : 1; /* this round, and the one before, used the window up */
	bool half_used : 1;                /* this one used half of it */
	uint8_t samples;                   /* of this round, that count */
	uint8_t crowded;                   /* pauses in a row after which there was a queue */
	bool after_pause : 1;
};

static inline uint32_t trip_time(uint64_t nanoseconds)
{
	return nanoseconds < TRIP_MOST ? (uint32_t)nanoseconds : TRIP_MOST;
}

/* What an acknowledgement told. */
struct congestion_news {
	uint32_t packets, bytes; /* that it newly covers */
	uint32_t marks;          /* CE marks that it newly reports */
	uint64_t rtt;            /* a sample of the round trip in the network, 0: none */
	uint64_t waited;         /* ... with the time that the receiver took */
	uint64_t largest;        /* number of the largest packet acknowledged */
	uint64_t next;           /* ... of the next one to be sent */
};

/* packet: bytes of the longest, here and below. senders: that the receiver hears. */
void congestion_init(struct congestion *congestion, uint32_t packet, uint16_t senders);
/* target: of the queueing delay, ns. */
void congestion_acknowledged(struct congestion *congestion, uint64_t now,
			     const struct congestion_news *news, uint64_t target, uint32_t packet);
/* A longer packet passed than was known to: it might as well have begun with such. */
void congestion_packet_grew(struct congestion *congestion, uint32_t packet);
/* The receiver hears so many senders now. */
void congestion_senders(struct congestion *congestion, uint16_t senders);
void congestion_lost(struct congestion *congestion, uint32_t packets);
/* One of them had only been overtaken. When all that a cut was for had, it is undone (RFC 4015). */
void congestion_spurious(struct congestion *congestion);
/* Several time-outs without a word, or nothing to send for some time: start anew. */
void congestion_restart(struct congestion *congestion, uint32_t packet);
/*
 * The receiver told its senders to pause. next: number of the next packet. Returns for
 * how long, ns; 0: it makes no queue.
 */
uint32_t congestion_paused(struct congestion *congestion, uint64_t now, uint64_t next,
			   uint32_t packet);
/* Bytes of the longest packet to be sent now: small windows, too, send once a round trip. */
uint32_t congestion_packet(const struct congestion *congestion, uint32_t packet);
/* ns from a packet of so many bytes to the next, 0: the window alone decides. */
uint64_t congestion_pause(const struct congestion *congestion, uint64_t target, uint32_t bytes,
			  uint32_t packet);

static inline uint64_t congestion_window(const struct congestion *congestion)
{
	return congestion->window >> 8;
}

#endif
