/* SPDX-License-Identifier: BSD-3-Clause */
#include "cold.h"

#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.14; older C libraries do not name it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Iterations after which the kernel reuses pages that another processor freed, roughly. */
#define ALLOCATOR_ROUNDS 4
#define ALLOCATOR_LEAST ((size_t)64 << 20) /* bytes */

/* Map anonymous memory if file is -1. */
static char *map(size_t length, int file, int more)
{
	int flags = (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | more;
	void *place = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, file, 0);

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

int cold_begin(struct cold *cold, size_t length, bool source, bool destination)
{
	*cold = (struct cold){
		.length = length, .source = source, .destination = destination, .file = -1
	};

	warm_allocator(ALLOCATOR_ROUNDS * length < ALLOCATOR_LEAST ? ALLOCATOR_LEAST :
								     ALLOCATOR_ROUNDS * length);
	if (source) {
		cold->file = memfd_create("cold-source", MFD_CLOEXEC);
		if (cold->file < 0 || ftruncate(cold->file, (off_t)length))
			goto fail;
	}
	cold->send = map(length, cold->file, MAP_POPULATE);
	cold->receive = map(length, -1, MAP_POPULATE);
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
		cold->send = map(cold->length, cold->file, 0);
	}
	if (cold->destination) {
		unmap(&cold->receive, cold->length);
		cold->receive = map(cold->length, -1, 0);
	}
	return cold->send && cold->receive ? 0 : -1;
}

void cold_end(struct cold *cold)
{
	unmap(&cold->send, cold->length);
	unmap(&cold->receive, cold->length);
	if (cold->file >= 0)
		close(cold->file);
	cold->file = -1;
}
