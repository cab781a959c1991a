/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "host/host.h"
#include "net/engine.h"

/* How often an idle poll asks for the processor time between polls, which is a system call. */
#define CLOCK_POLLS 32

static struct host *host_of(pf_context *context)
{
	return (struct host *)((char *)context->host - offsetof(struct host, state));
}

/* Something happened, or the application works between polls: begin to count anew. */
static void stay_awake(pf_context *context)
{
	if (context->announced_at)
		host_stay_awake(host_of(context));
	context->announced_at = 0;
	context->sleep = PROGRESS_SLEEP_FIRST;
	atomic_store_explicit(&context->activity.empty, 0, memory_order_relaxed);
}

/* May progress sleep as far as other operations and callers go? */
static bool may_sleep(pf_context *context)
{
	return host_may_sleep(host_of(context)) && !operations_away(&context->operations) &&
	       !atomic_exchange_explicit(&context->refused_room, false, memory_order_relaxed);
}

static bool has_work(pf_context *context)
{
	return host_has_work(host_of(context)) ||
	       (context->engine && engine_waits(context->engine)) ||
	       atomic_load_explicit(&context->operations.waiting, memory_order_relaxed);
}

/*
 * Nothing has happened for so many polls: after idle_polls of them, sleep until woken.
 * The sleep is announced INBOX_ANNOUNCED_POLLS polls ahead, or, where idle_polls is
 * not more than that, at once (inbox.h). An application that works between polls is
 * never put to sleep.
 */
static __attribute__((noinline)) void idle(pf_context *context, uint64_t empty)
{
	uint64_t polls = context->options.idle_polls;
	bool ahead = polls > INBOX_ANNOUNCED_POLLS;
	enum inbox_slept slept;

	if (empty % CLOCK_POLLS == 0 &&
	    !activity_waits(&context->activity, clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID))) {
		stay_awake(context);
		return;
	}
	if (empty < (ahead ? polls - INBOX_ANNOUNCED_POLLS : polls))
		return;
	if (!context->announced_at) {
		if (!may_sleep(context)) {
			if (empty >= polls)
				sched_yield();
			return;
		}
		host_announce_sleep(host_of(context));
		context->announced_at = empty;
	}
	if (ahead && empty < context->announced_at + INBOX_ANNOUNCED_POLLS)
		return;
	context->announced_at = 0;
	if (!may_sleep(context) || has_work(context)) {
		host_stay_awake(host_of(context));
		return;
	}
	slept = host_sleep(host_of(context), context->sleep < context->options.idle_sleep ?
						     context->sleep :
						     context->options.idle_sleep);
	if (slept != INBOX_NOT_SLEPT)
		statistic_add(&context->statistics, PF_STAT_SLEEPS, 1);
	if (slept != INBOX_TIMED_OUT)
		context->sleep = PROGRESS_SLEEP_FIRST;
	else if (context->sleep < context->options.idle_sleep)
		context->sleep *= 2;
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
	uint64_t empty;
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
	empty = activity_polled(&context->activity, count != 0);
	if (__builtin_expect(pace_is_resolving(&context->memory.pace), 0))
		pace_polled(&context->memory.pace, count != 0);
	if (context->sleepy) {
		if (empty)
			idle(context, empty);
		else if (context->announced_at || context->sleep != PROGRESS_SLEEP_FIRST)
			stay_awake(context);
	}
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
