/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes to the machine that some kinds of memory need: swap, huge pages, merging, a memory group.
 * A separate process has the list of changes, and undoes them when all users have ended, even if
 * they were killed. Only one test program on a machine makes changes at a time; others wait.
 *
 * Functions that return a text return NULL for success, or why the change is impossible.
 */
#ifndef PF_TESTS_MACHINE_H
#define PF_TESTS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Read the first line of a file; false if there is none. */
bool machine_read(const char *path, char *text, size_t size);
/* Write to a file of the kernel; the old value will be restored. */
const char *machine_write(const char *path, const char *text);
/* Swap on a zram device of this size. */
const char *machine_swap(size_t size);
/* A memory group with this limit, bytes; see machine_enter. */
const char *machine_group(size_t limit);
/* Undo all changes, and wait until this is done. */
const char *machine_restore(void);

/* Move the calling process into the group, and back: one process at a time. */
const char *machine_enter(void);
const char *machine_leave(void);

#endif
