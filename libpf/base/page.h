/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_PAGE_H
#define PF_PAGE_H

#include <stdint.h>
#include <unistd.h>

/* Bytes of a transparent huge page where the kernel does not tell the size, as on x86. */
#define HUGE_PAGE_DEFAULT ((uint64_t)2 << 20)
#define HUGE_PAGE_FILE "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"

/* Bytes of a page: 4 KiB on x86; 4, 16 or 64 KiB on arm64. */
static inline uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/*
 * Bytes of a transparent huge page, a power of two, from a file such as HUGE_PAGE_FILE: 2 MiB
 * with pages of 4 KiB, 32 MiB with 16 KiB, 512 MiB with 64 KiB. HUGE_PAGE_DEFAULT if the file
 * cannot be read or holds anything else.
 */
uint64_t huge_page_size(const char *path);

#endif
