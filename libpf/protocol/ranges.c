/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* Find the first interval with an end at or behind position. */
static uint32_t ranges_find(const struct ranges *ranges, uint64_t position)
{
	uint32_t low = 0, high = ranges->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (ranges->list[middle].end < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Have room for a further interval. False: no memory, or RANGES_MOST intervals. */
static bool ranges_make_room(struct ranges *ranges)
{
	uint32_t room = ranges->room ? 2 * ranges->room : 8;
	struct range *list;

	if (ranges->count < ranges->room)
		return true;
	if (room > RANGES_MOST)
		return false;
	list = realloc(ranges->list, room * sizeof(*list));
	if (!list)
		return false;
	ranges->list = list;
	ranges->room = room;
	return true;
}

/* Remove count intervals from index at on. */
static void ranges_cut(struct ranges *ranges, uint32_t at, uint32_t count)
{
	assert_that(at + count <= ranges->count);
	memmove(ranges->list + at, ranges->list + at + count,
		(ranges->count - at - count) * sizeof(*ranges->list));
	ranges->count -= count;
}

static void ranges_insert(struct ranges *ranges, uint32_t at, struct range range)
{
	/* The list stays sorted, with a gap before the next interval. */
	assert_that(ranges->count < ranges->room && at <= ranges->count && range.start < range.end);
	assert_that((!at || ranges->list[at - 1].end < range.start) &&
		    (at == ranges->count || range.end < ranges->list[at].start));
	memmove(ranges->list + at + 1, ranges->list + at,
		(ranges->count - at) * sizeof(*ranges->list));
	ranges->list[at] = range;
	ranges->count++;
}

bool ranges_add(struct ranges *ranges, uint64_t start, uint64_t end)
{
	uint32_t first, last;

	if (start >= end)
		return true;
	first = ranges_find(ranges, start);
	for (last = first; last < ranges->count && ranges->list[last].start <= end; last++)
		;
	if (first == last) {
		if (!ranges_make_room(ranges))
			return false;
		ranges_insert(ranges, first, (struct range){ start, end });
		return true;
	}
	if (ranges->list[first].start > start)
		ranges->list[first].start = start;
	if (ranges->list[last - 1].end > end)
		end = ranges->list[last - 1].end;
	ranges->list[first].end = end;
	ranges_cut(ranges, first + 1, last - first - 1);
	return true;
}

bool ranges_remove(struct ranges *ranges, uint64_t start, uint64_t end)
{
	uint32_t at = ranges_find(ranges, start);

	if (start >= end)
		return true;
	for (; at < ranges->count && ranges->list[at].start < end; at++) {
		struct range *range = &ranges->list[at];

		if (range->end <= start)
			continue;
		if (range->start < start && range->end > end) {
			struct range behind = { end, range->end };

			if (!ranges_make_room(ranges))
				return false;
			ranges->list[at].end = start;
			ranges_insert(ranges, at + 1, behind);
			return true;
		}
		if (range->start < start) {
			range->end = start;
		} else if (range->end > end) {
			range->start = end;
		} else {
			ranges_cut(ranges, at, 1);
			at--;
		}
	}
	return true;
}

void ranges_trim(struct ranges *ranges, uint64_t end)
{
	uint32_t count = 0;

	while (count < ranges->count && ranges->list[count].end <= end)
		count++;
	if (count)
		ranges_cut(ranges, 0, count);
	if (ranges->count && ranges->list[0].start < end)
		ranges->list[0].start = end;
}

void ranges_destroy(struct ranges *ranges)
{
	free(ranges->list);
	*ranges = (struct ranges){ 0 };
}
