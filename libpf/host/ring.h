/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring of messages from one writer to one reader, in memory that both processes map twice in a
 * row: every entry is contiguous.
 *
 * An entry is a header of 8 bytes and its payload, padded to 8 bytes. A header that is 0 is an
 * entry not yet written. Header and payload share cache lines, and so do small entries. The reader
 * publishes the read position (tail) only every few kilobytes, and the writer reads the tail only
 * when the ring seems full. In the steady state the two processes exchange only the cache lines
 * that carry messages.
 *
 * Order of memory accesses, on x86 and arm64 alike:
 *   - The writer writes the payload, clears the header behind the entry, then stores the
 *     header (release). The reader loads the header (acquire). The reader sees the whole
 *     payload, and never takes bytes of an earlier lap for the next header.
 *   - The reader reads the payload, then stores the tail (release). The writer loads the
 *     tail (acquire) before writing there again, the cleared header included. The writer
 *     overwrites nothing that is still read.
 *   - ring_ready is relaxed: the reader acts on nothing before ring_peek's acquire.
 *   - The allowance is a count that guards no memory: relaxed.
 *   - ring_shrink loads the tail (acquire) before freeing pages. Then tail and position both lie
 *     in the first lap, and so does what the reader may still load: entries before the position,
 *     and the header at the position, which is 0. The reader leaves the first lap only by an
 *     entry that the writer commits later.
 * Every location has one writer process: no other order is needed. tests/host/test_weak.c runs the
 * functions on a simulated weakly ordered machine, and shows the need for each order.
 *
 * Memory grows with need. The writer wraps at the end of a lap, which is a part of the ring at
 * first: an entry that skips the rest leads back to the start. If there is no room at the start,
 * the writer doubles the lap instead, as long as the allowance that all rings of a process share
 * permits. Once the allowance refuses, the writers' process has idle rings shrink (ring_shrink).
 * Requests with short answers use a few pages, and a writer far ahead of the reader uses
 * up to RING_LAP_AMPLE. Long entries, and a reader that is a little behind, use the whole ring in
 * the end: lines that the reader read long ago are cheaper to write, unless other processes use up
 * the caches. For such entries the lap grows only after RING_WRAPS wraps, because the first use of
 * a page is slow. The writer gives the file the next pages a part at a time, by pwrite while the
 * descriptor is open, else by madvise: then both sides map up to sixteen pages by one page fault,
 * which takes half the time of a store to each page. If the kernel has no memory for the pages, the
 * writer wraps early and goes on with the present pages; a store to a page that the kernel refuses
 * would raise SIGBUS.
 */
#ifndef PF_RING_H
#define PF_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "past_cache.h"

#define RING_HEADER sizeof(uint64_t)

/* Length of the first lap, bytes. */
#define RING_LAP_FIRST (8u << 10)
/*
 * Longest lap that an entry gets against the allowance, bytes, if the entry is too long to follow a
 * read entry of equal length at the start: the writer would wait for the reader before each entry.
 * Enough for 64 KiB, the largest default of eager_limit.
 */
#define RING_LAP_FORCED (128u << 10)
/*
 * A lap with room for this many entries does not grow while each is read at once: a short lap stays
 * in the caches, but each end of the lap costs a line. Between processors without a common cache, 4
 * KiB messages took 1.4 us in a lap of one entry and 1.2 us in a lap of three
 * (benchmarks/mpi/latency).
 */
#define RING_LAP_ENTRIES 3
/*
 * A writer that is ahead of the reader grows the lap at once up to this length, bytes: enough for
 * both to work at the same time. With laps of 2 MiB instead, the first 1,000 messages of 8 and 16
 * KiB went at half the bandwidth (benchmarks/mpi/bw -i 20).
 */
#define RING_LAP_AMPLE (256u << 10)
/*
 * A lap grows by at most this part, one fourth, of the rest of the allowance: the first few peers
 * do not take all of the allowance.
 */
#define RING_PART_OF_ALLOWANCE 4
/*
 * Wraps before a lap grows without need. The first use of a page costs both sides together some 2
 * us, and the messages of a page take 0.35 us or more: growing costs at most 9 % of the time since
 * the last growth. For the gain from the whole ring see the default of ring_size in base/options.c.
 */
#define RING_WRAPS 64
/*
 * Bytes of a grown lap whose pages are made at a time; the first entry waits for all of the pages.
 */
#define RING_PART (64u << 10)
/*
 * The reader is far if lines stored by the reader take more than RING_FAR_NS, about as long as some
 * from memory: then the parts of entries that are at least RING_FAR_LEAST bytes long go past the
 * caches. Where a line takes 160 ns, half a round trip of 4, 8, 16 and 32 KiB takes 1.4, 1.9, 2.7
 * and 4.3 instead of 2.8, 4.9, 9.2 and 17.6 us, and streams of the four lengths go at 7.3, 10.5,
 * 14.1 and 14.6 instead of 2.1, 2.1, 2.6 and 2.5 GB/s (benchmarks/mpi/latency and bw, eager_limit
 * 32 KiB). Where a line takes 25 ns, streams of 16 KiB would go past the caches at 14, but through
 * the caches at up to 31 GB/s.
 */
#define RING_FAR_NS 45
/* Majority of lines, longer or shorter than RING_FAR_NS, that changes far. */
#define RING_FAR_VOTES 16
#define RING_FAR_LEAST 1024
/* A shorter time is no transfer: the line was in this processor's caches. */
#define RING_NEAR_NS 10
/*
 * Entries of RING_FAR_LEAST bytes until a line is timed again, with three readings of the clock (60
 * ns).
 */
#define RING_FAR_ENTRIES 16
/*
 * With a clock that takes longer, ns, as where the clock is a system call, readers are never far.
 */
#define RING_FAR_READING 100
/*
 * Bytes of an entry past the caches that are fetched to be written: the header and the first piece
 * of a message in pieces are written as usual.
 */
#define RING_FAR_HEAD 192
/* The reader stores the tail after this many bytes, or after fewer if the ring is empty. */
#define RING_PUBLISH (4u << 10)
#define RING_PUBLISH_EMPTY 512
/* The kind of an entry without contents that reaches to the end of the ring. */
#define RING_SKIP 255
/* Bits of a header: the length, the kind, the tag. */
#define RING_LENGTH_MOST 0xffffffu
#define RING_KIND 24
#define RING_TAG 32

struct ring {
	uint8_t *base;      /* size bytes, mapped twice */
	uint64_t size;      /* a power of two */
	uint64_t position;  /* of the next entry to write or to read, in bytes since the start */
	uint64_t tail_seen; /* writer: a checked value of *tail; reader: last stored */
	uint64_t lap;       /* writer: offset of the end, where positions wrap */
	/* writer: offset of the end of the ring's pages; no unread entry lies behind */
	uint64_t made;
	bool far;             /* writer: the reader is far; see RING_FAR_NS */
	bool past;            /* writer: a part of the entry being written went past the caches */
	unsigned far_entries; /* writer: see RING_FAR_ENTRIES */
	unsigned far_votes;   /* writer: 0 to RING_FAR_VOTES */
	uint64_t tail_loaded; /* writer: *tail last loaded */
	int file; /* writer: the memory's file, in which the ring begins at start; -1: none */
	off_t start;
	unsigned entries; /* writer: a lap of this many entries is long enough */
	unsigned wraps;   /* writer: wraps of the lap that count towards RING_WRAPS */
	bool refused;     /* writer: the allowance refused the last growth */
	uint64_t taken;   /* writer: longest of lap and made; beyond the first lap from allowance */
	uint64_t idle;    /* writer: position at the last ring_shrink */
	_Atomic int64_t *allowance; /* writer: bytes that laps may grow by beyond the first */
	_Atomic uint64_t *tail;     /* shared: position up to which the reader is done */
};

struct ring_entry {
	uint8_t *payload;
	uint32_t length;
	uint8_t kind; /* never 0 */
	uint32_t tag;
};

/* An entry of up to half the ring has room once the reader has read everything. */
static inline size_t ring_longest(const struct ring *ring)
{
	size_t half = ring->size / 2 - 2 * RING_HEADER;

	return half < RING_LENGTH_MOST ? half : RING_LENGTH_MOST;
}

/* Return the length of the first lap of a ring of this size. */
static inline uint64_t ring_lap_first(uint64_t size)
{
	return size < RING_LAP_FIRST ? size : RING_LAP_FIRST;
}

static inline uint64_t ring_span(size_t length)
{
	return RING_HEADER + ((length + 7) & ~(uint64_t)7);
}

static inline _Atomic uint64_t *ring_header(const struct ring *ring, uint64_t position)
{
	return (_Atomic uint64_t *)(ring->base + (position & (ring->size - 1)));
}

/*
 * Take a cache line away from the other processor. For x86-64 without options, compilers turn
 * __builtin_prefetch(line, 1) into a prefetch for reading, which only adds a transfer: streams of
 * 24 to 250 bytes were slower by 20 to 40 % than with prefetchw, and by 15 to 30 % than without a
 * prefetch (pf_perf -t send-rate). 64-bit processors without prefetchw ignore the instruction.
 */
static inline void ring_fetch_to_write(const uint8_t *line)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/*
 * Writer: at the end of the lap wrap, or grow the lap, and make the absent pages of an entry of
 * the length. False if neither is possible now.
 */
bool ring_go_on(struct ring *ring, size_t length);
/*
 * Writer, between entries: if nothing was written since the last call, give the memory beyond the
 * first lap back. If the reader has not come to the first lap, lead the reader there, for the next
 * call; true: there is such an entry, to be announced to the reader.
 */
bool ring_shrink(struct ring *ring);
/* Writer, at the end of the ring: give the allowance back what the ring took. */
void ring_give_back(struct ring *ring);

static inline uint64_t ring_load_tail(struct ring *ring)
{
	ring->tail_loaded = atomic_load_explicit(ring->tail, memory_order_acquire);
	return ring->tail_loaded;
}

/*
 * Writer: return room for a payload of length bytes, NULL if there is none now. The reader sees
 * nothing of the payload before ring_commit.
 */
static inline uint8_t *ring_reserve(struct ring *ring, size_t length)
{
	uint64_t need = ring_span(length) + RING_HEADER;
	uint64_t offset = ring->position & (ring->size - 1);

	if (__builtin_expect(offset >= ring->lap || offset + need > ring->made, 0) &&
	    !ring_go_on(ring, length))
		return NULL;
	if (__builtin_expect(ring->position + need - ring->tail_seen > ring->size, 0)) {
		uint64_t tail = ring_load_tail(ring);

		/* A wrong tail from a hostile reader must not lead outside the ring. */
		if (ring->position - tail > ring->size || ring->position + need - tail > ring->size)
			return NULL;
		ring->tail_seen = tail;
	}
	return (uint8_t *)ring_header(ring, ring->position) + RING_HEADER;
}

/* Writer: load *tail, and measure the time of the load; sets far. */
void ring_measure(struct ring *ring);
/* Account one line stored by the reader, with the time of the load, ns; sets far. */
void ring_line_took(struct ring *ring, uint64_t ns);

/* Writer: copy as memcpy does, to a part of the entry that ring_reserve returned. */
static inline void ring_fill(struct ring *ring, uint8_t *to, const void *from, size_t length)
{
	if (length >= RING_FAR_LEAST) {
		if (ring->far_entries)
			ring->far_entries--;
		else if (past_cache_pays())
			ring_measure(ring);
		if (ring->far) {
			past_cache_copy(to, from, length);
			ring->past = true;
			return;
		}
	}
	memcpy(to, from, length);
}

/* Writer: publish the entry that ring_reserve returned, with the reserved length or less. */
static inline void ring_commit(struct ring *ring, size_t length, uint8_t kind, uint32_t tag)
{
	uint64_t next = ring->position + ring_span(length);
	uint64_t header = length | (uint64_t)kind << RING_KIND | (uint64_t)tag << RING_TAG;
	uint64_t line, last = ring->past ? RING_FAR_HEAD : ring_span(length) + 64;

	atomic_store_explicit(ring_header(ring, next), 0, memory_order_relaxed);
	atomic_store_explicit(ring_header(ring, ring->position), header, memory_order_release);
	/*
	 * Get the lines of the next entry, probably of equal length, before the entry is written:
	 * otherwise each store waits until the reader's copy of the line is invalidated. Not the
	 * first line: the reader polls the first line, which would be lost again. If the ring is
	 * nearly full the lines may be unread; leaving unread lines out by tail_seen, which is old,
	 * cost 5 to 10 % of the latency of 2 and 4 KiB. Where a line takes 65 ns from one processor
	 * to the other, both sides' prefetches make messages of 1 KiB take 0.50 instead of 0.68 us,
	 * of 4 KiB 0.98 instead of 1.16, of 64 KiB 6.3 instead of 7.9 (benchmarks/mpi/latency,
	 * eager_limit 64 KiB), and streams of 8 KiB go at 17 instead of 15 GB/s, of 1 KiB as fast
	 * (benchmarks/mpi/bw).
	 */
	for (line = 64; line <= last; line += 64)
		ring_fetch_to_write(ring->base + ((next + line) & (ring->size - 1)));
	ring->past = false;
	ring->position = next;
}

/* Reader: is there an entry? While there is none, the load hits this core's cache. */
static inline bool ring_ready(const struct ring *ring)
{
	return atomic_load_explicit(ring_header(ring, ring->position), memory_order_relaxed) != 0;
}

/* Reader: fetch the first line of the next entry. */
static inline void ring_prefetch(const struct ring *ring)
{
	__builtin_prefetch((const void *)ring_header(ring, ring->position), 0);
}

/* Reader: give everything before the position back to the writer. */
static inline void ring_publish(struct ring *ring)
{
	atomic_store_explicit(ring->tail, ring->position, memory_order_release);
	ring->tail_seen = ring->position;
}

/*
 * Reader: get the next entry. Returns 1, 0 if there is none now, or -1 if the header is
 * malformed: the writer does not keep to the protocol.
 */
static inline int ring_peek(struct ring *ring, struct ring_entry *entry)
{
	_Atomic uint64_t *where = ring_header(ring, ring->position);
	uint64_t header = atomic_load_explicit(where, memory_order_acquire);
	uint32_t line;

	if (!header) {
		if (ring->position - ring->tail_seen >= RING_PUBLISH_EMPTY)
			ring_publish(ring);
		return 0;
	}
	entry->length = (uint32_t)header & RING_LENGTH_MOST;
	entry->kind = (uint8_t)(header >> RING_KIND);
	entry->tag = (uint32_t)(header >> RING_TAG);
	entry->payload = (uint8_t *)where + RING_HEADER;
	if (__builtin_expect(entry->kind == RING_SKIP, 0)) {
		ring->position = (ring->position | (ring->size - 1)) + 1;
		ring_publish(ring);
		/* The next call finds the entry at the start. */
		return 0;
	}
	if (!entry->kind || entry->length > ring_longest(ring))
		return -1;
	/* Fetch all lines in parallel while the caller handles the first one. */
	for (line = 64; line < entry->length + RING_HEADER; line += 64)
		__builtin_prefetch(entry->payload + line, 0);
	return 1;
}

/* Reader: release the entry that ring_peek returned; the writer may overwrite its payload. */
static inline void ring_consume(struct ring *ring, const struct ring_entry *entry)
{
	ring->position += ring_span(entry->length);
	if (ring->position - ring->tail_seen >= RING_PUBLISH)
		ring_publish(ring);
}

#endif
