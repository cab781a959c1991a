/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring, the inbox and the share on a machine with weakly ordered memory (weak.h). The order
 * that each of their atomic accesses asks for is taken away in turn; the check must then fail.
 */
#include "unit.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int weak_madvise(void *start, size_t length, int advice);

/* From here on atomic operations are steps of the simulation. */
#include "weak.h"
#define syscall weak_futex
#define madvise weak_madvise
/* NOLINTBEGIN(bugprone-suspicious-include): as the functions are, with other atomic operations */
#include "memory/touch.c"
#include "host/inbox.c"
#include "host/ring.c"
#include "host/share.c"
/* NOLINTEND(bugprone-suspicious-include) */
#undef syscall
#undef madvise

/* ---- ring ---- */

/* Entries of this length lie at other offsets in every lap of the ring. */
#define LENGTH 496u
#define SPAN (LENGTH + RING_HEADER)

static struct {
	uint8_t memory[64 << 10];
	_Atomic uint64_t tail;
	_Atomic int64_t allowance;
	struct ring reader, writer;
	unsigned entries, length;
	bool shrunk;
} channel;

static void start_ring(uint64_t size, uint64_t lap, unsigned entries, unsigned length)
{
	memset(&channel, 0, sizeof(channel));
	channel.entries = entries;
	channel.length = length;
	channel.writer = (struct ring){ .base = channel.memory,
					.size = size,
					.lap = lap,
					.made = lap,
					.taken = size,
					.file = -1, /* laps do not grow */
					.entries = 0,
					.allowance = &channel.allowance,
					.tail = &channel.tail };
	channel.reader = channel.writer;
}

/* The ring is mapped once here. */
static void *byte(const struct ring *ring, uint64_t position)
{
	return ring->base + (position & (ring->size - 1));
}

/* Words of a payload: where a header is in some lap, and its end. */
static void write_entry(unsigned number, unsigned length)
{
	struct ring *ring = &channel.writer;
	unsigned offset;

	while (!ring_reserve(ring, length))
		weak_pause();
	for (offset = 0; offset < length; offset += 8) {
		uint64_t position = ring->position + RING_HEADER + offset;

		if (!offset || offset + 8 >= length || (position & (ring->size - 1)) % SPAN == 0)
			weak_write(byte(ring, position), 0xbad0000 + 1000 * number + offset);
	}
	ring_commit(ring, length, 1, (uint8_t)number);
}

static void read_entry(unsigned number, unsigned length)
{
	struct ring *ring = &channel.reader;
	struct ring_entry entry;
	unsigned offset;
	int got;

	while (!(got = ring_peek(ring, &entry)))
		weak_pause();
	weak_require(got == 1, "a malformed header");
	weak_require(entry.length == length && entry.tag == number, "a wrong entry");
	if (got != 1 || entry.length != length)
		return;
	for (offset = 0; offset < length; offset += 8) {
		uint64_t position = ring->position + RING_HEADER + offset;

		if (!offset || offset + 8 >= length || (position & (ring->size - 1)) % SPAN == 0)
			weak_require(weak_read(byte(ring, position)) ==
					     0xbad0000 + 1000 * number + offset,
				     "a wrong payload");
	}
	ring_consume(ring, &entry);
}

static void write_entries(void)
{
	unsigned i;

	for (i = 0; i < channel.entries; i++)
		write_entry(i, channel.length);
}

static void read_entries(void)
{
	unsigned i;

	for (i = 0; i < channel.entries; i++)
		read_entry(i, channel.length);
}

/* Room for two entries: the third waits for the tail, and is written over the first. */
static void start_small_ring(void)
{
	start_ring(1024, 1024, 3, LENGTH);
}

static struct weak_scenario ring_full = {
	"a ring that fills up",
	true,
	start_small_ring,
	{ write_entries, read_entries },
};

/* The writer wraps early: an entry that only skips leads back to the start of the ring. */
static void start_lap(void)
{
	start_ring(64 << 10, RING_LAP_FIRST, 4, 2800);
}

static struct weak_scenario ring_wrap = {
	"a ring that wraps early",
	true,
	start_lap,
	{ write_entries, read_entries },
};

/* The second of three entries reaches into the pages that an idle ring gives back. */
#define SHRINK_LENGTH 5000u

static void start_to_shrink(void)
{
	start_ring(2 * RING_LAP_FIRST, 2 * RING_LAP_FIRST, 3, SHRINK_LENGTH);
}

/* Removed pages are zeros: a store to the last word of the second entry and to the header behind. */
static int weak_madvise(void *start, size_t length, int advice)
{
	const uint64_t end = 2 * ring_span(SHRINK_LENGTH);
	const uint8_t *first = start;
	uint64_t *last = byte(&channel.writer, end - sizeof(*last));

	(void)advice;
	weak_require((uint8_t *)last >= first && (uint8_t *)(last + 2) <= first + length,
		     "other pages are removed");
	weak_write(last, 0);
	weak_write(last + 1, 0);
	channel.shrunk = true;
	return 0;
}

/* The reader has to come back to the start before the ring shrinks. */
static void write_and_shrink(void)
{
	write_entry(0, channel.length);
	write_entry(1, channel.length);
	ring_shrink(&channel.writer);
	while (ring_shrink(&channel.writer), !channel.shrunk)
		weak_pause();
	write_entry(2, channel.length);
}

static struct weak_scenario ring_shrunk = {
	"an idle ring that shrinks",
	true,
	start_to_shrink,
	{ write_and_shrink, read_entries },
};

/* ---- inbox ---- */

#define WRITERS 2u

static struct inbox_memory inbox_memory;
/* Headers of a message each. Relaxed: the inbox orders them by itself. */
static _Atomic uint8_t headers[WRITERS];

static void start_inbox(void)
{
	memset(&inbox_memory, 0, sizeof(inbox_memory));
	memset(headers, 0, sizeof(headers));
}

static void write_and_ring(uint32_t slot)
{
	struct bell bell = { &inbox_memory, slot, INBOX_SLEEPS_AT_ONCE };

	atomic_store_explicit(&headers[slot], 1, memory_order_relaxed);
	bell_ring(&bell);
}

static void write_first(void)
{
	write_and_ring(0);
}

static void write_second(void)
{
	write_and_ring(1);
}

static bool bell_rung(void)
{
	return atomic_load_explicit(&inbox_memory.bell, memory_order_relaxed);
}

static void read_all(void)
{
	struct inbox inbox = { &inbox_memory, -1 };
	bool delivered[WRITERS] = { false };
	unsigned i;

	while (!delivered[0] || !delivered[1]) {
		weak_remember(delivered[0] | delivered[1] << 1);
		if (bell_rung()) {
			inbox_take_bell(&inbox_memory);
			if (!inbox_any_mark(&inbox_memory, 0))
				continue;
			for (i = 0; i < WRITERS; i++) {
				if (inbox_take_mark(&inbox_memory.pending[i]) &&
				    atomic_load_explicit(&headers[i], memory_order_relaxed))
					delivered[i] = true;
			}
			continue;
		}
		inbox_announce_sleep(&inbox);
		if (!bell_rung())
			inbox_wait(&inbox, 1);
		inbox_stay_awake(&inbox);
	}
}

static struct weak_scenario sleeping_inbox = {
	"an inbox whose reader sleeps",
	false,
	start_inbox,
	{ write_first, write_second, read_all },
};

/* ---- share ---- */

#define GRANULES 3u
#define GENERATION 0xffffff /* the last one before they begin anew */

static struct share share;
static uint64_t source[GRANULES], target[GRANULES];
/* The number of the offer. Relaxed: the share orders everything by itself. */
static _Atomic uint32_t offered;

static void start_share(void)
{
	memset(&share, 0, sizeof(share));
	memset(source, 0, sizeof(source));
	memset(target, 0, sizeof(target));
	offered = 0;
}

static void move(struct granules run)
{
	uint32_t i;

	for (i = run.start; i < run.end; i++)
		weak_write(&target[i], weak_read(&source[i]));
}

/* The second transfer uses the slot again, while the peer may still handle the first offer. */
static void initiate(void)
{
	struct granules run, rest;
	uint32_t transfer, claimed, i;

	for (transfer = 0; transfer < 2; transfer++) {
		for (i = 0; i < GRANULES; i++)
			weak_write(&source[i], 100 * transfer + i);
		share_open(&share, GENERATION + transfer, 1, GRANULES);
		atomic_store_explicit(&offered, transfer + 1, memory_order_relaxed);
		move((struct granules){ 0, 1 });
		while (share_claim_front(&share, 1, 1, &run))
			move(run);
		claimed = share_close(&share, GRANULES);
		for (;;) {
			weak_remember(transfer << 8 | claimed);
			if (share_finished(&share, GRANULES, claimed, &rest))
				break;
			weak_pause();
		}
		move(rest);
		for (i = 0; i < GRANULES; i++)
			weak_require(weak_read(&target[i]) == 100 * transfer + i,
				     "a granule was not moved");
	}
}

/* Moves one run of each transfer, and returns the next one, which it could move in part only. */
static void serve(void)
{
	uint32_t transfer, seen;
	struct granules run;
	bool last;

	for (transfer = 0; transfer < 2; transfer++) {
		do {
			weak_remember(transfer);
			seen = atomic_load_explicit(&offered, memory_order_relaxed);
			if (seen <= transfer)
				weak_pause();
		} while (seen <= transfer);
		if (!share_claim_back(&share, GENERATION + transfer, 1, 1, &run, &last))
			continue;
		move(run);
		share_add_moved(&share, granules_count(run));
		if (!last && share_claim_back(&share, GENERATION + transfer, 1, 1, &run, &last)) {
			move(run);
			share_return(&share, run);
		}
	}
}

static struct weak_scenario share_slot_again = {
	"a share that is used twice",
	true,
	start_share,
	{ initiate, serve },
};

static void test_order(void **state)
{
	assert_true(weak_check(*state));
}

#define ORDER(scenario)                                                                            \
	{                                                                                          \
		"test_order " #scenario, test_order, NULL, NULL, &(scenario)                       \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ORDER(ring_full),      ORDER(ring_wrap),        ORDER(ring_shrunk),
		ORDER(sleeping_inbox), ORDER(share_slot_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
