/* SPDX-License-Identifier: BSD-3-Clause */
#include "exposure.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"

/* Ranges of the first array. */
#define ROOM_FIRST 16
/* Ranges added by a change, at most: a range in the middle of a range makes three. */
#define CHANGE_MOST 2

void exposure_init(struct exposure *exposure, bool limited, struct statistics *statistics)
{
	pthread_rwlockattr_t attributes;

	*exposure = (struct exposure){ .limited = limited, .statistics = statistics };
	/* Peers that keep the readers busy must not keep a range exposed. No reader recurses. */
	pthread_rwlockattr_init(&attributes);
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&exposure->lock, &attributes);
	pthread_rwlockattr_destroy(&attributes);
}

void exposure_destroy(struct exposure *exposure)
{
	free(exposure->ranges);
	pthread_rwlock_destroy(&exposure->lock);
}

/* Under the lock: return the index of the first range with an end behind the address. */
static size_t range_find(const struct exposure *exposure, uint64_t address)
{
	size_t low = 0, high = exposure->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (exposure->ranges[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Append a range to a list, or extend the last range if the rights are equal, without a gap. */
static size_t range_append(struct exposed_range *list, size_t count, uint64_t start, uint64_t end,
			   unsigned rights)
{
	if (start == end || !rights)
		return count;
	if (count && list[count - 1].end == start && list[count - 1].rights == rights) {
		list[count - 1].end = end;
		return count;
	}
	list[count] = (struct exposed_range){ start, end, rights };
	return count + 1;
}

/* Under the lock, for writing: list the ranges after the change. Returns the count. */
static size_t ranges_change(const struct exposure *exposure, uint64_t start, uint64_t end,
			    unsigned rights, struct exposed_range *list)
{
	size_t count = 0, i;

	for (i = 0; i < exposure->count && exposure->ranges[i].start < start; i++) {
		const struct exposed_range *range = &exposure->ranges[i];

		count = range_append(list, count, range->start, number_min(range->end, start),
				     range->rights);
	}
	count = range_append(list, count, start, end, rights);
	/* The last range before may reach behind the end, too. */
	for (i = i ? i - 1 : 0; i < exposure->count; i++) {
		const struct exposed_range *range = &exposure->ranges[i];

		if (range->end > end)
			count = range_append(list, count, number_max(range->start, end), range->end,
					     range->rights);
	}
	return count;
}

int exposure_set(struct exposure *exposure, uint64_t start, uint64_t length, unsigned rights)
{
	struct exposed_range *list;
	int status = PF_OK;
	size_t room;

	if (!exposure->limited || start + length < start)
		return PF_ERR_ARGUMENT;
	if (!length)
		return PF_OK;
	pthread_rwlock_wrlock(&exposure->lock);
	room = number_max(exposure->count + CHANGE_MOST, ROOM_FIRST);
	list = malloc(room * sizeof(*list));
	if (list) {
		exposure->count = ranges_change(exposure, start, start + length, rights, list);
		assert_that(exposure->count <= room);
		free(exposure->ranges);
		exposure->ranges = list;
	} else {
		status = PF_ERR_MEMORY;
	}
	pthread_rwlock_unlock(&exposure->lock);
	return status;
}

bool exposure_find(struct exposure *exposure, uint64_t address, uint64_t length, unsigned rights,
		   uint64_t *bad)
{
	size_t i;

	/* The answer to a put has no bytes. */
	if (!length)
		return true;
	pthread_rwlock_rdlock(&exposure->lock);
	for (i = range_find(exposure, address); length && i < exposure->count; i++) {
		const struct exposed_range *range = &exposure->ranges[i];
		uint64_t part;

		if (range->start > address || rights & ~range->rights)
			break;
		part = number_min(range->end - address, length);
		address += part;
		length -= part;
	}
	pthread_rwlock_unlock(&exposure->lock);
	if (!length)
		return true;
	statistic_add_concurrent(exposure->statistics, PF_STAT_NOT_EXPOSED, 1);
	*bad = address;
	return false;
}
