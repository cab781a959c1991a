/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <event2/event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/context.h"

/* How often this thread looks whether the application polls. */
#define LOOK_NANOSECONDS 4000000ull
/* Packets make us look at any time, and in a moment even one that computes uses little. */
#define SAMPLE_NANOSECONDS 3000000ull
/* Found driving so many times in a row, another thread is at it for long: inside a callback. */
#define REFUSALS_MOST 16
/*
 * A thread that drives, or has the lock, may need this processor, which sched_yield does not always give
 * it. With the usual slack of timers this is about 70 us.
 */
#define NAP_NANOSECONDS 20000

struct watch {
	struct engine *engine;
	struct event *readable[SOCKETS_MOST];
	struct event *woken, *due, *ended; /* the engine's wake and its timer, and timer */
	int timer;                         /* timerfd, set by this thread alone */
	bool timed;                        /* it is set, or has ended */
	struct activity_observer observer; /* of the application */
	bool spared; /* the application serves the network, or could not while this thread does */
	bool listening; /* to the sockets */
	unsigned refusals;
};

/* This thread looks again after so many ns, or does not for NET_NEVER: only the last one counts. */
static void look_again(struct watch *watch, uint64_t nanoseconds)
{
	const bool never = nanoseconds == NET_NEVER;
	/* 0 would stop it. */
	const struct itimerspec end = { .it_value.tv_nsec = never ? 0 : (long)nanoseconds + 1 };

	if (never && !watch->timed)
		return;
	watch->timed = !never;
	/* It can only fail for a descriptor or a time that is none. */
	(void)timerfd_settime(watch->timer, 0, &end, NULL);
}

static void listen_to_sockets(struct watch *watch, bool listening)
{
	unsigned i;

	if (watch->listening == listening)
		return;
	watch->listening = listening;
	for (i = 0; i < SOCKETS_MOST; i++) {
		if (!watch->readable[i])
			continue;
		if (listening)
			event_add(watch->readable[i], NULL);
		else
			event_del(watch->readable[i]);
	}
}

/* Returns whether that is new. */
static bool attend(struct watch *watch, bool attending)
{
	bool before = atomic_exchange_explicit(&watch->engine->attended, attending,
					       memory_order_seq_cst);

	listen_to_sockets(watch, attending);
	return before != attending;
}

static bool sleeps(const struct watch *watch)
{
	return atomic_load_explicit(&watch->engine->sleeps, memory_order_seq_cst);
}

static bool is_spared(struct watch *watch, uint64_t time)
{
	const pf_context *context = watch->engine->context;
	enum activity_state state;

	if (sleeps(watch))
		return false;
	if (time - watch->observer.time < SAMPLE_NANOSECONDS)
		return watch->spared;
	state = activity_observe_looks(&context->activity, &watch->observer, time, activity_thread);
	/* A starved thread would have to wait for this one on top. */
	watch->spared = state != ACTIVITY_COMPUTING;
	return watch->spared;
}

static uint64_t now(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
}

/* This thread begins a grace period. */
static void begin_period(struct watch *watch, uint64_t time, int thread)
{
	struct grace *grace = &watch->engine->grace;
	uint64_t used;

	if (!activity_thread(thread, NULL, &used))
		return;
	grace_start(grace, activity_read(&watch->engine->context->activity.looks), time, thread,
		    used);
}

/* During a grace period: at its end, decide. */
static void end_period(struct watch *watch, uint64_t time)
{
	struct engine *engine = watch->engine;
	struct grace *grace = &engine->grace;
	uint64_t looks = activity_read(&engine->context->activity.looks), left, used = 0;
	int thread = atomic_load_explicit(&grace->thread, memory_order_relaxed);
	bool known, away;

	if (!grace_runs(grace, time, &left) || left)
		return;
	known = activity_thread(thread, NULL, &used);
	away = looks == activity_read(&grace->looks) &&
	       !atomic_load_explicit(&engine->driving, memory_order_relaxed) &&
	       !(known && activity_starved(thread, activity_read(&grace->used), used,
					   time - activity_read(&grace->start)));
	switch (grace_end(grace, away)) {
	case GRACE_AWAY:
		/* No sample is needed. */
		watch->observer.time = time;
		watch->observer.looks = looks;
		if (known)
			watch->observer.used = used;
		watch->spared = false;
		break;
	case GRACE_RENEWED:
		begin_period(watch, time, thread);
		break;
	case GRACE_OVER:
		break;
	}
}

/* The application is left alone: until the end of a grace period, if one runs. */
static void spare(struct watch *watch, uint64_t time)
{
	struct engine *engine = watch->engine;
	uint64_t left;

	/* Whether it polls is a sample of the past: it may have left something to send since. */
	if (attend(watch, false))
		begin_period(watch, time,
			     atomic_load_explicit(&engine->context->activity.thread,
						  memory_order_relaxed));
	if (!grace_runs(&engine->grace, time, &left) || left > LOOK_NANOSECONDS)
		left = LOOK_NANOSECONDS;
	look_again(watch, left);
}

static void nap(void)
{
	const struct timespec time = { .tv_nsec = NAP_NANOSECONDS };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/*
 * retry: what is to be done is not seen again by itself, as a packet in a socket is. If another thread
 * drives, it sets the engine's timer when it stops, if it knows that this one attends.
 */
static void look(struct watch *watch, bool retry)
{
	uint64_t again, time = now();

	end_period(watch, time);
	if (is_spared(watch, time)) {
		spare(watch, time);
		/* Since it was asked it may have begun to sleep, and seen this thread attend. */
		if (!sleeps(watch))
			return;
	}
	retry |= attend(watch, true);
	grace_away(&watch->engine->grace);
	if (!engine_serve(watch->engine, watch->refusals == REFUSALS_MOST, &again)) {
		/* While it is, readable sockets stay so; most often it is a moment. */
		if (watch->refusals == REFUSALS_MOST) {
			listen_to_sockets(watch, false);
			return;
		}
		if (!watch->refusals++)
			sched_yield();
		else
			nap();
		if (retry)
			look_again(watch, ENGINE_RETRY);
		return;
	}
	watch->refusals = 0;
	if (again == ENGINE_SOON || again == ENGINE_RETRY)
		nap();
	if (retry || again != ENGINE_RETRY)
		look_again(watch, again);
}

static void on_readable(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	look(arg, false);
}

static void on_wake(int fd, short what, void *arg)
{
	uint64_t count;

	(void)what;
	/* A counter, of wakes or of ends of the timer: empty if it was reset meanwhile. */
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	look(arg, true);
}

int watch_create(struct watch **result, struct event_base *base, struct engine *engine)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	int status = PF_ERR_SYSTEM;
	unsigned i;

	if (!watch)
		return PF_ERR_MEMORY;
	watch->engine = engine;
	watch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (watch->timer < 0)
		goto fail;
	status = PF_ERR_MEMORY;
	watch->woken = event_new(base, engine->wake, EV_READ | EV_PERSIST, on_wake, watch);
	watch->due = event_new(base, engine->timer, EV_READ | EV_PERSIST, on_wake, watch);
	watch->ended = event_new(base, watch->timer, EV_READ | EV_PERSIST, on_wake, watch);
	if (!watch->woken || event_add(watch->woken, NULL) || !watch->due ||
	    event_add(watch->due, NULL) || !watch->ended || event_add(watch->ended, NULL))
		goto fail;
	for (i = 0; i < engine_sockets(engine); i++) {
		if (engine->sockets[i].fd < 0)
			continue;
		watch->readable[i] = event_new(base, engine->sockets[i].fd, EV_READ | EV_PERSIST,
					       on_readable, watch);
		if (!watch->readable[i])
			goto fail;
	}
	attend(watch, true);
	*result = watch;
	return PF_OK;
fail:
	watch_destroy(watch);
	return status;
}

void watch_destroy(struct watch *watch)
{
	unsigned i;

	if (!watch)
		return;
	for (i = 0; i < SOCKETS_MOST; i++) {
		if (watch->readable[i])
			event_free(watch->readable[i]);
	}
	if (watch->woken)
		event_free(watch->woken);
	if (watch->due)
		event_free(watch->due);
	if (watch->ended)
		event_free(watch->ended);
	if (watch->timer >= 0)
		close(watch->timer);
	free(watch);
}
