/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of pages in the kernel do not nest: the first munlock undoes any
 * number of mlocks. So a page is unlocked only once no registration that is
 * left covers it.
 *
 * pin-cache keeps ranges locked for the next time, and the application may
 * unmap, remap or drop such a range meanwhile without our knowing. So nothing
 * that the cache remembers is ever believed: its list says only what will have
 * to be unlocked some day. Each registration asks the kernel for the lock
 * again, which costs a look at the mapping (0.2 us) where it is locked already
 * and locks whatever else is mapped there by now, and looks into the page table
 * (pagemap, 7 us for 4 MiB; mlock itself takes 31 us to do so) whether all pages
 * are there, which are brought in if not. What a mapping that is gone had
 * locked, the kernel has unlocked. So a stale range cannot be used: what is
 * true of the address now was established now.
 *
 * The alternative, to be told of changes by userfaultfd (EVENT_UNMAP, _REMAP,
 * _REMOVE), would have munmap return late and the address reused early, and
 * has system calls on absent pages of the range fail for whoever may not
 * handle kernel faults.
 */
#include "registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "touch.h"

/* linux/Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_FILE (1ull << 61) /* or shared memory */
#define PAGEMAP_EXCLUSIVE (1ull << 56)
#define PAGEMAP_BATCH 512

struct pf_registration {
	pf_registration *next, *previous;
	uint64_t start, end; /* whole pages */
	unsigned users;      /* 0: kept by the cache */
};

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t length_of(const pf_registration *registration)
{
	return registration->end - registration->start;
}

/* The address sanitizer puts an empty munlock in the place of the C library's. */
static int kernel_munlock(uint64_t start, uint64_t end)
{
	return (int)syscall(SYS_munlock, start, end - start);
}

/* Pages that are absent are locked when they come in, so that it need not look at each. */
static int kernel_mlock(uint64_t start, uint64_t end)
{
	return (int)syscall(SYS_mlock2, start, end - start, MLOCK_ONFAULT);
}

/* msync does nothing here, but POSIX has it tell of locks. */
static bool any_locked(uint64_t start, uint64_t end)
{
	return msync((void *)(uintptr_t)start, end - start, MS_INVALIDATE) < 0 && errno == EBUSY;
}

/* munlock stops at the first hole, which the application may have left by now: go round them. */
static void unlock(uint64_t start, uint64_t end)
{
	uint64_t page = page_size(), middle;

	if (!kernel_munlock(start, end) || end - start <= page || !any_locked(start, end))
		return;
	middle = start + (end - start) / 2 / page * page;
	unlock(start, middle);
	unlock(middle, end);
}

/* Unlock what no registration covers. */
static void unlock_uncovered(const struct registrations *registrations, uint64_t start,
			     uint64_t end)
{
	while (start < end) {
		const pf_registration *other;
		uint64_t covered = start, next = end;

		for (other = registrations->first; other; other = other->next) {
			if (other->start > start && other->start < next)
				next = other->start;
			else if (other->start <= start && other->end > covered)
				covered = other->end;
		}
		if (covered == start) {
			unlock(start, next);
			covered = next;
		}
		start = covered;
	}
}

static void take_out(struct registrations *registrations, pf_registration *registration)
{
	if (registration->previous)
		registration->previous->next = registration->next;
	else
		registrations->first = registration->next;
	if (registration->next)
		registration->next->previous = registration->previous;
	else
		registrations->last = registration->previous;
}

static void put_first(struct registrations *registrations, pf_registration *registration)
{
	registration->previous = NULL;
	registration->next = registrations->first;
	if (registration->next)
		registration->next->previous = registration;
	else
		registrations->last = registration;
	registrations->first = registration;
}

static void drop(struct registrations *registrations, pf_registration *registration)
{
	take_out(registrations, registration);
	unlock_uncovered(registrations, registration->start, registration->end);
	free(registration);
}

/* Drop what the cache has kept the longest; false if it keeps nothing. */
static bool evict(struct registrations *registrations)
{
	pf_registration *oldest = registrations->last;

	while (oldest && oldest->users)
		oldest = oldest->previous;
	if (!oldest)
		return false;
	registrations->cached -= length_of(oldest);
	registrations->cached_ranges--;
	drop(registrations, oldest);
	return true;
}

static pf_registration *find(const struct registrations *registrations, uint64_t start,
			     uint64_t end)
{
	pf_registration *found = registrations->first;

	while (found && (found->start > start || found->end < end))
		found = found->next;
	return found;
}

/* Counted in use, and most recently so; *hit: it was there before. NULL: out of memory. */
static pf_registration *use(struct registrations *registrations, uint64_t start, uint64_t end,
			    bool *hit)
{
	pf_registration *registration = NULL;

	if (registrations->mode == PF_MODE_PIN_CACHE)
		registration = find(registrations, start, end);
	*hit = registration;
	if (registration) {
		take_out(registrations, registration);
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
	put_first(registrations, registration);
	return registration;
}

static void leave(struct registrations *registrations, pf_registration *registration, bool keep)
{
	if (--registration->users)
		return;
	if (!keep) {
		drop(registrations, registration);
		return;
	}
	registrations->cached += length_of(registration);
	registrations->cached_ranges++;
	while (registrations->cached > registrations->cache_bytes ||
	       registrations->cached_ranges > registrations->cache_ranges)
		evict(registrations);
}

/*
 * Would a transfer meet no absent page? A private page that is written to must
 * be this process's alone, or it would be copied first. What the page table
 * does not tell is whether an mprotect forbids the access; that is no matter of
 * locks, and ends the transfer itself.
 */
static bool all_present(const struct registrations *registrations, uint64_t start, uint64_t end,
			bool write)
{
	uint64_t page = page_size(), entries[PAGEMAP_BATCH], at = start / page, count, i;
	const uint64_t ours = PAGEMAP_EXCLUSIVE | PAGEMAP_FILE;

	if (registrations->pagemap < 0)
		return false;
	for (; at < end / page; at += count) {
		count = end / page - at < PAGEMAP_BATCH ? end / page - at : PAGEMAP_BATCH;
		if (pread(registrations->pagemap, entries, count * sizeof(*entries),
			  (off_t)(at * sizeof(*entries))) != (ssize_t)(count * sizeof(*entries)))
			return false;
		for (i = 0; i < count; i++) {
			if (!(entries[i] & PAGEMAP_PRESENT) || (write && !(entries[i] & ours)))
				return false;
		}
	}
	return true;
}

/* Locked, and all pages there, whatever was so before. hit: it may well be so already. */
static int pin(struct registrations *registrations, uint64_t start, uint64_t end, bool write,
	       bool hit)
{
	uint64_t failed;
	int status;

	while (kernel_mlock(start, end) < 0) {
		if (errno != ENOMEM)
			return errno == EPERM ? PF_ERR_MEMORY : PF_ERR_SYSTEM;
		/* Is there no memory, or not so much that we may lock? */
		status = touch_range(start, end - start, write, &failed);
		if (status != PF_OK)
			return status;
		if (!evict(registrations))
			return PF_ERR_MEMORY;
	}
	if (hit && all_present(registrations, start, end, write))
		return PF_OK;
	return touch_range(start, end - start, write, &failed);
}

static int register_pinned(struct registrations *registrations, uint64_t start, uint64_t end,
			   bool write, pf_registration **result)
{
	pf_registration *registration;
	bool hit;
	int status;

	pthread_mutex_lock(&registrations->lock);
	registration = use(registrations, start, end, &hit);
	status = registration ? pin(registrations, start, end, write, hit) : PF_ERR_MEMORY;
	if (status == PF_OK)
		*result = registration;
	else if (registration)
		leave(registrations, registration, false);
	pthread_mutex_unlock(&registrations->lock);
	return status;
}

static const enum pf_stat counters[] = {
	[PF_MODE_PREFAULT] = PF_STAT_PREFAULT_BYTES,
	[PF_MODE_PIN] = PF_STAT_PIN_BYTES,
	[PF_MODE_PIN_CACHE] = PF_STAT_PIN_CACHE_BYTES,
};

int registration_add(struct registrations *registrations, void *address, size_t length, bool write,
		     pf_registration **registration)
{
	uint64_t page = page_size(), start = (uint64_t)(uintptr_t)address, end, failed;
	int status;

	*registration = NULL;
	if (registrations->mode == PF_MODE_FAULT || !length)
		return PF_DONE;
	end = (start + length + page - 1) & ~(page - 1);
	start &= ~(page - 1);
	if (end <= start || end - start < length)
		return PF_ERR_FAULT;
	if (registrations->mode == PF_MODE_PREFAULT)
		status = touch_range(start, end - start, write, &failed);
	else
		status = register_pinned(registrations, start, end, write, registration);
	if (status == PF_OK)
		statistic_add(registrations->statistics, counters[registrations->mode], length);
	return status;
}

void registration_remove(struct registrations *registrations, pf_registration *registration)
{
	pthread_mutex_lock(&registrations->lock);
	leave(registrations, registration, registrations->mode == PF_MODE_PIN_CACHE);
	pthread_mutex_unlock(&registrations->lock);
}

void registrations_init(struct registrations *registrations, enum pf_mode mode,
			struct statistics *statistics)
{
	registrations->mode = mode;
	registrations->statistics = statistics;
	registrations->cache_bytes = REGISTRATION_CACHE_BYTES;
	registrations->cache_ranges = REGISTRATION_CACHE_RANGES;
	registrations->pagemap = -1;
	pthread_mutex_init(&registrations->lock, NULL);
	if (mode == PF_MODE_PIN_CACHE)
		registrations->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

void registrations_destroy(struct registrations *registrations)
{
	/* The analyzer does not see that dropping takes it off the list. */
	while (registrations->first)
		drop(registrations, registrations->first); /* NOLINT(clang-analyzer-unix.Malloc) */
	if (registrations->pagemap >= 0)
		close(registrations->pagemap);
	pthread_mutex_destroy(&registrations->lock);
}
