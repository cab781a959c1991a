/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another process: its identity, its transport and the state of the connection. The transport's
 * own state follows in the allocation (transport.h, peer_size). A record lives until pf_close:
 * the peer's process may still write to the own process.
 */
#ifndef PF_PEER_H
#define PF_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/address.h"
#include "pf.h"
#include "transport.h"

enum peer_state {
	PEER_KNOWN, /* neither used nor contacted */
	PEER_OPEN,  /* being connected: messages may be written */
	PEER_LINKED,
	PEER_GONE,
};

struct pf_peer {
	struct pf_peer *next;
	uint8_t id[ADDRESS_ID_BYTES];
	/* NULL: not needed, or no longer; allocated. */
	struct address *address;
	_Atomic(const char *) path; /* pf_peer_path; if gone: the reason. Valid until pf_close */
	unsigned count;             /* of pf_peer_open; under peers.lock */
	int gone_status;            /* valid in PEER_GONE */
	_Atomic int state;          /* enum peer_state */
	bool farewell;              /* gone in good order */
	bool gone_reported;         /* the application knows of the end; progress's own */
	uint8_t refused;            /* enum refused_kind (refused.h); under peers.lock */
	const struct transport *transport;
	pf_context *context;
	/* Of pf_peer_open. Relaxed loads: the address orders the data behind the pointer. */
	_Atomic(void *) user;
};

/* All peers of a context. */
struct peers {
	bool threads;
	_Atomic bool news; /* gone is set, or refused is not empty */
	bool gone;         /* a peer went since the last report; progress's own */
	pthread_mutex_t lock;
	struct pf_peer *first;                     /* see peers_first */
	TAILQ_HEAD(refused_list, refused) refused; /* refused.h */
};

void peers_init(struct peers *peers, bool threads);
/* Destroys all records. */
void peers_destroy(struct peers *peers);
/* Any thread: find the peer with the id, or NULL. */
pf_peer *peers_find(struct peers *peers, const uint8_t id[ADDRESS_ID_BYTES]);
/*
 * Any thread: find the peer with the id, or make a record with the transport. address: NULL for a
 * peer that never has to be called. NULL: out of memory.
 */
pf_peer *peers_get(struct peers *peers, pf_context *context, const uint8_t id[ADDRESS_ID_BYTES],
		   const struct address *address, const struct transport *transport);
/* Erase and free the address, which holds a key. */
void peer_forget_address(pf_peer *peer);
/*
 * Progress: mark the peer gone. why: valid until pf_close. farewell: in good order. The
 * context reports it to the application once its transfers have completed.
 */
void peer_set_gone(struct peers *peers, pf_peer *peer, int status, const char *why, bool farewell);

static inline void peers_lock(struct peers *peers)
{
	if (peers->threads)
		pthread_mutex_lock(&peers->lock);
}

static inline void peers_unlock(struct peers *peers)
{
	if (peers->threads)
		pthread_mutex_unlock(&peers->lock);
}

/*
 * Any thread: return the newest record. The caller follows next without the lock: records are only
 * ever added, before the first.
 */
static inline pf_peer *peers_first(struct peers *peers)
{
	pf_peer *first;

	peers_lock(peers);
	first = peers->first;
	peers_unlock(peers);
	return first;
}

static inline int peer_state(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->state, memory_order_acquire);
}

static inline void peer_set_state(pf_peer *peer, enum peer_state state)
{
	atomic_store_explicit(&peer->state, state, memory_order_release);
}

/* Any thread: return the sentence of pf_peer_path; valid until pf_close. */
static inline const char *peer_path(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->path, memory_order_acquire);
}

/* path: a sentence valid until pf_close. */
static inline void peer_set_path(pf_peer *peer, const char *path)
{
	/* Release: another thread may call peer_path, and the text may be new. */
	atomic_store_explicit(&peer->path, path, memory_order_release);
}

#endif
