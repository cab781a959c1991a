/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"

#define SECOND 1000000000ull

void peers_init(struct peers *peers, uint64_t peer_timeout)
{
	pthread_mutex_init(&peers->lock, NULL);
	STAILQ_INIT(&peers->gone);
	STAILQ_INIT(&peers->over);
	TAILQ_INIT(&peers->refused);
	peers->keep = (uint32_t)(PEERS_KEEP + peer_timeout);
}

void peer_free(pf_peer *peer)
{
	if (peer->transport->peer_destroy)
		peer->transport->peer_destroy(peer);
	peer_forget_address(peer);
	free((void *)atomic_load_explicit(&peer->users, memory_order_relaxed));
	free(peer);
}

void peers_destroy(struct peers *peers)
{
	size_t i;

	for (i = 0; i < peers->chains; i++) {
		while (peers->table[i]) {
			pf_peer *peer = peers->table[i];

			peers->table[i] = peer->next;
			peer_free(peer);
		}
	}
	free(peers->table);
	pthread_mutex_destroy(&peers->lock);
}

/* ---- the table ---- */

/* Ids are random numbers; the first byte chooses the chain in protocol/core.c. */
static pf_peer **chain_of(const struct peers *peers, const uint8_t id[ADDRESS_ID_BYTES])
{
	uint64_t number;

	memcpy(&number, id + ADDRESS_ID_BYTES - sizeof(number), sizeof(number));
	return &peers->table[number & (peers->chains - 1)];
}

static void table_insert(struct peers *peers, pf_peer *peer)
{
	pf_peer **chain = chain_of(peers, peer->id);

	peer->next = *chain;
	*chain = peer;
	peers->count++;
}

/* The first chains fit the ranks of a small job. */
#define CHAINS_FIRST 16

/* Without memory chains become longer. False: there is no table yet, and no memory for one. */
static bool make_room(struct peers *peers)
{
	struct peers larger = { .chains = peers->chains ? 2 * peers->chains : CHAINS_FIRST };
	size_t i;

	assert_locked(&peers->lock, true);
	if (peers->count < peers->chains)
		return true;
	larger.table = calloc(larger.chains, sizeof(struct pf_peer *));
	if (!larger.table)
		return peers->chains > 0;
	for (i = 0; i < peers->chains; i++) {
		while (peers->table[i]) {
			pf_peer *peer = peers->table[i];

			peers->table[i] = peer->next;
			table_insert(&larger, peer);
		}
	}
	free(peers->table);
	peers->table = larger.table;
	peers->chains = larger.chains;
	return true;
}

static void table_remove(struct peers *peers, pf_peer *peer)
{
	pf_peer **at = chain_of(peers, peer->id);

	assert_locked(&peers->lock, true);
	while (*at != peer) {
		assert_that(*at);
		at = &(*at)->next;
	}
	*at = peer->next;
	peers->count--;
}

pf_peer *peers_next(const struct peers *peers, const pf_peer *peer)
{
	size_t i = 0;

	assert_locked(&((struct peers *)(uintptr_t)peers)->lock, true);
	if (peer) {
		if (peer->next)
			return peer->next;
		i = (size_t)(chain_of(peers, peer->id) - peers->table) + 1;
	}
	for (; i < peers->chains; i++) {
		if (peers->table[i])
			return peers->table[i];
	}
	return NULL;
}

static pf_peer *peer_new(pf_context *context, const struct address *address, const uint8_t *data,
			 const struct transport *transport)
{
	const uint8_t length = data ? address->data_length : 0;
	pf_peer *peer = calloc(1, transport->peer_size + length);

	if (!peer)
		return NULL;
	peer->address = malloc(sizeof(*peer->address));
	if (!peer->address) {
		free(peer);
		return NULL;
	}
	*peer->address = *address;
	peer->context = context;
	peer->transport = transport;
	memcpy(peer->id, address->id, sizeof(peer->id));
	if (length)
		memcpy((uint8_t *)peer + transport->peer_size, data, length);
	peer->data_length = length;
	peer_set_path(peer, "not used yet");
	if (transport->peer_init)
		transport->peer_init(peer);
	return peer;
}

/* Under the lock. */
static pf_peer *look_up(const struct peers *peers, const uint8_t id[ADDRESS_ID_BYTES])
{
	pf_peer *peer = peers->chains ? *chain_of(peers, id) : NULL;

	assert_locked(&peers->lock, true);
	while (peer && memcmp(peer->id, id, sizeof(peer->id)) != 0)
		peer = peer->next;
	return peer;
}

/* Under the lock. */
static pf_peer *find_or_make(struct peers *peers, pf_context *context,
			     const struct address *address, const uint8_t *data,
			     const struct transport *transport)
{
	pf_peer *peer = look_up(peers, address->id);

	assert_that(transport);
	if (peer || !make_room(peers))
		return peer;
	peer = peer_new(context, address, data, transport);
	if (peer)
		table_insert(peers, peer);
	return peer;
}

pf_peer *peers_get(struct peers *peers, pf_context *context, const struct address *address,
		   const uint8_t *data, const struct transport *transport)
{
	pf_peer *peer;

	peers_lock(peers);
	peer = find_or_make(peers, context, address, data, transport);
	peers_unlock(peers);
	return peer;
}

pf_peer *peers_get_caller(struct peers *peers, pf_context *context, const struct address *address,
			  const uint8_t *data, const struct transport *transport)
{
	pf_peer *peer;

	peers_lock(peers);
	peer = find_or_make(peers, context, address, data, transport);
	if (peer && (peer->transport != transport || peer_is_gone(peer)))
		peer = NULL;
	peers_unlock(peers);
	return peer;
}

pf_peer *peers_open(struct peers *peers, pf_context *context, const struct address *address,
		    const uint8_t *data, const struct transport *transport, void *user)
{
	pf_peer *peer;

	peers_lock(peers);
	peer = find_or_make(peers, context, address, data, transport);
	if (peer) {
		peer->count++;
		if (user)
			peer->user = user;
	}
	peers_unlock(peers);
	return peer;
}

/* ---- the end of a peer ---- */

/* Under the lock, hence the times in peers.over are in order. */
static uint32_t seconds_now(void)
{
	return (uint32_t)(clock_nanoseconds(CLOCK_MONOTONIC) / SECOND);
}

/* Under the lock. A peer that was opened again and closed keeps the time at which it was over first. */
static void begin_over(struct peers *peers, pf_peer *peer)
{
	assert_locked(&peers->lock, true);
	if (peer->is_over)
		return;
	peer->is_over = true;
	peer->over = seconds_now();
	STAILQ_INSERT_TAIL(&peers->over, peer, next_gone);
}

/* Under the lock: the peer is the first. */
static void end_over(struct peers *peers, pf_peer *peer)
{
	assert_that(peer == STAILQ_FIRST(&peers->over));
	STAILQ_REMOVE_HEAD(&peers->over, next_gone);
	peer->is_over = false;
}

void peers_close(struct peers *peers, pf_peer *peer)
{
	peers_lock(peers);
	if (peer->count && !--peer->count) {
		peer->user = NULL;
		if (peer->gone_reported)
			begin_over(peers, peer);
	}
	peers_unlock(peers);
}

bool peers_take_gone(struct peers *peers, struct peer_list *gone)
{
	STAILQ_INIT(gone);
	peers_lock(peers);
	STAILQ_CONCAT(gone, &peers->gone);
	peers_unlock(peers);
	return !STAILQ_EMPTY(gone);
}

bool peers_reported(struct peers *peers, pf_peer *peer, bool reported)
{
	bool over;

	assert_progress(peer->context);
	peers_lock(peers);
	peer->gone_reported = reported;
	if (!reported)
		STAILQ_INSERT_TAIL(&peers->gone, peer, next_gone);
	else if (!peer->count)
		begin_over(peers, peer);
	over = peer->is_over;
	peers_unlock(peers);
	return over;
}

/* Under the lock: does anything still refer to the record? */
static bool is_in_use(const pf_peer *peer)
{
	return peer->refused ||
	       (peer->transport->peer_in_use && peer->transport->peer_in_use(peer));
}

/* Under the lock: return the first peer that is over for long enough, or NULL. */
static pf_peer *first_over(const struct peers *peers)
{
	pf_peer *peer = STAILQ_FIRST(&peers->over);

	return peer && seconds_now() - peer->over >= peers->keep ? peer : NULL;
}

pf_peer *peers_take_over(struct peers *peers)
{
	pf_peer *peer;

	peers_lock(peers);
	/* Peers opened again come back by peers_close. */
	while ((peer = first_over(peers)) && peer->count)
		end_over(peers, peer);
	if (peer) {
		end_over(peers, peer);
		if (is_in_use(peer)) {
			/* For the next call. */
			begin_over(peers, peer);
			peer = NULL;
		} else {
			table_remove(peers, peer);
		}
	}
	peers_unlock(peers);
	return peer;
}

void peer_forget_address(pf_peer *peer)
{
	if (peer->address)
		sodium_memzero(peer->address, sizeof(*peer->address));
	free(peer->address);
	peer->address = NULL;
}

static enum pf_peer_state reason_of(int status, bool farewell)
{
	if (farewell)
		return PF_PEER_LEFT;
	switch (status) {
	case PF_ERR_PEER:
		return PF_PEER_DIED;
	case PF_ERR_UNREACHABLE:
		return PF_PEER_UNREACHABLE;
	case PF_ERR_TIMEOUT:
		return PF_PEER_SILENT;
	case PF_ERR_REFUSED:
		return PF_PEER_REFUSED;
	default:
		return PF_PEER_FAILED;
	}
}

void peer_set_gone(struct peers *peers, pf_peer *peer, int status, const char *why, bool farewell)
{
	assert_progress(peer->context);
	assert_that(!peer_is_gone(peer));
	peer->gone_status = (int8_t)status;
	peer_set_path(peer, why);
	peer_set_state(peer, reason_of(status, farewell));
	peers_lock(peers);
	STAILQ_INSERT_TAIL(&peers->gone, peer, next_gone);
	peers_unlock(peers);
	atomic_store_explicit(&peers->news, true, memory_order_relaxed);
}

/* ---- pointers of owners ---- */

/* Acquire: another thread may have made the array. */
static _Atomic(void *) *users_of(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)(uintptr_t)peer)->users, memory_order_acquire);
}

void *peer_user_at(const pf_peer *peer, unsigned place)
{
	_Atomic(void *) *users = users_of(peer);

	assert_that(place < PF_OWNERS_MOST);
	return users ? atomic_load_explicit(&users[place], memory_order_relaxed) : NULL;
}

int peer_set_user_at(struct peers *peers, pf_peer *peer, unsigned place, void *user)
{
	_Atomic(void *) *users;

	assert_that(place < PF_OWNERS_MOST);
	peers_lock(peers);
	users = users_of(peer);
	if (!users) {
		users = calloc(PF_OWNERS_MOST, sizeof(*users));
		atomic_store_explicit(&peer->users, users, memory_order_release);
	}
	if (users)
		atomic_store_explicit(&users[place], user, memory_order_relaxed);
	peers_unlock(peers);
	return users ? PF_OK : PF_ERR_MEMORY;
}

void peers_forget_user(struct peers *peers, unsigned place)
{
	pf_peer *peer = NULL;

	peers_lock(peers);
	while ((peer = peers_next(peers, peer))) {
		if (users_of(peer))
			atomic_store_explicit(&users_of(peer)[place], NULL, memory_order_relaxed);
	}
	peers_unlock(peers);
}
