/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that the network reaches: the association of one, and libpf's
 * operations in the core's terms.
 */
#ifndef PF_LINK_H
#define PF_LINK_H

#include "base/address.h"
#include "common/operation.h"
#include "common/peer.h"
#include "engine.h"

/* One for each process talked to; lives until the engine closes. Under the engine's lock. */
struct link {
	struct link *next, *next_gone;
	struct net_association *association;
	pf_peer *peer; /* NULL until it is needed */
	bool gone;
	bool unanswered; /* its peer did not answer the first contact in time */
	bool contacting; /* a thread waits in link_contact, or was told there that it is silent */
	bool warn;       /* the application is to be told that it is unanswered */
	int status;
	char *why; /* gone: a text, or NULL without memory for it */
};

struct net_peer {
	pf_peer peer;
	struct link *link; /* NULL until used; under the engine's lock */
};

static inline struct net_peer *net_peer(const pf_peer *peer)
{
	return (struct net_peer *)(uintptr_t)peer;
}

/* A put, get or atomic that the core carries out. */
struct net_operation {
	struct operation operation;
	struct finished finished;
};

/* The paths to the owner of that address, the first of them to open it by. Returns how many. */
unsigned link_paths(const struct engine *engine, const struct address *address,
		    struct net_endpoint paths[NET_PATHS_MOST]);
/* NULL if packets get from the engine to the owner of that address, else why not. */
const char *link_unreachable(const struct engine *engine, const struct address *address);

/* As pf_peer_contact, for a peer of the network. */
int link_contact(pf_peer *peer, bool wait, const char **why);
void link_free(struct link *link);

/* The application opens the peer: it may have called us before. */
void link_meet(pf_peer *peer);

/* Callbacks of struct net_callbacks. */
bool link_accept(void *user, struct net_association *association, const uint8_t id[NET_ID_BYTES],
		 const void *info, size_t length, void **peer);
bool link_deliver(void *user, struct net_association *from, uint8_t tag, void *data, size_t length);
void link_complete(void *user, struct net_association *association, void *arg,
		   const struct net_completion *completion);
void link_gone(void *user, struct net_association *association, int status, const char *why);
void link_unanswered(void *user, struct net_association *association, const char *why);

/*
 * Progress, without the lock: finish what ended while the service thread was
 * driving, then tell the application of peers that are gone. Returns how many.
 */
unsigned link_tell(struct engine *engine);

#endif
