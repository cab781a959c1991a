/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/context.h"

/* How often it is looked whether the application polls, and with how many polls it does. */
#define LOOK_NANOSECONDS 4000000ull
#define POLLS_LEAST 8
/* Packets make us look at any time, and in a moment even one that computes uses little. */
#define SAMPLE_NANOSECONDS 3000000ull
/* Less than this of a processor between two samples is not computing. */
#define STARVING_NANOSECONDS 1000000
/* Found driving so many times in a row, another thread is at it for long: inside a callback. */
#define REFUSALS_MOST 64
#define RETRY_NANOSECONDS 1000000ull

struct watch {
	struct engine *engine;
	struct event *readable[INTERFACES_MOST];
	struct event *woken, *timer;
	/* A sample of the application: when it was taken, and what came of it. */
	uint64_t sampled;
	uint64_t polls; /* by then */
	uint64_t used;  /* by the thread that polls, of a processor, by then; ns */
	bool spared;    /* it looks after the network, or could not while we do */
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
	for (i = 0; i < watch->engine->count; i++) {
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

/* Has the application looked after the network itself for the time since the last sample? */
static bool application_polls(struct watch *watch, uint64_t passed)
{
	uint64_t polls = atomic_load_explicit(&watch->engine->looks, memory_order_relaxed);
	uint64_t least = passed < LOOK_NANOSECONDS ? 1 : passed / LOOK_NANOSECONDS;
	bool enough = polls - watch->polls >= POLLS_LEAST * least;

	watch->polls = polls;
	return enough;
}

/*
 * Does the thread that polls only wait for a processor? Then there is none to
 * spare for us either, and what it would have to wait for on top is us. One that
 * computes uses its processor between two samples.
 */
static bool application_starves(struct watch *watch)
{
	int thread = atomic_load_explicit(&watch->engine->poller, memory_order_relaxed);
	unsigned long long used = 0;
	char path[64], text[512], state = 0;
	const char *rest;
	bool idle;
	FILE *file;

	if (!thread)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest + 1, " %c", &state) != 1 || state != 'R')
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	idle = fscanf(file, "%llu", &used) == 1 && used - watch->used < STARVING_NANOSECONDS;
	fclose(file);
	watch->used = used;
	return idle;
}

static bool is_spared(struct watch *watch, uint64_t time)
{
	uint64_t passed = time - watch->sampled;

	/* One that sleeps between polls does not hear the sockets: there, both look. */
	if (watch->engine->context->sleepy)
		return false;
	if (passed < SAMPLE_NANOSECONDS)
		return watch->spared;
	watch->sampled = time;
	watch->spared = application_polls(watch, passed) || application_starves(watch);
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
	for (i = 0; i < engine->count; i++) {
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
	for (i = 0; i < INTERFACES_MOST; i++) {
		if (watch->readable[i])
			event_free(watch->readable[i]);
	}
	if (watch->woken)
		event_free(watch->woken);
	if (watch->timer)
		event_free(watch->timer);
	free(watch);
}
