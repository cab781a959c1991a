/* SPDX-License-Identifier: BSD-3-Clause */
/* Bring pages of this process in with the kernel's help, without a signal for a bad address. */
#ifndef PF_TOUCH_H
#define PF_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

/* The most that one call to the kernel brings in, bytes. */
#define TOUCH_PIECE (64u << 10)

/*
 * Any thread: bring in every page of [address, address + length), writable if
 * write. May wait for a page. Returns PF_OK, or PF_ERR_FAULT with the first
 * address that cannot be made accessible in *failed.
 */
int touch_range(uint64_t address, uint64_t length, bool write, uint64_t *failed);

#endif
