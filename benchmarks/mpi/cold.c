/* SPDX-License-Identifier: BSD-3-Clause */
#include "cold.h"

#include <sys/mman.h>
#include <unistd.h>

/* file -1: anonymous memory. */
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

int cold_begin(struct cold *cold, size_t length, bool source, bool destination)
{
	*cold = (struct cold){
		.length = length, .source = source, .destination = destination, .file = -1
	};

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
