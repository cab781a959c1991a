/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "common/owners.h"
#include "common/refused.h"
#include "contents.h"
#include "transports.h"

/*
 * Empty polls before pf_wait, or a program with a descriptor, waits for PROGRESS_SLEEP_UNRUNG at a
 * time, though nothing wakes the program for room in a ring, which the reader of the ring frees
 * without a word. A reader with a processor frees room within fewer polls.
 */
#define PATIENT_POLLS 256

/*
 * Polls of a flush before the first yield of the processor, between two yields, and before the
 * first sleep. A peer that runs answers within the first.
 */
#define FLUSH_YIELD_FIRST 32
#define FLUSH_YIELD_EACH 4
#define FLUSH_SLEEP_FIRST 1000

/* Take the announcement of a sleep back: something happened. */
static void sleep_leave(pf_context *context)
{
	assert_progress(context);
	if (!context->announced)
		return;
	transports_leave_sleep(context);
	/* A waiter may still sleep. */
	if (context->slept && !waiter_is_open(waiter_of(context)))
		transports_set_sleeping(context, false);
	context->announced = context->slept = false;
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
	       atomic_load_explicit(&context->operations.waiting, memory_order_relaxed);
}

/* Microseconds. */
static uint64_t longest_sleep(pf_context *context)
{
	return context_is_sleepy(context) && transports_all_ring(context) ? context->sleep_longest :
									    context->sleep_unrung;
}

/* Leave the processor to the service thread, which connects the process to a peer. */
static __attribute__((noinline)) void yield_to_connect(pf_context *context)
{
	assert_progress(context);
	if (clock_nanoseconds(CLOCK_MONOTONIC) <
	    atomic_load_explicit(&context->connect_until, memory_order_relaxed))
		sched_yield();
	else
		/* Another thread may call a peer now, whose yields are lost. */
		atomic_store_explicit(&context->connect_until, 0, memory_order_relaxed);
}

/* Report a peer that is gone. False: operations have not completed yet. */
static bool report_gone(pf_context *context, pf_peer *peer)
{
	/* The engine of /dev/exanest ends operations by itself, but a little later. */
	if (operations_pending(&context->operations, peer, UINT64_MAX)) {
		atomic_store_explicit(&context->peers.news, true, memory_order_relaxed);
		return false;
	}
	owners_tell_end(context, peer);
	return true;
}

/* Free the records of peers that are over for long enough. */
static void forget_peers(pf_context *context)
{
	pf_peer *peer;

	while ((peer = peers_take_over(&context->peers))) {
		operations_keep_failure(&context->operations, peer);
		if (peer->transport->peer_forget)
			peer->transport->peer_forget(peer);
		peer_free(peer);
	}
}

/* Report peers that are gone, each once. Later ends are for the next call. */
static void report_all_gone(pf_context *context)
{
	struct peer_list gone;
	pf_peer *peer;

	assert_progress(context);
	if (!peers_take_gone(&context->peers, &gone))
		return;
	while ((peer = STAILQ_FIRST(&gone))) {
		STAILQ_REMOVE_HEAD(&gone, next_gone);
		if (peers_reported(&context->peers, peer, report_gone(context, peer)))
			refused_forget(peer);
	}
	forget_peers(context);
}

static void tell_log(pf_context *context)
{
	struct log_line *line;

	assert_progress(context);
	if (!context->log.wanted)
		return;
	while ((line = log_take(&context->log))) {
		context->callbacks.log(context, line->peer, line->level, line->text,
				       context->callbacks.arg);
		free(line);
	}
}

/*
 * Report peers, messages for new owners, and room, after the lines of the log, which name peers.
 * Room comes after report_all_gone, which gives the reason why a repeated call will fail.
 */
static __attribute__((noinline)) int report_peers(pf_context *context)
{
	int count;

	assert_progress(context);
	atomic_store_explicit(&context->peers.news, false, memory_order_relaxed);
	tell_log(context);
	report_all_gone(context);
	count = owners_give_waiting(context);
	return count + refused_tell(context);
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
 * Enter progress: one thread at a time, never from within progress, and behind the threads in
 * progress_hold: a thread in a loop of pf_wait would shut progress_hold out. holder: the caller is
 * progress_hold. *outer: for progress_leave.
 */
static inline bool progress_enter(pf_context *context, bool holder, const void **outer)
{
	if (context->threads) {
		if (!holder && atomic_load_explicit(&context->holders, memory_order_relaxed))
			return false;
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
	context->threads = context->operations.threads = true;
	context->statistics.threads = true;
	context->operations.row = 0;
	context->posts_wake |= atomic_load_explicit(&context->sleepy, memory_order_relaxed);
	if (atomic_load_explicit(&context->progressing, memory_order_relaxed))
		atomic_store_explicit(&context->progress_thread, &thread_mark,
				      memory_order_relaxed);
}

/* Poll once. Returns how many things happened. */
static inline int progress_poll(pf_context *context)
{
	int count = transports_poll(context);

	assert_progress(context);
	if (__builtin_expect(atomic_load_explicit(&context->peers.news, memory_order_relaxed), 0))
		count += report_peers(context);
	activity_polled(&context->activity, count != 0);
	if (__builtin_expect(pace_is_resolving(&context->memory.pace), 0))
		pace_polled(&context->memory.pace, count != 0);
	return count;
}

int context_progress(pf_context *context)
{
	const void *outer;
	int count;

	if (!progress_enter(context, false, &outer)) {
		/* The thread inside progress may need the processor. */
		if (context_is_sleepy(context))
			sched_yield();
		return 0;
	}
	count = progress_poll(context);
	if (__builtin_expect(context_is_sleepy(context), 0)) {
		context->stood_still = !count;
		if (count || !activity_still(&context->activity))
			sleep_leave(context);
	} else if (__builtin_expect(atomic_load_explicit(&context->connect_until,
							 memory_order_relaxed) != 0,
				    0) &&
		   !count) {
		yield_to_connect(context);
	}
	progress_leave(context, outer);
	return count;
}

/* ---- waiting ---- */

/*
 * Announce a sleep, unless a sleep in vain has left an announcement, and poll while the announcement
 * reaches the writers. Returns how many things happened.
 */
static int sleep_announce(pf_context *context)
{
	const uint64_t ahead = transports_sleep_ahead(context);
	uint64_t start;
	int count = 0;

	assert_progress(context);
	if (context->announced)
		return 0;
	transports_announce_sleep(context);
	context->announced = true;
	start = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
	while (!count && (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC) - start < ahead)
		count = progress_poll(context);
	return count;
}

static bool take_wake(pf_context *context)
{
	const bool taken = waiter_take_wake(waiter_of(context));

	if (taken)
		atomic_store_explicit(&context->took_wake, true, memory_order_relaxed);
	return taken;
}

/*
 * After an empty poll, with a sleep announced: sleep for at most the time, microseconds. SLEPT_NOT:
 * there is work, or work under way that wakes nothing: a peer that moves a part of a transfer may
 * share the processor.
 */
static enum slept sleep_begin(pf_context *context, uint64_t most)
{
	uint64_t length = context->sleep_unrung;
	enum slept slept;

	assert_progress(context);
	transports_prepare_sleep(context);
	if (take_wake(context))
		return SLEPT_WOKEN;
	if (has_news(context))
		return SLEPT_NOT;
	if (may_sleep(context)) {
		length = longest_sleep(context);
	} else if (activity_empty(&context->activity) < PATIENT_POLLS) {
		sched_yield();
		return SLEPT_NOT;
	}
	if (!context->slept)
		transports_set_sleeping(context, true);
	context->slept = true;
	activity_sleep(&context->activity, true);
	slept = transports_sleep(context, length < most ? length : most);
	activity_sleep(&context->activity, false);
	if (slept != SLEPT_NOT)
		statistic_add(&context->statistics, PF_STAT_SLEEPS, 1);
	if (slept == SLEPT_TIMED_OUT)
		return slept;
	(void)take_wake(context);
	return SLEPT_WOKEN;
}

/*
 * After an empty poll: wait until something happens, the process is woken, or the clock is at end,
 * ns. A sleep in vain leaves the announcement, and the network with the service thread, until
 * something happens: writers have seen the announcement long ago, hence the next sleep needs no
 * time ahead. Of several threads one may have taken the wake-up of another: each looks after a
 * sleep. Returns how many things happened.
 */
static int wait_until(pf_context *context, uint64_t end)
{
	int count = sleep_announce(context);
	enum slept slept = SLEPT_NOT;
	unsigned vain = 0;
	uint64_t now;

	while (!count && slept != SLEPT_WOKEN && (slept == SLEPT_NOT || !context->threads) &&
	       (now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC)) < end) {
		slept = sleep_begin(context, (end - now - 1) / 1000 + 1);
		/* News no poll can handle yet, perhaps because a peer needs the processor. */
		if (slept == SLEPT_NOT && ++vain > PATIENT_POLLS)
			sched_yield();
		count = progress_poll(context);
	}
	if (count || slept == SLEPT_WOKEN || !context_is_sleepy(context))
		sleep_leave(context);
	return count;
}

/*
 * Another thread is inside progress: sleep beside the thread, but not for long, because the thread
 * may have ended the caller's wait just before.
 */
static void wait_beside(pf_context *context, int64_t timeout)
{
	uint64_t most = context->sleep_unrung;

	if (timeout >= 0 && (uint64_t)timeout < most)
		most = (uint64_t)timeout;
	if (!most || transports_sleep(context, most) == SLEPT_NOT)
		sched_yield();
}

/* The end of a timeout that begins now, ns. */
static uint64_t timeout_end(int64_t timeout)
{
	uint64_t now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);

	if (timeout < 0 || (uint64_t)timeout > (UINT64_MAX - now) / 1000)
		return UINT64_MAX;
	return now + (uint64_t)timeout * 1000;
}

int context_wait(pf_context *context, int64_t timeout)
{
	const uint64_t end = timeout ? timeout_end(timeout) : 0;
	const void *outer;
	int count = 0;

	if (!progress_enter(context, false, &outer)) {
		if (!progress_is_here(context))
			wait_beside(context, timeout);
		return 0;
	}
	/* The caller often comes from an empty poll. */
	if (!context->stood_still)
		count = progress_poll(context);
	if (count || !activity_still(&context->activity))
		sleep_leave(context);
	if (!count && timeout) {
		count = wait_until(context, end);
	} else if (!count) {
		/* Polls after a yield have cold caches. */
		transports_prepare_yield(context);
		sched_yield();
	}
	context->stood_still = false;
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
		longest = longest_sleep(context);
	} else if (context->stood_still && activity_empty(&context->activity) >= PATIENT_POLLS) {
		longest = context->sleep_unrung;
		/* The program is to poll after the wait, whatever made the descriptor readable. */
		context->stood_still = false;
	}
	return has_news(context) || waiter_take_wake(waiter_of(context)) ? 0 : longest;
}

int context_arm(pf_context *context)
{
	struct waiter *waiter = waiter_of(context);
	int status = PF_ERR_AGAIN;
	const void *outer;
	uint64_t longest;

	if (!waiter_is_open(waiter))
		return PF_ERR_ARGUMENT;
	if (!progress_enter(context, false, &outer))
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

bool progress_hold(pf_context *context, const void **outer)
{
	if (progress_is_here(context))
		return false;
	atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
	while (!progress_enter(context, true, outer)) {
		/* The thread inside may sleep, or need the processor. */
		context_wake(context);
		sched_yield();
	}
	atomic_fetch_sub_explicit(&context->holders, 1, memory_order_relaxed);
	return true;
}

void progress_release(pf_context *context, const void *outer)
{
	progress_leave(context, outer);
}

/* The error that a flush of the peer, or of all (NULL), returns. */
static int flush_status(pf_context *context, pf_peer *peer)
{
	return operations_take_failure(&context->operations, &context->peers, peer);
}

int context_flush_test(pf_context *context, pf_peer *peer, uint64_t mark)
{
	return operations_pending(&context->operations, peer, mark) ? PF_PENDING :
								      flush_status(context, peer);
}

/* Poll for a flush, after empty polls. left: microseconds, or PF_FOREVER. */
static int flush_poll(pf_context *context, uint64_t empty, int64_t left)
{
	if (!context_is_sleepy(context) || empty < FLUSH_YIELD_FIRST || empty % FLUSH_YIELD_EACH)
		return context_progress(context);
	return context_wait(context, empty < FLUSH_SLEEP_FIRST ? 0 : left);
}

static int flush_until(pf_context *context, pf_peer *peer, int64_t timeout)
{
	const uint64_t mark = operations_last(&context->operations);
	const uint64_t end = timeout < 0 ? UINT64_MAX : timeout_end(timeout);
	int64_t left = timeout;
	uint64_t empty = 0, now;

	while (operations_pending(&context->operations, peer, mark)) {
		empty = flush_poll(context, empty, left) ? 0 : empty + 1;
		if (end == UINT64_MAX)
			continue;
		now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
		if (now >= end && operations_pending(&context->operations, peer, mark))
			return PF_ERR_TIMEOUT;
		left = now < end ? (int64_t)((end - now - 1) / 1000 + 1) : 0;
	}
	/* Without operations to wait for, a flush does not poll. */
	if (!context->threads && (!peer || peer == context->operations.row_peer))
		context->operations.row = 0;
	return flush_status(context, peer);
}

/* A pf_wake during the flush is for the next pf_wait of the program: give the wake back. */
int context_flush(pf_context *context, pf_peer *peer, int64_t timeout)
{
	int status;

	/*
	 * An operation counts as pending during its callback: a flush inside would wait for
	 * itself.
	 */
	if (progress_is_here(context))
		return PF_ERR_ARGUMENT;
	atomic_store_explicit(&context->took_wake, false, memory_order_relaxed);
	status = flush_until(context, peer, timeout);
	if (atomic_load_explicit(&context->took_wake, memory_order_relaxed))
		waiter_give_wake_back(waiter_of(context));
	return status;
}
