/* SPDX-License-Identifier: BSD-3-Clause */
/* Page sizes of new anonymous memory: enabled sizes, and the measured cost of each. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/number.h"
#include "base/page.h"
#include "info.h"
#include "sample.h"

/* Bytes of a result. */
#define PIECE ((size_t)64 << 10)
/* Memory in folios: too short for a huge page. */
#define AREA ((size_t)1 << 20)
/* Longer huge pages, of kernels with base pages of 16 or 64 KiB, are not measured. */
#define HUGE_MOST ((size_t)4 << 20)
#define REPETITIONS 7

/* Time for PIECE bytes, us. Below 0: not measured. */
struct page_cost {
	double touch, copy;
};

static bool choice_enables(const char *choice)
{
	return choice[0] && strcmp(choice, "never") && !prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
}

static int sizes_compare(const void *one, const void *other)
{
	unsigned long x = *(const unsigned long *)one, y = *(const unsigned long *)other;

	return (x > y) - (x < y);
}

/* Return the number of sizes of large folios, KiB, in order, without the huge page. */
static unsigned sizes_load(unsigned long *sizes, unsigned most)
{
	unsigned long huge = (unsigned long)(huge_page_size(HUGE_PAGE_FILE) >> 10);
	DIR *folder = opendir(HUGE_PAGE_FOLDER);
	unsigned count = 0;
	struct dirent *entry;
	char choice[16];

	while (folder && count < most && (entry = readdir(folder))) {
		if (sscanf(entry->d_name, "hugepages-%lukB", &sizes[count]) != 1 ||
		    sizes[count] == huge)
			continue;
		/* Of some sizes there is only shared memory. */
		page_setting(HUGE_PAGE_FOLDER, (uint64_t)sizes[count] << 10, choice,
			     sizeof(choice));
		count += choice[0] != 0;
	}
	if (folder)
		closedir(folder);
	qsort(sizes, count, sizeof(*sizes), sizes_compare);
	return count;
}

/* Print the enabled sizes. Returns the largest up to AREA, bytes; 0: none is enabled. */
static size_t print_folios(bool json)
{
	unsigned long sizes[32];
	unsigned count = sizes_load(sizes, 32), i;
	char text[512] = "", choice[16];
	size_t length = 0, largest = 0;

	for (i = 0; i < count; i++) {
		page_setting(HUGE_PAGE_FOLDER, (uint64_t)sizes[i] << 10, choice, sizeof(choice));
		if (!choice_enables(choice))
			continue;
		if (sizes[i] << 10 <= AREA)
			largest = sizes[i] << 10;
		if (length < sizeof(text))
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "%s%lu KiB %s", length ? ", " : "", sizes[i],
						   choice);
	}
	if (length)
		row_print(json, "large folios", "%s", text);
	else if (count)
		row_print(json, "large folios",
			  "none enabled, of %lu to %lu KiB: " HUGE_PAGE_FOLDER
			  "/hugepages-*/enabled",
			  sizes[0], sizes[count - 1]);
	else
		row_print(json, "large folios", "not in this kernel: Linux 6.8 brought them");
	return largest;
}

/*
 * Return accessible, absent memory of the length, at the start of a huge page's place, with no
 * accessible memory behind; NULL: none. *map: to be unmapped, *map_length bytes.
 */
static uint8_t *area_map(size_t length, int advice, void **map, size_t *map_length)
{
	size_t huge = number_min(huge_page_size(HUGE_PAGE_FILE), HUGE_MOST);
	uint8_t *area;

	*map_length = huge + number_max(length, huge);
	*map = mmap(NULL, *map_length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	if (*map == MAP_FAILED)
		return NULL;
	area = (uint8_t *)*map + (-(uintptr_t)*map & (huge - 1));
	/* A kernel without huge pages refuses the advice, and has base pages only. */
	if (mprotect(area, length, PROT_READ | PROT_WRITE) ||
	    (madvise(area, length, advice) && advice != MADV_NOHUGEPAGE)) {
		munmap(*map, *map_length);
		return NULL;
	}
	return area;
}

/* Time to touch an absent part of an area, for PIECE bytes, us. */
static double part_touch(uint8_t *part, size_t length)
{
	size_t page = (size_t)page_size(), i;
	double start = sample_seconds();

	for (i = 0; i < length; i += page)
		((volatile uint8_t *)part)[i] = 1;
	return (sample_seconds() - start) * 1e6 * (double)PIECE / (double)length;
}

/* Time to copy the first PIECE bytes of the part by single copy, us; below 0: not permitted. */
static double part_copy(uint8_t *part)
{
	static uint8_t buffer[PIECE] = { 1 };
	struct iovec local = { buffer, PIECE }, remote = { part, PIECE };
	double start = sample_seconds();

	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)PIECE)
		return -1;
	return (sample_seconds() - start) * 1e6;
}

/* Measure an area, part by part: medians leave out parts interrupted by another process. */
static struct page_cost area_measure(size_t length, size_t part, int advice)
{
	double touch[REPETITIONS * AREA / PIECE], copy[REPETITIONS * AREA / PIECE];
	size_t map_length, count = 0, i;
	uint8_t *area;
	void *map;
	int repetition;

	for (repetition = 0; repetition < REPETITIONS; repetition++) {
		area = area_map(length, advice, &map, &map_length);
		if (!area)
			return (struct page_cost){ -1, -1 };
		for (i = 0; i < length; i += part) {
			touch[count] = part_touch(area + i, part);
			copy[count++] = part_copy(area + i);
		}
		munmap(map, map_length);
	}
	return (struct page_cost){ sample_summary(touch, count).median,
				   sample_summary(copy, count).median };
}

/* Add "5.2 us in base pages" to the text, unless the time was not measured. */
static void cost_add(char *text, size_t size, double cost, const char *kind)
{
	size_t length = strlen(text);

	if (cost >= 0)
		snprintf(text + length, size - length, "%s%.1f us in %s", length ? ", " : "", cost,
			 kind);
}

static void print_cost(bool json, const char *name, const char *what, const double costs[3],
		       const char *without)
{
	char text[160] = "";

	cost_add(text, sizeof(text), costs[0], "base pages");
	cost_add(text, sizeof(text), costs[1], "large folios");
	cost_add(text, sizeof(text), costs[2], "huge pages");
	row_print(json, name, "%s: %s", what, text[0] ? text : without);
}

void info_print_pages(const struct info *info, bool json)
{
	const struct page_cost none = { -1, -1 };
	size_t huge = (size_t)huge_page_size(HUGE_PAGE_FILE), folio;
	struct page_cost base, folios = none, whole = none;
	char choice[16];
	bool measured;

	(void)info;
	row_print(json, "base pages", "%zu KiB", (size_t)page_size() >> 10);
	page_setting(HUGE_PAGE_FOLDER, huge, choice, sizeof(choice));
	if (!choice[0])
		page_setting(HUGE_PAGE_FOLDER, 0, choice, sizeof(choice));
	measured = choice_enables(choice) && huge <= HUGE_MOST;
	row_print(json, "huge pages", "%zu KiB: %s%s", huge >> 10,
		  choice[0] ? choice : "not in this kernel",
		  choice_enables(choice) && !measured ? ", not measured" : "");
	base = area_measure(AREA, PIECE, MADV_NOHUGEPAGE);
	folio = print_folios(json);
	if (folio)
		folios = area_measure(AREA, number_max(folio, PIECE), MADV_HUGEPAGE);
	if (measured)
		whole = area_measure(huge, huge, MADV_HUGEPAGE);
	print_cost(json, "first touch", "64 KiB of new memory",
		   (const double[]){ base.touch, folios.touch, whole.touch }, "not measured");
	print_cost(json, "look-up and copy", "64 KiB by single copy",
		   (const double[]){ base.copy, folios.copy, whole.copy }, "not permitted here");
}
