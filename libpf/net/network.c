/* SPDX-License-Identifier: BSD-3-Clause */
/* Which thread drives: see network.h. */
#include "network.h"

#include <sched.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "common/context.h"

/* Rounds of receiving and sending in a drive. Messages of the host transport may wait meanwhile. */
#define ROUNDS_POLL 2
#define ROUNDS_SERVE 64
/*
 * A poll looks at the sockets, with a system call, only if enough time has passed since the last
 * look: a LOOK_SHARE of the time without a packet or a post, and at most LOOK_BETWEEN_MOST ns. A
 * look that came LOOK_BETWEEN_MOST or more after the look before counts from the end, because a
 * look may take as long. A packet is late by no more than this time, and a program with tests for
 * messages between computations makes few system calls.
 */
#define LOOK_SHARE 64
#define LOOK_BETWEEN_MOST 2000
#define SECOND 1000000000ull
#define MILLISECOND 1000000ull
/*
 * Time after a look for which posts count as looks, ns. A thread that only posts does not receive.
 */
#define POSTING (SECOND / 250)
/* Least delay of a deadline for which the timer of the service thread is moved, ns. */
#define EARLY_MOST MILLISECOND
/*
 * Waits for packets, ns. The first wait is WAIT_FIRST, and each further wait is twice as long, up
 * to WAIT_MOST: the service thread may receive the packets, and many threads may wait for few
 * processors.
 */
#define WAIT_FIRST (SECOND / 4000)
#define WAIT_MOST (SECOND / 125)
/* Longest callback of another thread to wait for, ns. */
#define STALLED (SECOND / 50)
/*
 * Time for which a closing context waits for acknowledgements, ns. While messages are not
 * acknowledged, each new acknowledgement of messages gives LINGER_MESSAGES more: a receiver may
 * compute, and makes room when polling.
 */
#define LINGER (SECOND / 2)
#define LINGER_MESSAGES (2 * SECOND)

/* ---- the service thread and progress take turns ---- */

/* Wake the service thread. The write fails only with a full counter, when the thread is awake. */
static void network_wake(const struct network *network)
{
	const uint64_t one = 1;

	if (write(network->wake, &one, sizeof(one)) < 0)
		return;
}

/*
 * Wake the driving thread after a page was resolved. Progress finds the result without help, but
 * the service thread may sleep.
 */
void network_wake_driving_thread(struct net_memory *memory)
{
	struct network *network =
		(struct network *)(void *)((char *)memory - offsetof(struct network, memory));

	if (atomic_load_explicit(&network->attended, memory_order_seq_cst))
		network_wake(network);
}

/*
 * Progress stores "sleeps" and then loads "attended". The service thread stores "attended" and then
 * loads "sleeps" (network_watch_look). Either progress sees the need to wake the service thread, or
 * the service thread sees that leaving is not permitted.
 */
void network_sleeps(struct network *network, bool sleeps)
{
	atomic_store_explicit(&network->sleeps, sleeps, memory_order_seq_cst);
	if (!sleeps)
		atomic_store_explicit(&network->woke, network_now(), memory_order_relaxed);
	else if (!atomic_load_explicit(&network->attended, memory_order_seq_cst))
		network_wake(network);
}

static void timer_set(int timer, uint64_t time)
{
	const struct itimerspec end = { .it_value = { .tv_sec = (time_t)(time / SECOND),
						      .tv_nsec = (long)(time % SECOND) } };

	/* The call fails only for an invalid descriptor or an invalid time. */
	(void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &end, NULL);
}

bool network_attend(struct network *network)
{
	struct carrier *carrier = network->traffic.carrier;
	uint64_t time = network_now();
	bool attended;

	assert_service(&network->context->service);
	pthread_mutex_lock(&network->attending);
	attended = atomic_load_explicit(&network->attended, memory_order_relaxed);
	if (!attended && !carrier->operations->watch(carrier, true)) {
		(void)carrier->operations->watch(carrier, false);
		timer_set(network->grace_timer,
			  grace_begin(&network->grace, time, NETWORK_RETRY, true));
	} else {
		atomic_store_explicit(&network->attended, true, memory_order_seq_cst);
		grace_away(&network->grace);
	}
	pthread_mutex_unlock(&network->attending);
	return !attended;
}

uint64_t network_seen(const struct network *network)
{
	uint64_t looked = grace_read(&network->looked), used = grace_read(&network->used);

	return used > looked && used - looked <= POSTING ? used : looked;
}

void network_renew_grace(struct network *network, uint64_t time, const uint64_t *used)
{
	struct grace *grace = &network->grace;
	uint64_t left;

	assert_service(&network->context->service);
	pthread_mutex_lock(&network->attending);
	/* The application may have begun another period meanwhile. */
	if (grace_runs(grace, time, &left) && !left) {
		if (used)
			grace_note(grace, time,
				   atomic_load_explicit(&grace->thread, memory_order_relaxed),
				   *used);
		timer_set(network->grace_timer, grace_renew(grace, time));
	}
	pthread_mutex_unlock(&network->attending);
}

static bool driving_start(struct network *network)
{
	if (atomic_exchange_explicit(&network->driving, true, memory_order_seq_cst))
		return false;
	check_record(network->driving_thread, pthread_self());
	return true;
}

/* Return the latest time for a thread to drive again, ns. */
static uint64_t network_deadline(const struct network *network)
{
	uint64_t due = net_exact_deadline(network->core), retry;

	assert_locked(&network->lock, true);
	if (!network->traffic.held)
		return due;
	retry = network_now() + NETWORK_RETRY;
	return retry < due ? retry : due;
}

static int thread_id(void)
{
	static _Thread_local int id;

	if (!id)
		id = gettid();
	return id;
}

/*
 * Make the service thread look at the network at a time, ns, or earlier. The call itself wakes
 * nothing.
 */
static void network_look_at(struct network *network, uint64_t time)
{
	assert_locked(&network->lock, true);
	/*
	 * A look a little early costs less than a system call for each move of the deadline. The
	 * service thread knows of an unchanged deadline in the past, and tries again without help.
	 */
	if (network->timer_end == time ||
	    (network->timer_end < time && network->timer_end > network_now() &&
	     time - network->timer_end < EARLY_MOST))
		return;
	network->timer_end = time;
	timer_set(network->timer, time);
}

/*
 * Set the timer for the service thread. The service thread alone keeps the deadlines while
 * attending.
 */
static void network_look_when_due(struct network *network)
{
	uint64_t due = network_deadline(network);

	assert_locked(&network->lock, true);
	assert_driving(network);
	if (due == NET_NEVER)
		return;
	/*
	 * Where processes share processors, deadlines are rounded up: a single wake-up serves
	 * several.
	 */
	if (context_is_sleepy(network->context))
		due += MILLISECOND - due % MILLISECOND;
	network_look_at(network, due);
}

static uint64_t network_processor_time(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * Begin a grace period if something waits for packets or for the next poll. At the end of the
 * period the service thread sees whether a poll came.
 */
static void network_give_grace(struct network *network)
{
	bool waits = network->traffic.held || net_blocked(network->core) ||
		     network->coalesce.waits ||
		     atomic_load_explicit(&network->posted, memory_order_relaxed);
	uint64_t time;

	assert_locked(&network->lock, true);
	if (!grace_needed(&network->grace, waits))
		return;
	time = network_now();
	pthread_mutex_lock(&network->attending);
	grace_note(&network->grace, time, thread_id(), network_processor_time());
	timer_set(network->grace_timer, grace_start(&network->grace, time));
	pthread_mutex_unlock(&network->attending);
}

/*
 * Progress: take the network back from the service thread, until the end of a grace period. Called
 * each time that the service thread attended, and also after need of the service thread without
 * attendance.
 */
static void network_take_back(struct network *network)
{
	struct carrier *carrier = network->traffic.carrier;
	uint64_t time = network_now();

	assert_progress(network->context);
	assert_locked(&network->lock, true);
	pthread_mutex_lock(&network->attending);
	if (atomic_load_explicit(&network->attended, memory_order_relaxed)) {
		atomic_store_explicit(&network->attended, false, memory_order_seq_cst);
		(void)carrier->operations->watch(carrier, false);
	}
	grace_note(&network->grace, time, thread_id(), network_processor_time());
	timer_set(network->grace_timer, grace_return(&network->grace, time));
	pthread_mutex_unlock(&network->attending);
}

/*
 * Stop driving, and release the lock held by the caller. A post after the last look of the driving
 * thread is sent now. The service thread sets "awaited" before finding another thread driving;
 * therefore the driving thread finds "awaited" set below.
 */
static void driving_stop(struct network *network)
{
	assert_locked(&network->lock, true);
	assert_driving(network);
	for (;;) {
		if (atomic_load_explicit(&network->attended, memory_order_relaxed))
			network_look_when_due(network);
		else
			network_give_grace(network);
		network_unlock(network);
		atomic_store_explicit(&network->driving, false, memory_order_seq_cst);
		if (!atomic_load_explicit(&network->posted, memory_order_seq_cst) ||
		    !driving_start(network))
			break;
		network_lock(network);
		network_transmit(network, network_now());
	}
	if (atomic_load_explicit(&network->awaited, memory_order_seq_cst) &&
	    atomic_exchange_explicit(&network->awaited, false, memory_order_seq_cst))
		network_wake(network);
}

/* ---- calls of the threads ---- */

/* Is the next look still too early? */
static bool network_looked_just_now(const struct network *network, uint64_t time)
{
	uint64_t used = atomic_load_explicit(&network->used, memory_order_relaxed),
		 between = time > used ? (time - used) / LOOK_SHARE : 0;

	return time - grace_read(&network->looked) <
	       (between < LOOK_BETWEEN_MOST ? between : LOOK_BETWEEN_MOST);
}

/*
 * Does the present poll take the network back? A thread that slept a moment ago will soon sleep
 * again, and does not.
 */
static bool network_is_returning(struct network *network, uint64_t time)
{
	assert_locked(&network->lock, true);
	assert_progress(network->context);
	return atomic_load_explicit(&network->attended, memory_order_relaxed) &&
	       !atomic_load_explicit(&network->sleeps, memory_order_relaxed) &&
	       time - grace_read(&network->woke) >= GRACE_LEAST;
}

int network_poll_sockets(struct network *network)
{
	struct activity *activity = &network->context->activity;
	uint64_t time = network_now(), between;
	int total;

	assert_progress(network->context);
	if (network_looked_just_now(network, time) && !network_waits(network))
		return 0;
	if (!driving_start(network)) {
		/* The service thread may have lost the processor while driving. */
		if (atomic_load_explicit(&network->attended, memory_order_relaxed))
			sched_yield();
		return 0;
	}
	network_lock(network);
	if (network_is_returning(network, time))
		network_take_back(network);
	grace_seen(&network->grace, time, network_seen(network),
		   context_is_sleepy(network->context));
	network->looks++;
	between = grace_passed(time, grace_read(&network->looked));
	network->rare = between >= LOOK_BETWEEN_MOST;
	/*
	 * Before GRACE_FIRST the service thread would not have taken over. A process on a shared
	 * processor may have waited for the processor.
	 */
	network->away = between >= GRACE_FIRST && !context_is_sleepy(network->context) &&
			grace_passed(time, network->polled) >= GRACE_FIRST;
	atomic_store_explicit(&network->looked, time, memory_order_relaxed);
	network->calling = network->memory.progress = true;
	atomic_store_explicit(&network->caller, thread_id(), memory_order_relaxed);
	if (coalesce_pending(&network->coalesce))
		coalesce_poll(&network->coalesce, time);
	/* Tell events of drives by other threads. */
	total = 0;
	if (atomic_load_explicit(&network->untold, memory_order_relaxed)) {
		atomic_store_explicit(&network->untold, false, memory_order_relaxed);
		total = (int)net_processes_tell(&network->processes, network->core);
	}
	total += (int)network_drive(network, ROUNDS_POLL);
	total += (int)net_processes_tell(&network->processes, network->core);
	/* The program may compute next. */
	if (network->processes.noticed)
		network_transmit(network, network_now());
	network->processes.noticed = false;
	/* The duration of a poll does not count as absence of the application. */
	if (total || network->rare || coalesce_pending(&network->coalesce))
		time = network_now();
	if (network->rare)
		atomic_store_explicit(&network->looked, time, memory_order_relaxed);
	if (total) {
		network->polled = time;
		atomic_store_explicit(&network->used, time, memory_order_relaxed);
		activity_moved(activity);
	}
	if (coalesce_pending(&network->coalesce))
		coalesce_return(&network->coalesce, time);
	network->calling = network->memory.progress = false;
	atomic_store_explicit(&network->caller, 0, memory_order_relaxed);
	if (network->grace.needed &&
	    !atomic_load_explicit(&network->attended, memory_order_relaxed))
		network_take_back(network);
	driving_stop(network);
	return total;
}

/* Under the lock: note whether there is something for progress alone to do. */
static void network_note_untold(struct network *network)
{
	assert_locked(&network->lock, true);
	if (net_has_events(network->core) || network->memory.deferred)
		atomic_store_explicit(&network->untold, true, memory_order_relaxed);
}

/* Wake progress if another thread left something to do: progress may sleep. */
static void network_tell_progress(struct network *network)
{
	if (atomic_load_explicit(&network->untold, memory_order_relaxed))
		network->context->wake(network->context);
}

/*
 * The service thread never waits for the lock. The owner of the lock may be waiting for a page to
 * be brought by the service thread: a page of a pager, in a message being sent.
 */
bool network_serve(struct network *network, bool tell, uint64_t *again)
{
	bool blocked;

	assert_service(&network->context->service);
	if (!driving_start(network)) {
		if (!tell)
			return false;
		atomic_store_explicit(&network->awaited, true, memory_order_seq_cst);
		if (!driving_start(network))
			return false;
	}
	atomic_store_explicit(&network->awaited, false, memory_order_relaxed);
	if (!network_trylock(network)) {
		atomic_store_explicit(&network->driving, false, memory_order_seq_cst);
		*again = atomic_load_explicit(&network->posted, memory_order_seq_cst) ?
				 NETWORK_SOON :
				 NETWORK_RETRY;
		return true;
	}
	blocked = net_blocked(network->core);
	/* A carrier that woke the service thread without a packet may have a report. */
	if (!network_drive(network, ROUNDS_SERVE))
		traffic_take_reports(&network->traffic, network->core, true);
	if (blocked && !net_blocked(network->core))
		network->grace.needed = true;
	/*
	 * Without "attended" the application took the network back meanwhile, and sets the timer
	 * itself.
	 */
	if (atomic_load_explicit(&network->attended, memory_order_relaxed))
		network_look_when_due(network);
	network_note_untold(network);
	network_unlock(network);
	atomic_store_explicit(&network->driving, false, memory_order_seq_cst);
	network_tell_progress(network);
	/* Posts that came meanwhile were left to the service thread. */
	*again = atomic_load_explicit(&network->posted, memory_order_seq_cst) ? 0 : NET_NEVER;
	return true;
}

static enum coalesce_origin network_post_origin(const struct network *network, bool message)
{
	assert_locked(&network->lock, true);
	if (atomic_load_explicit(&network->attended, memory_order_seq_cst))
		return COALESCE_UNPOLLED;
	if (message && atomic_load_explicit(&network->caller, memory_order_relaxed) == thread_id())
		return COALESCE_CALLED;
	return COALESCE_POLLED;
}

void network_post(struct network *network, bool message, size_t length)
{
	enum coalesce_origin from = network_post_origin(network, message);
	enum coalesce_when when;
	uint64_t time = network_now();

	assert_locked(&network->lock, true);
	/* A late poll on a shared processor may have waited for the processor: judge nothing. */
	if (!context_is_sleepy(network->context))
		coalesce_judge(&network->coalesce, time);
	when = coalesce_post(&network->coalesce, time, from, length);

	grace_seen(&network->grace, time, network_seen(network),
		   context_is_sleepy(network->context));
	atomic_store_explicit(&network->used, time, memory_order_relaxed);
	/* A callback inside a poll runs on the driving thread. */
	if (from == COALESCE_CALLED) {
		if (when == COALESCE_NOW)
			network_transmit(network, time);
		net_keep(network->core);
		if (when == COALESCE_NEXT_POLL)
			atomic_store_explicit(&network->behind, true, memory_order_relaxed);
		else if (when == COALESCE_AFTER_CALLBACK)
			atomic_store_explicit(&network->posted, true, memory_order_relaxed);
		network_unlock(network);
		return;
	}
	if (when != COALESCE_NOW || !driving_start(network)) {
		net_keep(network->core);
		atomic_store_explicit(&network->posted, true, memory_order_seq_cst);
		/*
		 * The driving thread looks again when stopping, unless the last look is over.
		 */
		if (when != COALESCE_NOW || !driving_start(network)) {
			if (when != COALESCE_NOW)
				network_give_grace(network);
			network_unlock(network);
			return;
		}
	}
	network_transmit(network, time);
	coalesce_return(&network->coalesce, network_now());
	net_keep(network->core);
	network_note_untold(network);
	driving_stop(network);
	network_tell_progress(network);
}

static void network_wait_readable(const struct network *network, uint64_t until, uint64_t most)
{
	const struct carrier *carrier = network->traffic.carrier;
	uint64_t start = network_now(), left = until > start ? until - start : 0;
	const struct timespec time = { .tv_nsec = (long)(left < most ? left : most) };

	carrier->operations->wait(carrier, &time);
}

bool network_wait(struct network *network, struct network_waiter *waiter)
{
	uint64_t due;
	unsigned moved;
	int caller;

	if (!driving_start(network)) {
		caller = atomic_load_explicit(&network->caller, memory_order_relaxed);
		if (caller == thread_id())
			return false;
		/* Before the yield, which may take long. */
		if (!caller)
			waiter->stalled = 0;
		else if (!waiter->stalled)
			waiter->stalled = network_now();
		else if (network_now() - waiter->stalled >= STALLED)
			return false;
		sched_yield();
		return true;
	}
	waiter->stalled = 0;
	network_lock(network);
	moved = network_drive(network, 1);
	due = network_deadline(network);
	network_note_untold(network);
	driving_stop(network);
	network_tell_progress(network);
	if (moved)
		return true;
	waiter->pause = waiter->pause ? 2 * waiter->pause : WAIT_FIRST;
	if (waiter->pause > WAIT_MOST)
		waiter->pause = WAIT_MOST;
	network_wait_readable(network, due, waiter->pause);
	return true;
}

void network_linger(struct network *network)
{
	uint64_t end = network_now() + LINGER, least = UINT64_MAX, messages, due;
	bool busy = true;

	assert_progress(network->context);
	while (busy && network_now() < end) {
		if (!driving_start(network)) {
			sched_yield();
			continue;
		}
		network_lock(network);
		network_drive(network, 1);
		net_linger(network->core);
		network_transmit(network, network_now());
		busy = net_busy(network->core);
		due = network_deadline(network);
		messages = net_unacknowledged(network->core);
		if (messages < least) {
			least = messages;
			end = network_now() + (messages ? LINGER_MESSAGES : LINGER);
		}
		driving_stop(network);
		/* The service thread may receive the acknowledgements. */
		if (busy)
			network_wait_readable(network, due, WAIT_FIRST);
	}
}
