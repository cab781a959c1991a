/* SPDX-License-Identifier: BSD-3-Clause */
#include "touch.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/page.h"
#include <libpf/pf.h>

/* Of Linux 5.14; older C libraries define neither. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Return whether every page of the whole pages at start is present now; if not, errno is set. */
static bool range_populate(uint64_t start, uint64_t length, bool write)
{
	uint64_t end = start + length, piece;
	int error = 0;

	/* Between pieces, a memory cgroup at its limit can reclaim pages of earlier pieces. */
	for (; start < end && !error; start += piece) {
		piece = end - start < TOUCH_PIECE ? end - start : TOUCH_PIECE;
		do {
			error = madvise((void *)(uintptr_t)start, piece,
					write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
		} while (error && (errno == EINTR || errno == EAGAIN));
	}
	return !error;
}

int touch_range(uint64_t address, uint64_t length, bool write, uint64_t *failed)
{
	uint64_t page = page_size();
	uint64_t start = address & ~(page - 1);
	uint64_t end = (address + length + page - 1) & ~(page - 1);

	/* The range, or its last page, reaches the end of the address space: the sum wraps. */
	if (address + length < address || end <= start) {
		errno = ENOMEM;
		*failed = address;
		return PF_ERR_FAULT;
	}
	if (range_populate(start, end - start, write))
		return PF_OK;
	/* Find the first page that fails; only the error path takes this long. */
	for (; start < end; start += page) {
		if (!range_populate(start, page, write)) {
			*failed = start > address ? start : address;
			return PF_ERR_FAULT;
		}
	}
	return PF_OK;
}

void touch_by_access(uint64_t address, bool write)
{
	volatile uint8_t *byte = (volatile uint8_t *)(uintptr_t)address;
	uint8_t value = *byte;

	/* The exchange fails if another thread has stored a new value, which is tried next. */
	while (write && !__atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED,
						     __ATOMIC_RELAXED))
		;
}
