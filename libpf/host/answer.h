/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's side of blocks and atomics: execute requests, and answer. An answer that finds the
 * ring full waits here; while many answers wait for a peer, no more messages of the peer are read.
 * Progress's own.
 */
#ifndef PF_ANSWER_H
#define PF_ANSWER_H

#include <stdbool.h>

#include "incoming.h"
#include "peer.h"
#include <libpf/pf.h>
#include "ring.h"

struct answer;
struct parked_atomic;

struct answers {
	pf_context *context;
	struct answer *first, **last;
	uint64_t turn;        /* calls of answers_advance */
	struct answer *spare; /* memory for the answer to the next request that is executed */
};

#define ANSWERS_MOST 1024 /* answers that wait for one peer, or parked atomics of the peer */

void answers_init(struct answers *answers, pf_context *context);
void answers_destroy(struct answers *answers);
/* Are so many answers due to the peer that none of the peer's messages are read for now? */
static inline bool answers_are_full(const struct host_peer *peer)
{
	return peer->answers_waiting + peer->atomics_parked > ANSWERS_MOST;
}

/* May a request be executed? False: out of memory for its answer; the request stays in the ring. */
bool answers_prepare(struct answers *answers);
/*
 * Handle a request that arrived, after answers_prepare. False: the request is malformed, and the
 * channel not to be trusted.
 */
bool answer_request(struct answers *answers, struct incoming *incoming,
		    const struct ring_entry *entry);
/* Handle MESSAGE_RESOLVED of the peer. False likewise. */
bool answer_resolved(struct host_state *host, struct host_peer *owner, const void *payload,
		     size_t length);
/* Handle an answer to a request of this process. False likewise. */
bool answer_arrived(struct host_state *host, struct incoming *incoming,
		    const struct ring_entry *entry);
/* NOTICE_ATOMIC: execute the atomic and answer, unless the peer is gone; free the atomic. */
void answers_atomic_resolved(struct answers *answers, struct parked_atomic *atomic);
/* Free an atomic without an answer, when the context closes. */
void parked_atomic_free(struct parked_atomic *atomic);
/* Send the waiting answers that find room now. Returns how many. */
int answers_advance(struct answers *answers);
/* The peer is gone: drop the answers that wait for the peer. */
void answers_forget(struct answers *answers, const struct host_peer *peer);

#endif
