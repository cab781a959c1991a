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

/* Record of a process with an association; lives until the network closes. */
struct net_process {
	struct net_process *next;
	struct net_association *association;
	pf_peer *peer; /* peer of the process; NULL until the first need */
	union {
		/* Address at the engine of /dev/exanest, see struct address; 0: not reached. */
		uint64_t engine;
		char *why; /* with "explained": the reason why the process is gone */
	};
	bool explained;
	bool warned; /* the application was told: the process does not answer */
	/* A thread waits in net_peer_contact, or has learnt there of the silence. */
	bool contacting;
};

struct net_peer {
	pf_peer peer;
	struct net_process *process; /* NULL until the first use; under network.lock */
};

static inline struct net_peer *net_peer(const pf_peer *peer)
{
	return (struct net_peer *)(uintptr_t)peer;
}

/*
 * All processes of a context. network.lock protects the fields, and callers of the functions hold
 * the lock, except for "active".
 */
struct net_processes {
	pf_context *context;
	pthread_mutex_t *lock; /* network.lock */
	const struct carrier *carrier;
	struct net_process *list;
	struct net_process *met; /* tail of the list, from the first process seen by progress */
	_Atomic bool active;     /* the list is not empty */
	uint64_t told;           /* events told to the application; owned by progress */
	uint64_t drops[NET_DROPS], dropped; /* dropped packets told to the application */
	uint64_t drops_due; /* time of the next report of drops at the earliest, ns */
};

/*
 * Find paths to the owner of an address. Open the association by the first path. Return the number
 * of paths.
 */
unsigned net_process_paths(const struct net_processes *processes, const struct address *address,
			   struct net_endpoint paths[NET_PATHS_MOST]);
/* Any thread: return NULL if packets reach the owner of an address, or the reason why not. */
const char *net_process_unreachable(const struct net_processes *processes,
				    const struct address *address);

/* Return the process with an id, or NULL if none has an association. */
struct net_process *net_process_of_id(const struct net_processes *processes,
				      const uint8_t id[NET_ID_BYTES]);
void net_process_add(struct net_processes *processes, struct net_process *process,
		     struct net_association *association);
/* Bind a process and the peer opened by the application, or needed by a first event. */
void net_process_bind(struct net_process *process, pf_peer *peer);
static inline uint64_t net_process_engine(const struct net_process *process)
{
	return process->explained ? 0 : process->engine;
}

/* Note that the engine of /dev/exanest does not reach the process after all. */
void net_process_lose_engine(struct net_process *process);
/* Implement net_callbacks.accept. */
bool net_process_accept(struct net_processes *processes, struct net_association *association,
			const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			void **peer);

/* Return another silent process on the host of a process; NULL: none. */
const struct net_process *net_process_silent_neighbour(const struct net_processes *processes,
						       const struct net_process *process);
/* Explain, in the path of the peer, with addresses, why a process is gone. */
void net_process_explain(struct net_processes *processes, struct net_process *process);

/*
 * Progress: tell all events to the application, releasing the lock during callbacks. Return the
 * number of events.
 */
unsigned net_processes_tell(struct net_processes *processes, struct net_core *core);
void net_processes_destroy(struct net_processes *processes);

#endif
