/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/file.h"
#include "base/number.h"
#include "base/page.h"
#include "pagemap.h"

/* Stretches of absent pages found by a look, at most. */
#define STRETCHES 32
/* Bytes of a look, at most: the first part can be copied before the look at the next. */
#define LOOK_MAX (64ull << 20)

/* Renewals in a row without an absent page, each followed by a longer rest, at most. */
#define RENEWALS_VAIN_MOST 4

/* ms of validity of the answer about a file: does mincore tell the truth? */
#define FILE_LIFETIME 1000

/* From linux/fs.h of 6.7; the headers of the build may be older. */
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

/* Consecutive absent pages, either all in swap or all not. */
struct stretch {
	uint64_t start, end; /* addresses */
	bool swapped;
};

/*
 * The device of the kernel's own tmpfs with the memory of memfd_create and of MAP_SHARED |
 * MAP_ANONYMOUS. Written once, by find_shared_device; 0: not found.
 */
static dev_t shared_device;

static void find_shared_device(void)
{
	struct stat file;
	int fd;

	do {
		fd = file_create("libpf", MFD_CLOEXEC);
	} while (fd < 0 && descriptor_limit_raised(errno));
	if (fd < 0)
		return;
	if (!fstat(fd, &file))
		shared_device = file.st_dev;
	close(fd);
}

void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds,
		    struct service *service)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_shared_device);
	memset(residency, 0, sizeof(*residency));
	residency->pagemap = process_file_open(pid, "pagemap");
	if (residency->pagemap >= 0)
		residency->mappings = mappings_open(pid, microseconds * 1000, service);
	residency->lifetime = (uint16_t)((microseconds + 999) / 1000);
}

void residency_close(struct residency *residency)
{
	if (residency->pagemap >= 0)
		close(residency->pagemap);
	mappings_close(residency->mappings);
	residency->pagemap = -1;
	residency->mappings = NULL;
}

/*
 * Find the stretches of absent pages in [start, end), at most STRETCHES. *walked: end of the part
 * searched. Returns the number of stretches; -1 before Linux 6.7.
 */
static int pagemap_scan(int pagemap, uint64_t start, uint64_t end, struct stretch *stretches,
			uint64_t *walked)
{
	/* Zeroed for memcheck, which does not know the bytes written by the call. */
	struct page_region regions[STRETCHES] = { { 0 } };
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
	/* A filter of system calls may refuse PAGEMAP_SCAN to the process, too. */
	static _Atomic bool unknown;
	int count, i;

	if (atomic_load_explicit(&unknown, memory_order_relaxed))
		return -1;
	count = ioctl(pagemap, PAGEMAP_SCAN, &arg);
	if (count < 0 && errno == ENOTTY)
		atomic_store_explicit(&unknown, true, memory_order_relaxed);
	for (i = 0; i < count; i++)
		stretches[i] = (struct stretch){ regions[i].start, regions[i].end,
						 regions[i].categories & PAGE_IS_SWAPPED };
	*walked = arg.walk_end;
	return count;
}

/*
 * Find the stretches before Linux 6.7, one batch of pages at most. Unreadable pages count as
 * present.
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

/* Is any swap in use? Unknown counts as used. */
static bool swap_is_used(void)
{
	struct sysinfo system;

	return sysinfo(&system) < 0 || system.freeswap < system.totalswap;
}

/*
 * Facts about files: bits 63-17 are a hash of device and inode, bit 16 is the fact, and bits 15-0
 * are the end of its lifetime as in a hint. The last of the files that share an entry has the
 * entry.
 */
static uint64_t file_key(const struct mapping *mapping)
{
	return (mapping->inode ^ (uint64_t)mapping->device * 0x9e3779b97f4a7c15) << 17;
}

static void file_record(_Atomic uint64_t *facts, const struct mapping *mapping, bool fact,
			uint16_t lifetime)
{
	uint64_t word = file_key(mapping) | (uint64_t)fact << 16 |
			(uint16_t)(residency_now() + lifetime);

	atomic_store_explicit(&facts[mapping->inode % RESIDENCY_FILES], word, memory_order_relaxed);
}

/* Return whether the fact about the file is known. *fact: the fact. */
static bool file_known(_Atomic uint64_t *facts, const struct mapping *mapping, uint16_t lifetime,
		       bool *fact)
{
	uint64_t word = atomic_load_explicit(&facts[mapping->inode % RESIDENCY_FILES],
					     memory_order_relaxed);

	*fact = word >> 16 & 1;
	return word >> 17 << 17 == file_key(mapping) &&
	       (uint16_t)((uint16_t)word - residency_now() - 1) < lifetime;
}

bool residency_permits(struct residency *residency, uint64_t address, bool write, bool *anonymous)
{
	struct mapping mapping;

	if (!mappings_find_now(residency->mappings, address, &mapping, NULL, 0))
		return false;
	*anonymous = !mapping.inode;
	return mapping.flags & (write ? MAPPING_WRITABLE : MAPPING_READABLE);
}

/*
 * Return the end of the mapping at address, if no absent page of the mapping has to be read from
 * a disk; address if a page may have to be read, or if nothing is mapped there.
 */
static uint64_t memory_end(struct residency *residency, uint64_t address)
{
	struct mapping mapping;
	bool holes;

	if (!mappings_find(residency->mappings, address, &mapping))
		return address;
	if (!mapping.inode)
		return mapping.end;
	/* A page table does not show which pages of shared memory are in swap. */
	if (mapping.device == shared_device && !swap_is_used())
		return mapping.end;
	return file_known(residency->holes, &mapping, residency->lifetime, &holes) && holes ?
		       mapping.end :
		       address;
}

void residency_note_hole(struct residency *residency, uint64_t address)
{
	struct mapping mapping;

	if (residency->lifetime && mappings_find(residency->mappings, address, &mapping) &&
	    mapping.inode)
		file_record(residency->holes, &mapping, true, residency->lifetime);
}

/* Record [address, end) as present, for lifetime ms, in one of count words. */
static void pieces_record(_Atomic uint64_t *words, unsigned count, uint16_t lifetime,
			  uint64_t address, uint64_t end)
{
	uint64_t piece = address >> RESIDENCY_PIECE_SHIFT;
	uint16_t now = residency_now();

	for (; piece <= (end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
		_Atomic uint64_t *place = &words[piece % count];
		uint64_t hint = atomic_load_explicit(place, memory_order_relaxed);

		/* If two threads write at once, a hint is lost, which costs a look later. */
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

/*
 * Return the end of the part of [from, to), from its start on, with a belief; from if there is no
 * belief.
 */
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
 * Return the bytes of the absent pages [from, to) up to the first page that may have to be read
 * from a disk. *end caches memory_end between calls: the result for an earlier mapping.
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

static void look_found_absent(struct residency *residency)
{
	atomic_store_explicit(&residency->looks, 0, memory_order_relaxed);
	atomic_store_explicit(&residency->steady_end, 0, memory_order_relaxed);
}

/*
 * Find the stretches of absent pages of [address, end), as pagemap_scan, and delete hints about
 * the stretches.
 */
static int find_absent(struct residency *residency, uint64_t address, uint64_t end,
		       struct stretch *stretches, uint64_t *walked)
{
	uint64_t page = page_size();
	uint64_t from = address & ~(page - 1), to = (end + page - 1) & ~(page - 1), piece;
	int count = pagemap_scan(residency->pagemap, from, to, stretches, walked), i;
	_Atomic uint64_t *place;

	if (count < 0)
		count = read_pagemap(residency->pagemap, from, to, stretches, walked);
	if (count > 0)
		look_found_absent(residency);
	for (i = 0; i < count; i++) {
		for (piece = stretches[i].start >> RESIDENCY_PIECE_SHIFT;
		     piece <= (stretches[i].end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
			place = &residency->hints[piece % RESIDENCY_HINTS];
			if (atomic_load_explicit(place, memory_order_relaxed) >> 32 ==
			    (uint32_t)piece)
				atomic_store_explicit(place, 0, memory_order_relaxed);
		}
	}
	return count;
}

/*
 * Return the time until the next renewal, ns. A renewal takes 0.8 us and 0.9 us for each MiB, and
 * 3 us more where copies have filled the caches (PAGEMAP_SCAN of present pages, Linux 6.18, AMD
 * EPYC). After each renewal without an absent page the rest doubles, until renewals take less
 * than 1 % of the time. After a renewal with absent pages the rest is shorter than a transfer to
 * memory mapped anew.
 */
static uint64_t renewal_rest(uint64_t length, unsigned vain)
{
	return (60000 + (length >> 5)) << vain;
}

/*
 * A look for an access of length bytes found no absent page. Short accesses at many places would need
 * a look each: after a row of looks, ask about the whole mapping, for the lifetime of a hint.
 */
static void look_found_all(struct residency *residency, uint64_t address, uint64_t length)
{
	unsigned looks = atomic_load_explicit(&residency->looks, memory_order_relaxed) + 1;
	struct mapping mapping;

	if (length > RESIDENCY_STEADY_MOST || !residency->lifetime)
		return;
	atomic_store_explicit(&residency->looks, looks % RESIDENCY_STEADY_LOOKS,
			      memory_order_relaxed);
	if (looks < RESIDENCY_STEADY_LOOKS || swap_is_used() ||
	    !mappings_find(residency->mappings, address, &mapping) || mapping.inode)
		return;
	atomic_store_explicit(&residency->steady_start, mapping.start, memory_order_relaxed);
	atomic_store_explicit(&residency->steady_end, mapping.end, memory_order_relaxed);
	atomic_store_explicit(&residency->steady_until,
			      (uint16_t)(residency_now() + residency->lifetime),
			      memory_order_relaxed);
}

void residency_look_ahead(struct residency *residency, const struct iovec *ranges, unsigned count)
{
	uint64_t address = (uintptr_t)ranges->iov_base, end = address + ranges->iov_len;
	uint64_t last = (end - 1) | (RESIDENCY_PIECE - 1), walked;
	struct stretch stretches[STRETCHES];
	unsigned i;
	int absent;

	if (residency->pagemap < 0)
		return;
	for (i = 1; i < count; i++) {
		uint64_t start = (uintptr_t)ranges[i].iov_base;

		if (start < address || start + (ranges[i].iov_len - 1) > last)
			break;
		end = number_max(end, start + ranges[i].iov_len);
	}
	absent = find_absent(residency, address, end, stretches, &walked);
	/* Nothing is noted behind the first absent page. */
	if (absent > 0)
		walked = stretches[0].start;
	else if (!absent)
		look_found_all(residency, address, ranges->iov_len);
	if (walked > address)
		pieces_record(residency->hints, RESIDENCY_HINTS, residency->lifetime, address,
			      number_min(walked, end));
}

bool residency_renew(struct residency *residency, uint64_t now, uint64_t address, uint64_t length)
{
	uint64_t due = atomic_load_explicit(&residency->renewal_due, memory_order_relaxed);
	unsigned vain = atomic_load_explicit(&residency->renewals_vain, memory_order_relaxed);
	uint64_t begin = address, end = address + length, walked;
	struct stretch stretches[STRETCHES];
	bool absent = false;

	if (residency->pagemap < 0 || now < due)
		return false;
	for (; address < end; address = walked) {
		if (find_absent(residency, address, end, stretches, &walked))
			absent = true;
		else if (walked > address)
			pieces_record(residency->hints, RESIDENCY_HINTS, residency->lifetime,
				      address, walked < end ? walked : end);
		if (walked <= address)
			break;
	}
	/* If two threads renew at once, one rest is lost. */
	vain = absent ? 0 : vain < RENEWALS_VAIN_MOST ? vain + 1 : vain;
	atomic_store_explicit(&residency->renewals_vain, vain, memory_order_relaxed);
	atomic_store_explicit(&residency->renewal_due, now + renewal_rest(end - begin, vain),
			      memory_order_relaxed);
	return absent;
}

uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold)
{
	uint64_t end, known = 0, walked, bytes;
	struct stretch stretches[STRETCHES];
	int count, i;

	if (cold)
		*cold = 0;
	if (residency->pagemap < 0 ||
	    residency_is_trusted(residency, address, length, residency_now()))
		return length;
	if (length > LOOK_MAX)
		length = LOOK_MAX;
	end = address + length;
	count = find_absent(residency, address, end, stretches, &walked);
	if (!count && walked >= end) {
		pieces_record(residency->hints, RESIDENCY_HINTS, residency->lifetime, address, end);
		look_found_all(residency, address, length);
	}
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

/*
 * Return the address in [start, end] of the first page reported by mincore as neither mapped nor
 * cached.
 */
static uint64_t cached_end(uint64_t start, uint64_t end)
{
	uint64_t page = page_size();
	unsigned char present[512];

	while (start < end) {
		uint64_t pages = (end - start + page - 1) / page, i;

		if (pages > sizeof(present))
			pages = sizeof(present);
		if (mincore((void *)(uintptr_t)start, pages * page, present) < 0)
			break;
		for (i = 0; i < pages && present[i] & 1; i++)
			;
		start += i * page;
		if (i < pages)
			break;
	}
	return start;
}

bool residency_lacks(uint64_t address)
{
	uint64_t start = address & ~(page_size() - 1);

	return cached_end(start, start + 1) == start;
}

/*
 * Does mincore tell the truth about pages of the file? Since Linux 5.2 the kernel reports every
 * page as present to a process that neither owns the file nor may write the file.
 */
static bool mincore_is_permitted(const char *path, uint64_t inode)
{
	struct stat file;

	return !stat(path, &file) && file.st_ino == inode &&
	       (file.st_uid == geteuid() || !faccessat(AT_FDCWD, path, W_OK, AT_EACCESS));
}

void residency_learn(struct residency *residency, uint64_t address)
{
	char path[PATH_MAX];
	struct mapping mapping;
	bool known;

	if (!mappings_find(residency->mappings, address, &mapping) || !mapping.inode ||
	    mapping_writes_file(&mapping) || mapping.device == shared_device ||
	    file_known(residency->files, &mapping, FILE_LIFETIME, &known))
		return;
	known = mappings_find_now(residency->mappings, address, &mapping, path, sizeof(path)) &&
		mincore_is_permitted(path, mapping.inode);
	file_record(residency->files, &mapping, known, FILE_LIFETIME);
}

/* Does mincore tell the truth about pages of the mapping? */
static bool mincore_is_true(struct residency *residency, const struct mapping *mapping)
{
	bool truth;

	return !mapping->inode || mapping_writes_file(mapping) ||
	       mapping->device == shared_device ||
	       (file_known(residency->files, mapping, FILE_LIFETIME, &truth) && truth);
}

uint64_t residency_cached(struct residency *residency, uint64_t address, uint64_t length)
{
	uint64_t page = page_size(), end = address + length, at = address & ~(page - 1);
	struct mapping mapping;

	while (at < end && mappings_find(residency->mappings, at, &mapping) &&
	       mincore_is_true(residency, &mapping)) {
		at = cached_end(at, mapping.end < end ? mapping.end : end);
		/* Anything but the end of a mapping is an absent page. */
		if (at < mapping.end)
			break;
	}
	if (at <= address)
		return 0;
	return at < end ? at - address : length;
}

bool residency_maps_cache(struct residency *residency, uint64_t address, uint64_t length)
{
	uint64_t start = address & ~(page_size() - 1);
	struct mapping mapping;

	/* File systems without a disk have the major number 0, and a few others, as btrfs. */
	return mappings_find(residency->mappings, address, &mapping) && mapping.inode &&
	       major(mapping.device) && length <= mapping.end - address &&
	       mincore_is_true(residency, &mapping) &&
	       cached_end(start, address + length) >= address + length;
}
