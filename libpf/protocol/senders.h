/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many peers send to this process at a time. Each of them is told, and begins, grows
 * and falls back to the part of the link that this leaves it (congestion.h).
 */
#ifndef PF_NET_SENDERS_H
#define PF_NET_SENDERS_H

#include <stdint.h>

struct senders {
	uint64_t since;         /* the present period's start, ns */
	uint16_t period;        /* its number, 0: not one of any */
	uint16_t count, before; /* in this period, and in the one before */
	uint32_t packets;       /* in this period */
	uint64_t paused;        /* when they were told last to pause */
	uint8_t pauses;         /* so many times, modulo 256 */
};

/*
 * A peer sent data or a message, or opened. last: the number of the period when it did
 * so last; its own.
 */
void senders_heard(struct senders *senders, uint64_t now, uint16_t *last);
/* At least 1. */
uint16_t senders_count(const struct senders *senders, uint64_t now);

#endif
