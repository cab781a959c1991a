/* SPDX-License-Identifier: BSD-3-Clause */
#include "touch.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pf.h"

/* Linux 5.14; older C libraries do not name them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static bool populate(uint64_t start, uint64_t length, bool write)
{
	uint64_t end = start + length, piece;
	int error = 0;

	/* A memory cgroup under pressure reclaims between pieces what a long one would hold. */
	for (; start < end && !error; start += piece) {
		piece = end - start < TOUCH_PIECE ? end - start : TOUCH_PIECE;
		do {
			error = madvise((void *)(uintptr_t)start, piece,
					write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) ?
					errno :
					0;
		} while (error == EINTR || error == EAGAIN);
	}
	return !error;
}

int touch_range(uint64_t address, uint64_t length, bool write, uint64_t *failed)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = address & ~(page - 1);
	uint64_t end = (address + length + page - 1) & ~(page - 1);

	/* Past the end of the address space, or in its last page: nobody has memory there. */
	if (address + length < address || end <= start) {
		*failed = address;
		return PF_ERR_FAULT;
	}
	if (populate(start, end - start, write))
		return PF_OK;
	/* Which page was it? The error path may take its time. */
	for (; start < end; start += page) {
		if (!populate(start, page, write)) {
			*failed = start > address ? start : address;
			return PF_ERR_FAULT;
		}
	}
	return PF_OK;
}
