/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_FILE_H
#define PF_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/*
 * Ask before a file gets its size, also one of memfd_create: beyond the limit (RLIMIT_FSIZE) the
 * system call raises SIGXFSZ, which ends the program. False: errno is EFBIG.
 */
static inline bool file_size_permitted(uint64_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || size <= limit.rlim_cur)
		return true;
	errno = EFBIG;
	return false;
}

#endif
