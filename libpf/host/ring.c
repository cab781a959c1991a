/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "base/page.h"
#include "memory/touch.h"
#include <libpf/pf.h>

/* Linux maps the pages of a file in aligned pieces of this length (fault_around_bytes). */
#define FAULT_AROUND (64u << 10)
#define ZEROS 4096
#define ZEROS_MOST (RING_PART / ZEROS)

/*
 * Take from the allowance for a lap or pages up to end. False, and nothing is taken: that exceeds
 * the ring's part of the rest. forced: take all the same.
 */
static bool ring_take(struct ring *ring, uint64_t end, bool forced)
{
	int64_t more = (int64_t)(end - ring->taken);

	if (end <= ring->taken)
		return true;
	ring->refused = atomic_fetch_sub_explicit(ring->allowance, more, memory_order_relaxed) <
			RING_PART_OF_ALLOWANCE * more;
	if (ring->refused && !forced) {
		atomic_fetch_add_explicit(ring->allowance, more, memory_order_relaxed);
		return false;
	}
	ring->taken = end;
	return true;
}

/* Double the lap. forced: beyond the allowance too, up to RING_LAP_FORCED. */
static bool ring_grow(struct ring *ring, bool forced)
{
	if (!ring_take(ring, 2 * ring->lap, forced && ring->lap < RING_LAP_FORCED))
		return false;
	ring->lap *= 2;
	ring->wraps = 0;
	return true;
}

/* Make pages as write_zeros does, by way of the mapping. */
static uint64_t pages_touch(const struct ring *ring, uint64_t offset, uint64_t end, bool *exhausted)
{
	const uint64_t base = (uint64_t)(uintptr_t)ring->base;
	uint64_t failed;

	*exhausted = touch_range(base + offset, end - offset, true, &failed) != PF_OK;
	return *exhausted ? failed - base : end;
}

/*
 * Make the pages up to end; returns the offset reached. Less than end, without *exhausted: the
 * limit of file lengths, and the stores of the entries ask for the pages. *exhausted: there is no
 * memory now.
 */
static uint64_t write_zeros(const struct ring *ring, uint64_t offset, uint64_t end, bool *exhausted)
{
	static char zeros[ZEROS];
	struct iovec pieces[ZEROS_MOST];
	unsigned count;
	ssize_t bytes;

	*exhausted = false;
	if (!file_size_permitted((uint64_t)ring->start + end))
		return offset;
	for (; offset < end; offset += (uint64_t)bytes) {
		for (count = 0; count < ZEROS_MOST && offset + count * ZEROS < end; count++)
			pieces[count] = (struct iovec){
				zeros, number_min(end - offset - count * ZEROS, ZEROS)
			};
		bytes = pwritev(ring->file, pieces, (int)count, ring->start + (off_t)offset);
		if (bytes <= 0) {
			*exhausted = !bytes || file_lacks_memory(errno);
			break;
		}
	}
	return offset;
}

/* By loads, which map the pages around as well; stores would not. */
static void map_pages(const struct ring *ring, uint64_t offset, uint64_t end)
{
	const volatile uint8_t *at = ring->base + offset, *behind = ring->base + end;

	for (; at < behind; at += FAULT_AROUND - ((uintptr_t)at & (FAULT_AROUND - 1)))
		(void)*at;
}

/*
 * Make the absent pages of the next entry and of the header behind, and the pages of a part of the
 * lap behind both. No unread entry lies there, hence zeros may be written. False: there is no
 * memory for the entry, or, unless forced, no allowance for pages beyond the lap.
 */
static bool make_pages(struct ring *ring, uint64_t need, bool forced)
{
	uint64_t least = (ring->position & (ring->size - 1)) + need, end, reached;
	bool exhausted;

	least = number_min(least, ring->size);
	if (least <= ring->made)
		return true;
	end = number_max(least, number_min(least + RING_PART, ring->lap));
	end = number_min((end + ZEROS - 1) & ~(uint64_t)(ZEROS - 1), ring->size);
	if (!ring_take(ring, end, forced))
		return false;
	if (ring->file < 0) {
		reached = pages_touch(ring, ring->made, end, &exhausted);
	} else {
		reached = write_zeros(ring, ring->made, end, &exhausted);
		map_pages(ring, ring->made, reached);
	}
	ring->made = exhausted ? reached : end;
	return ring->made >= least;
}

/* Skip the rest of the ring: the next entry lies at its start. */
static void ring_begin_lap(struct ring *ring, uint64_t offset)
{
	uint64_t end = ring->position - offset + ring->size;

	atomic_store_explicit(ring_header(ring, end), 0, memory_order_relaxed);
	atomic_store_explicit(ring_header(ring, ring->position), (uint64_t)RING_SKIP << RING_KIND,
			      memory_order_release);
	ring->position = end;
}

bool ring_go_on(struct ring *ring, size_t length)
{
	uint64_t offset = ring->position & (ring->size - 1);
	uint64_t tail = ring_load_tail(ring);
	uint64_t unread = ring->position - tail;
	uint64_t need = ring_span(length) + RING_HEADER;
	bool few = unread < 2 * RING_PUBLISH_EMPTY && ring->entries * need <= ring->lap;
	/*
	 * At the start there is room now, also for the header behind the entry; never if the tail
	 * is a lie.
	 */
	bool fits = unread <= offset && need <= offset - unread;
	bool ahead = unread > ring->lap / 2;
	/* The entry would have to wait for the reader, who has read all, or almost. */
	bool forced = !ahead && !fits;
	/* A longer lap would not pay yet. */
	bool enough = ring->wraps < RING_WRAPS && ring->lap >= number_max(RING_LAP_AMPLE, need);

	/* A lap of the whole ring has no end to reach: positions wrap by themselves. */
	if (offset >= ring->lap) {
		/* Behind a very long entry. */
		while (offset >= 2 * ring->lap && ring_grow(ring, forced))
			;
		if (ahead && enough && !fits)
			return false;
		if ((fits && (ahead ? enough : few || ring->wraps < RING_WRAPS)) ||
		    !ring_grow(ring, forced)) {
			/* The reader has to read the skip entry, or more, before there is room. */
			if (ahead && !fits)
				return false;
			ring->wraps += !few;
			ring->tail_seen = tail;
			ring_begin_lap(ring, offset);
			return make_pages(ring, need, true);
		}
	}
	/* Not for an entry across the end of the lap that may as well begin the next. */
	if (!(fits && few && offset + need > ring->lap) && make_pages(ring, need, forced))
		return true;
	if (!fits)
		return false;
	/*
	 * At the start the entry has pages: the entry ends before the unread entries, or before
	 * this offset.
	 */
	ring->tail_seen = tail;
	ring_begin_lap(ring, offset);
	return true;
}

/*
 * Two calls: an entry that skips may lie anywhere, and the reader comes to the entry in its own
 * time. A shorter way, without the reader, would have to keep the pages of the entry.
 */
bool ring_shrink(struct ring *ring)
{
	const uint64_t first = ring_lap_first(ring->size);
	uint64_t offset = ring->position & (ring->size - 1), kept;
	uint64_t tail = ring_load_tail(ring), unread = ring->position - tail;
	bool idle = ring->position == ring->idle;

	ring->idle = ring->position;
	if (!idle || ring->taken <= first || unread > offset)
		return false;
	if (offset + RING_HEADER > first) {
		/* The entries at the start are read; never so if the tail is a lie. */
		if (unread == offset)
			return false;
		ring->tail_seen = tail;
		ring_begin_lap(ring, offset);
		ring->idle = ring->position;
		return true;
	}
	kept = (first + page_size() - 1) & ~(page_size() - 1);
	/* Fails for locked memory (mlockall), which the ring keeps. */
	if (kept < ring->size && madvise(ring->base + kept, ring->size - kept, MADV_REMOVE) < 0)
		return false;
	ring_give_back(ring);
	ring->lap = ring->made = first;
	ring->wraps = 0;
	return false;
}

void ring_give_back(struct ring *ring)
{
	const uint64_t first = ring_lap_first(ring->size);

	atomic_fetch_add_explicit(ring->allowance, (int64_t)(ring->taken - first),
				  memory_order_relaxed);
	ring->taken = first;
}

void ring_line_took(struct ring *ring, uint64_t ns)
{
	if (ns < RING_NEAR_NS)
		return;
	if (ns > RING_FAR_NS)
		ring->far_votes += ring->far_votes < RING_FAR_VOTES;
	else
		ring->far_votes -= ring->far_votes > 0;
	if (!ring->far_votes)
		ring->far = false;
	else if (ring->far_votes == RING_FAR_VOTES)
		ring->far = true;
}

/*
 * The address depends on the time, although the addend is 0: otherwise a processor begins the load
 * before reading the clock, and the time seems short.
 */
static uint64_t load_after(const _Atomic uint64_t *word, uint64_t time)
{
	uint64_t same = time;

	__asm__ volatile("" : "+r"(same));
	return atomic_load_explicit(word + (same - time), memory_order_acquire);
}

void ring_measure(struct ring *ring)
{
	uint64_t begin = clock_nanoseconds(CLOCK_MONOTONIC);
	uint64_t start = clock_nanoseconds(CLOCK_MONOTONIC);
	uint64_t tail = load_after(ring->tail, start);
	uint64_t end = clock_nanoseconds(CLOCK_MONOTONIC);
	uint64_t reading = start - begin, took = end - start;

	/* Not stored since the last load: the line was here. */
	if (tail == ring->tail_loaded) {
		ring->far_entries = RING_FAR_ENTRIES / 4;
		return;
	}
	ring->tail_loaded = tail;
	ring->far_entries = RING_FAR_ENTRIES;
	if (reading <= RING_FAR_READING && took > reading)
		ring_line_took(ring, took - reading);
}
