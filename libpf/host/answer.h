/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's side of blocks and atomics: do what was asked and answer. An
 * answer that finds the ring full waits here; whoever has many waiting is not
 * listened to until they are gone.
 */
#ifndef PF_ANSWER_H
#define PF_ANSWER_H

#include <stdbool.h>

#include "pf.h"
#include "ring.h"

struct incoming;
struct answer;

struct answers {
	struct answer *first, **last;
	struct answer *spare; /* so that what was executed can always be answered */
};

#define ANSWERS_MOST 1024 /* waiting, for one peer */

void answers_init(struct answers *answers);
void answers_destroy(struct answers *answers);
/* May a request be executed? False without memory for its answer: it stays where it is. */
bool answers_prepare(struct answers *answers);
/* A request arrived, after answers_prepare. False: it makes no sense, the channel is not to be trusted. */
bool answer_request(pf_context *context, struct incoming *incoming, const struct ring_entry *entry);
/* An answer to a request of ours arrived. False likewise. */
bool answer_arrived(pf_context *context, struct incoming *incoming, const struct ring_entry *entry);
/* Send what waits and now finds room. */
int answers_advance(pf_context *context);
/* The peer is gone: nobody wants its answers. */
void answers_forget(pf_context *context, const pf_peer *peer);

#endif
