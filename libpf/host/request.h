/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests on their way to a peer or to a resolver, found again by the token
 * in the answer. Tokens come back from other processes: a stale or invented
 * one finds nothing.
 */
#ifndef PF_REQUEST_H
#define PF_REQUEST_H

#include "pf.h"

/*
 * Requests of ours that one peer may owe an answer to at a time. Not more than
 * it keeps answers for without ceasing to listen (answer.h), or two that send
 * each other requests might both wait for room for ever.
 */
#define REQUESTS_MOST 1024

enum request_kind { REQUEST_NONE, REQUEST_BLOCK, REQUEST_RESOLVE, REQUEST_ATOMIC };

struct request {
	void *object;
	pf_peer *peer;
	uint32_t generation;
	uint32_t next_free;
	enum request_kind kind;
};

struct requests {
	struct request *table;
	uint32_t count, free;
};

void requests_destroy(struct requests *requests);
/* A token for object, 0 when out of memory. */
uint64_t request_open(struct requests *requests, enum request_kind kind, void *object,
		      pf_peer *peer);
/* The object of this kind that waits for this peer, or NULL; the token is spent. */
void *request_close(struct requests *requests, uint64_t token, enum request_kind kind,
		    const pf_peer *peer);
/* Nobody waits for answers to this object any more. Linear: for error paths. */
void request_forget(struct requests *requests, const void *object);

#endif
