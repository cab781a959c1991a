/* SPDX-License-Identifier: BSD-3-Clause */
#include "context.h"

#include <sched.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/options.h"
#include "common/peer.h"
#include "service.h"
#include "host/transfer.h"
#include "net/engine.h"
#include "common/transport.h"
#include "host/route_device.h"
#include "host/message.h"

/* More processor time than this between two polls is work of the application. */
#define WAITING_NANOSECONDS 5000
#define CLOCK_POLLS 32

static int check_options(const pf_options *options)
{
	const pf_option_info *info;

	if ((options->if_include && !interfaces_valid(options->if_include)) ||
	    (options->if_exclude && !interfaces_valid(options->if_exclude)))
		return PF_ERR_ARGUMENT;
	for (info = pf_option_table(); info->name; info++) {
		if (!option_valid(info, *option_field((pf_options *)(uintptr_t)options, info)))
			return PF_ERR_ARGUMENT;
	}
	return PF_OK;
}

static enum inbox_sleeper sleeper(const pf_options *options)
{
	if (!options->idle_polls)
		return INBOX_NEVER_SLEEPS;
	return options->idle_polls > INBOX_ANNOUNCED_POLLS ? INBOX_SLEEPS_ANNOUNCED :
							     INBOX_SLEEPS_AT_ONCE;
}

int pf_open(const pf_options *options, pf_context **result)
{
	pf_context *context;
	int status;

	if (sodium_init() < 0)
		return PF_ERR_SYSTEM;
	/* What every poll looks at is in one page, behind that of the statistics. */
	context = mmap(NULL, sizeof(*context), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (context == MAP_FAILED)
		return PF_ERR_MEMORY;
	if (options)
		context->options = *options;
	status = options ? PF_OK : pf_options_init(&context->options, NULL);
	if (status == PF_OK)
		status = check_options(&context->options);
	if (status != PF_OK)
		goto fail;
	context->threads = context->options.threads;
	context->sleepy = context->options.idle_polls != 0;
	/* Long ones are sent with a count of the bytes written so far. */
	context->send_max = ring_longest(&(struct ring){ .size = context->options.ring_size }) -
			    sizeof(uint64_t);
	atomic_init(&context->ring_allowance, (int64_t)context->options.ring_memory);
	operations_init(&context->operations);
	answers_init(&context->answers);
	pthread_mutex_init(&context->lock, NULL);
	randombytes_buf(&context->cookie, sizeof(context->cookie));
	status = address_create(&context->address);
	if (status != PF_OK)
		goto fail;
	statistics_create(&context->statistics, context->threads);
	residency_open(&context->residency, getpid(), context->options.residency);
	pagers_init(&context->pagers);
	pace_init(&context->pace, context->options.resolve_share);
	device_open(&context->device, &context->options, &context->pagers);
	status = inbox_create(&context->inbox, sleeper(&context->options));
	if (status != PF_OK)
		goto fail_statistics;
	status = engine_open(context, &context->engine, &context->no_network);
	if (status != PF_OK)
		goto fail_inbox;
	if (context->engine && context->send_max > NET_MESSAGE_MOST)
		context->send_max = NET_MESSAGE_MOST;
	status = service_start(context, &context->service);
	if (status != PF_OK)
		goto fail_engine;
	registrations_init(&context->registrations, context->options.mode);
	context->options.if_include = context->options.if_exclude = NULL;
	*result = context;
	return PF_OK;

fail_engine:
	engine_close(context->engine);
fail_inbox:
	inbox_destroy(&context->inbox);
fail_statistics:
	pace_destroy(&context->pace);
	device_destroy(&context->device);
	pagers_destroy(&context->pagers);
	residency_close(&context->residency);
	statistics_destroy(&context->statistics);
fail:
	munmap(context, sizeof(*context));
	return status;
}

static void drop_events(pf_context *context)
{
	struct event *event = events_take(&context->events);

	while (event) {
		struct event *next = event->next;

		if (event->kind == EVENT_INCOMING)
			incoming_destroy(event->incoming);
		else if (event->kind == EVENT_LINKED)
			inbox_destroy(&(struct inbox){ .memory = event->inbox, .fd = -1 });
		free(event);
		event = next;
	}
}

void pf_close(pf_context *context)
{
	if (!context)
		return;
	if (context->engine)
		engine_linger(context->engine);
	service_stop(context->service);
	engine_close(context->engine);
	/* Before the operations, whose memory the engine may be at work in. */
	device_destroy(&context->device);
	drop_events(context);
	operations_destroy(&context->operations);
	answers_destroy(&context->answers);
	requests_destroy(&context->requests);
	polling_destroy(&context->polling);
	while (context->peers) {
		pf_peer *peer = context->peers;

		context->peers = peer->next;
		peer_destroy(peer);
	}
	inbox_destroy(&context->inbox);
	pagers_destroy(&context->pagers);
	pace_destroy(&context->pace);
	residency_close(&context->residency);
	statistics_destroy(&context->statistics);
	registrations_destroy(&context->registrations);
	pthread_mutex_destroy(&context->lock);
	sodium_memzero(&context->address, sizeof(context->address));
	munmap(context, sizeof(*context));
}

void pf_join(pf_context *context, const void *secret, size_t length)
{
	device_join(&context->device, secret, length);
}

void pf_query(const pf_context *context, pf_attributes *attributes)
{
	attributes->send_max = context->send_max;
	attributes->eager_limit = context->options.eager_limit < attributes->send_max ?
					  context->options.eager_limit :
					  attributes->send_max;
	attributes->address_length = sizeof(context->address);
}

int pf_address(const pf_context *context, void *buffer, size_t *length)
{
	if (*length < sizeof(context->address))
		return PF_ERR_ARGUMENT;
	memcpy(buffer, &context->address, sizeof(context->address));
	*length = sizeof(context->address);
	return PF_OK;
}

int pf_reachable(const pf_context *context, const void *bytes, size_t length, const char **why)
{
	const char *reason = "not an address of this version of libpf";
	struct address address;
	int status = address_parse(&address, bytes, length);

	if (status == PF_OK && !peer_transport(context, &address, &reason))
		status = PF_ERR_UNREACHABLE;
	if (why)
		*why = reason;
	return status;
}

void pf_set_receive(pf_context *context, pf_receive_fn receive, void *arg)
{
	context->receive = receive;
	context->receive_arg = arg;
}

void pf_set_error(pf_context *context, pf_error_fn error, void *arg)
{
	context->error = error;
	context->error_arg = arg;
}

/* False: out of memory, nothing happened. */
static bool add_incoming(pf_context *context, struct incoming *incoming)
{
	pf_peer *peer = peer_find(context, &incoming->from);

	if (!peer)
		return false;
	/*
	 * A second channel from one peer, or one from the dead, is not libpf's doing,
	 * nor is one from a peer whose address said that it is on another host.
	 */
	if (peer->transport != &transport_host || peer->host->incoming ||
	    peer_state(peer) == PEER_GONE) {
		incoming_destroy(incoming);
		return true;
	}
	incoming->peer = peer;
	if (!peer->host->pid)
		peer->host->pid = incoming->pid;
	if (incoming_add(context, incoming) != PF_OK)
		return false;
	peer->host->incoming = incoming;
	return true;
}

static void resolved(pf_context *context, const struct event *event)
{
	struct block *block = request_close(&context->requests, event->token, REQUEST_RESOLVE,
					    event->peer);

	if (block)
		block_resolved(context, block, event->status, event->address, event->fault);
}

void context_tell(pf_context *context, struct event news)
{
	struct event *event = allocate_or_wait(sizeof(*event));

	*event = news;
	event_push(&context->events, event);
	inbox_wake(context->inbox.memory, INBOX_SLEEPS_AT_ONCE);
}

/* False: out of memory, to be tried again. */
static bool handle_event(pf_context *context, const struct event *event)
{
	pf_peer *peer = event->peer;

	switch (event->kind) {
	case EVENT_INCOMING:
		return add_incoming(context, event->incoming);
	case EVENT_LINKED:
		peer_link(peer, event->inbox, event->slot, event->pid, event->copy_error,
			  event->engine);
		break;
	case EVENT_GONE:
		if (!peer)
			peer = peer_find(context, &event->from);
		if (!peer)
			return false;
		/* Who only claims to be one that the network reaches has no say in it. */
		if (peer->transport != &transport_net)
			peer_gone(peer, event->status, event->farewell);
		break;
	case EVENT_RESOLVED:
		resolved(context, event);
		break;
	}
	return true;
}

static __attribute__((noinline)) int handle_events(pf_context *context)
{
	struct event *event = events_take(&context->events);
	int count = 0;

	while (event) {
		struct event *next = event->next;

		if (handle_event(context, event))
			free(event);
		else
			event_push(&context->events, event);
		event = next;
		count++;
	}
	return count;
}

static int64_t processor_time(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/*
 * Does the application only wait? Then there is next to no processor time
 * between two polls, however long others had the processor. One that looks
 * for messages between pieces of work must not be put to sleep for it. Looked
 * at rarely: the clock of a thread is a system call.
 */
static bool only_waits(pf_context *context)
{
	int64_t now = processor_time(), before = context->idle_clock;
	int64_t enough = (int64_t)context->idle_unclocked * WAITING_NANOSECONDS;

	context->idle_clock = now;
	context->idle_unclocked = 0;
	return now - before < enough;
}

/* Nothing happened for a while: let others have the processor. */
static __attribute__((noinline)) void idle(pf_context *context)
{
	bool engine;

	context->idle++;
	if (++context->idle_unclocked < CLOCK_POLLS && context->idle < context->options.idle_polls)
		return;
	if (!only_waits(context))
		context->idle = 0;
	if (context->idle + INBOX_ANNOUNCED_POLLS == context->options.idle_polls)
		inbox_announce_sleep(&context->inbox);
	if (context->idle < context->options.idle_polls)
		return;
	/* An engine tells when it is done; a peer that moves its end of a transfer of ours does not. */
	engine = operations_on_device(context);
	if ((!engine && operations_pending(context, NULL, UINT64_MAX)) || context->answers.first ||
	    atomic_exchange_explicit(&context->turned_away, false, memory_order_relaxed)) {
		sched_yield();
		return;
	}
	if (context->options.idle_polls <= INBOX_ANNOUNCED_POLLS)
		inbox_announce_sleep(&context->inbox);
	if (engine) {
		device_settle(&context->device);
		service_await_device(context->service);
	}
	if ((engine && device_completed(&context->device)) || incoming_any(context) ||
	    events_waiting(&context->events) ||
	    (context->engine && engine_waits(context->engine)) ||
	    atomic_load_explicit(&context->operations.waiting, memory_order_relaxed) ||
	    atomic_load_explicit(&context->inbox.memory->bell, memory_order_relaxed)) {
		inbox_stay_awake(&context->inbox);
		return;
	}
	statistic_add(&context->statistics, PF_STAT_SLEEPS, 1);
	inbox_sleep(&context->inbox, context->options.idle_sleep);
	/* Polls again as often: if it did more than wait after all, it is not slowed much. */
	context->idle = 0;
}

/* One at a time, and never from within itself. */
static inline bool progress_enter(pf_context *context)
{
	if (context->threads)
		return !atomic_exchange_explicit(&context->progressing, true, memory_order_acquire);
	if (atomic_load_explicit(&context->progressing, memory_order_relaxed))
		return false;
	atomic_store_explicit(&context->progressing, true, memory_order_relaxed);
	return true;
}

int pf_progress(pf_context *context)
{
	struct operations *operations = &context->operations;
	int count;

	if (!progress_enter(context))
		return 0;
	count = incoming_poll(context);
	if (__builtin_expect(events_waiting(&context->events), 0))
		count += handle_events(context);
	if (context->engine)
		count += engine_poll(context->engine);
	operations_collect(context);
	if (operations->active.next != &operations->active) {
		if (context->device.in_flight)
			count += device_progress(context);
		count += operations_advance(context);
		if (context->device.in_flight)
			count += device_wake(context);
	}
	if (__builtin_expect(context->answers.first != NULL, 0))
		count += answers_advance(context);
	if (__builtin_expect(pace_asked(&context->pace), 0))
		pace_called(&context->pace,
			    atomic_load_explicit(&context->moved, memory_order_relaxed),
			    count != 0);
	atomic_store_explicit(&context->moved, false, memory_order_relaxed);
	if (count)
		context->idle = 0;
	else if (context->sleepy)
		idle(context);
	atomic_store_explicit(&context->progressing, false, memory_order_release);
	return count;
}

int pf_flush(pf_context *context, pf_peer *peer)
{
	uint64_t sequence;

	context_lock(context);
	sequence = context->operations.sequence;
	context_unlock(context);
	while (operations_pending(context, peer, sequence)) {
		if (atomic_load_explicit(&context->progressing, memory_order_relaxed) &&
		    !context->threads)
			return PF_ERR_ARGUMENT;
		pf_progress(context);
	}
	return PF_OK;
}

static inline int send_message(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
			       const void *payload, size_t length, pf_pack_fn pack, void *arg)
{
	size_t most = peer->context->send_max;

	if (__builtin_expect(header_length > most || length > most - header_length, 0))
		return PF_ERR_TOO_LONG;
	if (__builtin_expect((header_length && !header) || (length && !payload && !pack), 0))
		return PF_ERR_ARGUMENT;
	return peer->transport->send(peer, tag, header, header_length, payload, length, pack, arg);
}

int pf_send(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length)
{
	return send_message(peer, tag, header, header_length, payload, payload_length, NULL, NULL);
}

int pf_send_pack(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		 size_t length, pf_pack_fn pack, void *arg)
{
	return send_message(peer, tag, header, header_length, NULL, length, pack, arg);
}
