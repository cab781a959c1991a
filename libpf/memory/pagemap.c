/* SPDX-License-Identifier: BSD-3-Clause */
#include "pagemap.h"

#include <unistd.h>

#include "base/page.h"

size_t pagemap_read(int fd, uint64_t start, uint64_t end, uint64_t entries[PAGEMAP_BATCH])
{
	uint64_t page = page_size(), pages = (end - start) / page;
	size_t count = pages < PAGEMAP_BATCH ? pages : PAGEMAP_BATCH;
	ssize_t bytes = pread(fd, entries, count * sizeof(*entries),
			      (off_t)(start / page * sizeof(*entries)));

	return bytes > 0 ? (size_t)bytes / sizeof(*entries) : 0;
}
