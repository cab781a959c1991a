/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

#include <sys/uio.h>

#include "base/number.h"

/* Linux maps the pages of a file in aligned pieces of this length (fault_around_bytes). */
#define FAULT_AROUND (64u << 10)
#define ZEROS 4096
#define ZEROS_MOST (RING_PART / ZEROS)

/* Double the lap; false if the allowance is used up. */
static bool grow(struct ring *ring)
{
	int64_t more = ring->lap < RING_LAP_FREE ? 0 : (int64_t)ring->lap;

	if (more && atomic_fetch_sub_explicit(ring->allowance, more, memory_order_relaxed) < more) {
		atomic_fetch_add_explicit(ring->allowance, more, memory_order_relaxed);
		return false;
	}
	ring->lap *= 2;
	ring->wraps = 0;
	return true;
}

/* If there is no memory now, the stores of the entries will ask for it again. */
static void write_zeros(const struct ring *ring, uint64_t offset, uint64_t end)
{
	static char zeros[ZEROS];
	struct iovec pieces[ZEROS_MOST];
	unsigned count;
	ssize_t bytes;

	for (; offset < end; offset += (uint64_t)bytes) {
		for (count = 0; count < ZEROS_MOST && offset + count * ZEROS < end; count++)
			pieces[count] = (struct iovec){ zeros, lesser(end - offset - count * ZEROS,
								      ZEROS) };
		bytes = pwritev(ring->file, pieces, (int)count, ring->start + (off_t)offset);
		if (bytes <= 0)
			break;
	}
}

/*
 * Make pages for the next part of the lap, which begins with an entry of that length, as far as
 * the reader has done with what was there: in the last lap that was not only entries, but also
 * the header that skipped the rest.
 */
static void make_pages(struct ring *ring, size_t length, uint64_t unread)
{
	uint64_t offset = ring->position & (ring->size - 1), span = ring_span(length);
	uint64_t begin = offset + RING_HEADER, end, at;

	begin = greater(ring->made, begin + (-begin & (ZEROS - 1)));
	/* If the reader lies about its tail, the lap still is the limit. */
	end = offset + lesser(span + RING_PART, ring->size - unread);
	end = greater(ring->made, lesser(end & ~(uint64_t)(ZEROS - 1), ring->lap));
	if (begin < end)
		write_zeros(ring, begin, end);
	/* A load maps the pages around it as well, a store would not. */
	for (at = begin; at < end; at += FAULT_AROUND)
		(void)*(volatile uint8_t *)(ring->base + at);
	ring->made = end;
	/* An entry of the same length that begins before it has all of its pages. */
	ring->stop = end == ring->lap ? end : greater(end, offset + span) - span;
}

bool ring_go_on(struct ring *ring, size_t length)
{
	uint64_t offset = ring->position & (ring->size - 1);
	uint64_t tail = atomic_load_explicit(ring->tail, memory_order_acquire);
	uint64_t unread = ring->position - tail;
	uint64_t end = ring->position - offset + ring->size;

	/* A lap of the whole ring never gets to its end: its positions wrap by themselves. */
	if (offset >= ring->lap) {
		/* Pages before a very long entry's end are in use already. */
		while (offset >= 2 * ring->lap && grow(ring))
			ring->made = ring->stop = ring->lap;
		if (unread > ring->lap / 2) {
			if (!grow(ring))
				return false;
		} else if ((unread < 2 * RING_PUBLISH_EMPTY && length <= ring->short_most) ||
			   ++ring->wraps < RING_WRAPS || !grow(ring)) {
			ring->tail_seen = tail;
			atomic_store_explicit(ring_header(ring, end), 0, memory_order_relaxed);
			atomic_store_explicit(ring_header(ring, ring->position),
					      (ring->size - offset - RING_HEADER) |
						      (uint64_t)RING_SKIP << 32,
					      memory_order_release);
			ring->position = end;
			return true;
		}
	}
	make_pages(ring, length, unread);
	return true;
}
