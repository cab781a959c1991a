/* SPDX-License-Identifier: BSD-3-Clause */
#include "core.h"

#include <stdlib.h>

#include "atomics.h"
#include "destination.h"
#include "lifetime.h"
#include "message.h"
#include "source.h"
#include "transfer.h"

#include "base/check.h"

/* ns: a longer step of the clock means that this process stood still (WAITING_LOOK is shorter). */
#define CORE_LOOK 2000000000ull

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
		.answer_delay = 10000000ull,
		.queue_target = 50000ull,
		.idle_release = 1000000000ull,
	};
}

/*
 * Return the first index, a number made from the id of the process. An earlier process with our
 * port may have peers that do not know of the end, and still send packets with old indexes. With
 * equal indexes, packets of our own peers would seem forged; with different indexes, the old
 * packets belong to no association.
 */
static uint32_t first_index(const uint8_t id[NET_ID_BYTES])
{
	/* Not 0, the index in a HELLO; and at most 2^31: no index reaches 2^32. */
	return (wire_get32(id) & INT32_MAX) + 1;
}

struct net_core *net_create(const struct net_options *options,
			    const struct net_memory_operations *memory,
			    const struct net_callbacks *callbacks)
{
	struct net_core *core;
	struct shared *shared;

	if (options->block_size < 4096 || options->block_size > 65536 ||
	    options->block_size & (options->block_size - 1))
		return NULL;
	core = calloc(1, sizeof(*core));
	if (!core)
		return NULL;
	shared = &core->shared;
	shared->options = *options;
	shared->memory = *memory;
	shared->callbacks = *callbacks;
	STAILQ_INIT(&shared->waiting);
	STAILQ_INIT(&shared->finished);
	STAILQ_INIT(&shared->news);
	auth_hello_key(shared->hello_key, options->key);
	core->first = first_index(options->id);
	schedule_init(&core->schedule);
	foresee_init(&core->foresight, shared);
	return core;
}

void net_destroy(struct net_core *core)
{
	struct shared *shared = &core->shared;
	struct net_transfer *transfer;
	struct finished *finished;
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		if (core->associations[i])
			core_remove(core, core->associations[i]);
	}
	while ((finished = STAILQ_FIRST(&shared->finished))) {
		STAILQ_REMOVE_HEAD(&shared->finished, next);
		free(finished);
	}
	while ((transfer = shared->free_transfers)) {
		shared->free_transfers = transfer->next_free;
		free(transfer);
	}
	free(core->associations);
	schedule_destroy(&core->schedule);
	foresee_destroy(&core->foresight);
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

uint64_t net_unacknowledged(const struct net_core *core)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		const struct net_association *association = core->associations[i];

		if (association && association->busy)
			bytes += exchange_unacknowledged(&association->busy->exchange);
	}
	return bytes;
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
	uint32_t place = index - core->first;

	return place < core->room ? core->associations[place] : NULL;
}

static bool core_make_room(struct net_core *core)
{
	uint32_t room = core->room ? 2 * core->room : 16;
	struct net_association **associations;

	if (core->count < core->room)
		return true;
	if (!schedule_reserve(&core->schedule, room))
		return false;
	associations = realloc(core->associations, room * sizeof(struct net_association *));
	if (!associations)
		return false;
	memset(associations + core->room, 0,
	       (room - core->room) * sizeof(struct net_association *));
	core->associations = associations;
	core->room = room;
	return true;
}

struct net_association *core_add(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const void *info, size_t length)
{
	struct net_association *association;
	uint32_t i;

	if (!core_make_room(core))
		return NULL;
	association = association_new(&core->shared, id, info, length);
	if (!association)
		return NULL;
	/* core_make_room: at least one place is free. */
	assert_that(core->count < core->room);
	/* In turns: packets to the last owner of a place may still come. */
	for (i = core->latest + 1; core->associations[i % core->room]; i++)
		;
	i %= core->room;
	core->latest = i;
	core->associations[i] = association;
	association->index = core->first + i;
	core->count++;
	association->next_id = core->by_id[id[0] % CORE_IDS];
	core->by_id[id[0] % CORE_IDS] = association;
	return association;
}

void core_remove(struct net_core *core, struct net_association *association)
{
	struct shared *shared = &core->shared;
	struct net_association **at;
	uint32_t i;

	assert_that(core_index(core, association->index) == association);
	for (i = shared->runs_first; i < shared->runs_end; i++) {
		if (shared->runs[i].association == association)
			shared->runs[i].association = NULL;
	}
	schedule_remove(&core->schedule, association);
	association->closing = true;
	association_fail(association, PF_ERR_PEER, "closed by this process");
	for (at = &core->by_id[association->id[0] % CORE_IDS]; *at != association;) {
		assert_that(*at);
		at = &(*at)->next_id;
	}
	*at = association->next_id;
	core->associations[association->index - core->first] = NULL;
	core->count--;
	if (core->foresight.latest == association)
		core->foresight.latest = NULL;
	association_free(association);
}

/* ---- time ---- */

/*
 * A process that did not run for a while did not receive either: postpone the deadlines of
 * answers by the time passed.
 */
void core_clock(struct net_core *core, uint64_t now)
{
	uint64_t passed = core->shared.now && now > core->shared.now ? now - core->shared.now : 0;
	uint32_t i;

	if (now > core->shared.now)
		core->shared.now = now;
	for (i = 0; i < core->room && passed > CORE_LOOK; i++) {
		struct net_association *association = core->associations[i];

		if (association && association->silent != NET_NEVER)
			association->silent += passed;
		if (association && association->refused)
			association->refused += passed;
	}
}

void core_settle(struct net_core *core, struct net_association *association)
{
	if (association_settle(association) & EFFECT_EXPECT)
		core->foresight.latest = association;
	if (association->wants_output) {
		association->wants_output = false;
		schedule_ready(&core->schedule, association);
	}
	/* Output updates the deadline of an association in the ready queue. */
	if (!association->ready)
		schedule_due(&core->schedule, association);
}

uint64_t net_deadline(const struct net_core *core)
{
	const struct net_association *next = schedule_next(&core->schedule);

	return next ? next->deadline : NET_NEVER;
}

uint64_t net_exact_deadline(struct net_core *core)
{
	schedule_settle(&core->schedule);
	return net_deadline(core);
}

void net_advance(struct net_core *core, uint64_t now)
{
	struct net_association *association;

	assert_that(!core->shared.lent_to);
	core_clock(core, now);
	while ((association = schedule_next(&core->schedule)) && association->deadline <= now) {
		/* Not freed in net_output, because net_unsent may return the GOODBYE. */
		if (association_is_over(association)) {
			core_remove(core, association);
			continue;
		}
		association_advance(association, now);
		core_settle(core, association);
		schedule_again(&core->schedule, association, now);
	}
}

/* ---- associations as the user sees them ---- */

struct net_association *net_open(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const uint8_t key[NET_KEY_BYTES], const struct net_endpoint *to,
				 const void *info, size_t length, void *peer)
{
	struct net_association *association = core_find(core, id);

	/* One that has ended, or is about to be closed for another user, is not opened again. */
	if (length > NET_INFO_MOST ||
	    (association && (association->state == GONE || association->user != peer)))
		return NULL;
	if (association)
		return association;
	association = core_add(core, id, info, length);
	if (!association)
		return NULL;
	association->user = peer;
	if (!association_path(association, 0, to)) {
		core_remove(core, association);
		return NULL;
	}
	memcpy(association->opening->key, key, NET_KEY_BYTES);
	auth_welcome_key(association->opening->welcome_key, key, association->opening->nonce);
	return association;
}

bool net_knows(const struct net_core *core, const uint8_t id[NET_ID_BYTES])
{
	return core_find((struct net_core *)(uintptr_t)core, id) != NULL;
}

int net_path_add(struct net_association *association, const struct net_endpoint *to)
{
	if (association->paths_count == NET_PATHS_MOST)
		return PF_ERR_ARGUMENT;
	/* The opener numbers the paths. */
	if (association->accepter)
		return PF_OK;
	return association_path(association, association->paths_count, to) ? PF_OK : PF_ERR_MEMORY;
}

int net_contact(struct net_association *association)
{
	int status = association_use(association);

	core_settle(core_of(association), association);
	return status;
}

bool net_is_open(const struct net_association *association)
{
	return association->state == OPEN;
}

bool net_is_silent(const struct net_association *association)
{
	if (association->state == GONE)
		return association->status == PF_ERR_UNREACHABLE;
	return association->told && association->state != OPEN;
}

const char *net_silence(const struct net_association *association)
{
	return association_unanswered(association);
}

void net_give_up(struct net_association *association, const char *why)
{
	if (association->state >= OPEN)
		return;
	/* The opener may have received WELCOME, and sent a packet that has not arrived. */
	if (association->state == ACCEPTED)
		association_say_goodbye(association, association_best_path(association, 0));
	association_fail(association, PF_ERR_UNREACHABLE,
			 why ? why : association_unanswered(association));
	association->wants_output = true;
	core_settle(core_of(association), association);
}

void net_fail(struct net_association *association, int status, const char *why)
{
	if (association->state != OPEN)
		return;
	association_say_goodbye(association, association_best_path(association, 0));
	association_fail(association, status, why);
	core_settle(core_of(association), association);
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

void net_close(struct net_association *association)
{
	assert_that(!association->shared->lent_to);
	if (association->closing)
		return;
	association->closing = true;
	if (association->state == OPEN || association->state == ACCEPTED)
		association_say_goodbye(association, association_best_path(association, 0));
	association_fail(association, PF_ERR_PEER, "closed by this process");
	association->wants_output = true;
	core_settle(core_of(association), association);
}

void net_close_all(struct net_core *core)
{
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		if (core->associations[i])
			net_close(core->associations[i]);
	}
}

static bool endpoint_equal(const struct net_endpoint *a, const struct net_endpoint *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/*
 * Is the peer's process in doubt if packets to this endpoint are rejected? If the
 * association is OPEN, not by a path without any answer yet, nor by a doubtful path. To an
 * accepter each path has brought a packet: the peer may end before it answers one.
 */
static bool refusal_concerns(const struct net_association *association,
			     const struct net_endpoint *endpoint, enum net_refusal refusal)
{
	unsigned i;

	if (association->state == GONE ||
	    (association->state == OPEN && refusal != NET_REFUSED_PORT))
		return false;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		if (path && endpoint_equal(&path->to, endpoint) &&
		    (association->state != OPEN || ((path->rtt || association->accepter) &&
						    !association_doubts(association, path))))
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

		if (!association || !refusal_concerns(association, endpoint, refusal))
			continue;
		association_refused(association, refusal);
		core_settle(core, association);
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

			if (!path || !endpoint_equal(&path->to, endpoint))
				continue;
			mtu_limit(&path->mtu, core->shared.now, (uint32_t)most);
			/* The window may have room for a shorter packet. */
			association->wants_output = true;
			core_settle(core, association);
		}
	}
}

/* ---- operations ---- */

static int post_transfer(struct net_association *association, bool get, const pf_piece *pieces,
			 unsigned count, const pf_signal *signal, void *arg)
{
	int status;

	assert_that(!association->shared->lent_to);
	status = association_use(association);
	if (status == PF_OK)
		status = transfers_post(association_exchange(association), get, pieces, count,
					signal, arg);
	core_settle(core_of(association), association);
	return status;
}

int net_put(struct net_association *association, const pf_piece *pieces, unsigned count, void *arg)
{
	return post_transfer(association, false, pieces, count, NULL, arg);
}

int net_put_signal(struct net_association *association, const pf_piece *piece,
		   const pf_signal *signal, void *arg)
{
	return post_transfer(association, false, piece, 1, signal, arg);
}

int net_get(struct net_association *association, const pf_piece *pieces, unsigned count, void *arg)
{
	return post_transfer(association, true, pieces, count, NULL, arg);
}

int net_atomic(struct net_association *association, enum pf_atomic_op op, unsigned width,
	       uint64_t remote, uint64_t operand, uint64_t compare, void *arg)
{
	int status;

	assert_that(!association->shared->lent_to);
	status = association_use(association);
	if (status == PF_OK)
		status = atomics_post(association_exchange(association), op, width, remote, operand,
				      compare, arg);
	core_settle(core_of(association), association);
	return status;
}

/* Reserve room for a message, and write the header. *place: address of the payload. */
static int core_message_reserve(struct net_association *association, uint32_t tag,
				const void *header, size_t header_length, size_t length,
				uint8_t **place)
{
	int status;

	assert_that(!association->shared->lent_to);
	if (header_length > NET_MESSAGE_MOST || length > NET_MESSAGE_MOST ||
	    header_length + length > NET_MESSAGE_MOST)
		return PF_ERR_TOO_LONG;
	status = association_use(association);
	if (status == PF_OK)
		status = message_reserve(association_exchange(association), tag,
					 header_length + length, place);
	/* A first use has a HELLO to send, even if the message failed. */
	if (status != PF_OK) {
		core_settle(core_of(association), association);
		return status;
	}
	if (header_length)
		memcpy(*place, header, header_length);
	*place += header_length;
	return PF_OK;
}

static int core_message_commit(struct net_association *association, size_t length)
{
	message_commit(association_exchange(association), length);
	core_settle(core_of(association), association);
	return PF_OK;
}

int net_send(struct net_association *association, uint32_t tag, const void *header,
	     size_t header_length, const void *payload, size_t payload_length)
{
	uint8_t *place;
	int status;

	status = core_message_reserve(association, tag, header, header_length, payload_length,
				      &place);
	if (status != PF_OK)
		return status;
	if (payload_length)
		memcpy(place, payload, payload_length);
	return core_message_commit(association, header_length + payload_length);
}

int net_send_lent(struct net_association *association, uint32_t tag, const void *header,
		  size_t header_length, const void *payload, size_t payload_length)
{
	struct stream_out *out;
	uint8_t *place;
	int status;

	status = core_message_reserve(association, tag, header, header_length, payload_length,
				      &place);
	if (status != PF_OK)
		return status;
	out = &association_exchange(association)->out[STREAM_MESSAGE];
	stream_out_lend(out, out->end + WIRE_MESSAGE_HEADER + header_length, payload,
			payload_length);
	association->shared->lent_to = out;
	return core_message_commit(association, header_length + payload_length);
}

void net_keep(struct net_core *core)
{
	if (core->shared.lent_to)
		stream_out_keep(core->shared.lent_to);
	core->shared.lent_to = NULL;
}

int net_send_pack(struct net_association *association, uint32_t tag, const void *header,
		  size_t header_length, size_t length, pf_pack_fn pack, void *arg)
{
	uint8_t *place;
	int status = core_message_reserve(association, tag, header, header_length, length, &place);

	if (status != PF_OK)
		return status;
	pack(place, length, arg);
	return core_message_commit(association, header_length + length);
}

/* The next message reserves an uncommitted place again. */
bool net_has_room(struct net_association *association, size_t length)
{
	uint8_t *place;
	int status = core_message_reserve(association, 0, NULL, 0, length, &place);

	core_settle(core_of(association), association);
	return status != PF_ERR_AGAIN;
}

void net_resolved(struct net_core *core, struct net_token token, int status, uint64_t bad)
{
	struct net_association *association = core_index(core, token.association);
	struct exchange *exchange;

	assert_that(token.side <= NET_SIGNAL && (status == PF_OK || status == PF_ERR_FAULT));
	if (!association || !association->busy)
		return;
	exchange = &association->busy->exchange;
	if (token.side == NET_ATOMIC)
		atomics_resolved(exchange, token, status, bad);
	else if (token.side == NET_SIGNAL)
		destination_signal_resolved(exchange, token, status, bad);
	else if (token.side == NET_SOURCE)
		source_resolved(exchange, token, status, bad);
	else
		destination_resolved(exchange, token, status, bad);
	core_settle(core, association);
}

/* ---- events ---- */

static bool take_run(struct net_core *core, struct message *message, struct net_event *event)
{
	struct shared *shared = &core->shared;

	while (shared->runs_first < shared->runs_end) {
		struct message_run *run = &shared->runs[shared->runs_first];

		if (run->association && run->length) {
			event->association = run->association;
			message_of_runs(shared, message);
			return true;
		}
		shared->runs_first++;
	}
	shared->runs_first = shared->runs_end = 0;
	return false;
}

static bool take_waiting(struct net_core *core, struct message *message, struct net_event *event)
{
	struct exchange *exchange;

	while ((exchange = STAILQ_FIRST(&core->shared.waiting))) {
		struct net_association *association = exchange->association;
		bool broken, taken = message_next(exchange, message, &broken);

		if (!taken) {
			STAILQ_REMOVE_HEAD(&core->shared.waiting, next_waiting);
			exchange->waiting = false;
			if (broken)
				association_fail(association, PF_ERR_PROTOCOL,
						 "malformed message stream");
			association_delivered(association);
		}
		core_settle(core, association);
		if (taken) {
			event->association = association;
			return true;
		}
	}
	return false;
}

static bool take_news(struct net_core *core, struct net_event *event)
{
	struct net_association *association;
	uint8_t news;

	while ((association = STAILQ_FIRST(&core->shared.news))) {
		STAILQ_REMOVE_HEAD(&core->shared.news, next_news);
		news = association->news;
		assert_that(news);
		association->news = 0;
		if (association->closing || (!(news & NEWS_GONE) && association->state == OPEN))
			continue;
		event->kind = news & NEWS_GONE ? NET_GONE : NET_UNANSWERED;
		event->association = association;
		return true;
	}
	return false;
}

bool net_take(struct net_core *core, struct net_event *event)
{
	struct finished *finished;
	struct message message;

	if (take_run(core, &message, event) || take_waiting(core, &message, event)) {
		event->kind = NET_MESSAGE;
		event->tag = message.tag;
		event->data = message.bytes;
		event->length = message.length;
		event->pieces = message.pieces;
		assert_that(message.pieces && message.pieces <= PF_PIECES_MOST);
		assert_that(message.length <= NET_MESSAGE_MOST);
		if (message.pieces > 1)
			memcpy(event->piece, message.piece,
			       message.pieces * sizeof(message.piece[0]));
		return true;
	}
	finished = STAILQ_FIRST(&core->shared.finished);
	if (finished) {
		STAILQ_REMOVE_HEAD(&core->shared.finished, next);
		if (finished->completion.status == PF_PENDING) {
			destination_take_notice(finished->arg, event);
			return true;
		}
		event->kind = NET_COMPLETION;
		event->arg = finished->arg;
		event->completion = finished->completion;
		free(finished);
		return true;
	}
	return take_news(core, event);
}

bool net_has_events(const struct net_core *core)
{
	const struct shared *shared = &core->shared;

	return shared->runs_first < shared->runs_end || !STAILQ_EMPTY(&shared->waiting) ||
	       !STAILQ_EMPTY(&shared->finished) || !STAILQ_EMPTY(&shared->news);
}

int net_association_status(const struct net_association *association, const char **why)
{
	*why = association->why;
	return association->status;
}

enum net_drop net_last_drop(const struct net_core *core, struct net_endpoint *from)
{
	*from = core->shared.dropped_from;
	return core->shared.dropped_why;
}

const struct net_statistics *net_statistics(const struct net_core *core)
{
	return &core->shared.statistics;
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
		.window = congestion_window(&found->congestion),
		.in_flight = found->in_flight,
		.packet = found->mtu.size,
	};
	return true;
}

size_t net_association_memory(const struct net_association *association)
{
	return association_memory(association);
}
