/* SPDX-License-Identifier: BSD-3-Clause */
#include "pager.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/number.h"
#include "base/page.h"
#include "touch.h"

/* Of Linux 5.11 and 6.6; the headers of the build may be older. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFDIO_POISON
struct uffdio_poison {
	struct uffdio_range range;
	uint64_t mode;
	int64_t updated;
};
#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
#endif

/* Messages of the userfaultfd taken by a read, at most. */
#define MESSAGES 16
/* Pages of one mincore call. */
#define MINCORE_PAGES 64
/* Weight of the newest quick supply in the average. */
#define SUPPLY_TIME_WEIGHT 8

struct pf_pager {
	LIST_ENTRY(pf_pager) link;
	struct pagers *pagers;
	uint64_t start, end; /* addresses of whole pages: [start, end) */
	/* Bytes of whole pages, changed under the lock for writing. */
	uint64_t unit;  /* bytes of one supply */
	uint64_t ahead; /* bytes supplied ahead of loads, at most */
	pf_supply_fn supply;
	void *arg;
	/*
	 * Estimated time of a supply, ns; UINT64_MAX before the first. A hint: threads update the
	 * value with relaxed loads and stores, and a lost update does no harm.
	 */
	_Atomic uint64_t supply_time;
	/*
	 * Memory for a unit, or NULL while a supply uses the memory. Threads that find NULL
	 * allocate memory. The memory is kept because malloc gives freed memory of some units
	 * back to the kernel: then each supply would meet page faults of its own, and interrupt
	 * the other processors.
	 */
	_Atomic(char *) spare;
};

static void free_pager(struct pf_pager *pager)
{
	free(pager->spare);
	free(pager);
}

void pagers_init(struct pagers *pagers, pf_context *context, struct service *service)
{
	pagers->context = context;
	pagers->service = service;
	pthread_rwlock_init(&pagers->lock, NULL);
	pthread_mutex_init(&pagers->gate, NULL);
	LIST_INIT(&pagers->list);
	LIST_INIT(&pagers->deferred);
	pagers->userfault = -1;
}

void pagers_destroy(struct pagers *pagers)
{
	struct pf_pager *pager;

	while ((pager = LIST_FIRST(&pagers->list))) {
		LIST_REMOVE(pager, link);
		free_pager(pager);
	}
	if (pagers->readable)
		event_free(pagers->readable);
	if (pagers->ahead)
		event_free(pagers->ahead);
	if (pagers->userfault >= 0) {
		close(pagers->userfault);
		munmap(pagers->no_access, page_size());
	}
	pthread_mutex_destroy(&pagers->gate);
	pthread_rwlock_destroy(&pagers->lock);
}

static void lock_for_writing(struct pagers *pagers)
{
	pthread_mutex_lock(&pagers->gate);
	pthread_rwlock_wrlock(&pagers->lock);
	pthread_mutex_unlock(&pagers->gate);
}

/* Wait while another thread waits to write. */
static void pass_gate(struct pagers *pagers)
{
	pthread_mutex_lock(&pagers->gate);
	pthread_mutex_unlock(&pagers->gate);
}

/* Under the lock. NULL: no pager owns the address. */
static struct pf_pager *find_pager(struct pagers *pagers, uint64_t address)
{
	struct pf_pager *pager;

	assert_locked_reading(&pagers->lock);
	LIST_FOREACH(pager, &pagers->list, link) {
		if (address >= pager->start && address < pager->end)
			break;
	}
	return pager;
}

static bool pager_is_quick(struct pf_pager *pager)
{
	return atomic_load_explicit(&pager->supply_time, memory_order_relaxed) <
	       PAGER_QUICK_NANOSECONDS;
}

/* Under the lock. */
static bool pagers_overlap(struct pagers *pagers, uint64_t start, uint64_t end)
{
	struct pf_pager *pager;

	assert_locked_reading(&pagers->lock);
	LIST_FOREACH(pager, &pagers->list, link) {
		if (start < pager->end && pager->start < end)
			return true;
	}
	return false;
}

bool pagers_own(struct pagers *pagers, uint64_t address, uint64_t length)
{
	bool owned;

	if (!atomic_load_explicit(&pagers->any, memory_order_relaxed))
		return false;
	pthread_rwlock_rdlock(&pagers->lock);
	owned = pagers_overlap(pagers, address, address + length);
	pthread_rwlock_unlock(&pagers->lock);
	return owned;
}

bool pager_owns(struct pagers *pagers, uint64_t address, bool *quick)
{
	struct pf_pager *pager;

	if (!atomic_load_explicit(&pagers->any, memory_order_relaxed))
		return false;
	pthread_rwlock_rdlock(&pagers->lock);
	pager = find_pager(pagers, address);
	if (pager)
		*quick = pager_is_quick(pager);
	pthread_rwlock_unlock(&pagers->lock);
	return pager != NULL;
}

bool pager_owns_all(struct pagers *pagers, uint64_t address, uint64_t length)
{
	struct pf_pager *pager;
	bool owned;

	pthread_rwlock_rdlock(&pagers->lock);
	pager = find_pager(pagers, address);
	owned = pager && length <= pager->end - address;
	pthread_rwlock_unlock(&pagers->lock);
	return owned;
}

static bool is_absent(uint64_t address)
{
	uint64_t size = page_size();
	unsigned char present;

	return !mincore((void *)(uintptr_t)(address & ~(size - 1)), size, &present) &&
	       !(present & 1);
}

bool pager_lacks(struct pagers *pagers, uint64_t address)
{
	bool quick;

	return pager_owns(pagers, address, &quick) && is_absent(address);
}

/* A longer time counts at once: pf_progress must not wait for a second slow supply. */
static void record_supply_time(struct pf_pager *pager, uint64_t nanoseconds)
{
	uint64_t estimate = atomic_load_explicit(&pager->supply_time, memory_order_relaxed);

	if (estimate == UINT64_MAX || nanoseconds > estimate)
		estimate = nanoseconds;
	else
		estimate -= (estimate - nanoseconds) / SUPPLY_TIME_WEIGHT;
	atomic_store_explicit(&pager->supply_time, estimate, memory_order_relaxed);
}

/*
 * Install pages and wake the threads that wait for the pages. Addresses with a page, present or
 * in swap, keep the old page. Returns PF_OK or PF_ERR_FAULT. *installed: at least one page was
 * new.
 */
static int install_pages(int userfault, uint64_t address, const char *pages, uint64_t length,
			 bool *installed)
{
	uint64_t at = 0, most = length;
	unsigned tries = 0;

	*installed = false;
	while (at < length) {
		struct uffdio_copy copy = { .dst = address + at,
					    .src = (uint64_t)(uintptr_t)(pages + at),
					    .len = number_min(most, length - at) };
		bool failed = ioctl(userfault, UFFDIO_COPY, &copy) < 0;

		if (copy.copy > 0) {
			*installed = true;
			at += (uint64_t)copy.copy;
		} else if (failed && errno == EEXIST) {
			at += page_size();
		} else if (failed && errno == ENOENT && most > page_size()) {
			/*
			 * The kernel takes addresses of a single mapping only, and here another
			 * begins.
			 */
			most = page_size();
		} else if (failed && errno == ENOMEM) {
			/* An error would raise SIGBUS in the program, for good. */
			allocate_wait(&tries);
		} else if (failed && errno != EAGAIN && errno != EINTR) {
			/* EAGAIN: another thread is changing the mappings of this process. */
			return PF_ERR_FAULT;
		}
	}
	return PF_OK;
}

static uint64_t unit_start(const struct pf_pager *pager, uint64_t address)
{
	return address - (address - pager->start) % pager->unit;
}

/*
 * Supply the unit of an absent page at the address. *end: the end of the present part now. Under
 * the lock for reading, which keeps the pager.
 */
static int supply_unit(struct pagers *pagers, struct pf_pager *pager, uint64_t address,
		       uint64_t *end, bool *installed)
{
	uint64_t start = unit_start(pager, address);
	uint64_t length = number_min(pager->unit, pager->end - start);
	uint64_t before;
	unsigned tries = 0;
	char *pages;
	int status;

	assert_locked_reading(&pagers->lock);
	*end = start + length;
	*installed = false;
	/* The page may be present by now, with a unit supplied for another page fault. */
	if (length > page_size() && !is_absent(address)) {
		*end = (address & ~(page_size() - 1)) + page_size();
		return PF_OK;
	}
	before = clock_nanoseconds(CLOCK_MONOTONIC);
	pages = atomic_exchange(&pager->spare, NULL);
	while (!pages) {
		pages = malloc(pager->unit);
		if (!pages)
			allocate_wait(&tries);
	}
	status = pager->supply(pagers->context, start, pages, length, pager->arg);
	record_supply_time(pager, clock_nanoseconds(CLOCK_MONOTONIC) - before);
	status = status == PF_OK ?
			 install_pages(pagers->userfault, start, pages, length, installed) :
			 PF_ERR_FAULT;
	free(atomic_exchange(&pager->spare, pages));
	return status;
}

int pager_supply(struct pagers *pagers, uint64_t address, uint64_t length, bool on_resolver_thread,
		 uint64_t *done, bool *supplied)
{
	uint64_t size = page_size(), start = address & ~(size - 1), end = address + length;
	unsigned char present[MINCORE_PAGES];
	uint64_t page, pages, i, there = 0; /* end of the unit supplied last */
	bool installed = false;
	int status = PF_OK;

	*supplied = false;
	for (page = start; page < end && status == PF_OK; page += pages * size) {
		pages = (end - page + size - 1) / size;
		if (pages > MINCORE_PAGES)
			pages = MINCORE_PAGES;
		if (mincore((void *)(uintptr_t)page, pages * size, present) < 0) {
			status = PF_ERR_FAULT;
			break;
		}
		for (i = 0; i < pages && status == PF_OK; i++) {
			struct pf_pager *pager;

			if (on_resolver_thread)
				pass_gate(pagers);
			/*
			 * Lock once for each unit: pager_unregister waits for one supply at most.
			 */
			pthread_rwlock_rdlock(&pagers->lock);
			pager = find_pager(pagers, page + i * size);
			if (pager && !(present[i] & 1) && page + i * size >= there) {
				status = supply_unit(pagers, pager, page + i * size, &there,
						     &installed);
				*supplied = *supplied || installed;
			}
			pthread_rwlock_unlock(&pagers->lock);
			if (!pager || status != PF_OK) {
				page += i * size;
				goto out;
			}
		}
	}
out:
	if (page > end)
		page = end;
	*done = page > address ? page - address : 0;
	return status;
}

/* Under the lock: return the end of the part of [start, end) without a pager. */
static uint64_t unowned_end(struct pagers *pagers, uint64_t start, uint64_t end)
{
	struct pf_pager *pager;

	assert_locked_reading(&pagers->lock);
	LIST_FOREACH(pager, &pagers->list, link) {
		if (start < pager->end && end > pager->start)
			end = pager->start > start ? pager->start : start;
	}
	return end;
}

/*
 * Under the lock: are page faults of the page reported to userfault? UFFDIO_ZEROPAGE cannot tell:
 * zeros also fill memory registered with any userfaultfd, of another context or of the program.
 * UFFDIO_COPY of an unreadable page changes nothing: the call ends with EFAULT if the memory is
 * registered with a userfaultfd, and with ENOENT if not. UFFDIO_REGISTER then ends with EBUSY if
 * the memory belongs to another userfaultfd, and changes nothing if the memory belongs to
 * userfault. UFFDIO_REGISTER alone would register ordinary memory. If another thread maps
 * ordinary memory there between the two calls, resolve_message gives zeros.
 */
static bool is_reported(const struct pagers *pagers, uint64_t page)
{
	struct uffdio_copy copy = { .dst = page,
				    .src = (uint64_t)(uintptr_t)pagers->no_access,
				    .len = page_size() };
	struct uffdio_register range = { .range = { page, page_size() },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	bool failed;

	assert_locked_reading(&pagers->lock);
	do {
		failed = ioctl(pagers->userfault, UFFDIO_COPY, &copy) < 0;
	} while (failed && (errno == EAGAIN || errno == EINTR));
	return failed && errno == EFAULT && !ioctl(pagers->userfault, UFFDIO_REGISTER, &range);
}

bool pagers_fill(struct pagers *pagers, uint64_t address, uint64_t length)
{
	uint64_t size = page_size(), at = address & ~(size - 1), end = address + length;
	bool filled = false;

	if (!atomic_load_explicit(&pagers->open, memory_order_relaxed))
		return false;
	pthread_rwlock_rdlock(&pagers->lock);
	end = (unowned_end(pagers, at, end) + size - 1) & ~(size - 1);
	/* The kernel fills one mapping at a time, hence the first page speaks for all. */
	if (at < end && !is_reported(pagers, at))
		end = at;
	while (at < end) {
		struct uffdio_zeropage zeros = { .range = { at, end - at } };
		bool failed = ioctl(pagers->userfault, UFFDIO_ZEROPAGE, &zeros) < 0;

		if (zeros.zeropage > 0) {
			filled = true;
			at += (uint64_t)zeros.zeropage;
		} else if (failed && errno == EEXIST) {
			filled = true; /* perhaps by another thread, after the page fault */
			at += size;
		} else if (failed && errno != EAGAIN && errno != EINTR) {
			break; /* more than one mapping */
		}
	}
	pthread_rwlock_unlock(&pagers->lock);
	return filled;
}

int pagers_touch(struct pagers *pagers, uint64_t address, uint64_t length, bool write,
		 uint64_t *failed)
{
	int error;

	while (touch_range(address, length, write, failed) != PF_OK) {
		error = errno;
		/* EFAULT: the page was absent then; a missing permission is EINVAL. */
		if (error == EFAULT && pagers_fill(pagers, *failed, 1))
			continue;
		errno = error;
		return PF_ERR_FAULT;
	}
	return PF_OK;
}

/* Return how many of the length bytes before address, whole pages, are present without a gap. */
static uint64_t present_before(uint64_t address, uint64_t length)
{
	uint64_t size = page_size(), start = address - length, at = address, pages;
	unsigned char present[MINCORE_PAGES];

	while (at > start) {
		pages = number_min((at - start) / size, MINCORE_PAGES);
		if (mincore((void *)(uintptr_t)(at - pages * size), pages * size, present))
			break;
		while (pages && present[pages - 1] & 1) {
			pages--;
			at -= size;
		}
		if (pages)
			break;
	}
	return address - at;
}

/*
 * Service thread, under the lock: the unit [start, end) was needed. The next unit is likely to be
 * needed as well if the memory before is present, as the kernel assumes for files without a known
 * history: the part supplied ahead grows while page faults come in order, and each thread may go
 * through another part of the range. One part is planned at a time: the part behind the last page
 * fault.
 */
static void plan_ahead(struct pagers *pagers, const struct pf_pager *pager, uint64_t start,
		       uint64_t end)
{
	uint64_t before = present_before(start, number_min(pager->ahead, start - pager->start));
	uint64_t length = before ? number_min(before + pager->unit, pager->ahead) : 0;
	const struct timeval now = { 0, 0 };

	assert_service(pagers->service);
	assert_locked_reading(&pagers->lock);
	length -= length % pager->unit;
	if (!length || end == pager->end)
		return;
	pagers->ahead_start = end;
	pagers->ahead_end = number_min(end + length, pager->end);
	event_add(pagers->ahead, &now);
}

/* Service thread, under the lock: may the service thread call supply? */
static bool may_supply_here(const struct pagers *pagers, struct pf_pager *pager)
{
	assert_service(pagers->service);
	assert_locked_reading(&pagers->lock);
	return pager_is_quick(pager) || !pagers->defer;
}

/*
 * Service thread, under the lock: the unit at ahead_start is present; plan the next unit. The
 * event loop looks for page faults first, which have waited for one unit at most.
 */
static void continue_ahead(struct pagers *pagers, const struct pf_pager *pager)
{
	const struct timeval now = { 0, 0 };
	uint64_t end = unit_start(pager, pagers->ahead_start) + pager->unit;

	assert_service(pagers->service);
	assert_locked_reading(&pagers->lock);
	if (end >= pagers->ahead_end)
		return;
	pagers->ahead_start = end;
	event_add(pagers->ahead, &now);
}

/* A unit supplied by a thread that may wait. */
struct deferred_unit {
	struct task task;
	LIST_ENTRY(deferred_unit) link;
	struct pagers *pagers;
	const struct pf_pager *pager; /* NULL: unregistered meanwhile */
	uint64_t start, end;
	uint64_t page; /* address of the page needed */
	bool ahead;    /* no thread was known to wait for the page when the unit was deferred */
	int status;    /* of the supply */
};

/*
 * Service thread, under the lock: make a unit for pagers->defer, which is called without the
 * lock. NULL: the unit was deferred before, and its end wakes all threads waiting for a page of
 * the unit.
 */
static struct deferred_unit *unit_defer(struct pagers *pagers, const struct pf_pager *pager,
					uint64_t page, bool ahead)
{
	struct deferred_unit *unit;

	assert_service(pagers->service);
	assert_locked_reading(&pagers->lock);
	LIST_FOREACH(unit, &pagers->deferred, link) {
		if (unit->pager == pager && page >= unit->start && page < unit->end)
			return NULL;
	}
	unit = allocate_or_wait(sizeof(*unit));
	*unit = (struct deferred_unit){
		.pagers = pagers,
		.pager = pager,
		.start = unit_start(pager, page),
		.page = page,
		.ahead = ahead,
	};
	unit->end = number_min(unit->start + pager->unit, pager->end);
	LIST_INSERT_HEAD(&pagers->deferred, unit, link);
	return unit;
}

/*
 * Service thread: supply a unit. If the supply fails, a later access finds the reason. A present
 * page ends the part: the rest was there, or was needed before.
 */
static void supply_ahead(int fd, short what, void *arg)
{
	struct deferred_unit *unit = NULL;
	struct pagers *pagers = arg;
	struct pf_pager *pager;
	uint64_t start, end;
	bool installed;

	assert_service(pagers->service);
	(void)fd, (void)what;
	pthread_rwlock_rdlock(&pagers->lock);
	start = pagers->ahead_start;
	/* The pager is still there: otherwise the end would be 0. */
	if (start < pagers->ahead_end && is_absent(start)) {
		pager = find_pager(pagers, start);
		if (!may_supply_here(pagers, pager))
			unit = unit_defer(pagers, pager, start, true);
		else if (supply_unit(pagers, pager, start, &end, &installed) == PF_OK)
			continue_ahead(pagers, pager);
	}
	pthread_rwlock_unlock(&pagers->lock);
	if (unit)
		pagers->defer(pagers->defer_arg, start, unit);
}

/*
 * The pager does not have the page: the waiting threads get SIGBUS, or, before Linux 6.6, repeat
 * the access once woken.
 */
static void page_poison(struct pagers *pagers, uint64_t page)
{
	struct uffdio_poison poison = { .range = { page, page_size() } };

	ioctl(pagers->userfault, UFFDIO_POISON, &poison);
}

static void range_wake(struct pagers *pagers, uint64_t start, uint64_t end)
{
	struct uffdio_range range = { start, end - start };

	ioctl(pagers->userfault, UFFDIO_WAKE, &range);
}

/* Service thread: a load or store of the own process met an absent page. */
static void resolve_message(struct pagers *pagers, uint64_t address)
{
	uint64_t page = address & ~(page_size() - 1), end = 0;
	struct deferred_unit *unit = NULL;
	bool installed = false, defers;
	struct pf_pager *pager;
	int status = PF_OK;

	assert_service(pagers->service);
	pthread_rwlock_rdlock(&pagers->lock);
	pager = find_pager(pagers, page);
	defers = pager && !may_supply_here(pagers, pager);
	if (defers)
		unit = unit_defer(pagers, pager, page, false);
	else if (pager)
		status = supply_unit(pagers, pager, page, &end, &installed);
	if (status == PF_OK && installed && pager->ahead)
		plan_ahead(pagers, pager, unit_start(pager, page), end);
	pthread_rwlock_unlock(&pagers->lock);
	if (unit)
		pagers->defer(pagers->defer_arg, page, unit);
	if (defers)
		return;
	/*
	 * Without a pager: the memory grew out of a range and gets zeros, or its range was
	 * unregistered or unmapped after the access, which is then repeated.
	 */
	if (!pager)
		pagers_fill(pagers, page, page_size());
	if (status != PF_OK)
		page_poison(pagers, page);
	if (status != PF_OK || !installed)
		range_wake(pagers, page, page + page_size());
}

/*
 * Service thread, under the lock: plan the part behind a deferred unit, present now, if the pager
 * is unchanged.
 */
static void unit_plan(struct pagers *pagers, const struct deferred_unit *unit)
{
	assert_service(pagers->service);
	assert_locked_reading(&pagers->lock);
	if (!unit->ahead && unit->pager->ahead)
		plan_ahead(pagers, unit->pager, unit->start, unit->end);
	/* Otherwise a later page fault has begun another part. */
	if (unit->ahead && pagers->ahead_end && pagers->ahead_start == unit->page)
		continue_ahead(pagers, unit->pager);
}

/*
 * Service thread: a thread that may wait has tried to supply the unit. Messages of other pages of
 * the unit were read before and dropped. The threads of the dropped messages are woken: each goes
 * on, or repeats an access that finds out why the supply failed.
 */
static void unit_end(struct task *task, bool dropped)
{
	struct deferred_unit *unit = (struct deferred_unit *)task;
	struct pagers *pagers = unit->pagers;

	if (!dropped) {
		assert_service(pagers->service);
		pthread_rwlock_rdlock(&pagers->lock);
		LIST_REMOVE(unit, link);
		if (unit->pager && unit->status == PF_OK)
			unit_plan(pagers, unit);
		else if (unit->pager && !unit->ahead)
			page_poison(pagers, unit->page);
		pthread_rwlock_unlock(&pagers->lock);
		range_wake(pagers, unit->start, unit->end);
	}
	free(unit);
}

void pagers_supplied(struct deferred_unit *unit, int status)
{
	assert_that(status == PF_OK || status == PF_ERR_FAULT);
	unit->status = status;
	unit->task.run = unit_end;
	service_run(unit->pagers->service, &unit->task);
}

void pagers_defer(struct pagers *pagers, pagers_defer_fn defer, void *arg)
{
	assert_that(LIST_EMPTY(&pagers->list));
	pagers->defer = defer;
	pagers->defer_arg = arg;
}

/* Service thread. */
static void userfault_on_readable(int userfault, short what, void *arg)
{
	struct uffd_msg messages[MESSAGES];
	ssize_t bytes = read(userfault, messages, sizeof(messages));
	struct pagers *pagers = arg;
	size_t i;

	assert_service(pagers->service);
	(void)what;
	for (i = 0; bytes > 0 && i < (size_t)bytes / sizeof(messages[0]); i++) {
		if (messages[i].event == UFFD_EVENT_PAGEFAULT)
			resolve_message(pagers, messages[i].arg.pagefault.address);
	}
}

struct watch_task {
	struct task task;
	struct pagers *pagers;
};

/* Service thread. */
static void start_watch(struct task *task, bool dropped)
{
	struct pagers *pagers = ((struct watch_task *)task)->pagers;

	free(task);
	if (dropped)
		return;
	assert_service(pagers->service);
	pagers->ahead = service_event(pagers->service, -1, 0, supply_ahead, pagers);
	pagers->readable = service_event(pagers->service, pagers->userfault, EV_READ | EV_PERSIST,
					 userfault_on_readable, pagers);
	event_add(pagers->readable, NULL);
}

/* Under the lock for writing. PF_OK or PF_ERR_SYSTEM. */
static int open_userfault(struct pagers *pagers)
{
	struct watch_task *watch;
	struct uffdio_api api = { .api = UFFD_API };
	void *no_access;
	int fd;

	assert_locked_writing(&pagers->lock);
	if (pagers->userfault >= 0)
		return PF_OK;
	do {
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	} while (fd < 0 && descriptor_limit_raised(errno));
	if (fd < 0)
		return PF_ERR_SYSTEM;
	watch = malloc(sizeof(*watch));
	no_access = mmap(NULL, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!watch || no_access == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0) {
		if (no_access != MAP_FAILED)
			munmap(no_access, page_size());
		free(watch);
		close(fd);
		return PF_ERR_SYSTEM;
	}
	pagers->userfault = fd;
	pagers->no_access = no_access;
	atomic_store_explicit(&pagers->open, true, memory_order_relaxed);
	*watch = (struct watch_task){ .task.run = start_watch, .pagers = pagers };
	service_run(pagers->service, &watch->task);
	return PF_OK;
}

void pagers_forward(struct pagers *pagers, pagers_forward_fn forward, void *arg)
{
	struct pf_pager *pager;

	lock_for_writing(pagers);
	pagers->forward = forward;
	pagers->forward_arg = arg;
	LIST_FOREACH(pager, &pagers->list, link)
		forward(arg, pager->start, pager->end - pager->start, true);
	pthread_rwlock_unlock(&pagers->lock);
}

/* Under the lock for writing. */
static int set_forward(struct pagers *pagers, const struct pf_pager *pager, bool enable)
{
	assert_locked_writing(&pagers->lock);
	if (!pagers->forward)
		return PF_OK;
	return pagers->forward(pagers->forward_arg, pager->start, pager->end - pager->start,
			       enable);
}

/* Under the lock for writing. PF_OK, or an error with nothing registered. */
static int register_range(struct pagers *pagers, const struct pf_pager *pager)
{
	struct uffdio_register range = { .range = { pager->start, pager->end - pager->start },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	int status = PF_ERR_ARGUMENT;

	assert_locked_writing(&pagers->lock);
	if (ioctl(pagers->userfault, UFFDIO_REGISTER, &range) < 0)
		return PF_ERR_ARGUMENT;
	/* Memory of huge pages (hugetlbfs) cannot take single pages: it has no UFFDIO_ZEROPAGE. */
	if (range.ioctls & 1 << _UFFDIO_ZEROPAGE)
		status = set_forward(pagers, pager, true);
	if (status != PF_OK)
		ioctl(pagers->userfault, UFFDIO_UNREGISTER, &range.range);
	return status;
}

/*
 * Is all of [start, end) private, anonymous memory? The kernel registers shared memory and gaps
 * too, but evicting does not drop pages of shared memory, and its other users would have to know
 * of the pager. Returns PF_OK, PF_ERR_ARGUMENT, or PF_ERR_SYSTEM with errno.
 */
static int check_range(uint64_t start, uint64_t end)
{
	uint64_t from, to, inode;
	char permissions[5];
	FILE *maps;

	do {
		maps = fopen("/proc/thread-self/maps", "re");
	} while (!maps && descriptor_limit_raised(errno));
	if (!maps)
		return PF_ERR_SYSTEM;
	while (start < end && fscanf(maps, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64 "%*[^\n]",
				     &from, &to, permissions, &inode) == 4) {
		if (to <= start)
			continue;
		if (from > start || permissions[3] != 'p' || inode)
			break;
		start = to;
	}
	fclose(maps);
	return start < end ? PF_ERR_ARGUMENT : PF_OK;
}

int pager_register(struct pagers *pagers, void *address, size_t length, pf_supply_fn supply,
		   void *arg, struct pf_pager **result)
{
	uint64_t start = (uint64_t)(uintptr_t)address, size = page_size();
	struct pf_pager *pager;
	int status;

	if (!supply || !length || start % size || length % size || start + length < start)
		return PF_ERR_ARGUMENT;
	status = check_range(start, start + length);
	if (status != PF_OK)
		return status;
	pager = calloc(1, sizeof(*pager));
	if (!pager)
		return PF_ERR_MEMORY;
	*pager = (struct pf_pager){ .pagers = pagers,
				    .start = start,
				    .end = start + length,
				    .unit = size,
				    .supply = supply,
				    .arg = arg,
				    .supply_time = UINT64_MAX };
	lock_for_writing(pagers);
	status = pagers_overlap(pagers, pager->start, pager->end) ? PF_ERR_ARGUMENT :
								    open_userfault(pagers);
	if (status == PF_OK)
		status = register_range(pagers, pager);
	if (status == PF_OK) {
		LIST_INSERT_HEAD(&pagers->list, pager, link);
		atomic_store_explicit(&pagers->any, true, memory_order_relaxed);
	}
	pthread_rwlock_unlock(&pagers->lock);
	if (status != PF_OK) {
		free(pager);
		return status;
	}
	*result = pager;
	return PF_OK;
}

int pager_set_unit(struct pf_pager *pager, size_t unit)
{
	struct pagers *pagers = pager->pagers;

	if (!unit || unit % page_size())
		return PF_ERR_ARGUMENT;
	lock_for_writing(pagers);
	pager->unit = number_min(unit, pager->end - pager->start);
	pagers->ahead_end = 0;
	free(atomic_exchange(&pager->spare, NULL));
	pthread_rwlock_unlock(&pagers->lock);
	return PF_OK;
}

int pager_set_ahead(struct pf_pager *pager, size_t most)
{
	struct pagers *pagers = pager->pagers;

	if (most % page_size())
		return PF_ERR_ARGUMENT;
	lock_for_writing(pagers);
	pager->ahead = most;
	pagers->ahead_end = 0;
	pthread_rwlock_unlock(&pagers->lock);
	return PF_OK;
}

int pager_evict(struct pf_pager *pager, void *address, size_t length)
{
	uint64_t start = (uint64_t)(uintptr_t)address, size = page_size();

	if (start % size || length % size || start < pager->start || start > pager->end ||
	    length > pager->end - start)
		return PF_ERR_ARGUMENT;
	if (length && madvise(address, length, MADV_DONTNEED) < 0)
		return PF_ERR_SYSTEM;
	return PF_OK;
}

void pager_unregister(struct pf_pager *pager)
{
	struct pagers *pagers = pager->pagers;
	struct uffdio_range range = { pager->start, pager->end - pager->start };
	struct deferred_unit *unit;

	lock_for_writing(pagers);
	LIST_REMOVE(pager, link);
	LIST_FOREACH(unit, &pagers->deferred, link) {
		if (unit->pager == pager)
			unit->pager = NULL;
	}
	pagers->ahead_end = 0;
	if (LIST_EMPTY(&pagers->list))
		atomic_store_explicit(&pagers->any, false, memory_order_relaxed);
	/* Wakes the threads waiting for a page, which then repeat the access. */
	ioctl(pagers->userfault, UFFDIO_UNREGISTER, &range);
	/* After UFFDIO_UNREGISTER: a page fault no longer forwarded must find ordinary memory. */
	set_forward(pagers, pager, false);
	pthread_rwlock_unlock(&pagers->lock);
	free_pager(pager);
}
