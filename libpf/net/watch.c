/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/context.h"

/* How often this thread looks whether the application polls. */
#define LOOK_NANOSECONDS 4000000ull
/* Packets make us look at any time, and in a moment even one that computes uses little. */
#define SAMPLE_NANOSECONDS 3000000ull
/* Found driving so many times in a row, another thread is at it for long: inside a callback. */
#define REFUSALS_MOST 64
#define RETRY_NANOSECONDS 1000000ull

struct watch {
	struct engine *engine;
	struct event *readable[SOCKETS_MOST];
	struct event *woken, *timer;
	struct activity_observer observer; /* of the application */
	bool spared; /* the application serves the network, or could not while this thread does */
	bool listening; /* to the sockets */
	unsigned refusals;
};

static void set_timer(struct watch *watch, uint64_t nanoseconds)
{
	const uint64_t microseconds = (nanoseconds + 999) / 1000;
	const struct timeval time = { .tv_sec = (time_t)(microseconds / 1000000),
				      .tv_usec = (suseconds_t)(microseconds % 1000000) };

	event_add(watch->timer, &time);
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

static void attend(struct watch *watch, bool attending)
{
	atomic_store_explicit(&watch->engine->attended, attending, memory_order_seq_cst);
	listen_to_sockets(watch, attending);
}

static bool is_spared(struct watch *watch, uint64_t time)
{
	const pf_context *context = watch->engine->context;
	enum activity_state state;

	/* One that sleeps between polls does not hear the sockets: there, both look. */
	if (context_is_sleepy(context))
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

static void look(struct watch *watch)
{
	uint64_t alarm, time = now();

	if (is_spared(watch, time)) {
		attend(watch, false);
		set_timer(watch, LOOK_NANOSECONDS);
		return;
	}
	attend(watch, true);
	if (!engine_serve(watch->engine, watch->refusals == REFUSALS_MOST, &alarm)) {
		/* While it is, readable sockets stay so; most often it is a moment. */
		if (watch->refusals == REFUSALS_MOST) {
			listen_to_sockets(watch, false);
			return;
		}
		watch->refusals++;
		set_timer(watch, RETRY_NANOSECONDS);
		return;
	}
	watch->refusals = 0;
	if (alarm == NET_NEVER) {
		event_del(watch->timer);
		return;
	}
	time = now();
	set_timer(watch, alarm > time ? alarm - time : 0);
}

static void on_timer(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	look(arg);
}

static void on_readable(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	look(arg);
}

static void on_wake(int fd, short what, void *arg)
{
	uint64_t count;

	(void)what;
	/* It is a counter: empty if the application was quicker. */
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	look(arg);
}

int watch_create(struct watch **result, struct event_base *base, struct engine *engine)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	unsigned i;

	if (!watch)
		return PF_ERR_MEMORY;
	watch->engine = engine;
	watch->timer = event_new(base, -1, 0, on_timer, watch);
	watch->woken = event_new(base, engine->wake, EV_READ | EV_PERSIST, on_wake, watch);
	if (!watch->timer || !watch->woken || event_add(watch->woken, NULL))
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
	return PF_ERR_MEMORY;
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
	if (watch->timer)
		event_free(watch->timer);
	free(watch);
}
