/* SPDX-License-Identifier: BSD-3-Clause */
/* Make pages of the own process present; a bad address is an error, not a signal. */
#ifndef PF_TOUCH_H
#define PF_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes made present by a call to the kernel, at most. */
#define TOUCH_PIECE (64u << 10)

/*
 * Any thread: make every page of [address, address + length) present, and writable if write. May
 * wait for a page. Returns PF_OK, or PF_ERR_FAULT with *failed, the first inaccessible address of
 * the range, and the kernel's reason in errno: EFAULT if the access is permitted and yet there is
 * no page (a userfaultfd's memory, or behind the end of a file); EINVAL if the access is not
 * permitted, or the memory is hidden (FAULT_HIDDEN).
 */
int touch_range(uint64_t address, uint64_t length, bool write, uint64_t *failed);
/*
 * A thread that may wait: load the byte, and, if write, store the byte again unless its value
 * changes meanwhile. Only an access brings the page of a userfaultfd in user mode only. The
 * caller makes sure of a permitted access not behind the end of a file; otherwise the access
 * raises a signal.
 */
void touch_by_access(uint64_t address, bool write);

#endif
