/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of this host: a record until the peer is contacted or used; then a channel to the peer;
 * then, after the answer of the peer's service thread, a link: the inbox and the process number of
 * the peer, and whether the kernel permits single copy with the peer.
 */
#ifndef PF_HOST_PEER_H
#define PF_HOST_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/check.h"
#include "channel.h"
#include "common/peer.h"
#include "copy.h"
#include "inbox.h"
#include <libpf/pf.h>
#include "process.h"
#include "route.h"
#include "state.h"

/*
 * A ring not written to for as long is idle, ns. A round of an all-to-all of 64 ranks on two
 * processors takes 0.1 s with short messages: rings that shrank and grew again in each round would
 * cost page faults.
 */
#define RING_IDLE_NANOSECONDS 1000000000ll

TAILQ_HEAD(operation_queue, operation);

struct host_peer {
	pf_peer peer;
	struct channel out;
	_Atomic(const struct bell *) bell; /* the peer's, after the answer to the call */
	/*
	 * Relaxed, both: a route is constant, and a caller that copies because of at_once loads the
	 * peer's state first (acquire, host_peer_enter).
	 */
	_Atomic(const struct route *) route; /* NULL until linked */
	_Atomic uint64_t at_once;            /* bytes; shorter transfers are copied by the caller */
	_Atomic unsigned shorts;             /* open short transfers (transfer_is_short) */
	_Atomic unsigned posting; /* threads beside progress in the mappings: host_peer_enter */
	bool self;                /* the peer is this process */
	enum distance distance;   /* from this process; constant */
	struct bell known_bell;   /* target of bell; constant from then on */
	unsigned answers_waiting; /* for room in out; progress's own */
	uint64_t answers_held;    /* the last turn of answers_advance without room for an answer */
	unsigned disconnecting;   /* drop tasks not heard of yet; progress's own */
	unsigned atomics_parked;  /* for a page of this process; progress's own */
	struct process *process;  /* a reference; NULL before the peer linked or called */
	pthread_mutex_t lock;     /* the sending side: out, state */
	bool refused;             /* a call found no process: the peer is gone; under the lock */
	size_t refused_length;    /* of the last message without room in out; under the lock */
	uint64_t shares_free;     /* bit set: slot in out is free; progress's own */
	uint32_t share_generation;
	unsigned alone;        /* next transfers without sharing: SHARE_BUSY_MAX; progress's own */
	unsigned alone_next;   /* last start value of alone; 0: the peer helped */
	unsigned unasked;      /* next requests to resolve by the socket at once; progress's own */
	unsigned unasked_next; /* last start value of unasked */
	struct incoming *incoming; /* the peer's channel to this process, if any; progress's own */
	uint64_t block_most;       /* longest of the peer's rings, if known; progress's own */
	unsigned requests_waiting; /* for an answer of the peer; progress's own */
	/* turns.h; progress's own: */
	struct operation_queue atomics, transfers; /* ready ones */
	TAILQ_ENTRY(host_peer) turn;               /* while one of the queues is not empty */
	uint64_t engine;                           /* the peer's address at /dev/exanest; 0: none */
	unsigned device_moving;                    /* submissions in flight; progress's own */
	int copy_error;                /* 0, or the errno for which single copy is impossible */
	struct connection *connection; /* changed by the service thread under connections.lock */
	_Atomic(struct residency *) residency; /* NULL before the first transfer */
};

/* For the table of the transport. */
void host_peer_init(pf_peer *peer);
void host_peer_destroy(pf_peer *peer);
bool host_peer_has_room(pf_peer *peer, size_t length);
/*
 * Any thread: begin to connect. If no connection begins here, the first use tries again, and
 * reports the failure; a peer that answers with a refusal is gone.
 */
int host_peer_contact(pf_peer *peer, bool wait, const char **why);

/*
 * Under the peer's lock: make messages possible. PF_OK, PF_ERR_AGAIN or why not; "used": then a
 * peer that has ended is reported as gone.
 */
int host_peer_connect(struct host_peer *peer, bool used);
/*
 * Service thread: the peer answered the call, and has given this process a slot in the peer's
 * inbox, which is taken over. From now on messages are announced, also while the application
 * computes.
 */
void host_peer_give_bell(pf_peer *peer, struct inbox_memory *inbox, uint32_t slot);
/*
 * Progress, after host_peer_give_bell: transfers have a route. Takes over the process. engine: the
 * peer's address at /dev/exanest, or 0.
 */
void host_peer_link(struct host_peer *peer, struct process *process, int copy_error,
		    uint64_t engine);
/* Progress: the peer is gone; nothing is sent to the peer any more. */
void host_peer_unlink(struct host_peer *peer, int status, const char *why, bool farewell);
/*
 * Progress, after the last copy to or from the peer: close the connections with a peer that is
 * gone. A living peer learns in this way of the loss of this process.
 */
void host_peer_disconnect(struct host_peer *peer);
/* For the table of the transport. */
bool host_peer_in_use(const pf_peer *peer);
/* Progress, once nothing of the peer is in use: unmap the memory shared with the peer. */
void host_peer_unmap(struct host_peer *peer);
/*
 * Progress: a channel from the peer or the link to the peer is there. With both, the peer is
 * connected.
 */
void host_peer_met(struct host_peer *peer);
/*
 * Any thread: return how many bytes can be copied between this process and the linked peer (put:
 * towards the peer) without waiting for a page. 0: *side has the page.
 */
uint64_t host_peer_ready(struct host_peer *peer, bool put, const void *local, uint64_t remote,
			 uint64_t length, enum pf_side *side);
/*
 * Any thread: can all pieces of a list be copied without waiting for a page? If not, the list
 * ends before the first absent byte; *side has the page.
 */
bool host_peer_list_ready(struct host_peer *peer, bool put, struct copy_list *list,
			  enum pf_side *side);
/* Progress: the peer found that the absent page was never touched; see residency_note_hole. */
void host_peer_note_hole(struct host_peer *peer, uint64_t remote);
/* Progress: the kernel has stopped permitting single copy, with this errno. */
void host_peer_refuse_copy(struct host_peer *peer, int error);
/* Progress: /dev/exanest does not reach the peer any more. */
void host_peer_lose_device(struct host_peer *peer);

static inline uint64_t host_peer_at_once(const struct host_peer *peer)
{
	return atomic_load_explicit(&((struct host_peer *)peer)->at_once, memory_order_relaxed);
}

static inline const struct route *host_peer_route(const struct host_peer *peer)
{
	return atomic_load_explicit(&((struct host_peer *)peer)->route, memory_order_relaxed);
}

static inline void host_peer_lock(struct host_peer *peer)
{
	if (peer->peer.context->threads)
		pthread_mutex_lock(&peer->lock);
}

/* False: another thread holds the lock, or this thread does. Without threads there is no lock. */
static inline bool host_peer_trylock(struct host_peer *peer)
{
	return !peer->peer.context->threads || !pthread_mutex_trylock(&peer->lock);
}

static inline void host_peer_unlock(struct host_peer *peer)
{
	if (peer->peer.context->threads)
		pthread_mutex_unlock(&peer->lock);
}

/* ThreadSanitizer does not know the order of loads by a dependent address. */
#ifdef __SANITIZE_THREAD__
#define HOST_PEER_BELL_ORDER memory_order_acquire
#else
#define HOST_PEER_BELL_ORDER memory_order_relaxed
#endif

/*
 * Return the peer's bell, or NULL. The target was stored before the pointer; the address orders the
 * loads, on arm64 too, where an acquire would wait until the message just stored is visible.
 */
static inline const struct bell *host_peer_bell(const struct host_peer *peer)
{
	return atomic_load_explicit(&((struct host_peer *)(uintptr_t)peer)->bell,
				    HOST_PEER_BELL_ORDER);
}

/*
 * Any thread: begin to copy to or from the peer's memory outside of progress. False: the peer is
 * not linked. Until host_peer_leave, host_peer_unmap waits. Either this thread sees the state that
 * host_peer_unlink stored, or host_peer_unmap sees the count: each side stores, then loads the word
 * of the other side, with a full fence between.
 */
static inline bool host_peer_enter(struct host_peer *peer)
{
	if (!peer->peer.context->threads)
		return peer_state(&peer->peer) == PF_PEER_CONNECTED;
	atomic_fetch_add_explicit(&peer->posting, 1, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
	if (peer_state(&peer->peer) == PF_PEER_CONNECTED)
		return true;
	atomic_fetch_sub_explicit(&peer->posting, 1, memory_order_release);
	return false;
}

static inline void host_peer_leave(struct host_peer *peer)
{
	if (peer->peer.context->threads)
		atomic_fetch_sub_explicit(&peer->posting, 1, memory_order_release);
}

/*
 * Any thread, once the allowance of the rings is used up: take back what idle rings hold, unless
 * the last look was less than RING_IDLE_NANOSECONDS ago. Each look finds the rings not written to
 * since the look before. The caller may hold the lock of a peer, whose ring is left out as in use,
 * but has no place of host_peer_reserve: without threads no ring is left out. now:
 * CLOCK_MONOTONIC, ns.
 */
void host_peers_shrink(pf_context *context, uint64_t now);
/* Under the peer's lock: there is no room for a message of length bytes. */
void host_peer_lacks_room(struct host_peer *peer, size_t length);
/*
 * Under the peer's lock: return a message of length bytes to fill and then commit. NULL with
 * *status: PF_ERR_AGAIN, or an error that stays.
 */
static inline uint8_t *host_peer_reserve(struct host_peer *peer, size_t length, int *status)
{
	uint8_t *payload;

	assert_locked(&peer->lock, peer->peer.context->threads);
	if (__builtin_expect(!peer->out.memory || peer_is_gone(&peer->peer), 0)) {
		*status = host_peer_connect(peer, true);
		if (*status != PF_OK)
			return NULL;
	}
	if (__builtin_expect(length > ring_longest(&peer->out.ring), 0)) {
		*status = PF_ERR_TOO_LONG;
		return NULL;
	}
	payload = ring_reserve(&peer->out.ring, length);
	if (__builtin_expect(!payload, 0)) {
		*status = PF_ERR_AGAIN;
		host_peer_lacks_room(peer, length);
	}
	return payload;
}

/*
 * Under the peer's lock. The reader stores pieces before reading the first message, and never
 * again.
 */
static inline bool host_peer_takes_pieces(const struct host_peer *peer)
{
	assert_locked(&peer->lock, peer->peer.context->threads);
	return peer->out.memory &&
	       atomic_load_explicit(&peer->out.memory->pieces, memory_order_relaxed);
}

/* Under the peer's lock: does the reader take MESSAGE_PUT_BLOCKS? */
static inline bool host_peer_takes_blocks(const struct host_peer *peer)
{
	assert_locked(&peer->lock, peer->peer.context->threads);
	return peer->out.memory &&
	       atomic_load_explicit(&peer->out.memory->blocks, memory_order_relaxed);
}

/*
 * Under the peer's lock: publish the place of host_peer_reserve, with the reserved length or less.
 */
static inline void host_peer_commit(struct host_peer *peer, size_t length, uint8_t kind,
				    uint32_t tag)
{
	const struct bell *bell;

	assert_locked(&peer->lock, peer->peer.context->threads);
	ring_commit(&peer->out.ring, length, kind, tag);
	bell = host_peer_bell(peer);
	/* host_peer_give_bell rings for earlier messages. */
	if (!bell)
		return;
	if (__builtin_expect(bell->sleeper, 0)) {
		bell_ring(bell);
	} else if (!atomic_load_explicit(&peer->out.memory->polled, memory_order_relaxed)) {
		inbox_ring(bell->inbox, bell->slot);
	}
}

#endif
