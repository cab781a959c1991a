/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another process. A record until first use, then a channel to it, then, when
 * its service thread has answered, a link: its inbox, its pid, and whether
 * the kernel lets us copy from its memory.
 */
#ifndef PF_PEER_H
#define PF_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/address.h"
#include "context/context.h"
#include "pf.h"
#include "host/channel.h"
#include "host/inbox.h"
#include "host/route.h"

enum peer_state {
	PEER_KNOWN, /* never used */
	PEER_OPEN,  /* our channel is on its way to it: messages may be written */
	PEER_LINKED,
	PEER_GONE,
};

/* What it takes to reach one on this host. */
struct host_peer {
	struct channel out;
	struct inbox_memory *inbox;          /* NULL until linked */
	uint32_t slot;                       /* ours in its inbox */
	enum inbox_sleeper sleeper;          /* may it be asleep? */
	_Atomic(const struct route *) route; /* NULL until linked */
	_Atomic uint64_t at_once; /* shorter transfers are copied by whoever posts them */
	bool self;                /* this very process */
	unsigned answers_waiting; /* for room in out; progress's own */
	pid_t pid;
	pthread_mutex_t lock; /* the sending side: out, inbox, state */
	uint64_t shares_free; /* bit set: slot in out is free; progress's own */
	uint32_t share_generation;
	struct incoming *incoming; /* its channel to us, if any; progress's own */
	uint64_t block_most; /* longest block its rings carry, once it said so; progress's own */
	unsigned requests_waiting;     /* of ours, for its answer; progress's own */
	uint64_t engine;               /* its engine address at /dev/exanest, 0: none */
	unsigned device_moving;        /* submissions of ours to it in flight; progress's own */
	int copy_error;                /* 0, or why single copy is impossible */
	struct connection *connection; /* service thread's own */
	_Atomic(struct residency *) residency; /* of its memory; NULL before the first transfer */
};

struct pf_peer {
	struct pf_peer *next;
	uint8_t id[ADDRESS_ID_BYTES];
	/* NULL for one over the network that we know a link to: nobody looks for it any more. */
	struct address *address;
	_Atomic(const char *) path;
	unsigned count;
	int gone_status;
	const struct transport *transport;
	struct link *link; /* over the network: NULL until used; under the engine's lock */
	pf_context *context;
	_Atomic(void *) user;
	_Atomic int state;
	struct host_peer host[]; /* one, if its transport is transport_host; else none */
};

/* The peer with this address, made if unknown. Counts are the caller's affair. NULL: no memory. */
pf_peer *peer_find(pf_context *context, const struct address *address);
/* The same for one that called us over the network: its id is all that matters of it. */
pf_peer *peer_find_caller(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES]);
/* NULL: unknown. */
pf_peer *peer_known(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES]);
void peer_destroy(pf_peer *peer);
/* The network's association has what it needs of it. */
void peer_forget_address(pf_peer *peer);
/* Under the peer's lock: make messages possible. PF_OK, PF_ERR_AGAIN or why not. */
int peer_connect(pf_peer *peer);
/* Progress: the peer answered. engine: its address at /dev/exanest, or 0. */
void peer_link(pf_peer *peer, struct inbox_memory *inbox, uint32_t slot, pid_t pid, int copy_error,
	       uint64_t engine);
/* Any thread: it is reached over the network, along this path. */
void peer_net_linked(pf_peer *peer, const char *path);
/* The transport that reaches an address from here, or NULL with *why. */
const struct transport *peer_transport(const pf_context *context, const struct address *address,
				       const char **why);
/* The same for one that called us, by whatever way it came. */
const struct transport *peer_transport_back(const pf_context *context,
					    const struct address *address);
/* Progress: its process ended (farewell: in good order), or it refused us. */
void peer_gone(pf_peer *peer, int status, bool farewell);
/*
 * Any thread: how many bytes can be copied between here and the linked peer
 * (put: towards it) without waiting for a page. 0: *side has the page.
 */
uint64_t peer_ready(pf_peer *peer, bool put, const void *local, uint64_t remote, uint64_t length,
		    enum pf_side *side);
/* Progress: the kernel has stopped permitting single copy. */
void peer_refuse_copy(pf_peer *peer, int error);
/* Progress: /dev/exanest does not reach the peer any more. */
void peer_lose_device(pf_peer *peer);

static inline uint64_t peer_at_once(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->host->at_once, memory_order_relaxed);
}

static inline const struct route *peer_route(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->host->route, memory_order_relaxed);
}

static inline int peer_state(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->state, memory_order_acquire);
}

static inline void peer_lock(pf_peer *peer)
{
	if (peer->context->threads)
		pthread_mutex_lock(&peer->host->lock);
}

static inline void peer_unlock(pf_peer *peer)
{
	if (peer->context->threads)
		pthread_mutex_unlock(&peer->host->lock);
}

/* Under the peer's lock: have it look at our ring. */
static inline void peer_call(pf_peer *peer)
{
	inbox_ring(peer->host->inbox, peer->host->slot);
	inbox_wake(peer->host->inbox, peer->host->sleeper);
}

/*
 * Under the peer's lock: a message of length bytes to fill and then commit.
 * NULL with *status set if that is impossible now or for ever.
 */
static inline uint8_t *peer_reserve(pf_peer *peer, size_t length, int *status)
{
	uint8_t *payload;

	if (__builtin_expect(!peer->host->out.memory || peer_state(peer) == PEER_GONE, 0)) {
		*status = peer_connect(peer);
		if (*status != PF_OK)
			return NULL;
	}
	if (__builtin_expect(length > ring_longest(&peer->host->out.ring), 0)) {
		*status = PF_ERR_TOO_LONG;
		return NULL;
	}
	payload = ring_reserve(&peer->host->out.ring, length);
	if (__builtin_expect(!payload, 0)) {
		*status = PF_ERR_AGAIN;
		atomic_store_explicit(&peer->context->turned_away, true, memory_order_relaxed);
		/* Room may lie behind an entry that only skips, which nobody was called for. */
		if (peer->host->sleeper)
			peer_call(peer);
	}
	return payload;
}

static inline void peer_commit(pf_peer *peer, size_t length, uint8_t kind, uint8_t tag)
{
	struct inbox_memory *inbox = peer->host->inbox;

	ring_commit(&peer->host->out.ring, length, kind, tag);
	/* peer_link makes up for what the reader is not rung for before. */
	if (!inbox)
		return;
	if (__builtin_expect(peer->host->sleeper, 0)) {
		peer_call(peer);
	} else if (!atomic_load_explicit(&peer->host->out.memory->polled, memory_order_relaxed)) {
		inbox_ring(inbox, peer->host->slot);
	}
}

#endif
