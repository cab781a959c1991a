/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packet numbers taken from one path: refuses what was seen or is too old,
 * and is what acknowledgements are written from.
 */
#ifndef PF_NET_WINDOW_H
#define PF_NET_WINDOW_H

#include "wire.h"

#define WINDOW_NUMBERS 1024 /* that an acknowledgement can tell of */
#define WINDOW_REPEAT 4     /* acknowledgements that tell of each number */
#define WINDOW_MOMENT 6250u /* ns for which that of several packets waits for more of them */
#define WINDOW_ANSWERED 8 /* packets of whole messages, whose acknowledgement waits for an answer */

/* What a packet wants. */
enum window_ask {
	WINDOW_NOTHING,
	WINDOW_PROMPT, /* an acknowledgement soon */
	WINDOW_PART,   /* ... unless the rest of its message comes */
	WINDOW_WHOLE,  /* one that may go with the answer to what ends here */
};

struct window {
	uint64_t bits[WINDOW_NUMBERS / 64]; /* bit n % 1024: n was taken */
	uint64_t next;                      /* above the largest taken */
	uint64_t largest_time;              /* when it reached the system */
	uint64_t due;                       /* when an acknowledgement is to be sent; NET_NEVER */
	uint64_t due_whole;                 /* ... if the rest of a message comes */
	uint32_t unacknowledged;            /* packets that ask for it, since the last one */
	uint32_t marks;
	/* The lowest number taken since the last acknowledgement, and before the ones before it. */
	uint64_t news[WINDOW_REPEAT];
};

void window_init(struct window *window);
/* Was it taken, or is it too old to know? */
bool window_seen(const struct window *window, uint64_t number);
/*
 * Take it; it reached the system when arrived. An acknowledgement that it asks for is due at once for a
 * gap or a mark, otherwise by now + delay, or in a moment if it is the second packet or, for WINDOW_PART
 * and WINDOW_WHOLE, the one after WINDOW_ANSWERED.
 */
void window_take(struct window *window, uint64_t number, uint64_t now, uint64_t arrived,
		 enum window_ask ask, bool mark, uint64_t delay);
/* It is due now. */
void window_demand(struct window *window, uint64_t now);
/* Fill in an acknowledgement, and account it as sent. *before: for window_unsent. */
void window_acknowledge(struct window *window, uint64_t now, struct wire_frame *frame,
			struct net_owed *before);
/* That acknowledgement never left: it is due as before. */
void window_unsent(struct window *window, const struct net_owed *before);

#endif
