/* SPDX-License-Identifier: BSD-3-Clause */
#include "collapse.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/page.h"
#include "pagemap.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

struct collapse_task {
	struct task task;
	struct collapse *collapse;
	uint64_t address;
};

/* Service thread. Only fields of the collapse are read, which never change. */
static void run_task(struct task *task, bool dropped)
{
	const struct collapse_task *work = (struct collapse_task *)task;
	const struct collapse *collapse = work->collapse;

	if (!dropped && collapse_range(work->address, (uint64_t)1 << collapse->shift))
		statistic_add_concurrent(collapse->statistics, PF_STAT_COLLAPSED, 1);
	free(task);
}

/* Without memory for the task the range stays as before: only time is lost. */
static void request_collapse(struct collapse *collapse, uint64_t address)
{
	struct collapse_task *work = malloc(sizeof(*work));

	if (!work)
		return;
	*work = (struct collapse_task){ .task.run = run_task,
					.collapse = collapse,
					.address = address };
	service_run(collapse->service, &work->task);
}

void collapse_init(struct collapse *collapse, uint64_t threshold, uint64_t size,
		   struct service *service, struct statistics *statistics)
{
	assert_that(size && !(size & (size - 1)));
	*collapse = (struct collapse){ .threshold = size <= COLLAPSE_SIZE_MAX ? threshold : 0,
				       .shift = (unsigned)__builtin_ctzll(size),
				       .service = service,
				       .statistics = statistics };
}

void collapse_note(struct collapse *collapse, const void *memory, uint64_t length)
{
	uint64_t address = (uint64_t)(uintptr_t)memory, end = address + length;

	assert_that(collapse->threshold);
	while (address < end) {
		uint64_t range = address >> collapse->shift;
		uint64_t next = (range + 1) << collapse->shift;
		uint64_t bytes = (end < next ? end : next) - address;
		unsigned i = range % COLLAPSE_RANGES;

		address += bytes;
		if (collapse->ranges[i].range != range) {
			/* Two ranges share the entry: the range with more bytes keeps the entry. */
			if (collapse->ranges[i].bytes > bytes) {
				collapse->ranges[i].bytes -= bytes;
				continue;
			}
			collapse->ranges[i].range = range;
			collapse->ranges[i].bytes = 0;
			collapse->ranges[i].requested = 0;
		}
		collapse->ranges[i].bytes += bytes;
		if (collapse->ranges[i].bytes < collapse->threshold ||
		    collapse->ranges[i].requested)
			continue;
		collapse->ranges[i].requested = 1;
		request_collapse(collapse, range << collapse->shift);
	}
}

enum collapse_setting collapse_setting(void)
{
	char text[64] = "";
	int fd;

	if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0)
		return COLLAPSE_NEVER;
	fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return COLLAPSE_NEVER;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	if (strstr(text, "[always]"))
		return COLLAPSE_ALWAYS;
	return strstr(text, "[madvise]") ? COLLAPSE_MADVISE : COLLAPSE_NEVER;
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
	return collapse_setting() != COLLAPSE_NEVER && is_own(address, address + size) &&
	       collapse_pages(address, size);
}
