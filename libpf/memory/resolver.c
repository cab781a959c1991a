/* SPDX-License-Identifier: BSD-3-Clause */
#include "resolver.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/page.h"
#include "base/probe.h"
#include "base/thread.h"
#include "touch.h"

/*
 * Resolve the part of [at, at + length) from at on owned by a pager; *done: its bytes. The
 * application may evict pages meanwhile: then the result is PF_OK although some pages are absent,
 * and the next access is a page fault again. PF_OK or PF_ERR_FAULT.
 */
static int resolve_paged(struct resolver *resolver, struct resolution *resolution, uint64_t at,
			 uint64_t length, bool on_resolver_thread, uint64_t *done)
{
	bool supplied;
	int status = pager_supply(resolver->pagers, at, length, on_resolver_thread, done,
				  &supplied);

	resolution->failed = at + *done;
	resolution->kind = FAULT_PAGER;
	if (status != PF_OK || supplied || !*done)
		return status;
	/*
	 * All pages were present and yet there was a page fault: the kernel swapped pages out, or
	 * the pages came meanwhile, or a permission is missing. Only a missing permission is an
	 * error; EFAULT: evicted again.
	 */
	status = touch_range(at, *done, resolution->write, &resolution->failed);
	return status == PF_OK || errno == EFAULT ? PF_OK : PF_ERR_FAULT;
}

/*
 * Resolve after pagers_touch failed at resolution->failed, for the reason in errno; false if the
 * page cannot be brought in. EFAULT in anonymous memory: a userfaultfd in user mode only has the
 * page, and gives the page to a thread of the program. Only a resolver thread may wait for the page.
 */
static bool resolve_by_access(struct resolver *resolver, struct resolution *resolution,
			      bool on_resolver_thread)
{
	bool anonymous;
	int error = errno;

	if ((error != EFAULT && error != EINVAL) ||
	    !residency_permits(resolver->residency, resolution->failed, resolution->write,
			       &anonymous))
		return false;
	if (error == EINVAL) {
		resolution->kind = FAULT_HIDDEN;
		return false;
	}
	/* Behind the end of a file an access would raise SIGBUS. */
	if (!anonymous || !on_resolver_thread)
		return false;
	touch_by_access(resolution->failed, resolution->write);
	return true;
}

/*
 * Resolve piece by piece: part of the range may be a pager's. used: of pace_rest, because a resolver
 * thread rests between the pieces; NULL on any other thread. PF_OK or PF_ERR_FAULT.
 */
static int resolve_range(struct resolver *resolver, struct resolution *resolution, uint64_t *used)
{
	bool pagers = atomic_load_explicit(&resolver->pagers->any, memory_order_relaxed), quick;
	uint64_t at = resolution->address, end = at + resolution->length, done, length;
	uint64_t step = pagers ? page_size() : TOUCH_PIECE;
	bool on_resolver_thread = used != NULL;

	/* A peer chose the address: a range that ends behind the address space has no page. */
	if (resolution->length > UINT64_MAX - at) {
		resolution->failed = at;
		return PF_ERR_FAULT;
	}
	for (; at < end; at = done) {
		if (on_resolver_thread)
			pace_rest(resolver->pace, used);
		if (pagers && pager_owns(resolver->pagers, at, &quick)) {
			length = end - at < TOUCH_PIECE ? end - at : TOUCH_PIECE;
			if (resolve_paged(resolver, resolution, at, length, on_resolver_thread,
					  &done) != PF_OK)
				return PF_ERR_FAULT;
			done += at;
			/*
			 * 0: the pager was unregistered meanwhile, and the page is ordinary
			 * memory.
			 */
			if (done > at)
				continue;
		}
		done = (at / step + 1) * step;
		if (done > end)
			done = end;
		if (pagers_touch(resolver->pagers, at, done - at, resolution->write,
				 &resolution->failed) == PF_OK)
			continue;
		if (!resolve_by_access(resolver, resolution, on_resolver_thread))
			return PF_ERR_FAULT;
		done = (resolution->failed / page_size() + 1) * page_size();
	}
	return PF_OK;
}

static bool looks_absent(struct resolver *resolver, const struct resolution *resolution)
{
	uint64_t cold;

	return residency_look(resolver->residency, resolution->address, resolution->length, &cold) <
	       resolution->length;
}

/*
 * A page that looks absent after its resolution went again at once, or the kernel's answer is
 * wrong. Resolve the range once more, then have the page accessed without a look: a copy that
 * waits is better than a block resolved for ever.
 */
static int resolve_twice(struct resolver *resolver, struct resolution *resolution, uint64_t *used)
{
	int status = resolve_range(resolver, resolution, used);

	if (status != PF_OK || !looks_absent(resolver, resolution))
		return status;
	status = resolve_range(resolver, resolution, used);
	if (status == PF_OK && looks_absent(resolver, resolution))
		residency_believe(resolver->residency, resolution->address, resolution->length);
	return status;
}

/* Return the number of page faults of the calling thread with a wait for a disk. */
static long waits_for_disk(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? -1 : usage.ru_majflt;
}

/*
 * Resolve a range that seemed to need a disk. A page in no cache that came without a wait was
 * never touched.
 */
static int resolve_absent(struct resolver *resolver, struct resolution *resolution, uint64_t *used)
{
	bool lacks = residency_lacks(resolution->address);
	long waits = waits_for_disk();
	int status;

	residency_learn(resolver->residency, resolution->address);
	status = resolve_twice(resolver, resolution, used);
	if (status == PF_OK && resolution->kind == FAULT_MAJOR && lacks &&
	    waits_for_disk() == waits) {
		residency_note_hole(resolver->residency, resolution->address);
		resolution->kind = FAULT_MINOR;
	}
	return status;
}

static void resolver_resolve(struct resolver *resolver, struct resolution *resolution,
			     uint64_t *used)
{
	uint64_t before = clock_nanoseconds(CLOCK_MONOTONIC);

	probe_resolve_start(resolver->trace, resolution->address, resolution->length,
			    resolver->policy);
	/* Only a resolver thread has the time to learn about the file. */
	resolution->status = resolution->kind == FAULT_MAJOR && used ?
				     resolve_absent(resolver, resolution, used) :
				     resolve_twice(resolver, resolution, used);
	if (resolution->status != PF_OK && resolution->kind != FAULT_HIDDEN)
		resolution->kind = FAULT_PERMISSION;
	probe_resolve_done(resolver->trace, resolution->address, resolution->length,
			   resolution->status, clock_nanoseconds(CLOCK_MONOTONIC) - before);
	resolution->done(resolution);
}

/* Under the lock. Askers are the processes of this host: few enough to search. */
static void resolution_queue(struct resolver *resolver, struct resolution *resolution)
{
	struct resolution *first;

	assert_locked(&resolver->lock, true);
	resolver->queued++;
	TAILQ_FOREACH(first, &resolver->turns, turn) {
		if (first->asker == resolution->asker) {
			STAILQ_INSERT_TAIL(&first->rest, resolution, link);
			return;
		}
	}
	STAILQ_INIT(&resolution->rest);
	TAILQ_INSERT_TAIL(&resolver->turns, resolution, turn);
}

/* Under the lock, or without threads: take the oldest queued resolution of the asker at turn. */
static struct resolution *resolution_take(struct resolver *resolver)
{
	struct resolution *resolution = TAILQ_FIRST(&resolver->turns);
	struct resolution *next = STAILQ_FIRST(&resolution->rest);

	assert_that(resolver->queued);
	resolver->queued--;
	TAILQ_REMOVE(&resolver->turns, resolution, turn);
	if (next) {
		STAILQ_REMOVE_HEAD(&resolution->rest, link);
		STAILQ_INIT(&next->rest);
		STAILQ_CONCAT(&next->rest, &resolution->rest);
		TAILQ_INSERT_TAIL(&resolver->turns, next, turn);
	}
	return resolution;
}

/* A resolver thread. */
static void *resolver_main(void *arg)
{
	struct resolver *resolver = arg;
	struct resolution *resolution;
	uint64_t used = pace_used();

	pthread_mutex_lock(&resolver->lock);
	while (!resolver->stopping) {
		if (TAILQ_EMPTY(&resolver->turns)) {
			resolver->idle++;
			pthread_cond_wait(&resolver->work, &resolver->lock);
			resolver->idle--;
			continue;
		}
		resolution = resolution_take(resolver);
		pthread_mutex_unlock(&resolver->lock);
		resolver_resolve(resolver, resolution, &used);
		pace_end(resolver->pace);
		pthread_mutex_lock(&resolver->lock);
	}
	pthread_mutex_unlock(&resolver->lock);
	return NULL;
}

void resolver_init(struct resolver *resolver, struct pagers *pagers, struct residency *residency,
		   struct pace *pace, enum pf_policy policy, struct trace *trace)
{
	resolver->pagers = pagers;
	resolver->residency = residency;
	resolver->pace = pace;
	resolver->policy = policy;
	resolver->trace = trace;
	TAILQ_INIT(&resolver->turns);
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
	/* No thread is left to take the lock. */
	while (!TAILQ_EMPTY(&resolver->turns)) {
		struct resolution *resolution = resolution_take(resolver);

		pace_end(resolver->pace);
		resolution->dropped = true;
		resolution->status = PF_ERR_FAULT;
		resolution->failed = resolution->address;
		resolution->done(resolution);
	}
	pthread_cond_destroy(&resolver->work);
	pthread_mutex_destroy(&resolver->lock);
}

/* Under the lock. A failure is not reported; started stays the same. */
static void start_thread(struct resolver *resolver)
{
	assert_locked(&resolver->lock, true);
	if (!thread_start(&resolver->threads[resolver->started], "libpf resolver", resolver_main,
			  resolver))
		resolver->started++;
}

/*
 * Does the kernel only have to map pages? A store to a page of a file may wait for the file system.
 * The limit: the calling thread has more to do, and such resolutions take no turns.
 */
static bool only_maps(const struct resolver *resolver, const struct resolution *resolution)
{
	return !resolution->write && resolution->length <= TOUCH_PIECE &&
	       residency_maps_cache(resolver->residency, resolution->address, resolution->length);
}

/* Is the resolution quick enough for the calling thread? Sets the kind of the page fault. */
static bool is_quick(struct resolver *resolver, struct resolution *resolution)
{
	bool quick;

	/*
	 * Behind the range of a quick pager may lie the range of a slow pager, or a file. A page
	 * supplied before may be in swap.
	 */
	if (pager_owns(resolver->pagers, resolution->address, &quick)) {
		resolution->kind = FAULT_PAGER;
		return quick &&
		       pager_owns_all(resolver->pagers, resolution->address, resolution->length) &&
		       !looks_absent(resolver, resolution);
	}
	/*
	 * Also where the pages are present by now: FAULT_MINOR would tell a peer that no absent page
	 * of the file needs the disk.
	 */
	resolution->kind = FAULT_MAJOR;
	return only_maps(resolver, resolution);
}

/* The range may come from a peer. */
static bool range_is_sound(const struct resolution *resolution)
{
	return resolution->length && resolution->length <= RESOLVER_LENGTH_MAX &&
	       resolution->address + resolution->length >= resolution->address;
}

bool resolver_map(struct resolver *resolver, struct resolution *resolution)
{
	assert_that(resolution->done);
	if (!range_is_sound(resolution) ||
	    pagers_own(resolver->pagers, resolution->address, resolution->length) ||
	    !only_maps(resolver, resolution))
		return false;
	resolution->kind = FAULT_MAJOR;
	resolver_resolve(resolver, resolution, NULL);
	return true;
}

void resolver_submit(struct resolver *resolver, struct resolution *resolution)
{
	bool queued = false;

	assert_that(resolution->done);
	if (!range_is_sound(resolution)) {
		resolution->status = PF_ERR_FAULT;
		resolution->failed = resolution->address;
		resolution->kind = FAULT_PERMISSION;
		resolution->done(resolution);
		return;
	}
	if (!is_quick(resolver, resolution)) {
		pthread_mutex_lock(&resolver->lock);
		/*
		 * Start a thread for each resolution in the queue: an earlier resolution may take
		 * long.
		 */
		if (resolver->queued >= resolver->idle && resolver->started < RESOLVER_THREADS)
			start_thread(resolver);
		queued = resolver->started && !resolver->stopping;
		if (queued) {
			resolution_queue(resolver, resolution);
			pace_begin(resolver->pace);
			pthread_cond_signal(&resolver->work);
		}
		pthread_mutex_unlock(&resolver->lock);
	}
	/*
	 * If no thread could be started, the calling thread has to resolve, although the
	 * resolution may take long.
	 */
	if (!queued)
		resolver_resolve(resolver, resolution, NULL);
}
