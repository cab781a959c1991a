/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_PAGE_H
#define PF_PAGE_H

#include <stdint.h>
#include <unistd.h>

/* Bytes of a page of this system: 4 KiB on x86; 4, 16 or 64 KiB on arm64. */
static inline uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
