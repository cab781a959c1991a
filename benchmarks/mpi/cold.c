/* SPDX-License-Identifier: BSD-3-Clause */
#include "cold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.14; older C libraries do not name it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Iterations after which the kernel reuses pages that another processor freed, roughly. */
#define ALLOCATOR_ROUNDS 4
#define ALLOCATOR_LEAST ((size_t)64 << 20) /* bytes */
/* Attempts to drop the pages of a file, and the time between two, us: some are being read ahead. */
#define DROP_ATTEMPTS 100
#define DROP_PAUSE 1000

/* Map anonymous memory if file is -1. */
static char *map(size_t length, int file, int flags)
{
	int kind = file < 0 ? MAP_ANONYMOUS : 0;
	void *place = mmap(NULL, length, PROT_READ | PROT_WRITE, flags | kind, file, 0);

	return place == MAP_FAILED ? NULL : place;
}

static void unmap(char **buffer, size_t length)
{
	if (*buffer)
		munmap(*buffer, length);
	*buffer = NULL;
}

/*
 * A hypervisor may reclaim memory that was free for some time. The next touch
 * of it is then also a page fault of the host, which is not to be measured.
 * Touch enough memory to last until the timed loop reuses its own.
 */
static void warm_allocator(size_t length)
{
	void *place = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	if (place == MAP_FAILED)
		return;
	madvise(place, length, MADV_HUGEPAGE);
	madvise(place, length, MADV_POPULATE_WRITE);
	munmap(place, length);
}

/* Make a file without a name in the current folder; its pages are on the disk. */
static int make_file(size_t length)
{
	static char bytes[1 << 16] = { 1 };
	char name[] = "cold-XXXXXX";
	int file = mkostemp(name, O_CLOEXEC);
	ssize_t written = 1;
	size_t end;

	if (file < 0)
		return -1;
	unlink(name);
	for (end = 0; end < length && written > 0; end += (size_t)written)
		written = write(file, bytes, sizeof(bytes));
	if (written > 0 && !fsync(file))
		return file;
	close(file);
	return -1;
}

static bool any_in_memory(char *place, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at;
	unsigned char present;

	for (at = 0; at < length; at += page)
		if (mincore(place + at, 1, &present) || present & 1)
			return true;
	return false;
}

/* Map the destination's file, none of whose pages is in memory. Returns NULL with errno. */
static char *map_absent(const struct cold *cold)
{
	char *place = map(cold->length, cold->destination_file, MAP_PRIVATE);
	int attempt;

	for (attempt = 0; place && attempt < DROP_ATTEMPTS; attempt++) {
		posix_fadvise(cold->destination_file, 0, 0, POSIX_FADV_DONTNEED);
		if (!any_in_memory(place, cold->length))
			return place;
		usleep(DROP_PAUSE);
	}
	if (place) {
		munmap(place, cold->length);
		errno = EBUSY;
	}
	return NULL;
}

int cold_begin(struct cold *cold, size_t length, bool source, bool destination, bool file)
{
	*cold = (struct cold){ .length = length,
			       .source = source,
			       .destination = destination || file,
			       .source_file = -1,
			       .destination_file = -1 };

	warm_allocator(ALLOCATOR_ROUNDS * length < ALLOCATOR_LEAST ? ALLOCATOR_LEAST :
								     ALLOCATOR_ROUNDS * length);
	if (source) {
		cold->source_file = memfd_create("cold-source", MFD_CLOEXEC);
		if (cold->source_file < 0 || ftruncate(cold->source_file, (off_t)length))
			goto fail;
	}
	if (file) {
		cold->destination_file = make_file(length);
		if (cold->destination_file < 0)
			goto fail;
	}
	cold->send = map(length, cold->source_file,
			 (source ? MAP_SHARED : MAP_PRIVATE) | MAP_POPULATE);
	cold->receive = map(length, -1, MAP_PRIVATE | MAP_POPULATE);
	if (cold->send && cold->receive)
		return 0;
fail:
	cold_end(cold);
	return -1;
}

int cold_renew(struct cold *cold)
{
	if (cold->source) {
		unmap(&cold->send, cold->length);
		cold->send = map(cold->length, cold->source_file, MAP_SHARED);
	}
	if (cold->destination) {
		unmap(&cold->receive, cold->length);
		cold->receive = cold->destination_file < 0 ? map(cold->length, -1, MAP_PRIVATE) :
							     map_absent(cold);
	}
	return cold->send && cold->receive ? 0 : -1;
}

void cold_end(struct cold *cold)
{
	unmap(&cold->send, cold->length);
	unmap(&cold->receive, cold->length);
	if (cold->source_file >= 0)
		close(cold->source_file);
	if (cold->destination_file >= 0)
		close(cold->destination_file);
	cold->source_file = cold->destination_file = -1;
}
