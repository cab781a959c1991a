/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes reached by the network: the association with each, the paths, and the events for the
 * application.
 */
#ifndef PF_NET_PROCESS_H
#define PF_NET_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/address.h"
#include "common/context.h"
#include "common/peer.h"
#include "carrier.h"
#include "protocol/net.h"

/* A peer over the network. network.lock protects all but struct pf_peer, and the whole core. */
struct net_peer {
	pf_peer peer;
	struct net_association *association; /* NULL until the first use or call; never replaced */
	union {
		/* Address at the engine of /dev/exanest, see struct address; 0: not reached. */
		uint64_t engine;
		char *why; /* with "explained": the reason why the peer is gone */
	};
	bool explained;
	bool refused; /* a message was refused: none behind it is delivered; progress's own */
	bool warned;  /* the application was told: the peer does not answer */
	/* A thread waits in net_peer_contact, or has learnt there of the silence. */
	bool contacting;
};

static inline struct net_peer *net_peer(const pf_peer *peer)
{
	return (struct net_peer *)(uintptr_t)peer;
}

/*
 * State of a context for all peers over the network. The first three fields do not change,
 * and "active" is read without the lock. Callers of the functions hold network.lock, inside which
 * peers.lock may be taken, never the opposite; unless the comment of a function says "any thread".
 */
struct net_processes {
	pf_context *context;
	pthread_mutex_t *lock; /* network.lock */
	const struct carrier *carrier;
	_Atomic bool active;                /* there is or was an association */
	bool noticed;                       /* a notice was told, the answer to which is ready */
	uint64_t told;                      /* events told to the application; owned by progress */
	uint64_t drops[NET_DROPS], dropped; /* dropped packets told to the application */
	uint64_t drops_due; /* time of the next report of drops at the earliest, ns */
};

/*
 * Any thread: find paths to the owner of an address. Open the association by the first path. Return
 * the number of paths.
 */
unsigned net_process_paths(const struct net_processes *processes, const struct address *address,
			   struct net_endpoint paths[NET_PATHS_MOST]);
/* Any thread: return NULL if packets reach the owner of an address, or the reason why not. */
const char *net_process_unreachable(const struct net_processes *processes,
				    const struct address *address);

/* The peer has this association from now on. */
void net_peer_bind(struct net_processes *processes, struct net_peer *peer,
		   struct net_association *association);
static inline uint64_t net_peer_engine_address(const struct net_peer *peer)
{
	return peer->explained ? 0 : peer->engine;
}

/* Note that the engine of /dev/exanest does not reach the peer after all. */
void net_peer_lose_engine(struct net_peer *peer);
/* Implement net_callbacks.accept. */
bool net_process_accept(struct net_processes *processes, struct net_association *association,
			const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			void **peer);

/* Does another peer on the host of this one not answer? */
bool net_peer_neighbour_is_silent(const struct net_processes *processes,
				  const struct net_peer *peer);
/* Explain, in the path of the peer, with addresses, why the peer is gone. */
void net_peer_explain(struct net_processes *processes, struct net_peer *peer);

/*
 * Progress: tell all events to the application, releasing the lock during callbacks. Return the
 * number of events.
 */
unsigned net_processes_tell(struct net_processes *processes, struct net_core *core);

#endif
