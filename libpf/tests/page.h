/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of a page of this machine: 4 KiB on x86; 4, 16 or 64 KiB on arm64. */
#ifndef PF_TESTS_PAGE_H
#define PF_TESTS_PAGE_H

#include <stddef.h>
#include <unistd.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
#define PAGE_MOST 65536

#endif
