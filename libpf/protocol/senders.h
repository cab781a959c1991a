/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of peers that send to this process at a time. The process reports the number to each
 * peer, and each peer adapts to a fair part of the link (congestion.h).
 */
#ifndef PF_NET_SENDERS_H
#define PF_NET_SENDERS_H

#include <stdint.h>

struct senders {
	uint64_t since;         /* start of the present period, ns */
	uint16_t period;        /* number of the present period; 0: none yet */
	uint16_t count, before; /* senders in the present period, and in the period before */
	uint32_t packets;       /* packets in the present period */
	uint64_t paused;        /* time of the last pause, ns */
	uint8_t pauses;         /* number of pauses, modulo 256 */
};

/*
 * A peer sent data or a message, or opened. *last: the number of the period when the peer was
 * heard last, kept for each peer.
 */
void senders_heard(struct senders *senders, uint64_t now, uint16_t *last);
/* Return the number of senders, at least 1. */
uint16_t senders_count(const struct senders *senders, uint64_t now);

#endif
