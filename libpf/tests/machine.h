/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes to the machine that some kinds of memory need: swap, huge pages,
 * merging, a memory group. A process of its own keeps the list of them and
 * undoes them when all users are gone, also those that were killed. Only one
 * test program on a machine changes it at a time: others wait.
 *
 * Functions that return a text: NULL, or why it cannot be done here.
 */
#ifndef PF_TESTS_MACHINE_H
#define PF_TESTS_MACHINE_H

#include <stddef.h>

/* Write to a file of the kernel's; what it said before is written back. */
const char *machine_write(const char *path, const char *text);
/* Swap on a zram device of so many bytes. */
const char *machine_swap(size_t size);
/* A memory group whose processes get so many bytes together; see machine_enter. */
const char *machine_group(size_t limit);
/* Undo everything, and wait until it is done: NULL, or what went wrong. Nothing to undo is fine. */
const char *machine_restore(void);

/* Put the calling process into the group and back where it was: any process, one at a time. */
const char *machine_enter(void);
const char *machine_leave(void);

#endif
