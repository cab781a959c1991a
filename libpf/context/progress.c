/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <sched.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "common/refused.h"
#include "contents.h"
#include "transports.h"

/*
 * Empty polls before a program with a descriptor waits for PROGRESS_SLEEP_UNRUNG at a time,
 * though nothing wakes the program for room in a ring, which the reader of the ring frees without
 * a word. A reader with a processor frees room within fewer polls.
 */
#define PATIENT_POLLS 256
/* Longest sleep while this process connects to a peer, microseconds. */
#define CONNECT_SLEEP 50

/*
 * Take the announcement of a sleep back, and count anew: something happened, or the sleep may not
 * begin.
 */
static void idle_leave(pf_context *context)
{
	if (!idle_end(&context->idle))
		return;
	transports_leave_sleep(context);
	if (context->idle.slept)
		transports_set_sleeping(context, false);
	context->idle.slept = false;
}

/* May progress sleep as far as other operations and callers go? */
static bool may_sleep(pf_context *context)
{
	/* The service thread tells of operations of other hosts, and serves the network meanwhile. */
	return transports_may_sleep(context) &&
	       !atomic_load_explicit(&context->peers.news, memory_order_relaxed);
}

/* Is there any news that forbids a sleep? */
static bool has_news(pf_context *context)
{
	return transports_have_news(context) ||
	       atomic_load_explicit(&context->operations.waiting, memory_order_relaxed) ||
	       waiter_take_wake(waiter_of(context));
}

/*
 * With a sleep announced, after an empty poll: is there nothing to do until the process is woken?
 * News after the announcement is either found here or wakes the process.
 */
static bool may_sleep_now(pf_context *context)
{
	assert_progress(context);
	transports_prepare_sleep(context);
	return may_sleep(context) && !has_news(context);
}

/* Microseconds. */
static uint64_t progress_longest_sleep(pf_context *context)
{
	return transports_all_ring(context) ? context->options.idle_sleep : context->sleep_unrung;
}

/*
 * After an empty poll: announce a sleep or sleep, as base/idle.h decides. A sleep in vain leaves
 * the announcement, and the network with the service thread, until something happens: writers
 * have seen the announcement long ago, hence the next sleep needs no time ahead.
 */
static __attribute__((noinline)) void progress_idle(pf_context *context)
{
	uint64_t polls = context->options.idle_polls, ahead, now = 0;
	enum idle_slept slept;
	enum idle_step step;
	bool early;

	assert_progress(context);
	/* With a descriptor only its waiter sleeps: the program may have more to do. */
	if (!polls || waiter_is_open(waiter_of(context)) || !idle_polled(&context->idle))
		return;
	ahead = transports_sleep_ahead(context);
	early = context->idle.polls < IDLE_YIELD_FIRST && transports_partner_yields(context);
	if (early || idle_is_timed(&context->idle, polls, ahead))
		now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
	step = idle_next(&context->idle, now, polls, ahead, early);
	if (step == IDLE_YIELD) {
		/* Polls after a yield have cold caches. */
		transports_prepare_yield(context);
		transports_set_yielding(context, true);
		sched_yield();
		transports_set_yielding(context, false);
		return;
	}
	if (step == IDLE_ANNOUNCE)
		transports_announce_sleep(context);
	if (step == IDLE_POLL || (step == IDLE_ANNOUNCE && ahead))
		return;
	if (!may_sleep_now(context)) {
		idle_leave(context);
		/* The peer at the other end of a transfer may share the processor. */
		if (!may_sleep(context))
			sched_yield();
		return;
	}
	if (!context->idle.slept)
		transports_set_sleeping(context, true);
	context->idle.slept = true;
	slept = transports_sleep(
		context,
		idle_length(&context->idle, now, progress_longest_sleep(context) * 1000) / 1000);
	if (slept != IDLE_NOT_SLEPT)
		statistic_add(&context->statistics, PF_STAT_SLEEPS, 1);
	if (slept != IDLE_TIMED_OUT)
		idle_leave(context);
}

/* Leave the processor to the service thread, which connects the process to a peer. */
static __attribute__((noinline)) void sleep_to_connect(pf_context *context)
{
	assert_progress(context);
	transports_announce_sleep(context);
	if (may_sleep_now(context)) {
		/* Callers on other threads may connect to more peers meanwhile. */
		atomic_fetch_sub_explicit(&context->connect_sleeps, 1, memory_order_relaxed);
		if (transports_sleep(context, CONNECT_SLEEP) != IDLE_NOT_SLEPT)
			statistic_add(&context->statistics, PF_STAT_SLEEPS, 1);
	}
	transports_leave_sleep(context);
}

/* Report peers that are gone; their operations have completed. */
static void report_gone(pf_context *context)
{
	pf_peer *peer;

	assert_progress(context);
	context->peers.gone = false;
	for (peer = peers_first(&context->peers); peer; peer = peer->next) {
		if (peer->gone_reported || peer_state(peer) != PEER_GONE)
			continue;
		/* The engine of /dev/exanest ends operations by itself, but a little later. */
		if (operations_pending(&context->operations, peer, UINT64_MAX)) {
			context->peers.gone = true;
			atomic_store_explicit(&context->peers.news, true, memory_order_relaxed);
			continue;
		}
		peer->gone_reported = true;
		if (context->error && !peer->farewell)
			context->error(context, peer, peer->gone_status, peer_path(peer),
				       context->error_arg);
	}
}

/*
 * Report peers and room. Room comes after report_gone, which gives the reason why a repeated call
 * will fail.
 */
static __attribute__((noinline)) int report_peers(pf_context *context)
{
	assert_progress(context);
	atomic_store_explicit(&context->peers.news, false, memory_order_relaxed);
	if (context->peers.gone)
		report_gone(context);
	return refused_tell(context);
}

/* A mark of the thread: each thread has a different address of the variable. */
static _Thread_local char thread_mark;

/* Is the calling thread inside progress, in a callback? */
static bool progress_is_here(pf_context *context)
{
	if (context->threads)
		return atomic_load_explicit(&context->progress_thread, memory_order_relaxed) ==
		       &thread_mark;
	return atomic_load_explicit(&context->progressing, memory_order_relaxed);
}

/*
 * Enter progress: one thread at a time, and never from within progress. *outer: for
 * progress_leave.
 */
static inline bool progress_enter(pf_context *context, const void **outer)
{
	if (context->threads) {
		if (atomic_exchange_explicit(&context->progressing, true, memory_order_acquire))
			return false;
		/*
		 * Only the calling thread compares the value with its own mark, hence no order is
		 * needed.
		 */
		atomic_store_explicit(&context->progress_thread, &thread_mark,
				      memory_order_relaxed);
	} else {
		if (atomic_load_explicit(&context->progressing, memory_order_relaxed))
			return false;
		atomic_store_explicit(&context->progressing, true, memory_order_relaxed);
	}
	*outer = check_enter(progress, context);
	return true;
}

static inline void progress_leave(pf_context *context, const void *outer)
{
	check_leave(progress, outer);
	if (context->threads)
		atomic_store_explicit(&context->progress_thread, NULL, memory_order_relaxed);
	atomic_store_explicit(&context->progressing, false, memory_order_release);
}

/*
 * Only threads of libpf are in libpf, which read none of the fields. In a callback no lock is
 * released later that was not taken, hence naming the thread inside progress is enough.
 */
void context_allow_threads(pf_context *context)
{
	context->threads = context->peers.threads = context->operations.threads = true;
	context->statistics.threads = true;
	context->posts_wake |= atomic_load_explicit(&context->sleepy, memory_order_relaxed);
	if (atomic_load_explicit(&context->progressing, memory_order_relaxed))
		atomic_store_explicit(&context->progress_thread, &thread_mark,
				      memory_order_relaxed);
}

int context_progress(pf_context *context)
{
	const void *outer;
	int count;

	if (!progress_enter(context, &outer)) {
		/* The thread inside progress may need the processor. */
		if (context_is_sleepy(context))
			sched_yield();
		return 0;
	}
	count = transports_poll(context);
	if (__builtin_expect(atomic_load_explicit(&context->peers.news, memory_order_relaxed), 0))
		count += report_peers(context);
	activity_polled(&context->activity, count != 0);
	if (__builtin_expect(pace_is_resolving(&context->memory.pace), 0))
		pace_polled(&context->memory.pace, count != 0);
	if (__builtin_expect(context_is_sleepy(context), 0)) {
		context->stood_still = !count;
		if (count || !activity_still(&context->activity))
			idle_leave(context);
		else
			progress_idle(context);
	} else if (__builtin_expect(atomic_load_explicit(&context->connect_sleeps,
							 memory_order_relaxed) != 0,
				    0) &&
		   !count) {
		sleep_to_connect(context);
	}
	progress_leave(context, outer);
	return count;
}

int context_descriptor(pf_context *context, int *fd)
{
	struct waiter *waiter = waiter_of(context);
	int status;

	if (!waiter_is_open(waiter)) {
		if (!transports_allow_waiter(context))
			return PF_ERR_ARGUMENT;
		status = waiter_open(waiter);
		if (status != PF_OK)
			return status;
		idle_leave(context);
		atomic_store_explicit(&context->sleepy, true, memory_order_relaxed);
		transports_set_sleeping(context, true);
		context->posts_wake = true;
	}
	*fd = waiter->fd;
	return PF_OK;
}

/*
 * Return the longest wait of a program with a descriptor, microseconds; 0: the program is to
 * poll.
 */
static uint64_t longest_wait(pf_context *context)
{
	uint64_t longest = 0;

	assert_progress(context);
	transports_prepare_sleep(context);
	/* Only an empty poll shows that all active operations wait. */
	if (may_sleep(context) &&
	    (!operations_active(&context->operations) || context->stood_still)) {
		longest = progress_longest_sleep(context);
	} else if (context->stood_still && activity_empty(&context->activity) >= PATIENT_POLLS) {
		longest = context->sleep_unrung;
		/* The program is to poll after the wait, whatever made the descriptor readable. */
		context->stood_still = false;
	}
	return has_news(context) ? 0 : longest;
}

int context_arm(pf_context *context)
{
	struct waiter *waiter = waiter_of(context);
	int status = PF_ERR_AGAIN;
	const void *outer;
	uint64_t longest;

	if (!waiter_is_open(waiter))
		return PF_ERR_ARGUMENT;
	if (!progress_enter(context, &outer))
		return PF_ERR_AGAIN;
	waiter_reset(waiter);
	transports_announce_sleep(context);
	longest = longest_wait(context);
	if (longest)
		status = waiter_arm(waiter, longest);
	else
		transports_leave_sleep(context);
	progress_leave(context, outer);
	return status;
}

void context_wake(pf_context *context)
{
	waiter_wake(waiter_of(context));
	context->wake(context);
}

int context_flush_test(pf_context *context, const pf_peer *peer, uint64_t mark)
{
	return operations_pending(&context->operations, peer, mark) ? PF_ERR_AGAIN : PF_DONE;
}

int context_flush(pf_context *context, const pf_peer *peer)
{
	uint64_t mark = operations_last(&context->operations);

	/*
	 * An operation counts as pending during its callback: a flush inside would wait for
	 * itself.
	 */
	if (progress_is_here(context))
		return PF_ERR_ARGUMENT;
	while (context_flush_test(context, peer, mark) != PF_DONE)
		context_progress(context);
	return PF_OK;
}
