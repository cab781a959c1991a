/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of pages do not nest: one munlock undoes any number of mlocks. A page is unlocked only
 * once no remaining registration covers the page.
 *
 * The mode pin-cache keeps ranges locked for the next use, and the application may unmap, remap
 * or drop a kept range meanwhile without the knowledge of libpf. Therefore the cache is never
 * evidence of locked or present pages; the cache only lists ranges to be unlocked later. Each
 * registration asks the kernel again:
 * - mlock2 locks the memory mapped at the address now. For locked memory mlock2 costs 0.2 us.
 * - pagemap tells whether all pages are present, which costs 7 us for 4 MiB (mlock does the work
 *   of both in 31 us). Absent pages are brought in.
 * The kernel has unlocked the pages of a mapping no longer there. Hence a stale range cannot be
 * used: a registration relies only on the results of its own calls.
 *
 * The alternative is to be told of changes by userfaultfd (EVENT_UNMAP, _REMAP, _REMOVE). Events
 * would delay munmap and make it possible to reuse the address before libpf knows, and system
 * calls on absent pages would fail in processes without permission to handle faults of the
 * kernel.
 */
#include "registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/page.h"
#include "memory/pagemap.h"
#include "memory/touch.h"
#include <libpf/pf.h>

struct registration {
	TAILQ_ENTRY(registration) link;
	uint64_t start, end; /* addresses of whole pages: [start, end) */
	unsigned users;      /* 0: kept by the cache */
};

static uint64_t length_of(const struct registration *registration)
{
	return registration->end - registration->start;
}

/*
 * A bare system call, because the address sanitizer replaces munlock of the C library by nothing.
 */
static int kernel_munlock(uint64_t start, uint64_t end)
{
	return (int)syscall(SYS_munlock, start, end - start);
}

/* Absent pages are locked when brought in; the kernel need not walk all pages now. */
static int kernel_mlock(uint64_t start, uint64_t end)
{
	return (int)syscall(SYS_mlock2, start, end - start, MLOCK_ONFAULT);
}

/* MS_INVALIDATE has no other effect on Linux than to fail with EBUSY for locked memory. */
static bool any_locked(uint64_t start, uint64_t end)
{
	return msync((void *)(uintptr_t)start, end - start, MS_INVALIDATE) < 0 && errno == EBUSY;
}

/*
 * munlock stops at the first hole, and the application may have unmapped a part meanwhile.
 * Therefore unlock the halves of a range with pages still locked.
 */
static void range_unlock(uint64_t start, uint64_t end)
{
	uint64_t page = page_size(), middle;

	if (!kernel_munlock(start, end) || end - start <= page || !any_locked(start, end))
		return;
	middle = start + (end - start) / 2 / page * page;
	range_unlock(start, middle);
	range_unlock(middle, end);
}

/* Under the lock: unlock the parts of [start, end) without a registration. */
static void unlock_uncovered(const struct registrations *registrations, uint64_t start,
			     uint64_t end)
{
	while (start < end) {
		const struct registration *other;
		uint64_t covered = start, next = end;

		TAILQ_FOREACH(other, &registrations->list, link) {
			if (other->start > start && other->start < next)
				next = other->start;
			else if (other->start <= start && other->end > covered)
				covered = other->end;
		}
		if (covered == start) {
			range_unlock(start, next);
			covered = next;
		}
		start = covered;
	}
}

/* Under the lock, unless the registrations are destroyed: unlock and free. */
static void registration_drop(struct registrations *registrations,
			      struct registration *registration)
{
	TAILQ_REMOVE(&registrations->list, registration, link);
	unlock_uncovered(registrations, registration->start, registration->end);
	free(registration);
}

/* Under the lock: drop the least recently used range without a user; false: there is none. */
static bool registration_evict(struct registrations *registrations)
{
	struct registration *oldest;

	assert_locked(&registrations->lock, true);
	TAILQ_FOREACH_REVERSE(oldest, &registrations->list, registration_list, link) {
		if (!oldest->users)
			break;
	}
	if (!oldest)
		return false;
	registrations->cached -= length_of(oldest);
	registrations->cached_ranges--;
	registration_drop(registrations, oldest);
	return true;
}

/* Under the lock. NULL: no registration covers [start, end). */
static struct registration *find_covering(const struct registrations *registrations, uint64_t start,
					  uint64_t end)
{
	struct registration *found;

	assert_locked(&registrations->lock, true);
	TAILQ_FOREACH(found, &registrations->list, link) {
		if (found->start <= start && found->end >= end)
			break;
	}
	return found;
}

/*
 * Under the lock: add a user to a registration of [start, end), cached or new. *hit: the
 * registration was cached. NULL: out of memory.
 */
static struct registration *registration_use(struct registrations *registrations, uint64_t start,
					     uint64_t end, bool *hit)
{
	struct registration *registration = NULL;

	assert_locked(&registrations->lock, true);
	if (registrations->mode == REGISTRATION_PIN_CACHE)
		registration = find_covering(registrations, start, end);
	*hit = registration;
	if (registration) {
		TAILQ_REMOVE(&registrations->list, registration, link);
		if (!registration->users) {
			registrations->cached -= length_of(registration);
			registrations->cached_ranges--;
		}
	} else {
		registration = calloc(1, sizeof(*registration));
		if (!registration)
			return NULL;
		registration->start = start;
		registration->end = end;
	}
	registration->users++;
	TAILQ_INSERT_HEAD(&registrations->list, registration, link);
	return registration;
}

/* Under the lock: remove a user. Without any, the registration is kept in the cache or dropped. */
static void registration_release(struct registrations *registrations,
				 struct registration *registration, bool keep)
{
	assert_locked(&registrations->lock, true);
	if (--registration->users)
		return;
	if (!keep) {
		registration_drop(registrations, registration);
		return;
	}
	registrations->cached += length_of(registration);
	registrations->cached_ranges++;
	while (registrations->cached > registrations->cache_bytes ||
	       registrations->cached_ranges > registrations->cache_ranges)
		registration_evict(registrations);
}

/*
 * Is every page present? Then a transfer meets no page fault. To be written, a private page must
 * be mapped by no further process; otherwise the first write copies the page. The page map does
 * not show accesses forbidden by mprotect: a transfer with such an access fails by itself.
 */
static bool all_present(const struct registrations *registrations, uint64_t start, uint64_t end,
			bool write)
{
	const uint64_t writable = PAGEMAP_EXCLUSIVE | PAGEMAP_FILE;
	uint64_t entries[PAGEMAP_BATCH];
	size_t count, i;

	for (; start < end; start += count * page_size()) {
		count = pagemap_read(registrations->pagemap, start, end, entries);
		if (!count)
			return false;
		for (i = 0; i < count; i++) {
			if (!(entries[i] & PAGEMAP_PRESENT) || (write && !(entries[i] & writable)))
				return false;
		}
	}
	return true;
}

/*
 * Under the lock: lock [start, end) and make all of its pages present. hit: the pages are
 * probably present. Returns PF_OK, PF_ERR_FAULT, PF_ERR_MEMORY if no more may be locked, or
 * PF_ERR_SYSTEM.
 */
static int registration_pin(struct registrations *registrations, uint64_t start, uint64_t end,
			    bool write, bool hit)
{
	uint64_t failed;
	int status;

	assert_locked(&registrations->lock, true);
	while (kernel_mlock(start, end) < 0) {
		if (errno != ENOMEM)
			return errno == EPERM ? PF_ERR_MEMORY : PF_ERR_SYSTEM;
		/* ENOMEM: part of the range is not mapped, or the limit of locked memory is met. */
		status = touch_range(start, end - start, write, &failed);
		if (status != PF_OK)
			return status;
		if (!registration_evict(registrations))
			return PF_ERR_MEMORY;
	}
	if (hit && all_present(registrations, start, end, write))
		return PF_OK;
	return touch_range(start, end - start, write, &failed);
}

static int register_pinned(struct registrations *registrations, uint64_t start, uint64_t end,
			   bool write, struct registration **result)
{
	struct registration *registration;
	bool hit;
	int status;

	pthread_mutex_lock(&registrations->lock);
	registration = registration_use(registrations, start, end, &hit);
	status = registration ? registration_pin(registrations, start, end, write, hit) :
				PF_ERR_MEMORY;
	if (status == PF_OK)
		*result = registration;
	else if (registration)
		registration_release(registrations, registration, false);
	pthread_mutex_unlock(&registrations->lock);
	return status;
}

int registration_add(struct registrations *registrations, void *address, size_t length, bool write,
		     struct registration **registration)
{
	uint64_t page = page_size(), start = (uint64_t)(uintptr_t)address, end, failed;

	*registration = NULL;
	if (registrations->mode == REGISTRATION_FAULT || !length)
		return PF_OK;
	end = (start + length + page - 1) & ~(page - 1);
	start &= ~(page - 1);
	if (end <= start || end - start < length)
		return PF_ERR_FAULT;
	if (registrations->mode == REGISTRATION_PREFAULT)
		return touch_range(start, end - start, write, &failed);
	return register_pinned(registrations, start, end, write, registration);
}

void registration_remove(struct registrations *registrations, struct registration *registration)
{
	if (!registration)
		return;
	pthread_mutex_lock(&registrations->lock);
	registration_release(registrations, registration,
			     registrations->mode == REGISTRATION_PIN_CACHE);
	pthread_mutex_unlock(&registrations->lock);
}

void registrations_init(struct registrations *registrations, enum registration_mode mode)
{
	*registrations = (struct registrations){ .mode = mode };
	registrations->cache_bytes = REGISTRATION_CACHE_BYTES;
	registrations->cache_ranges = REGISTRATION_CACHE_RANGES;
	TAILQ_INIT(&registrations->list);
	registrations->pagemap = -1;
	pthread_mutex_init(&registrations->lock, NULL);
	if (mode == REGISTRATION_PIN_CACHE)
		registrations->pagemap = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
}

void registrations_destroy(struct registrations *registrations)
{
	/* clang's analyzer does not see the removal from the list by registration_drop. */
	while (!TAILQ_EMPTY(&registrations->list))
		registration_drop(
			registrations,
			TAILQ_FIRST(&registrations->list)); /* NOLINT(clang-analyzer-unix.Malloc) */
	if (registrations->pagemap >= 0)
		close(registrations->pagemap);
	pthread_mutex_destroy(&registrations->lock);
}
