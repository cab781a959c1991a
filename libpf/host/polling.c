/* SPDX-License-Identifier: BSD-3-Clause */
#include "polling.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "common/owners.h"
#include "message.h"
#include "peer.h"
#include "resolve.h"
#include "serve.h"

/* Messages taken from one channel before the next channel's turn. */
#define BUDGET 64
/* Age at which a store by another processor is visible, ns: PROGRESS_SLEEP_UNRUNG. */
#define SETTLED_NANOSECONDS 1000000

static void set_polled(struct incoming *incoming, bool polled)
{
	incoming->polled = polled;
	atomic_store_explicit(&incoming->channel.memory->polled, polled, memory_order_relaxed);
}

static void stop_polling(struct polling *polling, struct incoming *incoming)
{
	unsigned i;

	for (i = 0; i < polling->polled_count; i++) {
		if (polling->polled[i] == incoming)
			polling->polled[i] = polling->polled[--polling->polled_count];
	}
	set_polled(incoming, false);
}

/*
 * The channel carried a message: poll the channel from now on, instead of another channel if there
 * are too many.
 */
static void start_polling(struct polling *polling, struct incoming *incoming)
{
	if (polling->polled_count == POLLED_MOST)
		stop_polling(polling, polling->polled[polling->victim++ % POLLED_MOST]);
	polling->polled[polling->polled_count++] = incoming;
	set_polled(incoming, true);
}

static int mark_slot(struct polling *polling, struct incoming *incoming)
{
	/* polling_answer_bell reads eight marks at a time. */
	unsigned slots = (incoming->slot | 7) + 1;
	struct incoming **by_slot;

	if (incoming->slot >= INBOX_SLOTS)
		return PF_OK;
	if (polling->slots < slots) {
		by_slot = realloc(polling->by_slot, slots * sizeof(*by_slot));
		if (!by_slot)
			return PF_ERR_MEMORY;
		memset(by_slot + polling->slots, 0, (slots - polling->slots) * sizeof(*by_slot));
		polling->by_slot = by_slot;
		polling->slots = slots;
	}
	polling->by_slot[incoming->slot] = incoming;
	/*
	 * A writer may have marked the channel before there was a reader: look at the marks again.
	 */
	if (atomic_load_explicit(&polling->inbox->pending[incoming->slot], memory_order_relaxed))
		atomic_store_explicit(&polling->inbox->bell, 1, memory_order_relaxed);
	return PF_OK;
}

int polling_add(struct polling *polling, struct incoming *incoming)
{
	assert_progress(polling->context);
	if (polling->all_count == polling->all_room) {
		unsigned room = polling->all_room ? 2 * polling->all_room : 16;
		struct incoming **all = realloc(polling->all, room * sizeof(*all));

		if (!all)
			return PF_ERR_MEMORY;
		polling->all = all;
		polling->all_room = room;
	}
	if (mark_slot(polling, incoming) != PF_OK)
		return PF_ERR_MEMORY;
	polling->all[polling->all_count++] = incoming;
	polling->silent++;
	atomic_store_explicit(&incoming->channel.memory->pieces,
			      polling->context->callbacks.receive_pieces != NULL,
			      memory_order_relaxed);
	atomic_store_explicit(&incoming->channel.memory->blocks, 1, memory_order_relaxed);
	start_polling(polling, incoming);
	return PF_OK;
}

static inline void count_message(pf_context *context, size_t length)
{
	activity_moved(&context->activity);
	statistic_add(&context->statistics, PF_STAT_RECEIVES, 1);
	statistic_add(&context->statistics, PF_STAT_RECEIVE_BYTES, length);
}

enum dispatched { DISPATCHED, UNFINISHED, REFUSED, BROKEN };

static enum dispatched dispatched_by_owner(pf_context *context, const struct incoming *incoming,
					   const struct ring_entry *entry)
{
	const struct iovec piece = { entry->payload, entry->length };

	return owners_receive(context, &incoming->peer->peer, entry->tag, &piece, 1,
			      entry->length) ?
		       DISPATCHED :
		       REFUSED;
}

static inline enum dispatched message_deliver(struct polling *polling, struct incoming *incoming,
					      const struct ring_entry *entry)
{
	pf_context *context = polling->context;

	count_message(context, entry->length);
	if (__builtin_expect(context->owners.count || !context->callbacks.receive, 0))
		return dispatched_by_owner(context, incoming, entry);
	context->callbacks.receive(context, &incoming->peer->peer, entry->tag, entry->payload,
				   entry->length, context->callbacks.arg);
	return DISPATCHED;
}

static enum dispatched deliver_pieces(struct polling *polling, struct incoming *incoming,
				      const struct ring_entry *entry)
{
	const struct message_pieces *message = (const struct message_pieces *)entry->payload;
	uint8_t *data = entry->payload + sizeof(*message);
	pf_context *context = polling->context;
	struct iovec pieces[2];
	uint32_t first, gap;

	if (entry->length < sizeof(*message))
		return BROKEN;
	/* A hostile writer changes the fields: one load each. */
	first = *(const volatile uint32_t *)&message->first;
	gap = *(const volatile uint32_t *)&message->gap;
	if (first < PF_PIECE_FIRST || first % 8 || gap >= MESSAGE_ALIGNMENT ||
	    first >= entry->length - sizeof(*message) ||
	    gap >= entry->length - sizeof(*message) - first)
		return BROKEN;
	pieces[0] = (struct iovec){ data, first };
	pieces[1] = (struct iovec){ data + first + gap,
				    entry->length - sizeof(*message) - first - gap };
	count_message(context, first + pieces[1].iov_len);
	return owners_receive(context, &incoming->peer->peer, entry->tag, pieces, 2,
			      first + pieces[1].iov_len) ?
		       DISPATCHED :
		       REFUSED;
}

static enum dispatched sound_dispatched(bool sound)
{
	return sound ? DISPATCHED : BROKEN;
}

static enum dispatched message_dispatch(struct polling *polling, struct incoming *incoming,
					const struct ring_entry *entry)
{
	if (__builtin_expect(entry->kind == MESSAGE_USER, 1))
		return message_deliver(polling, incoming, entry);
	switch (entry->kind) {
	case MESSAGE_PIECES:
		return deliver_pieces(polling, incoming, entry);
	case MESSAGE_OFFER:
		return sound_dispatched(
			serve_offer(polling->host, incoming, entry->payload, entry->length));
	case MESSAGE_COLLAPSE:
		return sound_dispatched(
			serve_collapse(polling->host, entry->payload, entry->length));
	case MESSAGE_RESOLVE:
		return sound_dispatched(resolve_asked(polling->host, incoming->peer, entry->payload,
						      entry->length));
	case MESSAGE_RESOLVED:
		return sound_dispatched(answer_resolved(polling->host, incoming->peer,
							entry->payload, entry->length));
	case MESSAGE_PUT_BLOCK:
	case MESSAGE_PUT_BLOCKS:
	case MESSAGE_GET_BLOCK:
	case MESSAGE_ATOMIC:
		if (!answers_prepare(polling->answers))
			return UNFINISHED;
		return sound_dispatched(answer_request(polling->answers, incoming, entry));
	case MESSAGE_PUT_ANSWER:
	case MESSAGE_GET_ANSWER:
	case MESSAGE_ATOMIC_ANSWER:
		return sound_dispatched(answer_arrived(polling->host, incoming, entry));
	default:
		return BROKEN;
	}
}

static int poll_messages(struct polling *polling, struct incoming *incoming)
{
	struct ring *ring = &incoming->channel.ring;
	struct ring_entry entry;
	int count = 0, found;

	while (count < BUDGET && (found = ring_peek(ring, &entry)) != 0) {
		enum dispatched state = found < 0 ? BROKEN :
						    message_dispatch(polling, incoming, &entry);

		if (state != DISPATCHED) {
			incoming->broken = state != UNFINISHED;
			incoming->refused = state == REFUSED;
			break;
		}
		ring_consume(ring, &entry);
		count++;
		if (answers_are_full(incoming->peer))
			break;
	}
	if (count)
		polling->host->copied_alone = false;
	return count;
}

/* The channel is malformed, or a message is refused. By a notice, because callers still use incoming. */
static void give_up(struct polling *polling, struct incoming *incoming)
{
	int status = incoming->refused ? PF_ERR_MEMORY : PF_ERR_PROTOCOL;
	const char *why = incoming->refused ? OWNERS_REFUSED :
					      "malformed message in the channel from the peer";

	/* Without memory the next look finds the end again. */
	if (!notices_report_gone(&polling->host->notices, &incoming->peer->peer, status, why))
		incoming->broken = false;
}

int polling_read(struct polling *polling, struct incoming *incoming)
{
	int count;

	assert_progress(polling->context);
	if (incoming->broken || answers_are_full(incoming->peer))
		return 0;
	count = poll_messages(polling, incoming);
	if (incoming->serves.count)
		count += serve_advance(polling->host, incoming);
	if (incoming->broken)
		give_up(polling, incoming);
	return count;
}

static int poll_unpolled(struct polling *polling, struct incoming *incoming)
{
	int count;

	if (incoming->polled || !polling_is_busy(incoming))
		return 0;
	count = polling_read(polling, incoming);
	if (!incoming->rings)
		start_polling(polling, incoming);
	else if (polling_is_busy(incoming))
		inbox_ring(polling->inbox, incoming->slot);
	return count;
}

/*
 * The writer rings for every message from now on, unless there is a message for which the bell may
 * not have rung.
 */
static void rely_on(struct polling *polling, struct incoming *incoming)
{
	if (polling_is_busy(incoming))
		return;
	incoming->rings = true;
	polling->silent--;
	stop_polling(polling, incoming);
}

void polling_settle(struct polling *polling, uint64_t now)
{
	unsigned i;

	for (i = 0; i < polling->all_count && polling->silent; i++) {
		struct incoming *incoming = polling->all[i];

		if (!incoming->rang || incoming->rings)
			continue;
		if (!incoming->settling)
			incoming->settling = now;
		else if (now - incoming->settling >= SETTLED_NANOSECONDS)
			rely_on(polling, incoming);
	}
}

static int poll_all_unpolled(struct polling *polling)
{
	int count = 0;
	unsigned i;

	for (i = 0; i < polling->all_count; i++)
		count += poll_unpolled(polling, polling->all[i]);
	return count;
}

/*
 * Take the eight marks from slot on, and read the channels. The first lines of all messages are
 * fetched at the same time.
 */
static int read_marked(struct polling *polling, unsigned slot)
{
	_Atomic uint8_t *marks = &polling->inbox->pending[slot];
	unsigned marked = 0, i;
	int count = 0;

	for (i = 0; i < 8; i++) {
		struct incoming *incoming = polling->by_slot[slot + i];

		/* Without a reader yet, the mark stays for polling_add. */
		if (!incoming || !inbox_take_mark(&marks[i]))
			continue;
		incoming->rang = true;
		ring_prefetch(&incoming->channel.ring);
		marked |= 1u << i;
	}
	/* Channels come and go by notices, which progress handles after all channels were read. */
	for (i = 0; marked >> i; i++) {
		if (marked >> i & 1)
			count += poll_unpolled(polling, polling->by_slot[slot + i]);
	}
	return count;
}

int polling_answer_bell(struct polling *polling)
{
	struct inbox_memory *inbox = polling->inbox;
	int count = 0;
	unsigned i;

	assert_progress(polling->context);
	inbox_take_bell(inbox);
	for (i = 0; i < polling->slots; i += 8) {
		if (inbox_any_mark(inbox, i))
			count += read_marked(polling, i);
	}
	if (inbox_take_mark(&inbox->overflow))
		count += poll_all_unpolled(polling);
	return count;
}

int polling_look_at_next(struct polling *polling)
{
	assert_progress(polling->context);
	if (++polling->rotation >= polling->all_count)
		polling->rotation = 0;
	return poll_unpolled(polling, polling->all[polling->rotation]);
}

bool polling_any(struct polling *polling)
{
	unsigned i;

	for (i = 0; i < polling->all_count && polling->silent; i++) {
		if (polling_is_busy(polling->all[i]))
			return true;
	}
	return false;
}

void polling_drop(struct polling *polling, struct incoming *incoming)
{
	uint64_t end = incoming->channel.ring.position + incoming->channel.ring.size, before;
	unsigned i;

	assert_progress(polling->context);
	/*
	 * Deliver messages published before the end: at most one ring, which bounds the loop if the
	 * peer is hostile.
	 */
	while (!incoming->broken && incoming->channel.ring.position < end) {
		before = incoming->channel.ring.position;
		poll_messages(polling, incoming);
		if (incoming->channel.ring.position == before)
			break;
	}
	stop_polling(polling, incoming);
	if (!incoming->rings)
		polling->silent--;
	for (i = 0; i < polling->all_count; i++) {
		if (polling->all[i] == incoming)
			polling->all[i] = polling->all[--polling->all_count];
	}
	if (incoming->slot < INBOX_SLOTS)
		polling->by_slot[incoming->slot] = NULL;
	if (incoming->peer->incoming == incoming)
		incoming->peer->incoming = NULL;
	incoming_destroy(incoming);
}

void polling_init(struct polling *polling, struct host_state *host, struct answers *answers)
{
	polling->host = host;
	polling->context = host->context;
	polling->inbox = host->inbox.memory;
	polling->answers = answers;
}

void polling_destroy(struct polling *polling)
{
	unsigned i;

	for (i = 0; i < polling->all_count; i++)
		incoming_destroy(polling->all[i]);
	free(polling->all);
	free(polling->by_slot);
}
