/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of numbers as few intervals [start, end): the bytes of a stream that are lost,
 * acknowledged, or here early.
 */
#ifndef PF_NET_RANGES_H
#define PF_NET_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *list;   /* sorted, with a gap before the next interval */
	uint32_t count, room; /* room: intervals allocated, at most RANGES_MOST */
};

#define RANGES_MOST 512

/* Add [start, end). False: no memory, or too many intervals; the set has not changed. */
bool ranges_add(struct ranges *ranges, uint64_t start, uint64_t end);
/* Remove [start, end). False: no memory, or too many intervals; the set has not changed. */
bool ranges_remove(struct ranges *ranges, uint64_t start, uint64_t end);
/* Remove all numbers below end. */
void ranges_trim(struct ranges *ranges, uint64_t end);
void ranges_destroy(struct ranges *ranges);

#endif
