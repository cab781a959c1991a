/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The usual paging in user space, for comparison: a thread that polls a
 * userfaultfd, reads each page fault, and fills the page with UFFDIO_COPY
 * (userfaultfd(2)).
 */
#ifndef BENCHMARK_USERFAULT_H
#define BENCHMARK_USERFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct userfault;

/* Write the length bytes that belong at address to page. */
typedef void (*userfault_supply_fn)(uint64_t address, void *page, size_t length, void *arg);

/*
 * Start a thread that serves the page faults of memory, bound to a core, or not
 * (CORE_ANY). It supplies unit bytes for each page fault: a power of two, at least a
 * page, by which memory and length are aligned. Returns NULL after an error message.
 */
struct userfault *userfault_start(void *memory, size_t length, size_t unit, int core,
				  userfault_supply_fn supply, void *arg);
/* Let the thread read without a pause, or sleep in poll. */
void userfault_spin(struct userfault *userfault, bool spin);
/* Duration of the last UFFDIO_COPY, s. */
double userfault_copy_seconds(const struct userfault *userfault);
void userfault_stop(struct userfault *userfault);

#endif
