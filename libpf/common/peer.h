/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another process: identity, transport and the state of the connection. The transport's
 * own state follows in the allocation (transport.h, peer_size).
 *
 * pf_peer_open makes a record, or the first call of the process, which may write to the own process
 * as long as the record lives. Once the process has ended, the application was told, and each
 * pf_peer_open has a pf_peer_close, the peer is over. Later (PEERS_KEEP) the record is freed: until
 * then a late packet or call of the process finds that the peer is gone, and makes no new peer.
 */
#ifndef PF_PEER_H
#define PF_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/address.h"
#include <libpf/pf.h>
#include "transport.h"

struct pf_peer {
	struct pf_peer *next;            /* in the chain of the table; under peers.lock */
	STAILQ_ENTRY(pf_peer) next_gone; /* in peers.gone or peers.over; under peers.lock */
	uint8_t id[ADDRESS_ID_BYTES];
	/* NULL: not needed, or no longer; allocated. */
	struct address *address;
	_Atomic(const char *) path; /* pf_peer_path; if gone: the reason. Valid while the peer is */
	unsigned count;             /* of pf_peer_open; under peers.lock */
	/* order of the failures of peers (operations.failures); under operations.lock */
	uint32_t failure_number;
	uint32_t over; /* time at which the peer came into peers.over, s; under peers.lock */
	_Atomic uint8_t state; /* enum pf_peer_state */
	/*
	 * First error of an operation without a completion function since the last flush; PF_OK:
	 * none. Under operations.lock.
	 */
	int8_t failure;
	int8_t gone_status;  /* valid once gone */
	uint8_t refused;     /* enum refused_kind (refused.h); under peers.lock */
	bool gone_reported;  /* the application knows of the end; under peers.lock */
	uint8_t data_length; /* of pf_peer_data, behind the transport's own state; constant */
	bool is_over;        /* is in peers.over; under peers.lock */
	uint32_t waiting;    /* bytes of messages without an owner (owner.h); progress's own */
	const struct transport *transport;
	pf_context *context;
	/* Of pf_peer_open. Relaxed loads: the address orders the data behind the pointer. */
	_Atomic(void *) user;
	/* Of pf_owner_set_user, by the place of the owner; NULL: none yet. Made once, under peers.lock. */
	_Atomic(_Atomic(void *) *) users;
};

/*
 * Time for which a peer that is over is kept, s, beside peer_timeout, in which a process that was given
 * up and lives gives up in turn, and learns of the end by an answer. What comes later makes a new peer.
 */
#define PEERS_KEEP 60

STAILQ_HEAD(peer_list, pf_peer);

/*
 * All peers of a context. The lock is taken whether or not the program has threads: the service
 * thread makes records, too.
 */
struct peers {
	_Atomic bool news; /* gone or refused is not empty */
	uint32_t keep;     /* s: PEERS_KEEP and peer_timeout, but in tests */
	pthread_mutex_t lock;
	/* Under the lock: */
	struct pf_peer **table; /* chains by id; NULL: no peer yet */
	size_t chains;          /* a power of 2; 0: no peer yet */
	size_t count;
	struct peer_list gone;                     /* not reported yet */
	struct peer_list over;                     /* by time; those opened again stay */
	TAILQ_HEAD(refused_list, refused) refused; /* refused.h */
};

/* peer_timeout: s */
void peers_init(struct peers *peers, uint64_t peer_timeout);
/* Destroys all records. */
void peers_destroy(struct peers *peers);
/*
 * Any thread: find the peer as peers_get does, and count a pf_peer_open. user: of pf_peer_user from
 * now on, unless NULL. NULL: out of memory.
 */
pf_peer *peers_open(struct peers *peers, pf_context *context, const struct address *address,
		    const uint8_t *data, const struct transport *transport, void *user);
/* Any thread: count a pf_peer_close. */
void peers_close(struct peers *peers, pf_peer *peer);
/* Any thread: pf_owner_user and pf_owner_set_user of the owner in the place. */
void *peer_user_at(const pf_peer *peer, unsigned place);
int peer_set_user_at(struct peers *peers, pf_peer *peer, unsigned place, void *user);
/* Any thread: the owner in the place is removed. */
void peers_forget_user(struct peers *peers, unsigned place);
/*
 * Find the peer with the address, or make a record with the transport. data: address.data_length
 * bytes; NULL: not known. NULL: out of memory. By progress, which alone frees records, or where the
 * peer cannot be over meanwhile.
 */
pf_peer *peers_get(struct peers *peers, pf_context *context, const struct address *address,
		   const uint8_t *data, const struct transport *transport);
/*
 * Find or make a peer for a call of the process by the transport; NULL also for a peer that is gone,
 * or has another transport.
 */
pf_peer *peers_get_caller(struct peers *peers, pf_context *context, const struct address *address,
			  const uint8_t *data, const struct transport *transport);
/* Erase and free the address, which holds a key. */
void peer_forget_address(pf_peer *peer);
/*
 * Under the lock: return the record after peer in the table, or the first (NULL); NULL at the end.
 */
pf_peer *peers_next(const struct peers *peers, const pf_peer *peer);
/* Progress: take all peers out of peers.gone, for peers_reported. False: there is none. */
bool peers_take_gone(struct peers *peers, struct peer_list *gone);
/*
 * Progress: the application knows of the end of the peer; or not, then the peer is in peers.gone
 * again. True: the peer is over.
 */
bool peers_reported(struct peers *peers, pf_peer *peer, bool reported);
/*
 * Progress: take a peer that is over for long enough out of the table, and return the peer, which no
 * other thread knows any more. NULL: no more.
 */
pf_peer *peers_take_over(struct peers *peers);
/* Free the record, which is in no list and not in the table. */
void peer_free(pf_peer *peer);
/*
 * Progress: mark the peer gone. why: valid while the peer is. farewell: the peer has closed the
 * context. The application learns of the end once all transfers with the peer have completed.
 */
void peer_set_gone(struct peers *peers, pf_peer *peer, int status, const char *why, bool farewell);

static inline void peers_lock(struct peers *peers)
{
	pthread_mutex_lock(&peers->lock);
}

static inline void peers_unlock(struct peers *peers)
{
	pthread_mutex_unlock(&peers->lock);
}

static inline int peer_state(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->state, memory_order_acquire);
}

/* Has a peer in the state ended? The reasons of an end are the last states. */
static inline bool peer_state_ended(int state)
{
	return state >= PF_PEER_LEFT;
}

static inline bool peer_is_gone(const pf_peer *peer)
{
	return peer_state_ended(peer_state(peer));
}

static inline void peer_set_state(pf_peer *peer, enum pf_peer_state state)
{
	atomic_store_explicit(&peer->state, (uint8_t)state, memory_order_release);
}

/* Any thread: return the sentence of pf_peer_path; valid while the peer is. */
static inline const char *peer_path(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->path, memory_order_acquire);
}

/* path: a sentence valid while the peer is. Callers with a context use path_set. */
static inline void peer_set_path(pf_peer *peer, const char *path)
{
	/* Release: another thread may call peer_path, and the text may be new. */
	atomic_store_explicit(&peer->path, path, memory_order_release);
}

#endif
