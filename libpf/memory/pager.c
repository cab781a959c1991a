/* SPDX-License-Identifier: BSD-3-Clause */
#include "pager.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

/* Linux 5.11 and 6.6; the headers that we are built with may be older. */
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

#define MESSAGES 16
/* Pages whose presence is asked for at a time. */
#define WINDOW 64

struct pf_pager {
	struct pf_pager *next;
	struct pagers *pagers;
	uint64_t start, end;
	pf_supply_fn supply;
	void *arg;
	/* What supply took, the average of the last few; nothing is known at first, so it is slow. */
	_Atomic uint64_t nanoseconds;
};

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

void pagers_init(struct pagers *pagers, pf_context *context, struct service *service)
{
	pagers->context = context;
	pagers->service = service;
	pthread_rwlock_init(&pagers->lock, NULL);
	pagers->first = NULL;
	pagers->userfault = -1;
}

void pagers_destroy(struct pagers *pagers)
{
	struct pf_pager *pager;

	while ((pager = pagers->first)) {
		pagers->first = pager->next;
		free(pager);
	}
	if (pagers->faulted)
		event_free(pagers->faulted);
	/* Its end releases every thread that waits, to find zeros: as the header says, unregister first. */
	if (pagers->userfault >= 0)
		close(pagers->userfault);
	pthread_rwlock_destroy(&pagers->lock);
}

static struct pf_pager *find(struct pagers *pagers, uint64_t address)
{
	struct pf_pager *pager = pagers->first;

	while (pager && (address < pager->start || address >= pager->end))
		pager = pager->next;
	return pager;
}

/* Under the lock. */
static bool overlaps(struct pagers *pagers, uint64_t start, uint64_t end)
{
	struct pf_pager *pager;

	for (pager = pagers->first; pager; pager = pager->next) {
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
	owned = overlaps(pagers, address, address + length);
	pthread_rwlock_unlock(&pagers->lock);
	return owned;
}

bool pager_owns(struct pagers *pagers, uint64_t address, bool *quick)
{
	struct pf_pager *pager;

	if (!atomic_load_explicit(&pagers->any, memory_order_relaxed))
		return false;
	pthread_rwlock_rdlock(&pagers->lock);
	pager = find(pagers, address);
	if (pager)
		*quick = atomic_load_explicit(&pager->nanoseconds, memory_order_relaxed) <
			 PAGER_QUICK_NANOSECONDS;
	pthread_rwlock_unlock(&pagers->lock);
	return pager != NULL;
}

bool pager_lacks(struct pagers *pagers, uint64_t address)
{
	uint64_t size = page_size();
	unsigned char present;
	bool quick;

	return pager_owns(pagers, address, &quick) &&
	       !mincore((void *)(uintptr_t)(address & ~(size - 1)), size, &present) &&
	       !(present & 1);
}

static void note_time(struct pf_pager *pager, uint64_t nanoseconds)
{
	uint64_t average = atomic_load_explicit(&pager->nanoseconds, memory_order_relaxed);

	/* One slow page is enough to be careful; many quick ones make up for it. */
	if (average == UINT64_MAX || nanoseconds > average)
		average = nanoseconds;
	else
		average -= (average - nanoseconds) / 8;
	atomic_store_explicit(&pager->nanoseconds, average, memory_order_relaxed);
}

/* *installed: false where a page is already, here or in swap, brought by whomever. */
static int install(int userfault, uint64_t address, const void *page, uint64_t size,
		   bool *installed)
{
	struct uffdio_copy copy = { .dst = address, .src = (uint64_t)(uintptr_t)page, .len = size };

	*installed = false;
	while (ioctl(userfault, UFFDIO_COPY, &copy) < 0) {
		/* EAGAIN: the mappings are just changing. */
		if (errno == EEXIST)
			return PF_OK;
		if (errno != EAGAIN && errno != EINTR)
			return PF_ERR_FAULT;
		copy.copy = 0;
	}
	*installed = true;
	return PF_OK;
}

static int supply_page(struct pagers *pagers, struct pf_pager *pager, uint64_t address,
		       bool *installed)
{
	uint64_t size = page_size(), before = clock_nanoseconds(CLOCK_MONOTONIC);
	void *page = malloc(size);
	int status;

	if (!page)
		return PF_ERR_FAULT;
	status = pager->supply(pagers->context, address, page, size, pager->arg);
	note_time(pager, clock_nanoseconds(CLOCK_MONOTONIC) - before);
	status = status == PF_OK ? install(pagers->userfault, address, page, size, installed) :
				   PF_ERR_FAULT;
	free(page);
	return status;
}

int pager_supply(struct pagers *pagers, uint64_t address, uint64_t length, uint64_t *done,
		 bool *supplied)
{
	uint64_t size = page_size(), start = address & ~(size - 1), end = address + length;
	unsigned char present[WINDOW];
	uint64_t page, pages, i;
	bool installed = false;
	int status = PF_OK;

	*supplied = false;
	for (page = start; page < end && status == PF_OK; page += pages * size) {
		pages = (end - page + size - 1) / size;
		if (pages > WINDOW)
			pages = WINDOW;
		if (mincore((void *)(uintptr_t)page, pages * size, present) < 0) {
			status = PF_ERR_FAULT;
			break;
		}
		for (i = 0; i < pages && status == PF_OK; i++) {
			struct pf_pager *pager;

			/* Anew for each page: unregistering need not wait for them all. */
			pthread_rwlock_rdlock(&pagers->lock);
			pager = find(pagers, page + i * size);
			if (pager && !(present[i] & 1)) {
				status = supply_page(pagers, pager, page + i * size, &installed);
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

static void answer(struct pagers *pagers, uint64_t address)
{
	uint64_t size = page_size();
	struct uffdio_range range = { address & ~(size - 1), size };
	struct uffdio_poison poison = { .range = range };
	struct pf_pager *pager;
	bool installed;
	int status = PF_OK;

	pthread_rwlock_rdlock(&pagers->lock);
	pager = find(pagers, range.start);
	if (pager)
		status = supply_page(pagers, pager, range.start, &installed);
	pthread_rwlock_unlock(&pagers->lock);
	if (pager && status == PF_OK)
		return;
	/* It cannot be had: a SIGBUS for the thread, or, before Linux 6.6, another try. */
	if (!pager || ioctl(pagers->userfault, UFFDIO_POISON, &poison) < 0)
		ioctl(pagers->userfault, UFFDIO_WAKE, &range);
}

/* Service thread: processors wait for pages. */
static void on_fault(int userfault, short what, void *arg)
{
	struct uffd_msg messages[MESSAGES];
	ssize_t bytes = read(userfault, messages, sizeof(messages));
	struct pagers *pagers = arg;
	size_t i;

	(void)what;
	for (i = 0; bytes > 0 && i < (size_t)bytes / sizeof(messages[0]); i++) {
		if (messages[i].event == UFFD_EVENT_PAGEFAULT)
			answer(pagers, messages[i].arg.pagefault.address);
	}
}

struct watch_task {
	struct task task;
	struct pagers *pagers;
};

/* Service thread. Out of memory on this thread is waited out. */
static void start_watch(struct task *task, bool dropped)
{
	struct pagers *pagers = ((struct watch_task *)task)->pagers;

	free(task);
	if (dropped)
		return;
	while (!pagers->faulted) {
		pagers->faulted = event_new(pagers->service->base, pagers->userfault,
					    EV_READ | EV_PERSIST, on_fault, pagers);
		if (!pagers->faulted)
			usleep(1000);
	}
	event_add(pagers->faulted, NULL);
}

/* Under the lock. */
static int open_userfault(struct pagers *pagers)
{
	struct watch_task *watch;
	struct uffdio_api api = { .api = UFFD_API };
	int fd;

	if (pagers->userfault >= 0)
		return PF_OK;
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0)
		return PF_ERR_SYSTEM;
	watch = malloc(sizeof(*watch));
	if (!watch || ioctl(fd, UFFDIO_API, &api) < 0) {
		free(watch);
		close(fd);
		return PF_ERR_SYSTEM;
	}
	pagers->userfault = fd;
	*watch = (struct watch_task){ .task.run = start_watch, .pagers = pagers };
	service_run(pagers->service, &watch->task);
	return PF_OK;
}

void pagers_forward(struct pagers *pagers, pagers_forward_fn forward, void *arg)
{
	struct pf_pager *pager;

	pthread_rwlock_wrlock(&pagers->lock);
	pagers->forward = forward;
	pagers->forward_arg = arg;
	for (pager = pagers->first; pager; pager = pager->next)
		forward(arg, pager->start, pager->end - pager->start, true);
	pthread_rwlock_unlock(&pagers->lock);
}

/* Under the lock. */
static int tell_forward(struct pagers *pagers, const struct pf_pager *pager, bool enable)
{
	if (!pagers->forward)
		return PF_OK;
	return pagers->forward(pagers->forward_arg, pager->start, pager->end - pager->start,
			       enable);
}

int pager_register(struct pagers *pagers, void *address, size_t length, pf_supply_fn supply,
		   void *arg, struct pf_pager **result)
{
	uint64_t start = (uint64_t)(uintptr_t)address, size = page_size();
	struct uffdio_register range = { .range = { start, length },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct pf_pager *pager;
	int status;

	if (!supply || !length || start % size || length % size || start + length < start)
		return PF_ERR_ARGUMENT;
	pager = calloc(1, sizeof(*pager));
	if (!pager)
		return PF_ERR_MEMORY;
	*pager = (struct pf_pager){ .pagers = pagers,
				    .start = start,
				    .end = start + length,
				    .supply = supply,
				    .arg = arg,
				    .nanoseconds = UINT64_MAX };
	pthread_rwlock_wrlock(&pagers->lock);
	status = overlaps(pagers, pager->start, pager->end) ? PF_ERR_ARGUMENT :
							      open_userfault(pagers);
	/* Memory with pages of another size takes no zero page of this one. */
	if (status == PF_OK && (ioctl(pagers->userfault, UFFDIO_REGISTER, &range) < 0 ||
				!(range.ioctls & 1 << _UFFDIO_ZEROPAGE)))
		status = PF_ERR_ARGUMENT;
	if (status == PF_OK) {
		status = tell_forward(pagers, pager, true);
		if (status != PF_OK)
			ioctl(pagers->userfault, UFFDIO_UNREGISTER, &range.range);
	}
	if (status == PF_OK) {
		pager->next = pagers->first;
		pagers->first = pager;
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
	struct pf_pager **link = &pagers->first;

	pthread_rwlock_wrlock(&pagers->lock);
	while (*link != pager)
		link = &(*link)->next;
	*link = pager->next;
	if (!pagers->first)
		atomic_store_explicit(&pagers->any, false, memory_order_relaxed);
	/* Threads that wait for a page of it go on. */
	ioctl(pagers->userfault, UFFDIO_UNREGISTER, &range);
	/* Not before: faults that are out by now must find ordinary memory. */
	tell_forward(pagers, pager, false);
	pthread_rwlock_unlock(&pagers->lock);
	free(pager);
}
