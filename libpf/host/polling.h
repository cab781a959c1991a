/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which channels are read when: channels with messages lately at every progress, channels whose
 * writer rang the bell at once, and of all others one each progress in rotation, which finds
 * messages that a missed bell did not announce. An empty poll costs as much with two peers as with
 * a thousand.
 *
 * Where processes share a core, the other processes evict this one's caches and address
 * translations before each poll. There a poll is one look at the bell alone, once this process
 * relies on every writer to ring the bell: polling_settle. Such a writer rings for each message,
 * and inbox.h says why no bell is missed.
 */
#ifndef PF_POLLING_H
#define PF_POLLING_H

#include <stdbool.h>

#include "answer.h"
#include "inbox.h"
#include "incoming.h"
#include <libpf/pf.h>
#include "state.h"

#define POLLED_MOST 8

struct polling {
	pf_context *context;
	struct inbox_memory *inbox; /* of this process */
	struct host_state *host;
	struct answers *answers;
	struct incoming *polled[POLLED_MOST];
	unsigned polled_count;
	unsigned victim; /* the next to be dropped from polled when another becomes active */
	struct incoming **all;
	unsigned all_count, all_room, rotation;
	struct incoming **by_slot;
	unsigned slots;  /* entries of by_slot */
	unsigned silent; /* channels whose writer may not ring for every message yet */
};

/* All of the functions are progress's own. */
void polling_init(struct polling *polling, struct host_state *host, struct answers *answers);
void polling_destroy(struct polling *polling);
/* Read the channel from now on. PF_OK or PF_ERR_MEMORY. */
int polling_add(struct polling *polling, struct incoming *incoming);
/* The writer is gone: deliver the writer's messages, then destroy the channel. */
void polling_drop(struct polling *polling, struct incoming *incoming);
/* For polling_poll: the parts that an empty poll does not need. Return how many messages. */
int polling_read(struct polling *polling, struct incoming *incoming);
int polling_answer_bell(struct polling *polling);
int polling_look_at_next(struct polling *polling);

/* Is there anything to read, or a transfer to serve? */
static inline bool polling_is_busy(const struct incoming *incoming)
{
	return ring_ready(&incoming->channel.ring) || incoming->serves.count;
}

/* Read and handle messages. Returns how many. */
static inline int polling_poll(struct polling *polling)
{
	int count = 0;
	unsigned i;

	for (i = 0; i < polling->polled_count; i++) {
		if (polling_is_busy(polling->polled[i]))
			count += polling_read(polling, polling->polled[i]);
	}
	if (__builtin_expect(atomic_load_explicit(&polling->inbox->bell, memory_order_relaxed), 0))
		count += polling_answer_bell(polling);
	if (polling->all_count > polling->polled_count && polling->silent)
		count += polling_look_at_next(polling);
	return count;
}

/*
 * Before a yield, and before a sleep of progress or in its place: rely on the bell for each writer
 * that had rung a millisecond ago, and has stored no message unannounced. A writer that rings for
 * the first time may have stored a message just before (host_peer_give_bell); that message is
 * visible a millisecond later. now: ns.
 */
void polling_settle(struct polling *polling, uint64_t now);

/* Is there a message in a channel whose writer does not ring for every message? */
bool polling_any(struct polling *polling);

#endif
