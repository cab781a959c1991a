/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "common/context.h"

/*
 * Times in a row that another thread was found driving; after these, the thread is probably inside
 * a long callback.
 */
#define REFUSALS_MOST 16
/*
 * Length of a nap, ns. The driving thread, or an owner of the lock, may need this processor, and
 * sched_yield does not always leave it. With the usual slack of timers a nap takes about 70 us.
 */
#define NAP_NANOSECONDS 20000

struct network_watch {
	struct network *network;
	/* Events on the network's sockets, on its wake and timers, and on "timer". */
	struct event *readable, *woken, *due, *grace_over, *ended;
	int timer;      /* timerfd, set by the service thread alone */
	bool timed;     /* the timer is set, or has ended */
	bool listening; /* sockets wake the service thread, while it attends */
	unsigned refusals;
};

/* Look again after a time, ns, or never (NET_NEVER). Only the last call counts. */
static void network_watch_look_again(struct network_watch *watch, uint64_t nanoseconds)
{
	const bool never = nanoseconds == NET_NEVER;
	/* A time of 0 would stop the timer. */
	const struct itimerspec end = { .it_value.tv_nsec = never ? 0 : (long)nanoseconds + 1 };

	assert_service(&watch->network->context->service);
	if (never && !watch->timed)
		return;
	watch->timed = !never;
	/* The call fails only for an invalid descriptor or an invalid time. */
	(void)timerfd_settime(watch->timer, 0, &end, NULL);
}

static void network_watch_listen(struct network_watch *watch, bool listening)
{
	assert_service(&watch->network->context->service);
	if (watch->listening == listening)
		return;
	watch->listening = listening;
	if (listening)
		event_add(watch->readable, NULL);
	else
		event_del(watch->readable);
}

static bool network_watch_sleeps(const struct network_watch *watch)
{
	assert_service(&watch->network->context->service);
	return atomic_load_explicit(&watch->network->sleeps, memory_order_seq_cst);
}

/*
 * Leave the application alone until the end of a grace period. Return false if no period runs, or
 * if the application is away.
 */
static bool network_watch_spare(struct network *network, uint64_t time)
{
	const struct grace *grace = &network->grace;
	int thread = atomic_load_explicit(&network->grace.thread, memory_order_relaxed);
	uint64_t left, used;

	assert_service(&network->context->service);
	if (!grace_runs(grace, time, &left))
		return false;
	if (left)
		return true;
	if (!activity_thread(thread, NULL, &used))
		return false;
	if (atomic_load_explicit(&network->driving, memory_order_relaxed) ||
	    !grace_is_away(grace, time, network_seen(network)))
		network_renew_grace(network, time, &used);
	else if (activity_starved(thread, grace_read(&grace->used), used,
				  grace_passed(time, grace_read(&grace->since))))
		network_renew_grace(network, time, NULL);
	else
		return false;
	return true;
}

static void network_watch_nap(void)
{
	const struct timespec time = { .tv_nsec = NAP_NANOSECONDS };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/*
 * Drive, unless the application is spared. retry: the work is not seen again without a timer,
 * unlike a packet in a socket. Another driving thread sets the network's timer when stopping,
 * provided that the thread knows that the service thread attends.
 */
static void network_watch_look(struct network_watch *watch, bool retry)
{
	uint64_t again;

	assert_service(&watch->network->context->service);
	/* Meanwhile progress may have begun to sleep, after seeing the service thread attend. */
	if (!network_watch_sleeps(watch) && network_watch_spare(watch->network, network_now()) &&
	    !network_watch_sleeps(watch))
		return;
	retry |= network_attend(watch->network);
	network_watch_listen(watch, true);
	if (!network_serve(watch->network, watch->refusals == REFUSALS_MOST, &again)) {
		/* The application took the network back. */
		if (!atomic_load_explicit(&watch->network->attended, memory_order_relaxed)) {
			watch->refusals = 0;
			return;
		}
		/*
		 * While another thread drives, sockets stay readable; most often driving takes a
		 * moment.
		 */
		if (watch->refusals == REFUSALS_MOST) {
			network_watch_listen(watch, false);
			return;
		}
		if (!watch->refusals++)
			sched_yield();
		else
			network_watch_nap();
		if (retry)
			network_watch_look_again(watch, NETWORK_RETRY);
		return;
	}
	watch->refusals = 0;
	if (again == NETWORK_SOON || again == NETWORK_RETRY)
		network_watch_nap();
	if (retry || again != NETWORK_RETRY)
		network_watch_look_again(watch, again);
}

static void network_watch_on_readable(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	network_watch_look(arg, false);
}

static void network_watch_on_wake(int fd, short what, void *arg)
{
	uint64_t count;

	(void)what;
	/* A counter of wakes, or of ends of the timer; empty if reset meanwhile. */
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	network_watch_look(arg, true);
}

int network_watch_create(struct network_watch **result, struct event_base *base,
			 struct network *network)
{
	struct network_watch *watch = calloc(1, sizeof(*watch));
	int status = PF_ERR_SYSTEM, error;

	if (!watch)
		return PF_ERR_MEMORY;
	watch->network = network;
	watch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (watch->timer < 0)
		goto fail;
	status = PF_ERR_MEMORY;
	watch->woken = event_new(base, network->wake, EV_READ | EV_PERSIST, network_watch_on_wake,
				 watch);
	watch->due = event_new(base, network->timer, EV_READ | EV_PERSIST, network_watch_on_wake,
			       watch);
	watch->grace_over = event_new(base, network->grace_timer, EV_READ | EV_PERSIST,
				      network_watch_on_wake, watch);
	watch->ended = event_new(base, watch->timer, EV_READ | EV_PERSIST, network_watch_on_wake,
				 watch);
	watch->readable = event_new(base, network->traffic.carrier->descriptor,
				    EV_READ | EV_PERSIST, network_watch_on_readable, watch);
	if (!watch->readable || !watch->grace_over || event_add(watch->grace_over, NULL) ||
	    !watch->woken || event_add(watch->woken, NULL) || !watch->due ||
	    event_add(watch->due, NULL) || !watch->ended || event_add(watch->ended, NULL))
		goto fail;
	network_attend(network);
	network_watch_listen(watch, true);
	*result = watch;
	return PF_OK;
fail:
	error = errno;
	network_watch_destroy(watch);
	errno = error;
	return status;
}

void network_watch_destroy(struct network_watch *watch)
{
	if (!watch)
		return;
	if (watch->readable)
		event_free(watch->readable);
	if (watch->woken)
		event_free(watch->woken);
	if (watch->due)
		event_free(watch->due);
	if (watch->grace_over)
		event_free(watch->grace_over);
	if (watch->ended)
		event_free(watch->ended);
	if (watch->timer >= 0)
		close(watch->timer);
	free(watch);
}
