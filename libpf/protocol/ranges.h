/* SPDX-License-Identifier: BSD-3-Clause */
/* A set of numbers as few intervals [start, end): what of a stream is lost, acknowledged, or here early. */
#ifndef PF_NET_RANGES_H
#define PF_NET_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *list; /* in order, apart from each other */
	uint32_t count, room;
};

#define RANGES_MOST 512

/* False: no memory, or too many; nothing has changed then. */
bool ranges_add(struct ranges *ranges, uint64_t start, uint64_t end);
/* Take [start, end) out. False: as above. */
bool ranges_remove(struct ranges *ranges, uint64_t start, uint64_t end);
/* Forget all below end. */
void ranges_trim(struct ranges *ranges, uint64_t end);
void ranges_destroy(struct ranges *ranges);

#endif
