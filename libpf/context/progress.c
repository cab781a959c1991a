/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <sched.h>
#include <time.h>

#include "host/host.h"
#include "net/engine.h"

/* More processor time than this between two polls is work of the application. */
#define WAITING_NANOSECONDS 5000
#define CLOCK_POLLS 32

static struct host *host_of(pf_context *context)
{
	return (struct host *)((char *)context->host - offsetof(struct host, state));
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
	struct host *host = host_of(context);

	context->idle++;
	if (++context->idle_unclocked < CLOCK_POLLS && context->idle < context->options.idle_polls)
		return;
	if (!only_waits(context))
		context->idle = 0;
	if (context->idle + INBOX_ANNOUNCED_POLLS == context->options.idle_polls)
		host_announce_sleep(host);
	if (context->idle < context->options.idle_polls)
		return;
	if (!host_may_sleep(host) || operations_away(&context->operations) ||
	    atomic_exchange_explicit(&context->refused_room, false, memory_order_relaxed)) {
		sched_yield();
		return;
	}
	if (context->options.idle_polls <= INBOX_ANNOUNCED_POLLS)
		host_announce_sleep(host);
	if (host_has_work(host) || (context->engine && engine_waits(context->engine)) ||
	    atomic_load_explicit(&context->operations.waiting, memory_order_relaxed)) {
		host_stay_awake(host);
		return;
	}
	statistic_add(&context->statistics, PF_STAT_SLEEPS, 1);
	host_sleep(host, context->options.idle_sleep);
	/* Polls again as often: if it did more than wait after all, it is not slowed much. */
	context->idle = 0;
}

/* Report peers that are gone; their operations have completed. */
static __attribute__((noinline)) void report_gone(pf_context *context)
{
	pf_peer *peer;

	context->peers.gone = false;
	peers_lock(&context->peers);
	peer = context->peers.first;
	peers_unlock(&context->peers);
	/* Records are only ever added, and before the first. */
	for (; peer; peer = peer->next) {
		if (peer->gone_reported || peer_state(peer) != PEER_GONE)
			continue;
		peer->gone_reported = true;
		if (context->error && !peer->farewell)
			context->error(context, peer, peer->gone_status, pf_peer_path(peer),
				       context->error_arg);
	}
}

/* One thread at a time, and never from within itself. */
static inline bool progress_enter(pf_context *context)
{
	if (context->threads)
		return !atomic_exchange_explicit(&context->progressing, true, memory_order_acquire);
	if (atomic_load_explicit(&context->progressing, memory_order_relaxed))
		return false;
	atomic_store_explicit(&context->progressing, true, memory_order_relaxed);
	return true;
}

int context_progress(pf_context *context)
{
	struct host *host = host_of(context);
	int count;

	if (!progress_enter(context))
		return 0;
	count = host_poll(host);
	if (context->engine)
		count += engine_poll(context->engine);
	operations_collect(&context->operations);
	count += host_advance(host);
	if (__builtin_expect(context->peers.gone, 0))
		report_gone(context);
	if (__builtin_expect(pace_asked(&context->memory.pace), 0))
		pace_called(&context->memory.pace,
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

int context_flush(pf_context *context, pf_peer *peer)
{
	uint64_t sequence = operations_last(&context->operations);

	while (operations_pending(&context->operations, peer, sequence)) {
		if (atomic_load_explicit(&context->progressing, memory_order_relaxed) &&
		    !context->threads)
			return PF_ERR_ARGUMENT;
		context_progress(context);
	}
	return PF_OK;
}
