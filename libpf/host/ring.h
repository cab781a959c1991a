/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of messages from one writer to one reader, in memory that both map
 * twice in a row, so that an entry is contiguous wherever it starts.
 *
 * An entry is an 8-byte header and its payload, padded to 8 bytes. A header
 * that reads 0 is an entry not yet written: the writer clears the header
 * behind an entry before it stores (release) the entry's own, so the reader
 * (acquire) never takes bytes of an earlier lap for a header. Header and
 * payload share cache lines; several small entries share one. The reader
 * publishes how far it read only every few kilobytes, and the writer looks only
 * when it must, so in the steady state the two processes exchange no cache
 * line but those that carry the messages.
 *
 * Memory grows with need: the writer turns back to the start after a short
 * lap, by an entry that skips the rest. Where its reader is behind, it goes on
 * into a lap of twice the length, while the allowance that all rings of a
 * process share lasts. So short questions and answers stay in a few pages; a
 * writer that is well ahead of its reader gets the whole ring, and is the
 * faster for it (2.8x for 1 KiB messages). So does one of long entries: lines
 * that were read long ago are quicker to take from the reader (0.80 instead of
 * 1.0 us for a message of 2 KiB), unless other processes use up the caches.
 */
#ifndef PF_RING_H
#define PF_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RING_HEADER sizeof(uint64_t)
/*
 * Entries up to this length are prefetched whole, by both sides. For longer
 * ones it gains no latency, and a writer in full stream takes lines away that
 * the reader is still busy with: 1 KiB messages lost half their rate.
 */
#define RING_PREFETCH_MAX 768

#define RING_LAP_FIRST (8u << 10)
/* Every ring may grow so far without a share of the allowance. */
#define RING_LAP_FREE (32u << 10)
/* The reader says how far it is after so many bytes, or fewer when it has caught up. */
#define RING_PUBLISH (4u << 10)
#define RING_PUBLISH_DRY 512
/* The kind of an entry that only reaches to the end of the ring. */
#define RING_SKIP 255

struct ring {
	uint8_t *base;       /* size bytes, mapped twice */
	uint64_t size;       /* a power of two */
	uint64_t position;   /* writer: of the next entry to write; reader: to read */
	uint64_t tail_seen;  /* writer: last value of *tail it saw; reader: last it stored */
	uint64_t lap;        /* writer: where it turns back */
	uint64_t short_most; /* writer: entries up to this length are at home in a short lap */
	_Atomic int64_t
		*allowance;     /* writer: bytes that laps may still grow by beyond RING_LAP_FREE */
	_Atomic uint64_t *tail; /* shared: the reader is done with everything before this */
};

struct ring_entry {
	uint8_t *payload;
	uint32_t length;
	uint8_t kind; /* never 0 */
	uint8_t tag;
};

/* Entries up to half the ring always find room once the reader has caught up. */
static inline size_t ring_longest(const struct ring *ring)
{
	return ring->size / 2 - 2 * RING_HEADER;
}

static inline uint64_t ring_span(size_t length)
{
	return RING_HEADER + ((length + 7) & ~(uint64_t)7);
}

static inline _Atomic uint64_t *ring_header(const struct ring *ring, uint64_t position)
{
	return (_Atomic uint64_t *)(ring->base + (position & (ring->size - 1)));
}

/* Writer, past its lap: back to the start, or go on with a longer lap. False: not yet. */
bool ring_turn(struct ring *ring, size_t length);

/* Writer: room for length bytes, or NULL. Nothing is visible before ring_commit. */
static inline uint8_t *ring_reserve(struct ring *ring, size_t length)
{
	uint64_t need = ring_span(length) + RING_HEADER;

	if (__builtin_expect((ring->position & (ring->size - 1)) >= ring->lap, 0) &&
	    !ring_turn(ring, length))
		return NULL;
	if (__builtin_expect(ring->position + need - ring->tail_seen > ring->size, 0)) {
		uint64_t tail = atomic_load_explicit(ring->tail, memory_order_acquire);

		/* A reader that lies about its tail only spoils its own ring. */
		if (ring->position - tail > ring->size || ring->position + need - tail > ring->size)
			return NULL;
		ring->tail_seen = tail;
	}
	return (uint8_t *)ring_header(ring, ring->position) + RING_HEADER;
}

/* Writer: publish what ring_reserve gave, with the same length. */
static inline void ring_commit(struct ring *ring, size_t length, uint8_t kind, uint8_t tag)
{
	uint64_t next = ring->position + ring_span(length);
	uint64_t header = length | (uint64_t)kind << 32 | (uint64_t)tag << 40;
	uint64_t ahead, line;

	atomic_store_explicit(ring_header(ring, next), 0, memory_order_relaxed);
	atomic_store_explicit(ring_header(ring, ring->position), header, memory_order_release);
	/*
	 * Own the lines of the next entry, likely of the same length, before it
	 * is written: each of its stores would otherwise wait for the reader's
	 * copy of an earlier lap. The reader polls the first line, so that one
	 * is lost again anyway.
	 */
	ahead = ring_span(length) <= RING_PREFETCH_MAX ? ring_span(length) : 0;
	for (line = 64; line <= ahead + 64; line += 64)
		__builtin_prefetch(ring->base + ((next + line) & (ring->size - 1)), 1);
	ring->position = next;
}

/* Reader: is there an entry? Costs one load of a line in this core's cache when there is none. */
static inline bool ring_ready(const struct ring *ring)
{
	return atomic_load_explicit(ring_header(ring, ring->position), memory_order_relaxed) != 0;
}

/* Reader: done with everything up to the present position. */
static inline void ring_publish(struct ring *ring)
{
	atomic_store_explicit(ring->tail, ring->position, memory_order_release);
	ring->tail_seen = ring->position;
}

/*
 * Reader: the next entry. Returns 1, 0 if there is none, and -1 if the header
 * cannot have been written by ring_commit: the writer is not to be trusted.
 */
static inline int ring_peek(struct ring *ring, struct ring_entry *entry)
{
	_Atomic uint64_t *where = ring_header(ring, ring->position);
	uint64_t header = atomic_load_explicit(where, memory_order_acquire);
	uint32_t line;

	if (!header) {
		if (ring->position - ring->tail_seen >= RING_PUBLISH_DRY)
			ring_publish(ring);
		return 0;
	}
	entry->length = (uint32_t)header;
	entry->kind = (uint8_t)(header >> 32);
	entry->tag = (uint8_t)(header >> 40);
	entry->payload = (uint8_t *)where + RING_HEADER;
	if (__builtin_expect(entry->kind == RING_SKIP, 0)) {
		uint64_t end = (ring->position | (ring->size - 1)) + 1;

		if (ring->position + RING_HEADER + entry->length != end)
			return -1;
		ring->position = end;
		ring_publish(ring);
		/* What is behind it is found by the next look. */
		return 0;
	}
	if (header >> 48 || !entry->kind || entry->length > ring_longest(ring))
		return -1;
	/* Fetch the lines side by side while the receiver still looks at the first. */
	if (entry->length <= RING_PREFETCH_MAX)
		for (line = 64; line < entry->length + RING_HEADER; line += 64)
			__builtin_prefetch(entry->payload + line, 0);
	return 1;
}

/* Reader: done with the entry that ring_peek showed; its payload may be overwritten from now on. */
static inline void ring_consume(struct ring *ring, const struct ring_entry *entry)
{
	ring->position += ring_span(entry->length);
	if (ring->position - ring->tail_seen >= RING_PUBLISH)
		ring_publish(ring);
}

#endif
