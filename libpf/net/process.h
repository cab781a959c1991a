/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that the network reaches: the association of each, the paths to it, and
 * what the application is told of it.
 */
#ifndef PF_NET_PROCESS_H
#define PF_NET_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/address.h"
#include "common/context.h"
#include "common/peer.h"
#include "interface.h"
#include "protocol/net.h"
#include "socket.h"

/* One for each process talked to; lives until the engine closes. */
struct net_process {
	struct net_process *next;
	struct net_association *association;
	pf_peer *peer; /* NULL until it is needed */
	union {
		uint64_t engine; /* at /dev/exanest, see struct address; 0: none, or it is not reached */
		char *why;       /* explained: why it is gone */
	};
	bool explained;
	bool warned;     /* the application was told that it does not answer */
	bool contacting; /* a thread waits in net_peer_contact, or was told there that it is silent */
};

struct net_peer {
	pf_peer peer;
	struct net_process *process; /* NULL until used; under the lock */
};

static inline struct net_peer *net_peer(const pf_peer *peer)
{
	return (struct net_peer *)(uintptr_t)peer;
}

/* All processes of a context. Under the engine's lock, as are the functions, but for "active". */
struct net_processes {
	pf_context *context;
	pthread_mutex_t *lock; /* the engine's */
	const struct interface *interfaces;
	unsigned interfaces_count;
	struct net_process *list;
	struct net_process *met; /* before it in the list: those that progress has not seen */
	_Atomic bool active;     /* there are processes */
	uint64_t told;           /* events that the application was told; progress's own */
	uint64_t drops[NET_DROPS], dropped; /* packets, that it was told of */
	uint64_t drops_due;                 /* before this it is told of no more, ns */
};

/* The paths to the owner of that address, the first of them to open it by. Returns how many. */
unsigned net_process_paths(const struct net_processes *processes, const struct address *address,
			   struct net_endpoint paths[NET_PATHS_MOST]);
/* NULL if packets get to the owner of that address, else why not. Any thread. */
const char *net_process_unreachable(const struct net_processes *processes,
				    const struct address *address);

/* NULL: this process was never talked to. */
struct net_process *net_process_of_id(const struct net_processes *processes,
				      const uint8_t id[NET_ID_BYTES]);
void net_process_add(struct net_processes *processes, struct net_process *process,
		     struct net_association *association);
/* The application has opened the peer, or gets it for a first event. */
void net_process_bind(struct net_process *process, pf_peer *peer);
static inline uint64_t net_process_engine(const struct net_process *process)
{
	return process->explained ? 0 : process->engine;
}

/* The engine of /dev/exanest does not reach it after all. */
void net_process_lose_engine(struct net_process *process);
/* As net_callbacks.accept. */
bool net_process_accept(struct net_processes *processes, struct net_association *association,
			const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			void **peer);

/* Another peer on the host of this one that does not answer; NULL: none. */
const struct net_process *net_process_silent_neighbour(const struct net_processes *processes,
						       const struct net_process *process);
/* It is gone: have its peer's path say why, with addresses. */
void net_process_explain(struct net_processes *processes, struct net_process *process);

/*
 * Progress: tell the application of all events, releasing the lock around its
 * functions. Returns how many.
 */
unsigned net_processes_tell(struct net_processes *processes, struct net_core *core);
void net_processes_destroy(struct net_processes *processes);

#endif
