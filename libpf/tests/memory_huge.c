/* SPDX-License-Identifier: BSD-3-Clause */
/* Huge pages, pages that become huge or are split, and merged pages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "memory.h"

/* ---- transparent ---- */

static const char *with_transparent(void)
{
	char text[100];

	if (!machine_read("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text)) ||
	    strstr(text, "[never]"))
		return "no transparent huge pages on this machine";
	return NULL;
}

static const char *map_huge(struct memory *memory)
{
	const char *error = memory_map_anonymous(memory, 0);

	return error ? error : memory_advise(memory, MADV_HUGEPAGE);
}

static const char *check_huge(struct memory *memory)
{
	errno = 0;
	return memory_smaps(memory->map, "AnonHugePages:") > 0 ?
		       NULL :
		       memory_error("no huge page: memory may be too fragmented");
}

/* Drop one page of each huge page. */
static const char *keep_dropping_parts(struct memory *memory, unsigned turn)
{
	size_t at = turn * 7919ull % (HUGE_PAGE / PAGE) * PAGE;

	for (; at < memory->size; at += HUGE_PAGE) {
		if (madvise(memory->map + at, PAGE, MADV_DONTNEED))
			return memory_error("MADV_DONTNEED");
	}
	usleep(turn % 50);
	/* Collapse for the next turn, unless a page is in use. */
	madvise(memory->map, memory->size, MADV_COLLAPSE);
	usleep(turn % 100);
	return NULL;
}

/* Other permissions for some pages split a huge page; transfers are permitted all the time. */
static const char *keep_splitting(struct memory *memory, unsigned turn)
{
	size_t at = turn * 7919ull % (HUGE_PAGE / PAGE) * PAGE;

	for (; at < memory->size; at += HUGE_PAGE) {
		if (mprotect(memory->map + at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
			return memory_error("mprotect");
	}
	usleep(turn % 50);
	if (mprotect(memory->map, memory->size, PROT_READ | PROT_WRITE))
		return memory_error("mprotect");
	madvise(memory->map, memory->size, MADV_COLLAPSE);
	usleep(turn % 100);
	return NULL;
}

static const char *with_collapse(void)
{
	const char *reason = with_transparent();
	void *memory;

	if (reason)
		return reason;
	memory = mmap(memory_reserve(HUGE_PAGE), HUGE_PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return "no memory";
	memset(memory, 1, HUGE_PAGE);
	if (madvise(memory, HUGE_PAGE, MADV_COLLAPSE) && errno == EINVAL)
		reason = "no MADV_COLLAPSE: Linux 6.1 and later";
	munmap(memory, HUGE_PAGE);
	return reason;
}

static const char *keep_collapsing(struct memory *memory, unsigned turn)
{
	int tries = 0;

	usleep(turn % 50);
	/* Pages in use cannot be collapsed; in the first turn, which transfers wait for, try again. */
	while (madvise(memory->map, memory->size, MADV_COLLAPSE) && !turn) {
		if (errno != EAGAIN || ++tries > 1000)
			return memory_error("MADV_COLLAPSE");
		usleep(1000);
	}
	usleep(turn % 50);
	/* Split it again. */
	if (mprotect(memory->map + PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) ||
	    mprotect(memory->map + PAGE, PAGE, PROT_READ | PROT_WRITE))
		return memory_error("mprotect");
	return NULL;
}

/* ---- hugetlbfs ---- */

static const char *with_hugetlb(void)
{
	/* Enough for two buffers of 64 MiB, and what is around them. */
	const size_t wanted = 2 * (64 * MIB / HUGE_PAGE + 4);
	char text[100] = "";
	const char *reason;

	snprintf(text, sizeof(text), "/sys/kernel/mm/hugepages/hugepages-%zukB", HUGE_PAGE / 1024);
	errno = 0;
	if (access(text, F_OK))
		return memory_error("no hugetlbfs with pages of %zu MiB", HUGE_PAGE / MIB);
	snprintf(text, sizeof(text), "%zu", wanted);
	reason = machine_write("/proc/sys/vm/nr_hugepages", text);
	if (reason)
		return reason;
	errno = 0;
	if (!machine_read("/proc/sys/vm/nr_hugepages", text, sizeof(text)) ||
	    strtoul(text, NULL, 10) < wanted)
		return memory_error("not enough memory for %zu huge pages", wanted);
	return NULL;
}

static const char *map_hugetlb(struct memory *memory)
{
	return memory_map_anonymous(memory, MAP_HUGETLB);
}

/* ---- merged ---- */

static const char *with_merging(void)
{
	static const char *const settings[][2] = {
		{ "/sys/kernel/mm/ksm/sleep_millisecs", "1" },
		{ "/sys/kernel/mm/ksm/pages_to_scan", "20000" },
		{ "/sys/kernel/mm/ksm/run", "1" },
	};
	const char *reason = NULL;
	size_t i;

	if (access("/sys/kernel/mm/ksm/run", F_OK))
		return "no KSM in this kernel";
	if (access("/proc/self/ksm_merging_pages", R_OK))
		return "no /proc/self/ksm_merging_pages: Linux 5.19 and later";
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]) && !reason; i++)
		reason = machine_write(settings[i][0], settings[i][1]);
	return reason;
}

static const char *merge(struct memory *memory)
{
	long pages = (long)(memory->size / PAGE), merged = 0;
	char text[40];
	int tries;

	if (madvise(memory->map, memory->size, MADV_MERGEABLE))
		return memory_error("MADV_MERGEABLE");
	/* Usually most pages are merged; on a busy machine this may take long. */
	for (tries = 0; tries < 40000 && merged < pages * (tries < 1000 ? 3 : 2) / 4; tries++) {
		usleep(1000);
		merged = machine_read("/proc/self/ksm_merging_pages", text, sizeof(text)) ?
				 strtol(text, NULL, 10) :
				 0;
	}
	errno = 0;
	return merged < pages / 2 ? memory_error("%ld of %ld pages were merged", merged, pages) :
				    NULL;
}

const struct memory_kind memory_huge_kinds[] = {
	{ .name = "huge page (THP)",
	  .huge = true,
	  .machine = with_transparent,
	  .map = map_huge,
	  .prepare = check_huge },
	{ .name = "huge page never touched",
	  .holds = CONTENTS_ZERO,
	  .huge = true,
	  .machine = with_transparent,
	  .map = map_huge },
	{ .name = "huge page split by MADV_DONTNEED during",
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .huge = true,
	  .machine = with_transparent,
	  .map = map_huge,
	  .prepare = check_huge,
	  .disturb = keep_dropping_parts },
	{ .name = "huge page split by mprotect during",
	  .huge = true,
	  .machine = with_transparent,
	  .map = map_huge,
	  .prepare = check_huge,
	  .disturb = keep_splitting },
	{ .name = "collapsed during",
	  .huge = true,
	  .machine = with_collapse,
	  .disturb = keep_collapsing },
	{ .name = "hugetlbfs", .huge = true, .machine = with_hugetlb, .map = map_hugetlb },
	{ .name = "hugetlbfs never touched",
	  .holds = CONTENTS_ZERO,
	  .huge = true,
	  .machine = with_hugetlb,
	  .map = map_hugetlb },
	/* Not the longest: on a busy machine the kernel's thread is slow. */
	{ .name = "merged by KSM",
	  .most = 4 * MIB,
	  .holds = CONTENTS_PAGES,
	  .machine = with_merging,
	  .prepare = merge },
	{ .name = NULL },
};
