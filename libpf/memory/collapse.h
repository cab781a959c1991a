/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for buffers that are used again and again. Two thirds of the
 * cost of a single copy is the kernel's look-up of 4 KiB pages; in a 2 MiB
 * page it is one. So this counts the bytes moved in each 2 MiB range of our
 * own memory, and has the service thread collapse a range that proved hot
 * (MADV_COLLAPSE, Linux 6.1). Only ranges whose pages are all present, private
 * and ours alone, so memory use does not grow.
 */
#ifndef PF_COLLAPSE_H
#define PF_COLLAPSE_H

#include <stdint.h>

#include "base/service.h"
#include "base/statistics.h"

#define COLLAPSE_SHIFT 21
#define COLLAPSE_RANGES 128
/* Longer transfers are limited by memory, not by look-ups, and would pay for nothing. */
#define COLLAPSE_TRANSFER_MOST (4ull << 20)

struct collapse {
	uint64_t threshold; /* bytes moved in a range before it is collapsed; 0: never */
	struct service *service;
	struct statistics *statistics;
	struct {
		uint64_t range; /* address >> COLLAPSE_SHIFT */
		uint64_t bytes;
		uint64_t asked; /* nonzero: it had its chance */
	} ranges[COLLAPSE_RANGES];
};

/* The service and the statistics are the caller's and live longer. */
void collapse_init(struct collapse *collapse, uint64_t threshold, struct service *service,
		   struct statistics *statistics);
/*
 * Progress: length bytes of this process's memory were moved. Cheap: a counter for
 * every 2 MiB that they lie in. Not called with a threshold of 0.
 */
void collapse_note(struct collapse *collapse, const void *address, uint64_t length);
/* Collapse one range if that does no harm. Returns whether it is a huge page now. */
int collapse_range(uint64_t address);

#endif
