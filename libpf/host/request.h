/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests under way to a peer or to a resolver, found again by the token in the answer. Tokens
 * come back from other processes: a stale or invented token finds nothing. Progress's own.
 */
#ifndef PF_REQUEST_H
#define PF_REQUEST_H

#include <libpf/pf.h>

/*
 * Most requests to which one peer may owe an answer at a time. Not more than the answers that a
 * process keeps before reading stops (answer.h): otherwise two processes with requests to each
 * other could both wait for room for ever.
 */
#define REQUESTS_MOST 1024

enum request_kind { REQUEST_NONE, REQUEST_BLOCK, REQUEST_RESOLVE, REQUEST_ATOMIC };

struct request {
	void *object;
	const pf_peer *peer; /* the peer that must answer; NULL: this process */
	unsigned *owed;      /* count of open requests to the peer; may be NULL */
	uint32_t generation;
	uint32_t next_free;
	enum request_kind kind;
};

struct requests {
	struct request *table;
	uint32_t count, free;
};

void requests_destroy(struct requests *requests);
/*
 * Return a token for object, which peer (NULL: this process) must answer; 0 when out of memory.
 * owed, if not NULL, is counted up until the token is spent, and lives as long.
 */
uint64_t request_open(struct requests *requests, enum request_kind kind, void *object,
		      const pf_peer *peer, unsigned *owed);
/* Return the object of this kind that waits for the peer, or NULL; the token is spent. */
void *request_close(struct requests *requests, uint64_t token, enum request_kind kind,
		    const pf_peer *peer);

#endif
