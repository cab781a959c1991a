/* SPDX-License-Identifier: BSD-3-Clause */
#include "collapse.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/page.h"
#include "pagemap.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

struct collapse_request {
	struct task task;
	STAILQ_ENTRY(collapse_request) next;
	struct collapse *collapse;
	uint64_t address;
};

static void request_free(struct collapse *collapse, struct collapse_request *request)
{
	free(request);
	atomic_fetch_sub_explicit(&collapse->waiting_count, 1, memory_order_relaxed);
}

static void collapse_oldest(struct collapse *collapse)
{
	struct collapse_request *request = STAILQ_FIRST(&collapse->waiting);
	uint64_t start = clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID), rest;
	struct timeval pause;

	assert_service(collapse->service);
	STAILQ_REMOVE_HEAD(&collapse->waiting, next);
	if (collapse_range(request->address, (uint64_t)1 << collapse->shift))
		statistic_add_concurrent(collapse->statistics, PF_STAT_COLLAPSED, 1);
	request_free(collapse, request);
	rest = (clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - start) * COLLAPSE_REST / 1000;
	/* The time at which the thread woke is over. */
	event_base_update_cache_time(collapse->service->base);
	pause = (struct timeval){ (time_t)(rest / 1000000), (suseconds_t)(rest % 1000000) };
	event_add(collapse->rest, &pause);
}

static void on_rested(int fd, short what, void *arg)
{
	struct collapse *collapse = arg;

	(void)fd;
	(void)what;
	if (!STAILQ_EMPTY(&collapse->waiting))
		collapse_oldest(collapse);
}

static bool is_waiting(const struct collapse *collapse, uint64_t address)
{
	const struct collapse_request *request;

	STAILQ_FOREACH(request, &collapse->waiting, next) {
		if (request->address == address)
			return true;
	}
	return false;
}

/* Service thread. */
static void request_run(struct task *task, bool dropped)
{
	struct collapse_request *request = (struct collapse_request *)task;
	struct collapse *collapse = request->collapse;

	if (dropped || is_waiting(collapse, request->address)) {
		request_free(collapse, request);
		return;
	}
	STAILQ_INSERT_TAIL(&collapse->waiting, request, next);
	if (!collapse->rest)
		collapse->rest = service_event(collapse->service, -1, 0, on_rested, collapse);
	if (!event_pending(collapse->rest, EV_TIMEOUT, NULL))
		collapse_oldest(collapse);
}

void collapse_init(struct collapse *collapse, uint64_t threshold, uint64_t size,
		   struct service *service, struct statistics *statistics)
{
	assert_that(size && !(size & (size - 1)));
	*collapse = (struct collapse){ .threshold = size <= COLLAPSE_SIZE_MAX ? threshold : 0,
				       .shift = (unsigned)__builtin_ctzll(size),
				       .service = service,
				       .statistics = statistics };
	STAILQ_INIT(&collapse->waiting);
}

void collapse_destroy(struct collapse *collapse)
{
	struct collapse_request *request;

	while ((request = STAILQ_FIRST(&collapse->waiting))) {
		STAILQ_REMOVE_HEAD(&collapse->waiting, next);
		request_free(collapse, request);
	}
	if (collapse->rest)
		event_free(collapse->rest);
}

/* Count bytes of a range, and return the entry; NULL: another range has the entry. */
static struct collapse_entry *range_count(struct collapse *collapse, uint64_t owner,
					  uint64_t number, uint64_t bytes)
{
	struct collapse_entry *range = &collapse->ranges[(owner + number) % COLLAPSE_RANGES];

	if (range->number != number || range->owner != owner) {
		/* The range with more bytes keeps the entry. */
		if (range->bytes > bytes) {
			range->bytes -= bytes;
			return NULL;
		}
		*range = (struct collapse_entry){ .owner = owner, .number = number };
	}
	range->bytes += bytes;
	return range;
}

struct collapse_entry *collapse_note(struct collapse *collapse, uint64_t owner, uint64_t address,
				     uint64_t length)
{
	struct collapse_entry *range, *worth = NULL;
	uint64_t size = (uint64_t)1 << collapse->shift, end = address + length, bytes;

	assert_that(collapse->threshold);
	for (; address < end; address += bytes) {
		uint64_t number = address >> collapse->shift;

		/* The last range of the address space ends at 0. */
		bytes = number_min(end - address, size - (address & (size - 1)));
		range = range_count(collapse, owner, number, bytes);
		if (range && range->bytes >= number_max(range->next, collapse->threshold))
			worth = range;
	}
	return worth;
}

void collapse_asked(struct collapse_entry *range)
{
	range->next = 2 * range->bytes;
}

/* Without memory for the request the range stays as before: only time is lost. */
bool collapse_request(struct collapse *collapse, uint64_t address)
{
	const uint64_t size = (uint64_t)1 << collapse->shift;
	struct collapse_request *request;

	if (!collapse->threshold || address & (size - 1) || address + size < address)
		return true;
	if (atomic_load_explicit(&collapse->waiting_count, memory_order_relaxed) >=
	    COLLAPSE_WAITING_MOST)
		return false;
	request = malloc(sizeof(*request));
	if (!request)
		return false;
	*request = (struct collapse_request){ .task.run = request_run,
					      .collapse = collapse,
					      .address = address };
	atomic_fetch_add_explicit(&collapse->waiting_count, 1, memory_order_relaxed);
	service_run(collapse->service, &request->task);
	return true;
}

enum collapse_setting collapse_setting_in(const char *folder, uint64_t size)
{
	char word[16];

	page_setting(folder, size, word, sizeof(word));
	if (!word[0])
		page_setting(folder, 0, word, sizeof(word));
	if (!strcmp(word, "always"))
		return COLLAPSE_ALWAYS;
	return strcmp(word, "madvise") ? COLLAPSE_NEVER : COLLAPSE_MADVISE;
}

enum collapse_setting collapse_setting(uint64_t size)
{
	if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0)
		return COLLAPSE_NEVER;
	return collapse_setting_in(HUGE_PAGE_FOLDER, size);
}

/* Are all pages present, private, and mapped by no further process? */
static bool is_own(uint64_t start, uint64_t end)
{
	const uint64_t mask = PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE | PAGEMAP_FILE;
	uint64_t entries[PAGEMAP_BATCH];
	size_t count = 1, i;
	int fd = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (start < end && count) {
		count = pagemap_read(fd, start, end, entries);
		for (i = 0; i < count; i++) {
			if ((entries[i] & mask) != (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE))
				break;
		}
		if (i < count)
			break;
		start += count * page_size();
	}
	close(fd);
	return start >= end;
}

bool collapse_pages(uint64_t address, uint64_t size)
{
	return !madvise((void *)(uintptr_t)address, size, MADV_COLLAPSE);
}

bool collapse_range(uint64_t address, uint64_t size)
{
	return collapse_setting(size) != COLLAPSE_NEVER && is_own(address, address + size) &&
	       collapse_pages(address, size);
}
