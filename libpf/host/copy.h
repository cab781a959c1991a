/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single copy between address spaces by the kernel. A page that is absent or
 * forbidden on either side ends the copy early; it is never a signal.
 */
#ifndef PF_COPY_H
#define PF_COPY_H

#include <stdbool.h>
#include <sys/types.h>

#include "pf.h"

/*
 * Copy up to length bytes between here and process pid; put: towards it.
 * *moved is how far it came. Returns 0 when that is all, otherwise the errno
 * that stopped it: EFAULT for an address, anything else for the process.
 */
int copy_process(pid_t pid, bool put, void *local, uint64_t remote, size_t length, size_t *moved);

/* After EFAULT at these addresses: which side could not be reached? */
enum pf_side copy_fault_side(pid_t pid, bool put, const void *local, uint64_t remote);

/*
 * Whether pid's memory may be copied at all: its cookie must read as expected,
 * which also shows that pid means the same process here as there. Returns 0
 * or an errno.
 */
int copy_probe(pid_t pid, uint64_t cookie_address, uint64_t cookie);

/* A static sentence for that errno. */
const char *copy_refusal(int error);

#endif
