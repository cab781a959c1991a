/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packet numbers received on a path. The window refuses numbers that were seen or
 * are too old, and acknowledgements are written from the window.
 */
#ifndef PF_NET_WINDOW_H
#define PF_NET_WINDOW_H

#include "wire.h"

#define WINDOW_NUMBERS 1024 /* numbers that an acknowledgement covers at most */
#define WINDOW_REPEAT 4     /* acknowledgements of each number */
#define WINDOW_MOMENT 6250u /* ns: an acknowledgement of several packets waits for more packets */
#define WINDOW_ANSWERED 8 /* packets of whole messages before an acknowledgement no longer waits */

/* The acknowledgement that a packet asks for. */
enum window_ask {
	WINDOW_NOTHING, /* none */
	WINDOW_PROMPT,  /* an acknowledgement soon */
	WINDOW_PART,    /* an acknowledgement soon, unless the rest of the message comes */
	WINDOW_WHOLE,   /* an acknowledgement, if need be with the answer to the message */
};

struct window {
	uint64_t bits[WINDOW_NUMBERS / 64]; /* bit n % 1024: number n was taken */
	uint64_t next;                      /* number above the largest taken */
	uint64_t largest_time;   /* time when the largest number reached the system, ns */
	uint64_t due;            /* time to send an acknowledgement, ns; NET_NEVER: none */
	uint64_t due_whole;      /* due, if the rest of a message comes */
	uint32_t unacknowledged; /* packets asking for an acknowledgement since the last */
	uint32_t marks;          /* packets with a CE mark */
	/* Lowest number taken since the last acknowledgement, and between earlier acknowledgements. */
	uint64_t news[WINDOW_REPEAT];
};

void window_init(struct window *window);
/* Was the number taken, or is the number too old to know? */
bool window_seen(const struct window *window, uint64_t number);
/*
 * Take the number of a packet that reached the system at arrived. An acknowledgement that the
 * packet asks for is due at once after a gap or a mark, otherwise by now + delay. From the second
 * packet on, or, for WINDOW_PART and WINDOW_WHOLE, from the first after WINDOW_ANSWERED on, delay
 * is WINDOW_MOMENT at most.
 */
void window_take(struct window *window, uint64_t number, uint64_t now, uint64_t arrived,
		 enum window_ask ask, bool mark, uint64_t delay);
/* Make an acknowledgement due now. */
void window_demand(struct window *window, uint64_t now);
/* Fill in an acknowledgement and count the frame as sent. *before: for window_unsent. */
void window_acknowledge(struct window *window, uint64_t now, struct wire_frame *frame,
			struct net_owed *before);
/* The acknowledgement never left: make an acknowledgement due as before. */
void window_unsent(struct window *window, const struct net_owed *before);

#endif
