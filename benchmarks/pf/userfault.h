/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The usual way to page in user space, to be compared against: a thread that
 * polls a userfaultfd, reads each fault, and fills the page with UFFDIO_COPY
 * (userfaultfd(2)).
 */
#ifndef BENCHMARK_USERFAULT_H
#define BENCHMARK_USERFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct userfault;

/* Writes length bytes, a page, of what belongs at address. */
typedef void (*userfault_supply_fn)(uint64_t address, void *page, size_t length);

/*
 * Serve the pages of memory from a thread on this core (CORE_ANY: any).
 * Returns NULL after a message on stderr.
 */
struct userfault *userfault_start(void *memory, size_t length, int core,
				  userfault_supply_fn supply);
/* Whether the thread asks again and again instead of sleeping in poll. */
void userfault_spin(struct userfault *userfault, bool spin);
/* How long the last UFFDIO_COPY took, seconds. */
double userfault_copy_seconds(const struct userfault *userfault);
void userfault_stop(struct userfault *userfault);

#endif
