/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"
#include "pattern.h"

const struct memory_kind *const memory_kinds[] = {
	memory_anonymous_kinds, memory_swap_kinds, memory_fork_kinds,  memory_file_kinds,
	memory_huge_kinds,      memory_map_kinds,  memory_pager_kinds, NULL,
};

/* Addresses that the kernel does not choose itself, and that sanitizers accept. */
#define PLACES 0x7e9000000000ull
#define PLACES_SIZE ((uint64_t)1 << 38)

const char *memory_error(const char *format, ...)
{
	static _Thread_local char text[200];
	int error = errno;
	size_t length;
	va_list list;

	va_start(list, format);
	length = (size_t)vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (error && length < sizeof(text))
		snprintf(text + length, sizeof(text) - length, " (%s)", strerror(error));
	return text;
}

size_t memory_huge_page(void)
{
	static size_t size;
	char text[40];

	if (!size)
		size = machine_read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text,
				    sizeof(text)) ?
			       strtoul(text, NULL, 10) :
			       2 * MIB;
	return size;
}

void *memory_reserve(size_t size)
{
	static uint64_t next;
	uint64_t place;

	/* A huge page between two ranges, so that an access behind one does not reach the other. */
	size = (size + 2 * HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	if (next + size > PLACES_SIZE)
		next = 0;
	place = PLACES + next;
	next += size;
	return (void *)(uintptr_t)place;
}

const char *memory_advise(struct memory *memory, int advice)
{
	return madvise(memory->map, memory->size, advice) ? memory_error("madvise %d", advice) :
							    NULL;
}

const char *memory_map_anonymous(struct memory *memory, int flags)
{
	memory->map = mmap(memory_reserve(memory->size), memory->size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	return memory->map == MAP_FAILED ? memory_error("mmap of %zu bytes", memory->size) : NULL;
}

long memory_pages(const void *start, size_t size, enum page_state state)
{
	/* Documentation/admin-guide/mm/pagemap.rst */
	const uint64_t bit = state == PAGE_PRESENT ? 1ull << 63 : 1ull << 62;
	uint64_t entries[512], first = (uint64_t)(uintptr_t)start / PAGE;
	size_t left = size / PAGE, i;
	long found = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && left) {
		size_t part = left < 512 ? left : 512;

		if (pread(fd, entries, part * sizeof(entries[0]),
			  (off_t)(first * sizeof(entries[0]))) !=
		    (ssize_t)(part * sizeof(entries[0]))) {
			found = -1;
			break;
		}
		for (i = 0; i < part; i++)
			found += (entries[i] & bit) != 0;
		first += part;
		left -= part;
	}
	if (fd < 0)
		return -1;
	close(fd);
	return found;
}

long memory_smaps(const void *start, const char *field)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	char line[300];
	bool inside = false;
	long found = -1;

	while (file && found < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)start >= from && (uintptr_t)start < to;
		else if (inside && !strncmp(line, field, strlen(field)))
			found = strtol(line + strlen(field), NULL, 10);
	}
	if (file)
		fclose(file);
	return found;
}

struct segment {
	const uint8_t *start;
	size_t size;
};

static int longest_segment(struct dl_phdr_info *object, size_t size, void *arg)
{
	struct segment *longest = arg;
	unsigned i;

	for (i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + header->p_vaddr;
		uintptr_t end = start + header->p_filesz;

		start = (start + PAGE - 1) & ~(PAGE - 1);
		end &= ~(PAGE - 1);
		if (header->p_type != PT_LOAD || (header->p_flags & PF_W) || end <= start ||
		    end - start <= longest->size)
			continue;
		longest->start = (const uint8_t *)start;
		longest->size = end - start;
	}
	return 0;
}

const uint8_t *memory_program(size_t *size)
{
	static struct segment segment;

	if (!segment.size)
		dl_iterate_phdr(longest_segment, &segment);
	*size = segment.size;
	return segment.start;
}

static void make_page(enum contents contents, uint64_t page, uint64_t seed, uint8_t *bytes)
{
	size_t size;

	switch (contents) {
	case CONTENTS_ZERO:
		memset(bytes, 0, PAGE);
		break;
	case CONTENTS_PROGRAM:
		memcpy(bytes, memory_program(&size) + page * PAGE, PAGE);
		break;
	case CONTENTS_PAGES:
		pattern_fill(bytes, PAGE, seed);
		break;
	default:
		pattern_fill_from(bytes, PAGE, seed, page * PAGE);
		break;
	}
}

static void fill(struct memory *memory)
{
	size_t done;

	for (done = 0; done < memory->size; done += PAGE)
		make_page(memory->kind->holds, done / PAGE, memory->seed, memory->map + done);
}

/* The offset of the first wrong byte, or length. */
static size_t differs(const uint8_t *bytes, size_t length, enum contents contents, bool or_zero,
		      size_t position, uint64_t seed)
{
	uint8_t page[PAGE_MOST];
	size_t done = 0, i;

	or_zero = or_zero || contents == CONTENTS_EITHER;
	while (done < length) {
		size_t from = (position + done) % PAGE;
		size_t part = length - done < PAGE - from ? length - done : PAGE - from;
		const uint8_t *expected = page + from;

		make_page(contents, (position + done) / PAGE, seed, page);
		if (memcmp(bytes + done, expected, part)) {
			for (i = 0; i < part; i++) {
				if (bytes[done + i] != expected[i] &&
				    !(or_zero && !bytes[done + i]))
					return done + i;
			}
		}
		done += part;
	}
	return length;
}

const char *memory_check(const struct memory *memory, const struct memory_kind *from,
			 size_t position, uint64_t seed)
{
	size_t at = differs(memory->start, memory->length, from->holds, memory->kind->loses,
			    position, seed);

	if (at == memory->length)
		return NULL;
	errno = 0;
	return memory_error("%s: byte %zu of %zu at +%zu is wrong: %#x", memory->kind->name, at,
			    memory->length, (size_t)(memory->start - memory->map) % PAGE,
			    memory->start[at]);
}

const char *memory_check_around(const struct memory *memory)
{
	const enum contents holds = memory->kind->holds;
	size_t before = (size_t)(memory->start - memory->map), end = before + memory->length;
	size_t at = differs(memory->map, before, holds, memory->kind->loses, 0, memory->seed);

	errno = 0;
	if (at != before)
		return memory_error("%s: a byte %zu before the buffer of %zu changed",
				    memory->kind->name, before - at, memory->length);
	at = differs(memory->map + end, memory->size - end, holds, memory->kind->loses, end,
		     memory->seed);
	if (at != memory->size - end)
		return memory_error("%s: a byte %zu behind the buffer of %zu changed",
				    memory->kind->name, at, memory->length);
	return NULL;
}

static bool is_filled(const struct memory_kind *kind)
{
	return kind->holds != CONTENTS_ZERO && kind->holds != CONTENTS_PROGRAM;
}

const char *memory_open(struct memory *memory, const struct memory_kind *kind, bool source,
			size_t length, size_t offset, uint64_t seed)
{
	size_t unit = kind->huge ? HUGE_PAGE : PAGE;
	const char *error;

	memset(memory, 0, sizeof(*memory));
	memory->kind = kind;
	memory->source = source;
	memory->length = length;
	memory->seed = seed;
	memory->fd = -1;
	/* One more page, to check that nothing is written behind the buffer. */
	memory->size = (memory_position(offset) + length + PAGE + unit - 1) & ~(unit - 1);
	error = kind->map ? kind->map(memory) : memory_map_anonymous(memory, 0);
	if (error)
		return error;
	memory->start = memory->map + memory_position(offset);
	memory->bad = (uint64_t)(uintptr_t)memory->start;
	if (is_filled(kind))
		fill(memory);
	error = kind->prepare ? kind->prepare(memory) : NULL;
	if (error)
		memory_close(memory);
	return error;
}

size_t memory_longest(void)
{
	const char *full = getenv("EXANEST_TEST_FULL");

	return full && full[0] ? 64 * MIB : 8 * MIB;
}

static void *disturb(void *arg)
{
	struct memory *memory = arg;
	const char *failure = NULL;
	unsigned turn;

	for (turn = 0; !atomic_load(&memory->stop) && !failure; turn++) {
		failure = memory->kind->disturb(memory, turn);
		atomic_fetch_add(&memory->turns, 1);
	}
	memory->failure = failure ? strdup(failure) : NULL;
	return NULL;
}

const char *memory_disturb(struct memory *memory)
{
	if (!memory->kind->disturb)
		return NULL;
	errno = pthread_create(&memory->thread, NULL, disturb, memory);
	if (errno)
		return memory_error("a thread");
	memory->disturbed = true;
	while (!atomic_load(&memory->turns))
		usleep(50);
	return NULL;
}

static const char *end_disturbance(struct memory *memory)
{
	const char *failure;

	if (!memory->disturbed)
		return NULL;
	atomic_store(&memory->stop, true);
	pthread_join(memory->thread, NULL);
	memory->disturbed = false;
	if (!memory->failure)
		return NULL;
	errno = 0;
	failure = memory_error("%s", memory->failure);
	free((void *)(uintptr_t)memory->failure);
	memory->failure = NULL;
	return failure;
}

const char *memory_settle(struct memory *memory)
{
	const char *failure = end_disturbance(memory);

	if (failure)
		return failure;
	return memory->kind->settle ? memory->kind->settle(memory) : NULL;
}

void memory_close(struct memory *memory)
{
	end_disturbance(memory);
	if (memory->kind->unmap)
		memory->kind->unmap(memory);
	else
		munmap(memory->map, memory->size);
	if (memory->fd >= 0)
		close(memory->fd);
	memory->map = NULL;
}
