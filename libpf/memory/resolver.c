/* SPDX-License-Identifier: BSD-3-Clause */
#include "resolver.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "pace.h"
#include "pager.h"
#include "base/probe.h"
#include "residency.h"
#include "touch.h"

/*
 * Of looks at a pager's pages that are there and then are not. Others bring them
 * in while the application evicts them, so it may happen some times on end; for
 * pages without permission it is always so.
 */
#define EVICTED_ROUNDS 64

/*
 * As far as it is a pager's, *done. Pages that are all there and cannot be
 * touched lack permission, unless they were just evicted, or were and came back.
 */
static int resolve_paged(struct resolver *resolver, struct resolution *resolution, uint64_t at,
			 uint64_t length, uint64_t *done)
{
	bool supplied;
	int round, status;

	for (round = 0; round < EVICTED_ROUNDS; round++) {
		status = pager_supply(resolver->pagers, at, length, done, &supplied);
		resolution->failed = at + *done;
		if (supplied)
			resolution->kind = FAULT_PAGER;
		if (status != PF_OK || supplied || !*done)
			return status;
		/* What the kernel has swapped out is a pager's no more. */
		status = pagers_touch(resolver->pagers, at, *done, resolution->write,
				      &resolution->failed);
		if (status == PF_OK)
			return PF_OK;
	}
	return PF_ERR_FAULT;
}

/*
 * By pieces, some of them a pager's. used: of a resolver thread, which rests
 * between them; NULL elsewhere.
 */
static int resolve_range(struct resolver *resolver, struct resolution *resolution, uint64_t *used)
{
	bool pagers = atomic_load_explicit(&resolver->pagers->any, memory_order_relaxed), quick;
	uint64_t at = resolution->address, end = at + resolution->length, done, length;
	uint64_t step = pagers ? (uint64_t)sysconf(_SC_PAGESIZE) : TOUCH_PIECE;

	for (; at < end; at = done) {
		if (used)
			pace_rest(resolver->pace, used);
		if (pagers && pager_owns(resolver->pagers, at, &quick)) {
			length = end - at < TOUCH_PIECE ? end - at : TOUCH_PIECE;
			if (resolve_paged(resolver, resolution, at, length, &done) != PF_OK)
				return PF_ERR_FAULT;
			done += at;
			/* It may have been unregistered this moment: then the page is as others are. */
			if (done > at)
				continue;
		}
		done = (at / step + 1) * step;
		if (done > end)
			done = end;
		if (pagers_touch(resolver->pagers, at, done - at, resolution->write,
				 &resolution->failed) != PF_OK)
			return PF_ERR_FAULT;
	}
	return PF_OK;
}

static void resolve(struct resolver *resolver, struct resolution *resolution, uint64_t *used)
{
	uint64_t before = clock_nanoseconds(CLOCK_MONOTONIC);

	probe_resolve_start(resolution->address, resolution->length, resolver->policy);
	resolution->status = resolve_range(resolver, resolution, used);
	if (resolution->status != PF_OK)
		resolution->kind = FAULT_PERMISSION;
	probe_resolve_done(resolution->address, resolution->length, resolution->status,
			   clock_nanoseconds(CLOCK_MONOTONIC) - before);
	resolution->done(resolution);
}

static void *run(void *arg)
{
	struct resolver *resolver = arg;
	struct resolution *resolution;
	uint64_t used = pace_used();

	pthread_setname_np(pthread_self(), "libpf resolver");
	pthread_mutex_lock(&resolver->lock);
	while (!resolver->stopping) {
		resolution = resolver->first;
		if (!resolution) {
			resolver->idle++;
			pthread_cond_wait(&resolver->work, &resolver->lock);
			resolver->idle--;
			continue;
		}
		resolver->first = resolution->next;
		if (!resolver->first)
			resolver->last = &resolver->first;
		pthread_mutex_unlock(&resolver->lock);
		resolve(resolver, resolution, &used);
		pace_end(resolver->pace);
		pthread_mutex_lock(&resolver->lock);
	}
	pthread_mutex_unlock(&resolver->lock);
	return NULL;
}

void resolver_init(struct resolver *resolver, struct pagers *pagers, struct residency *residency,
		   struct pace *pace, enum pf_policy policy)
{
	resolver->pagers = pagers;
	resolver->residency = residency;
	resolver->pace = pace;
	resolver->policy = policy;
	resolver->last = &resolver->first;
	pthread_mutex_init(&resolver->lock, NULL);
	pthread_cond_init(&resolver->work, NULL);
}

void resolver_destroy(struct resolver *resolver)
{
	unsigned i;

	pthread_mutex_lock(&resolver->lock);
	resolver->stopping = true;
	pthread_cond_broadcast(&resolver->work);
	pthread_mutex_unlock(&resolver->lock);
	pace_end_rests(resolver->pace);
	for (i = 0; i < resolver->started; i++)
		pthread_join(resolver->threads[i], NULL);
	while (resolver->first) {
		struct resolution *resolution = resolver->first;

		resolver->first = resolution->next;
		pace_end(resolver->pace);
		resolution->status = PF_ERR_FAULT;
		resolution->failed = resolution->address;
		resolution->done(resolution);
	}
	pthread_cond_destroy(&resolver->work);
	pthread_mutex_destroy(&resolver->lock);
}

/* Under the lock. Signals are the application's: none is ever delivered to these threads. */
static void start_thread(struct resolver *resolver)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&resolver->threads[resolver->started], NULL, run, resolver))
		resolver->started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* What the kernel brings in without waiting never comes here: only a pager is quick. */
static bool is_quick(struct resolver *resolver, struct resolution *resolution)
{
	uint64_t cold;
	bool quick;

	if (pager_owns(resolver->pagers, resolution->address, &quick)) {
		resolution->kind = FAULT_MINOR;
		return quick;
	}
	if (residency_look(resolver->residency, resolution->address, resolution->length, &cold) <
	    resolution->length)
		resolution->kind = FAULT_MAJOR;
	else
		resolution->kind = FAULT_MINOR;
	return false;
}

void resolver_submit(struct resolver *resolver, struct resolution *resolution)
{
	bool here = !resolution->length || resolution->length > RESOLVER_MOST ||
		    resolution->address + resolution->length < resolution->address;

	if (here) {
		resolution->status = PF_ERR_FAULT;
		resolution->failed = resolution->address;
		resolution->kind = FAULT_PERMISSION;
		resolution->done(resolution);
		return;
	}
	here = is_quick(resolver, resolution);
	if (!here) {
		pthread_mutex_lock(&resolver->lock);
		if (!resolver->idle && resolver->started < RESOLVER_THREADS)
			start_thread(resolver);
		/* Without any thread it has to be done here, late as that makes others. */
		here = !resolver->started || resolver->stopping;
		if (!here) {
			resolution->next = NULL;
			*resolver->last = resolution;
			resolver->last = &resolution->next;
			pace_begin(resolver->pace);
			pthread_cond_signal(&resolver->work);
		}
		pthread_mutex_unlock(&resolver->lock);
	}
	if (here)
		resolve(resolver, resolution, NULL);
}
