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
 * permitted and yet there is no page (a pager's memory, or behind the end of a file).
 */
int touch_range(uint64_t address, uint64_t length, bool write, uint64_t *failed);

#endif
