/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings: entries in order and complete, whatever their lengths; hostile contents of shared memory. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "host/channel.h"

#define RING_MOST ((size_t)256 << 10)
#define MOST_ENTRIES (RING_MOST / RING_HEADER)

/* The smallest ring, one that grows to its full size, and one that may not grow. */
static const struct shape {
	size_t size;
	int64_t allowance;
} smallest = { 16384, 0 }, growing = { RING_MOST, INT64_MAX }, fixed = { RING_MOST, 0 };

/* The two ends of one ring, as the two processes have them. */
struct ends {
	struct channel channel;
	_Atomic int64_t allowance;
	struct ring writer, reader;
	size_t lengths[MOST_ENTRIES]; /* of entries not yet read */
	uint64_t written, read;
};

static struct ends *open_ends(void **state)
{
	const struct shape *shape = *state;
	struct ends *ends = test_alloc(sizeof(*ends));

	ends->allowance = shape->allowance;
	assert_ok(channel_create(&ends->channel, shape->size, &ends->allowance));
	ends->writer = ends->channel.ring;
	ends->reader = ends->channel.ring;
	return ends;
}

static void close_ends(struct ends *ends)
{
	channel_destroy(&ends->channel);
	free(ends);
}

/* Kind, tag and contents depend on the number of an entry. */
static uint8_t kind_of(uint64_t number)
{
	return (uint8_t)(1 + number % 200);
}

static bool write_entry(struct ends *ends, size_t length)
{
	uint8_t *payload = ring_reserve(&ends->writer, length);

	if (!payload)
		return false;
	assert_int_equal((uintptr_t)payload % 8, 0);
	pattern_fill(payload, length, ends->written);
	ring_commit(&ends->writer, length, kind_of(ends->written), (uint8_t)ends->written);
	ends->lengths[ends->written++ % MOST_ENTRIES] = length;
	return true;
}

static bool entry_is(const struct ring_entry *entry, size_t length, uint64_t number)
{
	return entry->length == length && entry->kind == kind_of(number) &&
	       entry->tag == (uint8_t)number &&
	       pattern_differs(entry->payload, length, number) == length;
}

/* The first peek may only skip to the start of the ring. */
static int peek(struct ring *ring, struct ring_entry *entry)
{
	int found = ring_peek(ring, entry);

	return found ? found : ring_peek(ring, entry);
}

static void read_entry(struct ends *ends)
{
	struct ring_entry entry = { 0 };

	assert_true(ring_ready(&ends->reader));
	assert_int_equal(peek(&ends->reader, &entry), 1);
	assert_true(entry_is(&entry, ends->lengths[ends->read % MOST_ENTRIES], ends->read));
	ring_consume(&ends->reader, &entry);
	ends->read++;
}

static void read_all(struct ends *ends)
{
	struct ring_entry entry = { 0 };

	while (ends->read < ends->written)
		read_entry(ends);
	assert_int_equal(peek(&ends->reader, &entry), 0);
}

static void test_empty(void **state)
{
	struct ends *ends = open_ends(state);
	struct ring_entry entry = { 0 };

	assert_false(ring_ready(&ends->reader));
	assert_int_equal(ring_peek(&ends->reader, &entry), 0);
	/* A reserved entry that is not committed cannot be read. */
	memset(ring_reserve(&ends->writer, 100), 0xff, 100);
	assert_false(ring_ready(&ends->reader));
	assert_true(write_entry(ends, 0));
	read_all(ends);
	close_ends(ends);
}

/* Lengths that leave some room, none, or too little, at each position of the wrap. */
static void test_random(void **state)
{
	struct random_numbers numbers = random_start("ring, random lengths");
	struct ends *ends = open_ends(state);
	int i;

	for (i = 0; i < REPEAT(100000); i++) {
		size_t longest = random_below(&numbers, 64) ? 200 : ring_longest(&ends->writer);
		uint64_t reads = random_below(&numbers, 3);

		write_entry(ends, random_below(&numbers, longest + 1));
		assert_true(ends->writer.position - ends->reader.position <= ends->writer.size);
		for (; reads && ends->read < ends->written; reads--)
			read_entry(ends);
	}
	read_all(ends);
	assert_true(ends->written > REPEAT(50000));
	close_ends(ends);
}

static void test_full(void **state)
{
	struct ends *ends = open_ends(state);
	int round;

	for (round = 0; round < 20; round++) {
		uint64_t before = ends->written;

		while (write_entry(ends, 56))
			;
		assert_null(ring_reserve(&ends->writer, 56));
		assert_true(ends->written - before >= 150);
		/* The header cleared for the next entry is not that of the oldest one. */
		read_all(ends);
	}
	close_ends(ends);
}

/* The reader publishes its position only at times: the longest entry always finds room. */
static void test_longest(void **state)
{
	struct ends *ends = open_ends(state);
	size_t longest = ring_longest(&ends->writer), step;

	for (step = 0; step < 3000; step++) {
		bool written = write_entry(ends, longest);

		/* At the latest after the reader has skipped to the start. */
		if (!written) {
			read_all(ends);
			written = write_entry(ends, longest);
		}
		assert_true(written);
		read_all(ends);
		assert_true(write_entry(ends, step % 64));
		read_all(ends);
	}
	close_ends(ends);
}

/* The number of pages of the ring that have memory. */
static size_t pages_of(struct ends *ends)
{
	unsigned char resident[RING_MOST / 4096];
	size_t count = 0, i;

	assert_int_equal(mincore(ends->writer.base, ends->writer.size, resident), 0);
	for (i = 0; i < ends->writer.size / 4096; i++)
		count += resident[i] & 1;
	return count;
}

/* Little traffic uses little memory; much traffic uses the whole ring if the allowance permits. */
static void test_memory(void **state)
{
	const struct shape *shape = *state;
	struct ends *ends = open_ends(state);
	int i;

	for (i = 0; i < 300; i++) {
		assert_true(write_entry(ends, 100));
		read_all(ends);
	}
	assert_true(pages_of(ends) <= RING_LAP_FIRST / 4096 + 1);
	for (i = 0; i < 50000; i++) {
		while (!write_entry(ends, 100))
			read_all(ends);
	}
	if (shape->allowance)
		assert_int_equal(pages_of(ends), shape->size / 4096);
	else
		assert_true(pages_of(ends) <= RING_LAP_FREE / 4096 + 1);
	assert_true(atomic_load(&ends->allowance) >= 0);
	close_ends(ends);
}

/* With this header of the first entry the reader finds an entry (1) or an error (-1). */
static void check_header(struct ends *ends, uint64_t header, int found)
{
	struct ring_entry entry = { 0 };

	*ring_header(&ends->writer, 0) = header;
	assert_int_equal(ring_peek(&ends->reader, &entry), found);
}

static void test_hostile_header(void **state)
{
	struct ends *ends = open_ends(state);
	uint64_t kind = (uint64_t)1 << 32, length;
	unsigned bit;

	for (bit = 48; bit < 64; bit++)
		check_header(ends, 8 | kind | (uint64_t)1 << bit, -1);
	for (length = ring_longest(&ends->reader) + 1; length <= UINT32_MAX; length *= 2)
		check_header(ends, length | kind, -1);
	check_header(ends, UINT32_MAX | kind, -1);
	check_header(ends, 8, -1); /* kind 0 */
	check_header(ends, (uint64_t)7 << 40, -1);
	check_header(ends, ring_longest(&ends->reader) | kind, 1);
	close_ends(ends);
}

/* A skip must end exactly at the end of the ring. */
static void test_hostile_skip(void **state)
{
	struct ends *ends = open_ends(state);
	const uint64_t skip = (uint64_t)RING_SKIP << 32;
	const uint64_t lengths[] = { 0,
				     8,
				     ends->reader.size - 16,
				     ends->reader.size,
				     2 * ends->reader.size - 8,
				     UINT32_MAX,
				     UINT32_MAX - 7 };
	struct ring_entry entry = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		check_header(ends, lengths[i] | skip, -1);
		assert_int_equal(ends->reader.position, 0);
	}
	/* A skip over the whole ring leads to itself: each peek must return. */
	*ring_header(&ends->writer, 0) = (ends->reader.size - 8) | skip;
	for (i = 0; i < 10; i++)
		assert_int_not_equal(ring_peek(&ends->reader, &entry), 1);
	close_ends(ends);
}

/* Whatever position the reader publishes, the writer stays in the ring and returns. */
static void test_lying_tail(void **state)
{
	struct random_numbers numbers = random_start("ring, lying tail");
	struct ends *ends = open_ends(state);
	uint8_t *first = ends->writer.base, *end = first + 2 * ends->writer.size;
	uint64_t lies[3];
	int i;

	for (i = 0; i < REPEAT(200000); i++) {
		size_t length = random_below(&numbers, ring_longest(&ends->writer) + 1);
		uint64_t lie = random_below(&numbers, 2) ?
				       ends->writer.position + random_below(&numbers, 9) * 8 - 32 :
				       random_next(&numbers);
		uint8_t *payload;

		*ends->writer.tail = lie;
		payload = ring_reserve(&ends->writer, length);
		if (!payload)
			continue;
		assert_true(payload >= first && payload + length <= end);
		ring_commit(&ends->writer, length, 1, 0);
	}
	/* A tail ahead of the writer, or too far behind it, gives no room. */
	while (ring_reserve(&ends->writer, 1000))
		ring_commit(&ends->writer, 1000, 1, 0);
	lies[0] = ends->writer.position + 8;
	lies[1] = UINT64_MAX;
	lies[2] = ends->writer.position - ends->writer.size - 8;
	for (i = 0; i < 3; i++) {
		*ends->writer.tail = lies[i];
		assert_null(ring_reserve(&ends->writer, 1000));
	}
	close_ends(ends);
}

#define THREAD_MESSAGES REPEAT(100000)

struct writing {
	struct ring *ring;
	struct random_numbers numbers;
};

static size_t thread_length(const struct ring *ring, struct random_numbers *numbers)
{
	return random_below(numbers, random_below(numbers, 64) ? 100 : ring_longest(ring) + 1);
}

static void *write_all(void *arg)
{
	struct writing *writing = arg;
	uint64_t number;

	for (number = 0; number < THREAD_MESSAGES; number++) {
		size_t length = thread_length(writing->ring, &writing->numbers);
		uint8_t *payload;

		while (!(payload = ring_reserve(writing->ring, length)))
			sched_yield();
		pattern_fill(payload, length, number);
		ring_commit(writing->ring, length, kind_of(number), (uint8_t)number);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct random_numbers numbers = random_start("ring, two threads");
	struct ends *ends = open_ends(state);
	struct writing writing = { &ends->writer, numbers };
	uint64_t number, wrong = 0;
	pthread_t writer;

	assert_int_equal(pthread_create(&writer, NULL, write_all, &writing), 0);
	for (number = 0; number < THREAD_MESSAGES && !wrong; number++) {
		size_t length = thread_length(&ends->reader, &numbers);
		struct ring_entry entry = { 0 };
		int found;

		while (!(found = ring_peek(&ends->reader, &entry)))
			sched_yield();
		wrong += found != 1 || !entry_is(&entry, length, number);
		ring_consume(&ends->reader, &entry);
	}
	/* After an error the writer would wait for ever. */
	if (!wrong)
		pthread_join(writer, NULL);
	assert_int_equal(wrong, 0);
	close_ends(ends);
}

#define WITH(test, shape)                                                                          \
	{                                                                                          \
#test " " #shape, test, NULL, NULL, (void *)(uintptr_t) & (shape)                  \
	}
#define WITH_ALL(test) WITH(test, smallest), WITH(test, growing), WITH(test, fixed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ALL(test_empty),        WITH_ALL(test_random),
		WITH_ALL(test_full),         WITH_ALL(test_longest),
		WITH_ALL(test_memory),       WITH_ALL(test_hostile_header),
		WITH_ALL(test_hostile_skip), WITH_ALL(test_lying_tail),
		WITH_ALL(test_threads),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
