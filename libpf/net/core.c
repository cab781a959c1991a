/* SPDX-License-Identifier: BSD-3-Clause */
#include "core.h"

#include <stdlib.h>

void net_options_init(struct net_options *options)
{
	*options = (struct net_options){
		.auth = NET_AUTH_HEADER,
		.fault_mode = NET_FAULT_NACK,
		.block_size = 16384,
		.backup_ring = 256u << 10,
		.receive_buffer = 4u << 20,
		.peer_timeout = 600000000000ull,
		.contact_timeout = 5000000000ull,
		.refused_timeout = 2000000000ull,
		.timeout_min = 2000000ull,
		.ack_delay = 100000ull,
		.queue_target = 100000ull,
		.idle_release = 1000000000ull,
	};
}

struct net_core *net_create(const struct net_options *options,
			    const struct net_callbacks *callbacks)
{
	struct net_core *core;

	if (options->block_size < 4096 || options->block_size > 65536 ||
	    options->block_size & (options->block_size - 1))
		return NULL;
	core = calloc(1, sizeof(*core));
	if (!core)
		return NULL;
	core->options = *options;
	core->callbacks = *callbacks;
	core->ready_last = &core->ready;
	auth_hello_key(core->hello_key, options->key);
	return core;
}

void net_destroy(struct net_core *core)
{
	struct net_transfer *transfer;
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		struct net_association *association = core->associations[i];

		if (!association)
			continue;
		association->closing = true;
		association_fail(association, PF_ERR_PEER, "closed by this process");
		association_free(association);
	}
	while ((transfer = core->free_transfers)) {
		core->free_transfers = transfer->next_free;
		free(transfer);
	}
	free(core->associations);
	free(core->due);
	free(core->stash);
	free(core->gathered);
	free(core);
}

bool net_busy(const struct net_core *core)
{
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		const struct net_association *association = core->associations[i];

		if (association && association->busy && association_outgoing(association))
			return true;
	}
	return false;
}

/* ---- by id and by index ---- */

struct net_association *core_find(struct net_core *core, const uint8_t id[NET_ID_BYTES])
{
	struct net_association *association = core->by_id[id[0] % CORE_IDS];

	while (association && memcmp(association->id, id, NET_ID_BYTES))
		association = association->next_id;
	return association;
}

struct net_association *core_index(struct net_core *core, uint32_t index)
{
	return index && index <= core->room ? core->associations[index - 1] : NULL;
}

static bool make_room(struct net_core *core)
{
	uint32_t room = core->room ? 2 * core->room : 16;
	struct net_association **associations, **due;

	if (core->count < core->room)
		return true;
	due = realloc(core->due, (room + 1) * sizeof(struct net_association *));
	if (!due)
		return false;
	core->due = due;
	associations = realloc(core->associations, room * sizeof(struct net_association *));
	if (!associations)
		return false;
	memset(associations + core->room, 0,
	       (room - core->room) * sizeof(struct net_association *));
	core->associations = associations;
	core->room = room;
	return true;
}

bool core_add(struct net_core *core, struct net_association *association)
{
	uint32_t i;

	if (!make_room(core))
		return false;
	for (i = core->count; core->associations[i % core->room]; i++)
		;
	i %= core->room;
	core->associations[i] = association;
	association->index = i + 1;
	core->count++;
	association->next_id = core->by_id[association->id[0] % CORE_IDS];
	core->by_id[association->id[0] % CORE_IDS] = association;
	return true;
}

void core_hide(struct net_core *core, struct net_association *association)
{
	struct net_association **at = &core->by_id[association->id[0] % CORE_IDS];

	for (; *at; at = &(*at)->next_id) {
		if (*at == association) {
			*at = association->next_id;
			return;
		}
	}
}

void core_remove(struct net_core *core, struct net_association *association)
{
	struct net_association **at = &core->undelivered;

	while (*at && *at != association)
		at = &(*at)->next_undelivered;
	if (*at)
		*at = association->next_undelivered;
	association_unready(association);
	association->state = GONE;
	core_schedule(core, association);
	core_hide(core, association);
	core->associations[association->index - 1] = NULL;
	core->count--;
	if (core->latest == association)
		core->latest = NULL;
}

/* ---- deadlines: a heap ---- */

static void put_due(struct net_core *core, uint32_t place, struct net_association *association)
{
	core->due[place] = association;
	association->place = place;
}

static void sift(struct net_core *core, uint32_t place, struct net_association *association)
{
	uint32_t child;

	while (place > 1 && core->due[place / 2]->deadline > association->deadline) {
		put_due(core, place, core->due[place / 2]);
		place /= 2;
	}
	while ((child = 2 * place) <= core->due_count) {
		if (child < core->due_count &&
		    core->due[child + 1]->deadline < core->due[child]->deadline)
			child++;
		if (core->due[child]->deadline >= association->deadline)
			break;
		put_due(core, place, core->due[child]);
		place = child;
	}
	put_due(core, place, association);
}

void core_schedule(struct net_core *core, struct net_association *association)
{
	uint64_t deadline = association_deadline(association);
	struct net_association *last;
	uint32_t place = association->place;

	/* One that is due too early is looked at too early, once. */
	if (place && deadline >= association->deadline && deadline != NET_NEVER)
		return;
	association->deadline = deadline;
	if (deadline != NET_NEVER) {
		sift(core, place ? place : ++core->due_count, association);
		return;
	}
	if (!place)
		return;
	association->place = 0;
	last = core->due[core->due_count--];
	if (last != association)
		sift(core, place, last);
}

/*
 * Whoever was not run himself for a while has not listened either: that time
 * says nothing of his peers.
 */
void core_clock(struct net_core *core, uint64_t now)
{
	uint64_t passed = core->now && now > core->now ? now - core->now : 0;
	uint32_t i;

	if (now > core->now)
		core->now = now;
	for (i = 0; i < core->room && passed > CORE_LOOK; i++) {
		struct net_association *association = core->associations[i];

		if (association && association->silent != NET_NEVER)
			association->silent += passed;
		if (association && association->refused)
			association->refused += passed;
	}
}

uint64_t net_deadline(const struct net_core *core)
{
	return core->due_count ? core->due[1]->deadline : NET_NEVER;
}

void net_advance(struct net_core *core, uint64_t now)
{
	struct net_association *association;

	core_clock(core, now);
	while (core->due_count && (association = core->due[1])->deadline <= now) {
		association_advance(association, now);
		association->deadline = association_deadline(association);
		/* What is due for longer waits for net_output. */
		if (association->deadline <= now)
			association->deadline = now + 1;
		if (!association->place)
			continue;
		if (association->deadline != NET_NEVER)
			sift(core, association->place, association);
		else
			core_schedule(core, association);
	}
}

/* ---- what has something to send ---- */

void association_unready(struct net_association *association)
{
	struct net_core *core = association->core;
	struct net_association **at = &core->ready;

	if (!association->ready)
		return;
	while (*at != association)
		at = &(*at)->next_ready;
	*at = association->next_ready;
	if (!*at)
		core->ready_last = at;
	association->ready = false;
}

/* ---- associations as the user sees them ---- */

struct net_association *net_open(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const uint8_t key[NET_KEY_BYTES], const struct net_endpoint *to,
				 const void *info, size_t length, void *peer)
{
	struct net_association *association = core_find(core, id);

	if (length > NET_INFO_MOST)
		return NULL;
	if (association) {
		association->user = peer;
		return association;
	}
	association = association_new(core, id, info, length);
	if (!association)
		return NULL;
	association->user = peer;
	if (!association_path(association, 0, to)) {
		association_free(association);
		return NULL;
	}
	memcpy(association->opening->key, key, NET_KEY_BYTES);
	auth_welcome_key(association->opening->welcome_key, key, association->opening->nonce);
	return association;
}

int net_path_add(struct net_association *association, const struct net_endpoint *to)
{
	if (association->paths_count == NET_PATHS_MOST)
		return PF_ERR_ARGUMENT;
	/* Which numbers an accepter's paths have is the opener's affair. */
	if (association->accepter)
		return PF_OK;
	return association_path(association, association->paths_count, to) ? PF_OK : PF_ERR_MEMORY;
}

int net_contact(struct net_association *association)
{
	return association_use(association);
}

bool net_is_open(const struct net_association *association)
{
	return association->state == OPEN;
}

void net_give_up(struct net_association *association)
{
	if (association->state >= OPEN)
		return;
	/* Its opener may have had the WELCOME, and this process not its next packet. */
	association->goodbye = association->state == ACCEPTED;
	/* No HELLO is of a later process: which one was not reached is not known. */
	association->incarnation = UINT64_MAX;
	association_fail(association, PF_ERR_UNREACHABLE, association_unanswered(association));
	association_wake(association);
}

bool net_path_endpoint(const struct net_association *association, unsigned path,
		       struct net_endpoint *endpoint)
{
	if (path >= NET_PATHS_MOST || !association->paths[path])
		return false;
	*endpoint = association->paths[path]->to;
	return true;
}

void *net_association_user(const struct net_association *association)
{
	return association->user;
}

const uint8_t *net_association_id(const struct net_association *association)
{
	return association->id;
}

void net_close(struct net_association *association)
{
	if (association->closing)
		return;
	association->closing = true;
	association->goodbye = association->state == OPEN || association->state == ACCEPTED;
	association_fail(association, PF_ERR_PEER, "closed by this process");
	association_wake(association);
}

static bool same(const struct net_endpoint *a, const struct net_endpoint *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static bool has_path(const struct net_association *association, const struct net_endpoint *endpoint)
{
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i] && same(&association->paths[i]->to, endpoint))
			return true;
	}
	return false;
}

void net_refused(struct net_core *core, const struct net_endpoint *endpoint,
		 enum net_refusal refusal)
{
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		struct net_association *association = core->associations[i];

		if (!association || association->state == GONE ||
		    (association->state == OPEN && refusal != NET_REFUSED_PORT) ||
		    !has_path(association, endpoint))
			continue;
		if (!association->refused)
			association->refused = core->now ? core->now : 1;
		association->refusals += association->refusals < 255;
		association->refusal = (uint8_t)refusal;
		if (association->state == OPEN && association->refusals == 1) {
			association->ping = true;
			association_wake(association);
		}
		core_schedule(core, association);
	}
}

void net_too_big(struct net_core *core, const struct net_endpoint *endpoint, size_t most)
{
	uint32_t i;
	unsigned p;

	for (i = 0; i < core->room; i++) {
		struct net_association *association = core->associations[i];

		for (p = 0; association && p < NET_PATHS_MOST; p++) {
			struct path *path = association->paths[p];

			if (path && same(&path->to, endpoint))
				mtu_limit(&path->mtu, core->now, (uint32_t)most);
		}
	}
}

void net_resolved(struct net_core *core, struct net_token token, int status, uint64_t bad)
{
	struct net_association *association = core_index(core, token.association);
	struct net_transfer *transfer;

	if (!association || !association->busy)
		return;
	if (token.side == NET_ATOMIC) {
		net_atomic_resolved(association, token, status, bad);
	} else {
		transfer = transfer_find(association, token.served, token.side == NET_SOURCE,
					 token.transfer);
		if (!transfer || transfer->generation != token.generation ||
		    token.block >= transfer->blocks)
			return;
		if (token.side == NET_SOURCE)
			source_resolved(association, transfer, token.block, status, bad);
		else
			destination_resolved(association, transfer, token.block, status, bad);
	}
	core_schedule(core, association);
}

const struct net_statistics *net_statistics(const struct net_core *core)
{
	return &core->statistics;
}

uint32_t core_credit(const struct net_core *core)
{
	uint32_t share = core->options.receive_buffer / (core->active ? core->active : 1);

	return share > 4096 ? share : 4096;
}

bool net_path_info(const struct net_association *association, unsigned path,
		   struct net_path_info *info)
{
	const struct path *found = path < NET_PATHS_MOST ? association->paths[path] : NULL;

	if (!found)
		return false;
	*info = (struct net_path_info){
		.rtt = found->rtt,
		.rtt_min = found->congestion.rtt_min == TRIP_MOST ? 0 : found->congestion.rtt_min,
		.rtt_variation = found->variation,
		.window = congestion_window(&found->congestion),
		.in_flight = found->in_flight,
		.packet = found->mtu.size,
		.reordering = found->patience,
	};
	return true;
}

size_t net_association_memory(const struct net_association *association)
{
	const struct busy *busy = association->busy;
	size_t bytes = sizeof(*association);
	unsigned i;

	if (association->opening)
		bytes += sizeof(*association->opening) + association->opening->info_length;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		if (path)
			bytes += sizeof(*path) + path->capacity * sizeof(*path->sent);
	}
	if (!busy)
		return bytes;
	bytes += sizeof(*busy) + busy->transfers.open * sizeof(struct net_transfer);
	for (i = 0; i < STREAMS; i++) {
		if (busy->out[i].ring)
			bytes += busy->out[i].size + (size_t)busy->out[i].spare;
		if (busy->in[i].ring)
			bytes += busy->in[i].size + (size_t)busy->in[i].spare;
	}
	return bytes;
}
