/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Stretches of absent pages that one look takes in. */
#define STRETCHES 32
/* A longer look is not worth its time where the front of it is to be copied first. */
#define LOOK_MOST (64ull << 20)

/* linux/fs.h as of 6.7 and 6.11; the headers that we are built with may be older. */
struct page_region {
	uint64_t start, end, categories;
};
struct pm_scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#define PAGE_IS_PRESENT (1 << 3)
#define PAGE_IS_SWAPPED (1 << 4)

struct procmap_query {
	uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size;
	uint64_t vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_PRESENT (1ull << 63)

struct stretch {
	uint64_t start, end;
	bool swapped;
};

static int open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds)
{
	memset(residency, 0, sizeof(*residency));
	residency->pid = pid;
	residency->pagemap = open_proc(pid, "pagemap");
	residency->maps = residency->pagemap < 0 ? -1 : open_proc(pid, "maps");
	residency->lifetime = (uint16_t)((microseconds + 999) / 1000);
}

void residency_close(struct residency *residency)
{
	if (residency->pagemap >= 0)
		close(residency->pagemap);
	if (residency->maps >= 0)
		close(residency->maps);
	residency->pagemap = -1;
	residency->maps = -1;
}

static int scan(int pagemap, uint64_t start, uint64_t end, struct stretch *stretches,
		uint64_t *walked)
{
	struct page_region regions[STRETCHES];
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = start,
		.end = end,
		.vec = (uint64_t)(uintptr_t)regions,
		.vec_len = STRETCHES,
		.category_inverted = PAGE_IS_PRESENT,
		.category_mask = PAGE_IS_PRESENT,
		.return_mask = PAGE_IS_SWAPPED,
	};
	int count = ioctl(pagemap, PAGEMAP_SCAN, &arg), i;

	for (i = 0; i < count; i++)
		stretches[i] = (struct stretch){ regions[i].start, regions[i].end,
						 regions[i].categories & PAGE_IS_SWAPPED };
	*walked = arg.walk_end;
	return count;
}

/* The same before Linux 6.7. */
static int read_pagemap(int pagemap, uint64_t page, uint64_t start, uint64_t end,
			struct stretch *stretches, uint64_t *walked)
{
	uint64_t entries[512];
	size_t wanted = (end - start) / page < 512 ? (end - start) / page : 512, i;
	ssize_t bytes = pread(pagemap, entries, wanted * sizeof(*entries),
			      (off_t)(start / page * sizeof(*entries)));
	size_t found = bytes > 0 ? (size_t)bytes / sizeof(*entries) : 0;
	int count = 0;

	*walked = end;
	for (i = 0; i < found; i++) {
		bool swapped = entries[i] & PAGEMAP_SWAPPED;
		uint64_t here = start + i * page;

		*walked = here + page;
		if (entries[i] & PAGEMAP_PRESENT)
			continue;
		if (count && stretches[count - 1].end == here &&
		    stretches[count - 1].swapped == swapped) {
			stretches[count - 1].end += page;
			continue;
		}
		if (count == STRETCHES) {
			*walked = here;
			break;
		}
		stretches[count++] = (struct stretch){ here, here + page, swapped };
	}
	return count;
}

/* Without PROCMAP_QUERY, which is Linux 6.11: *end of the mapping, and whether it has a file. */
static bool read_maps(int maps, uint64_t address, uint64_t *end, bool *file)
{
	char text[4097], *line, *next;
	size_t kept = 0;
	off_t offset = 0;
	ssize_t bytes;

	while ((bytes = pread(maps, text + kept, sizeof(text) - 1 - kept, offset)) > 0) {
		offset += bytes;
		text[kept + (size_t)bytes] = '\0';
		for (line = text; (next = strchr(line, '\n')); line = next + 1) {
			uint64_t start, inode = 0;

			if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &start,
				   end, &inode) < 3)
				return false;
			if (address >= *end)
				continue;
			*file = inode != 0;
			return address >= start;
		}
		kept = strlen(line);
		memmove(text, line, kept);
	}
	return false;
}

/* Where does the memory end that has no file behind it? address itself if there is a file, or nothing. */
static uint64_t anonymous_end(struct residency *residency, uint64_t address)
{
	struct procmap_query query = { .size = sizeof(query), .query_addr = address };
	uint64_t end = 0;
	bool file = true;

	if (residency->maps < 0)
		return address;
	if (!ioctl(residency->maps, PROCMAP_QUERY, &query))
		return query.inode ? address : query.vma_end;
	if (errno != ENOTTY)
		return address;
	return read_maps(residency->maps, address, &end, &file) && !file ? end : address;
}

static void trust(struct residency *residency, uint64_t address, uint64_t end)
{
	uint64_t piece = address >> RESIDENCY_PIECE_SHIFT;
	uint16_t now = residency_now();

	for (; piece <= (end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
		_Atomic uint64_t *place = &residency->hints[piece % RESIDENCY_HINTS];
		uint64_t hint = atomic_load_explicit(place, memory_order_relaxed);

		/* Of two threads that write at once one is forgotten, which costs a look. */
		if (!residency_is_current(residency, hint, piece, now))
			hint = (uint64_t)(uint32_t)piece << 32 |
			       (uint64_t)(uint16_t)(now + residency->lifetime) << 16;
		atomic_store_explicit(place, hint | residency_pages(piece, address, end),
				      memory_order_relaxed);
	}
}

/* Bytes of [from, to) before the first that has a file behind it: the others cost memory only. */
static uint64_t anonymous_bytes(struct residency *residency, uint64_t from, uint64_t to,
				uint64_t *end)
{
	uint64_t start = from;

	while (from < to) {
		if (from >= *end)
			*end = anonymous_end(residency, from);
		if (*end <= from)
			break;
		from = *end < to ? *end : to;
	}
	return from - start;
}

uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t end, anonymous = 0, walked, bytes;
	struct stretch stretches[STRETCHES];
	int count, i;

	*cold = 0;
	if (residency->pagemap < 0 || residency_trusted(residency, address, length))
		return length;
	if (length > LOOK_MOST)
		length = LOOK_MOST;
	end = address + length;
	count = scan(residency->pagemap, address & ~(page - 1), (end + page - 1) & ~(page - 1),
		     stretches, &walked);
	if (count < 0)
		count = read_pagemap(residency->pagemap, page, address & ~(page - 1),
				     (end + page - 1) & ~(page - 1), stretches, &walked);
	if (!count && walked >= end)
		trust(residency, address, end);
	for (i = 0; i < count; i++) {
		uint64_t from = stretches[i].start > address ? stretches[i].start : address;
		uint64_t to = stretches[i].end < end ? stretches[i].end : end;

		if (from >= to)
			continue;
		if (stretches[i].swapped)
			return from - address;
		bytes = anonymous_bytes(residency, from, to, &anonymous);
		*cold += bytes;
		if (from + bytes < to)
			return from + bytes - address;
	}
	return walked < end && walked > address ? walked - address : length;
}
