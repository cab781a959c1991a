/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/page.h"
#include "pagemap.h"

/* Stretches of absent pages that one look finds, at most. */
#define STRETCHES 32
/* Bytes of one look, at most: what comes first can be copied before more is looked at. */
#define LOOK_MAX (64ull << 20)

/* From linux/fs.h of 6.7 and 6.11; the headers of the build may be older. */
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
#define MAPPING_READABLE 1
#define MAPPING_WRITABLE 2

/* Consecutive absent pages, all of them in swap or none. */
struct stretch {
	uint64_t start, end; /* addresses */
	bool swapped;
};

static int open_proc(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	do {
		fd = open(path, O_RDONLY | O_CLOEXEC);
	} while (fd < 0 && descriptor_limit_raised(errno));
	return fd;
}

/*
 * The device of the kernel's own tmpfs, which holds memory of memfd_create and of
 * MAP_SHARED | MAP_ANONYMOUS. Written once, by find_shared_device; 0: not found.
 */
static dev_t shared_device;

static void find_shared_device(void)
{
	struct stat file;
	int fd;

	do {
		fd = memfd_create("libpf", MFD_CLOEXEC);
	} while (fd < 0 && descriptor_limit_raised(errno));
	if (fd < 0)
		return;
	if (!fstat(fd, &file))
		shared_device = file.st_dev;
	close(fd);
}

void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_shared_device);
	memset(residency, 0, sizeof(*residency));
	/*
	 * An ended main thread has no memory. maps needs a thread that lives as long as the descriptor;
	 * without it, absent pages count as pages of a disk.
	 */
	residency->pagemap = open_proc(pid == getpid() ? gettid() : pid, "pagemap");
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

/*
 * Find the stretches of absent pages in [start, end), STRETCHES of them at most. *walked: the
 * address up to which that was done. Returns their number; -1 before Linux 6.7.
 */
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

/*
 * The same before Linux 6.7, one batch of pages at most. If the pages cannot be read, they
 * count as present.
 */
static int read_pagemap(int pagemap, uint64_t start, uint64_t end, struct stretch *stretches,
			uint64_t *walked)
{
	uint64_t entries[PAGEMAP_BATCH], page = page_size();
	size_t found = pagemap_read(pagemap, start, end, entries), i;
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

/* If it is not known, it counts as used. */
static bool swap_is_used(void)
{
	struct sysinfo system;

	return sysinfo(&system) < 0 || system.freeswap < system.totalswap;
}

/* The part of a mapping from an address on. */
struct mapping {
	uint64_t end;   /* address behind it */
	uint64_t inode; /* of its file; 0: anonymous memory */
	dev_t device;   /* of its file */
	uint64_t flags; /* MAPPING_READABLE, MAPPING_WRITABLE; others may be set, too */
};

/* Before Linux 6.11, which brought PROCMAP_QUERY. False: nothing is mapped at address. */
static bool read_maps(int maps, uint64_t address, struct mapping *mapping)
{
	char text[4097], *line, *next;
	size_t kept = 0;
	off_t offset = 0;
	ssize_t bytes;

	while ((bytes = pread(maps, text + kept, sizeof(text) - 1 - kept, offset)) > 0) {
		offset += bytes;
		text[kept + (size_t)bytes] = '\0';
		for (line = text; (next = strchr(line, '\n')); line = next + 1) {
			unsigned high, low;
			char permissions[5];
			uint64_t start;

			if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %x:%x %" SCNu64, &start,
				   &mapping->end, permissions, &high, &low, &mapping->inode) < 6)
				return false;
			mapping->flags = (permissions[0] == 'r' ? MAPPING_READABLE : 0) |
					 (permissions[1] == 'w' ? MAPPING_WRITABLE : 0);
			mapping->device = makedev(high, low);
			if (address < mapping->end)
				return address >= start;
		}
		kept = strlen(line);
		memmove(text, line, kept);
	}
	return false;
}

static bool find_mapping(struct residency *residency, uint64_t address, struct mapping *mapping)
{
	struct procmap_query query = { .size = sizeof(query), .query_addr = address };

	if (residency->maps < 0)
		return false;
	if (ioctl(residency->maps, PROCMAP_QUERY, &query) < 0)
		return errno == ENOTTY && read_maps(residency->maps, address, mapping);
	*mapping = (struct mapping){ query.vma_end, query.inode,
				     makedev(query.dev_major, query.dev_minor), query.vma_flags };
	return true;
}

bool residency_permits(struct residency *residency, uint64_t address, bool write, bool *anonymous)
{
	struct mapping mapping;

	if (!find_mapping(residency, address, &mapping))
		return false;
	*anonymous = !mapping.inode;
	return mapping.flags & (write ? MAPPING_WRITABLE : MAPPING_READABLE);
}

/*
 * The end of the mapping at address, if no absent page of it has to be read from a disk; address
 * itself if one may have to be, or if nothing is mapped there.
 */
static uint64_t memory_end(struct residency *residency, uint64_t address)
{
	struct mapping mapping;

	if (!find_mapping(residency, address, &mapping))
		return address;
	/* A page table does not show which pages of shared memory are in swap. */
	if (mapping.inode && (mapping.device != shared_device || swap_is_used()))
		return address;
	return mapping.end;
}

/* Record that [address, end) is present, for lifetime ms, in one of count words. */
static void pieces_record(_Atomic uint64_t *words, unsigned count, uint16_t lifetime,
			  uint64_t address, uint64_t end)
{
	uint64_t piece = address >> RESIDENCY_PIECE_SHIFT;
	uint16_t now = residency_now();

	for (; piece <= (end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
		_Atomic uint64_t *place = &words[piece % count];
		uint64_t hint = atomic_load_explicit(place, memory_order_relaxed);

		/* If two threads write at once, one hint is lost, which costs a look later. */
		if (!residency_is_current(hint, piece, now, lifetime))
			hint = (uint64_t)(uint32_t)piece << 32 |
			       (uint64_t)(uint16_t)(now + lifetime) << 16;
		atomic_store_explicit(place, hint | residency_units(piece, address, end),
				      memory_order_relaxed);
	}
}

void residency_believe(struct residency *residency, uint64_t address, uint64_t length)
{
	const uint64_t most = (RESIDENCY_BELIEFS - 1) * RESIDENCY_PIECE;

	pieces_record(residency->beliefs, RESIDENCY_BELIEFS, RESIDENCY_BELIEF_LIFETIME, address,
		      address + (length < most ? length : most));
}

/* The end of what is believed of [from, to), from its start on; from if that is nothing. */
static uint64_t believed_end(struct residency *residency, uint64_t from, uint64_t to)
{
	uint16_t now = residency_now();

	while (from < to) {
		uint64_t piece = from >> RESIDENCY_PIECE_SHIFT;
		uint64_t end = (piece + 1) << RESIDENCY_PIECE_SHIFT;
		uint64_t hint = atomic_load_explicit(&residency->beliefs[piece % RESIDENCY_BELIEFS],
						     memory_order_relaxed);
		uint64_t unit = (uint64_t)1 << RESIDENCY_UNIT_SHIFT;

		if (!residency_is_current(hint, piece, now, RESIDENCY_BELIEF_LIFETIME))
			break;
		for (; from < end && from < to; from = (from & ~(unit - 1)) + unit) {
			if (residency_units(piece, from, from + 1) & ~hint)
				return from;
		}
	}
	return from < to ? from : to;
}

/*
 * Of the absent pages [from, to), the bytes up to the first page that may have to be read from a
 * disk. *end caches memory_end between calls: the result for a mapping looked at before.
 */
static uint64_t memory_bytes(struct residency *residency, uint64_t from, uint64_t to, uint64_t *end)
{
	uint64_t start = from;

	while (from < to) {
		if (from >= *end)
			*end = memory_end(residency, from);
		if (*end <= from)
			break;
		from = *end < to ? *end : to;
	}
	return from - start;
}

uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold)
{
	uint64_t page = page_size();
	uint64_t end, known = 0, walked, bytes;
	struct stretch stretches[STRETCHES];
	int count, i;

	if (cold)
		*cold = 0;
	if (residency->pagemap < 0 || residency_is_trusted(residency, address, length))
		return length;
	if (length > LOOK_MAX)
		length = LOOK_MAX;
	end = address + length;
	count = scan(residency->pagemap, address & ~(page - 1), (end + page - 1) & ~(page - 1),
		     stretches, &walked);
	if (count < 0)
		count = read_pagemap(residency->pagemap, address & ~(page - 1),
				     (end + page - 1) & ~(page - 1), stretches, &walked);
	if (!count && walked >= end)
		pieces_record(residency->hints, RESIDENCY_HINTS, residency->lifetime, address, end);
	for (i = 0; i < count; i++) {
		uint64_t from = stretches[i].start > address ? stretches[i].start : address;
		uint64_t to = stretches[i].end < end ? stretches[i].end : end;

		if (from >= to)
			continue;
		bytes = 0;
		if (!stretches[i].swapped && cold) {
			bytes = memory_bytes(residency, from, to, &known);
			*cold += bytes;
		}
		from = believed_end(residency, from + bytes, to);
		if (from < to)
			return from - address;
	}
	return walked < end && walked > address ? walked - address : length;
}

uint64_t residency_cached(uint64_t address, uint64_t length)
{
	uint64_t page = page_size();
	uint64_t start = address & ~(page - 1), at = start, end = address + length;
	unsigned char present[512];

	while (at < end) {
		uint64_t pages = (end - at + page - 1) / page, i;

		if (pages > sizeof(present))
			pages = sizeof(present);
		if (mincore((void *)(uintptr_t)at, pages * page, present) < 0)
			break;
		for (i = 0; i < pages && present[i] & 1; i++)
			;
		at += i * page;
		if (i < pages)
			break;
	}
	if (at <= address)
		return 0;
	return at < end ? at - address : length;
}
