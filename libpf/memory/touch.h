/* SPDX-License-Identifier: BSD-3-Clause */
/* Make pages of this process present; a bad address is an error, not a signal. */
#ifndef PF_TOUCH_H
#define PF_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that one call to the kernel makes present, at most. */
#define TOUCH_PIECE (64u << 10)

/*
 * Any thread: make every page of [address, address + length) present, and writable if write.
 * May wait for a page. Returns PF_OK, or PF_ERR_FAULT with *failed, the first address of the
 * range that cannot be accessed, and the kernel's reason in errno: EFAULT if the access is
 * permitted and yet there is no page (a userfaultfd's memory, or behind the end of a file); EINVAL
 * if the access is not permitted, or the memory is hidden (FAULT_HIDDEN).
 */
int touch_range(uint64_t address, uint64_t length, bool write, uint64_t *failed);
/*
 * A thread that may wait: load the byte, and, if write, store it again unless it changes meanwhile. Only
 * such an access has a userfaultfd in user mode only bring the page. The caller knows that the access is
 * permitted and is not behind the end of a file; otherwise it raises a signal.
 */
void touch_by_access(uint64_t address, bool write);

#endif
