/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's side of blocks and atomics: do what was asked, and answer. An
 * answer that finds the ring full waits here; while many wait for one peer, no more
 * of its messages are read. Progress's own.
 */
#ifndef PF_ANSWER_H
#define PF_ANSWER_H

#include <stdbool.h>

#include "incoming.h"
#include "peer.h"
#include "pf.h"
#include "ring.h"

struct answer;
struct parked_atomic;

struct answers {
	pf_context *context;
	struct answer *first, **last;
	uint64_t turn;        /* calls of answers_advance */
	struct answer *spare; /* so that a request that was executed can always be answered */
};

#define ANSWERS_MOST 1024 /* waiting, for one peer, or parked atomics of it */

void answers_init(struct answers *answers, pf_context *context);
void answers_destroy(struct answers *answers);
/* Does so much wait for this peer that none of its messages are read for now? */
static inline bool answers_are_full(const struct host_peer *peer)
{
	return peer->answers_waiting + peer->atomics_parked > ANSWERS_MOST;
}

/* May a request be executed? False: out of memory for its answer; it stays in the ring. */
bool answers_prepare(struct answers *answers);
/* A request arrived, after answers_prepare. False: it is malformed, the channel is not to be trusted. */
bool answer_request(struct answers *answers, struct incoming *incoming,
		    const struct ring_entry *entry);
/* An answer to a request of this process arrived. False likewise. */
bool answer_arrived(struct host_state *host, struct incoming *incoming,
		    const struct ring_entry *entry);
/* NOTICE_ATOMIC: execute it and answer, unless the peer is gone; it is freed. */
void answers_atomic_resolved(struct answers *answers, struct parked_atomic *atomic);
/* The same without an answer, when the context closes. */
void parked_atomic_free(struct parked_atomic *atomic);
/* Send the waiting answers that find room now. Returns how many. */
int answers_advance(struct answers *answers);
/* The peer is gone: drop the answers that wait for it. */
void answers_forget(struct answers *answers, const struct host_peer *peer);

#endif
