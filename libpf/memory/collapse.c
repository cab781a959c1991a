/* SPDX-License-Identifier: BSD-3-Clause */
#include "collapse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define RANGE ((uint64_t)1 << COLLAPSE_SHIFT)
#define PAGES (RANGE / 4096)

/* Bits of /proc/pid/pagemap, Documentation/admin-guide/mm/pagemap.rst. */
#define PAGEMAP_EXCLUSIVE (1ull << 56)
#define PAGEMAP_FILE (1ull << 61)
#define PAGEMAP_PRESENT (1ull << 63)

struct collapse_task {
	struct task task;
	struct collapse *collapse;
	uint64_t address;
};

/* Service thread. */
static void run_task(struct task *task, bool dropped)
{
	const struct collapse_task *work = (struct collapse_task *)task;

	if (!dropped && collapse_range(work->address))
		statistic_add_concurrent(work->collapse->statistics, PF_STAT_COLLAPSED, 1);
	free(task);
}

/* Without memory for the task the range stays as it is: huge pages only save time. */
static void ask(struct collapse *collapse, uint64_t address)
{
	struct collapse_task *work = malloc(sizeof(*work));

	if (!work)
		return;
	*work = (struct collapse_task){ .task.run = run_task,
					.collapse = collapse,
					.address = address };
	service_run(collapse->service, &work->task);
}

void collapse_init(struct collapse *collapse, uint64_t threshold, struct service *service,
		   struct statistics *statistics)
{
	memset(collapse, 0, sizeof(*collapse));
	collapse->threshold = threshold;
	collapse->service = service;
	collapse->statistics = statistics;
}

void collapse_note(struct collapse *collapse, const void *memory, uint64_t length)
{
	uint64_t address = (uint64_t)(uintptr_t)memory, end = address + length;

	while (address < end) {
		uint64_t range = address >> COLLAPSE_SHIFT;
		uint64_t next = (range + 1) << COLLAPSE_SHIFT;
		uint64_t bytes = (end < next ? end : next) - address;
		unsigned i = range % COLLAPSE_RANGES;

		address += bytes;
		if (collapse->ranges[i].range != range) {
			/* The hotter of two that share the place keeps it. */
			if (collapse->ranges[i].bytes > bytes) {
				collapse->ranges[i].bytes -= bytes;
				continue;
			}
			collapse->ranges[i].range = range;
			collapse->ranges[i].bytes = 0;
			collapse->ranges[i].asked = 0;
		}
		collapse->ranges[i].bytes += bytes;
		if (collapse->ranges[i].bytes < collapse->threshold || collapse->ranges[i].asked)
			continue;
		collapse->ranges[i].asked = 1;
		ask(collapse, range << COLLAPSE_SHIFT);
	}
}

static int permitted(void)
{
	char text[64] = "";
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);

	/* MADV_COLLAPSE would work against "never"; an administrator who says it means it. */
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return text[0] && !strstr(text, "[never]");
}

static int all_ours(uint64_t address)
{
	uint64_t entries[PAGES];
	unsigned i;
	ssize_t bytes;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	bytes = pread(fd, entries, sizeof(entries), (off_t)(address / 4096 * sizeof(entries[0])));
	close(fd);
	if (bytes != sizeof(entries))
		return 0;
	for (i = 0; i < PAGES; i++) {
		if ((entries[i] & (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE | PAGEMAP_FILE)) !=
		    (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE))
			return 0;
	}
	return 1;
}

int collapse_range(uint64_t address)
{
	if (sysconf(_SC_PAGESIZE) != 4096 || !permitted() || !all_ours(address))
		return 0;
	return !madvise((void *)(uintptr_t)address, RANGE, MADV_COLLAPSE);
}
