/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_PAGE_H
#define PF_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Bytes of a transparent huge page where the kernel does not tell the size, as on x86. */
#define HUGE_PAGE_DEFAULT ((uint64_t)2 << 20)
#define HUGE_PAGE_FOLDER "/sys/kernel/mm/transparent_hugepage"
#define HUGE_PAGE_FILE HUGE_PAGE_FOLDER "/hpage_pmd_size"

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

/*
 * Copy the setting for anonymous memory, in pages or folios of size bytes, from a folder like
 * HUGE_PAGE_FOLDER, to word, which has room bytes: always, madvise or never. size 0: the setting of
 * all sizes, which a size may inherit. Empty if the kernel has no such file; before Linux 6.8 there is
 * only the setting of all sizes.
 */
void page_setting(const char *folder, uint64_t size, char *word, size_t room);

#endif
