/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "advance.h"
#include "atomic.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "common/refused.h"
#include "message.h"
#include "peer.h"
#include "resolve.h"
#include "route_device.h"
#include "tracer.h"
#include "transfer_advance.h"

/* ---- sending ---- */

/*
 * Under the peer's lock: send a message in two pieces, the second at the offset in a cache line of
 * the caller's memory. Returns whether there was room; *status as host_peer_reserve's.
 */
static bool send_pieces(struct host_peer *peer, uint32_t tag, const void *header,
			size_t header_length, const char *payload, size_t length, int *status)
{
	size_t first = number_max(PF_PIECE_FIRST, (header_length + 7) & ~(size_t)7);
	size_t lead = first - header_length, total = header_length + length;
	struct message_pieces *message = (struct message_pieces *)host_peer_reserve(
		peer, total + MESSAGE_PIECES_EXTRA, status);
	uint8_t *data, *rest;

	assert_locked(&peer->lock, peer->peer.context->threads);
	if (__builtin_expect(!message, 0))
		return false;
	data = (uint8_t *)(message + 1);
	rest = data + first;
	rest += ((uintptr_t)payload + lead - (uintptr_t)rest) % MESSAGE_ALIGNMENT;
	/*
	 * The lines polled by the reader come last: written first, the lines would go back to the
	 * reader, and the store that publishes the entry would wait for the lines once more.
	 */
	ring_fill(&peer->out.ring, rest, payload + lead, length - lead);
	memcpy(data + header_length, payload, lead);
	if (header_length)
		memcpy(data, header, header_length);
	message->first = (uint32_t)first;
	message->gap = (uint32_t)(rest - data - first);
	host_peer_commit(peer, sizeof(*message) + total + message->gap, MESSAGE_PIECES, tag);
	return true;
}

/* Send any other message likewise. */
static inline bool send_whole(struct host_peer *peer, uint32_t tag, const void *header,
			      size_t header_length, const void *payload, size_t length,
			      pf_pack_fn pack, void *arg, int *status)
{
	uint8_t *destination = host_peer_reserve(peer, header_length + length, status);

	if (__builtin_expect(!destination, 0))
		return false;
	if (header_length)
		memcpy(destination, header, header_length);
	if (pack)
		pack(destination + header_length, length, arg);
	else if (length)
		ring_fill(&peer->out.ring, destination + header_length, payload, length);
	host_peer_commit(peer, header_length + length, MESSAGE_USER, tag);
	return true;
}

/* No page is shorter, bytes. */
#define PAGE_LEAST 4096

/*
 * Read a byte of each page, and the last byte. Progress takes the peer's lock: a page fault under
 * the lock would stop progress until the page is present, and for ever if a thread of the program
 * supplies the page (userfaultfd) with data from the peer. A page that goes again before the copy
 * still stops progress.
 */
static void touch_pages(const void *start, size_t length)
{
	const volatile char *bytes = start;
	size_t at;

	for (at = 0; at < length; at += PAGE_LEAST)
		(void)bytes[at];
	if (length)
		(void)bytes[length - 1];
}

static int host_send(pf_peer *base, uint32_t tag, const void *header, size_t header_length,
		     const void *payload, size_t length, pf_pack_fn pack, void *arg)
{
	struct host_peer *peer = (struct host_peer *)base;
	struct statistics *statistics = &base->context->statistics;
	int status = PF_OK;
	bool sent;

	if (base->context->threads) {
		/* Open MPI completes requests to a peer that is gone: the buffer may be freed. */
		if (peer_is_gone(base))
			return base->gone_status;
		touch_pages(header, header_length);
		if (!pack)
			touch_pages(payload, length);
	}
	host_peer_lock(peer);
	if (__builtin_expect(length >= MESSAGE_PIECES_LEAST, 0) && !pack &&
	    host_peer_takes_pieces(peer))
		sent = send_pieces(peer, tag, header, header_length, payload, length, &status);
	else
		sent = send_whole(peer, tag, header, header_length, payload, length, pack, arg,
				  &status);
	if (__builtin_expect(!sent && status == PF_ERR_AGAIN, 0))
		status = refused_add(base, REFUSED_MESSAGE, peer->refused_length);
	host_peer_unlock(peer);
	if (__builtin_expect(!sent, 0))
		return status;
	activity_moved(&base->context->activity);
	statistic_add(statistics, PF_STAT_SENDS, 1);
	statistic_add(statistics, PF_STAT_SEND_BYTES, header_length + length);
	return PF_OK;
}

/* ---- opening and closing ---- */

static void host_wake(pf_context *context)
{
	inbox_wake(context->host->inbox.memory, INBOX_SLEEPS_AT_ONCE);
}

/* Service thread. The peers learn of this process's end by the end of the thread. */
static void begin_life(struct task *task, bool dropped)
{
	struct host_state *state =
		(struct host_state *)((char *)task - offsetof(struct host_state, begin_life));

	if (!dropped)
		life_begin(state->inbox.memory);
}

static void host_log_engine(pf_context *context)
{
	const char *why = atomic_load_explicit(&context->device.why, memory_order_relaxed);

	log_add(&context->log, NULL, PF_LOG_INFO, "engine: %s",
		why ? why : EXANEST_DEVICE ", for peers in reach");
}

static int host_open(pf_context *context, void *memory, const char **why)
{
	const struct ring ring = { .size = context->options.ring_size };
	struct host *host = memory;
	struct host_state *state = &host->state;
	int status;

	(void)why;
	context->send_max = number_min(context->send_max,
				       ring_longest(&ring) - MESSAGE_PIECES_EXTRA);
	context->host = state;
	context->wake = host_wake;
	state->context = context;
	device_open(&context->device, &context->options, &context->memory.pagers);
	host_log_engine(context);
	status = inbox_create(&state->inbox,
			      context->options.wake ? INBOX_SLEEPS_ANNOUNCED : INBOX_NEVER_SLEEPS);
	if (status != PF_OK)
		goto fail_device;
	TAILQ_INIT(&state->turns);
	context->device.failed = device_lost;
	context->device.failed_arg = state;
	state->notices.inbox = state->inbox.memory;
	atomic_init(&state->ring_allowance, (int64_t)context->options.ring_memory);
	randombytes_buf(&state->cookie, sizeof(state->cookie));
	/* Before a peer can know the address, and test whether copies are permitted. */
	if (context->options.single_copy && !context->options.expose)
		tracer_permit(context->options.ptracer);
	answers_init(&host->answers, context);
	polling_init(&host->polling, state, &host->answers);
	status = connections_open(&state->connections, context, &state->notices, state->inbox.fd,
				  &state->cookie, resolve_for_peer, state, host_peer_give_bell);
	if (status != PF_OK)
		goto fail_inbox;
	status = device_watch_open(&state->device_watch, &context->device, &context->memory,
				   &context->service, host_wake, context);
	if (status == PF_OK) {
		state->begin_life.run = begin_life;
		service_run(&context->service, &state->begin_life);
		return PF_OK;
	}
	connections_close(&state->connections);
fail_inbox:
	inbox_destroy(&state->inbox);
fail_device:
	device_destroy(&context->device);
	return status;
}

static void host_linger(void *host)
{
	assert_progress(((struct host *)host)->state.context);
	operations_linger(&((struct host *)host)->state);
}

static void host_disconnect(void *host)
{
	struct host_state *state = &((struct host *)host)->state;

	connections_say_bye(&state->connections);
	connections_close(&state->connections);
	device_watch_close(&state->device_watch);
	/* Before the operations, whose memory /dev/exanest may be reading or writing. */
	device_destroy(&state->context->device);
}

static void drop_notices(struct host_state *state)
{
	struct notice *notice = notices_take(&state->notices);

	while (notice) {
		struct notice *next = notice->next;

		if (notice->kind == NOTICE_INCOMING)
			incoming_destroy(notice->incoming);
		else if (notice->kind == NOTICE_LINKED) {
			process_put(notice->process);
		} else if (notice->kind == NOTICE_ATOMIC) {
			parked_atomic_free(notice->atomic);
		}
		free(notice);
		notice = next;
	}
}

static void host_close(void *memory)
{
	struct host *host = memory;
	struct host_state *state = &host->state;

	drop_notices(state);
	operations_release(state);
	answers_destroy(&host->answers);
	requests_destroy(&state->requests);
	polling_destroy(&host->polling);
	inbox_destroy(&state->inbox);
}

/* ---- notices of the service thread ---- */

/* NULL: out of memory. */
static pf_peer *peer_of(struct host *host, const struct address *address, const uint8_t *data)
{
	pf_context *context = host->state.context;

	return peers_get(&context->peers, context, address, data,
			 context->transport_back(context, address));
}

/* False: out of memory, nothing happened. */
static bool add_incoming(struct host *host, struct incoming *incoming)
{
	pf_peer *base = peer_of(host, &incoming->from, incoming->data);
	struct host_peer *peer = (struct host_peer *)base;

	if (!base)
		return false;
	/*
	 * libpf never makes a second channel from one peer, nor a channel from a peer whose address
	 * names another host. A peer that this process has given up may not know of the end yet.
	 */
	if (base->transport != &transport_host || peer->incoming || peer_is_gone(base)) {
		if (base->transport == &transport_host && peer_is_gone(base))
			host_peer_disconnect(peer);
		incoming_destroy(incoming);
		return true;
	}
	incoming->peer = peer;
	if (!peer->process)
		peer->process = process_get(incoming->process);
	if (polling_add(&host->polling, incoming) != PF_OK)
		return false;
	peer->incoming = incoming;
	host_peer_met(peer);
	return true;
}

/*
 * A peer that was given up may live, as after closing all descriptors, and be inside the copy of a
 * claimed run. The program gets the buffer back with the completion: the end of the peer is handled
 * only after the copy, or after as long as pf_close waits for a copy. True: not yet.
 */
static bool peer_still_moves(struct host_state *state, const struct host_peer *peer,
			     struct notice *notice)
{
	uint64_t now;

	if (!peer->process || !process_lives(peer->process) ||
	    operations_withdraw(state, peer, notice->status))
		return false;
	now = clock_nanoseconds(CLOCK_MONOTONIC);
	if (!notice->deadline)
		notice->deadline = now + OPERATIONS_LINGER_NANOSECONDS;
	return now < notice->deadline;
}

/* False: to be tried again. */
static bool handle_gone(struct host *host, pf_peer *base, struct notice *notice)
{
	struct host_peer *peer = (struct host_peer *)base;
	struct host_state *state = &host->state;

	/*
	 * A process that only claims to be a peer of the network has no say in the end of the peer.
	 */
	if (base->transport != &transport_host || peer_is_gone(base))
		return true;
	if (peer_still_moves(state, peer, notice))
		return false;
	/* Answers sent by the peer before the end complete their operations. */
	if (peer->incoming)
		polling_drop(&host->polling, peer->incoming);
	host_peer_unlink(peer, notice->status, notice->why, notice->farewell);
	/* Blocks that the device still moves must not outlive the transfers that end here. */
	device_drain(state, peer);
	resolve_forget(state, peer);
	operations_fail(state, peer, notice->status);
	answers_forget(&host->answers, peer);
	host_peer_lock(peer);
	host_peer_unmap(peer);
	host_peer_unlock(peer);
	host_peer_disconnect(peer);
	return true;
}

/* False: out of memory, or a peer still moves a run: to be tried again. */
static bool notice_handle(struct host *host, struct notice *notice)
{
	pf_peer *peer = notice->peer;

	switch (notice->kind) {
	case NOTICE_INCOMING:
		return add_incoming(host, notice->incoming);
	case NOTICE_LINKED:
		host_peer_link((struct host_peer *)peer, notice->process, notice->copy_error,
			       notice->engine);
		break;
	case NOTICE_GONE:
		if (!peer)
			peer = peer_of(host, &notice->from, NULL);
		return peer && handle_gone(host, peer, notice);
	case NOTICE_DISCONNECTED:
		((struct host_peer *)peer)->disconnecting--;
		break;
	case NOTICE_RESOLVED:
		(void)block_resolved(&host->state, peer, notice->token, notice->status,
				     notice->address, notice->fault);
		break;
	case NOTICE_ATOMIC:
		answers_atomic_resolved(&host->answers, notice->atomic);
		break;
	}
	return true;
}

int host_handle_notices(struct host *host)
{
	struct notice *notice = notices_take(&host->state.notices);
	int count = 0;

	assert_progress(host->state.context);
	while (notice) {
		struct notice *next = notice->next;

		if (!notice_handle(host, notice)) {
			/* In order: a peer's end must not come before its channel. */
			notices_put_back(&host->state.notices, notice);
			break;
		}
		free(notice);
		notice = next;
		count++;
	}
	return count;
}

/* ---- progress ---- */

int host_advance_operations(struct host *host)
{
	struct host_state *state = &host->state;
	struct device *device = &state->context->device;
	int count = 0;

	assert_progress(host->state.context);
	if (device->in_flight)
		count += device_poll(device, &state->context->statistics);
	count += operations_advance(state);
	if (device->in_flight)
		count += device_ring_bell(device);
	if (state->asks_count)
		resolve_expire(state, false);
	return count;
}

/* ---- sleeping ---- */

static bool host_may_sleep(void *memory)
{
	struct host *host = memory;
	struct host_state *state = &host->state;

	/* An owner that computes wakes nobody. */
	if (state->asks_count)
		resolve_expire(state, true);
	return (!operations_active(&state->context->operations) || operations_wait(state)) &&
	       !host->answers.first && !state->asks_count;
}

/*
 * Writers ring for every message and wake a sleep at once, whatever the options say, unless a
 * writer may know the inbox of this process already.
 */
static bool inbox_ring_always(struct host_state *state)
{
	struct inbox_memory *inbox = state->inbox.memory;
	enum inbox_sleeper before = inbox_sleeper(inbox);

	if (before == INBOX_SLEEPS_AT_ONCE)
		return true;
	atomic_store_explicit(&inbox->sleeper, INBOX_SLEEPS_AT_ONCE, memory_order_relaxed);
	/*
	 * The service thread sets inbox_known, then tells a peer of the inbox, with a full fence
	 * between. If inbox_known is not set here, after this fence, the service thread's fence
	 * comes later, and the peer sees the store above.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&state->connections.inbox_known, memory_order_relaxed))
		return true;
	atomic_store_explicit(&inbox->sleeper, before, memory_order_relaxed);
	return false;
}

static bool host_allow_waiter(void *host)
{
	struct host_state *state = &((struct host *)host)->state;

	if (!inbox_ring_always(state))
		return false;
	device_allow_sleep(&state->context->device);
	return true;
}

/*
 * Does every peer with a channel to this process ring for its messages? A peer does once the peer
 * knows the inbox of this process; until then messages wait for the next poll.
 */
static bool host_all_ring(const void *host)
{
	return !((const struct host *)host)->polling.silent;
}

static uint64_t host_sleep_ahead(const void *host)
{
	const struct host_state *state = &((const struct host *)host)->state;

	return inbox_sleeper(state->inbox.memory) == INBOX_SLEEPS_ANNOUNCED ?
		       INBOX_ANNOUNCED_NANOSECONDS :
		       0;
}

static void host_announce_sleep(void *host)
{
	inbox_announce_sleep(&((struct host *)host)->state.inbox);
}

static void host_prepare_yield(void *memory)
{
	struct host *host = memory;

	if (!host_all_ring(host) && inbox_sleeper(host->state.inbox.memory) != INBOX_NEVER_SLEEPS)
		polling_settle(&host->polling, (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC));
}

static void host_prepare_sleep(void *memory)
{
	struct host *host = memory;
	struct host_state *state = &host->state;
	struct device *device = &state->context->device;

	host_prepare_yield(host);
	if (!device->in_flight)
		return;
	device_reset_completion_event(device);
	device_watch_await(&state->device_watch);
}

static bool host_has_work(void *memory)
{
	struct host *host = memory;
	struct host_state *state = &host->state;
	struct device *device = &state->context->device;

	return (device->in_flight && device_has_completion(device)) ||
	       polling_any(&host->polling) || notices_waiting(&state->notices) ||
	       atomic_load_explicit(&state->inbox.memory->bell, memory_order_relaxed);
}

static enum slept host_sleep(void *host, uint64_t microseconds)
{
	return inbox_wait(&((struct host *)host)->state.inbox, microseconds);
}

static void host_stay_awake(void *host)
{
	inbox_stay_awake(&((struct host *)host)->state.inbox);
}

static void host_end_sleeps(void *host)
{
	inbox_end_sleeps(&((struct host *)host)->state.inbox);
}

/* ---- the table of the transport ---- */

static enum transport_reach host_reach(const void *host, const struct address *address,
				       const char **why)
{
	const pf_context *context = ((const struct host *)host)->state.context;
	const char *remote = address_unreachable(&context->address, address);

	if (!remote && address->host_version != context->address.host_version)
		remote = "on this host, but its version of libpf shares memory in another form";
	*why = remote ? remote : "on this host";
	return remote ? TRANSPORT_UNREACHED : TRANSPORT_REACHED;
}

static void host_count(void *host)
{
	pf_context *context = ((struct host *)host)->state.context;

	device_count(&context->device, &context->statistics);
}

/* host_poll and host_advance are inline in each poll. */
const struct transport transport_host = {
	.state_size = sizeof(struct host),
	.open = host_open,
	.linger = host_linger,
	.disconnect = host_disconnect,
	.close = host_close,
	.count = host_count,
	.reach = host_reach,
	.contact = host_peer_contact,
	.may_sleep = host_may_sleep,
	.has_news = host_has_work,
	.prepare_sleep = host_prepare_sleep,
	.prepare_yield = host_prepare_yield,
	.all_ring = host_all_ring,
	.allow_waiter = host_allow_waiter,
	.sleep_ahead = host_sleep_ahead,
	.sleep_announce = host_announce_sleep,
	.sleep = host_sleep,
	.sleep_leave = host_stay_awake,
	.sleep_end = host_end_sleeps,
	.peer_size = sizeof(struct host_peer),
	.peer_init = host_peer_init,
	.peer_destroy = host_peer_destroy,
	.peer_in_use = host_peer_in_use,
	.send = host_send,
	.has_room = host_peer_has_room,
	.transfer = transfer_post,
	.put_signal = transfer_post_signal,
	.atomic = atomic_post,
};
