/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <pthread.h>

#include "pf.h"
#include "transport/host/channel.h"

#define RING_SIZE 16384
#define MOST_ENTRIES (RING_SIZE / RING_HEADER)

/* The two ends of one ring, as the two processes hold them. */
struct ends {
	struct channel channel;
	struct ring writer, reader;
};

static int open_ends(void **state)
{
	struct ends *ends = calloc(1, sizeof(*ends));

	if (!ends || channel_create(&ends->channel, RING_SIZE) != PF_OK)
		return -1;
	ends->writer = ends->channel.ring;
	ends->reader = ends->channel.ring;
	*state = ends;
	return 0;
}

static int close_ends(void **state)
{
	struct ends *ends = *state;

	channel_destroy(&ends->channel);
	free(ends);
	return 0;
}

/* Kind and tag follow from the number, so that a mixed up entry shows. */
static bool write_entry(struct ring *ring, size_t length, uint64_t number)
{
	uint8_t *payload = ring_reserve(ring, length);

	if (!payload)
		return false;
	assert_int_equal((uintptr_t)payload % 8, 0);
	pattern_fill(payload, length, number);
	ring_commit(ring, length, (uint8_t)(1 + number % 255), (uint8_t)number);
	return true;
}

static bool entry_is(const struct ring_entry *entry, size_t length, uint64_t number)
{
	return entry->length == length && entry->kind == 1 + number % 255 &&
	       entry->tag == (uint8_t)number &&
	       pattern_differs(entry->payload, length, number) == length;
}

static bool read_entry(struct ring *ring, size_t length, uint64_t number)
{
	struct ring_entry entry;

	if (!ring_ready(ring) || ring_peek(ring, &entry) != 1)
		return false;
	assert_true(entry_is(&entry, length, number));
	ring_consume(ring, &entry);
	return true;
}

static void test_empty(void **state)
{
	struct ends *ends = *state;
	struct ring_entry entry;

	assert_false(ring_ready(&ends->reader));
	assert_int_equal(ring_peek(&ends->reader, &entry), 0);
	/* What is reserved but not committed is not there. */
	memset(ring_reserve(&ends->writer, 100), 0xff, 100);
	assert_false(ring_ready(&ends->reader));
	assert_true(write_entry(&ends->writer, 0, 1));
	assert_true(read_entry(&ends->reader, 0, 1));
	assert_false(ring_ready(&ends->reader));
}

/* Lengths that leave a little room, none, or too little, at every position of the wrap. */
static void test_random(void **state)
{
	struct random_numbers numbers = random_start("ring, random lengths");
	struct ends *ends = *state;
	size_t lengths[MOST_ENTRIES];
	uint64_t written = 0, read = 0;
	int i;

	for (i = 0; i < 200000; i++) {
		size_t longest = random_below(&numbers, 16) ? 200 : ring_longest(&ends->writer);
		size_t length = random_below(&numbers, longest + 1);
		size_t *slot = &lengths[written % MOST_ENTRIES];

		if (write_entry(&ends->writer, length, written)) {
			*slot = length;
			written++;
		}
		assert_true(ends->writer.position - ends->reader.position <= RING_SIZE);
		for (; read < written && random_below(&numbers, 3); read++)
			assert_true(read_entry(&ends->reader, lengths[read % MOST_ENTRIES], read));
	}
	for (; read < written; read++)
		assert_true(read_entry(&ends->reader, lengths[read % MOST_ENTRIES], read));
	assert_false(ring_ready(&ends->reader));
	assert_true(written > 50000);
}

static void test_full(void **state)
{
	struct ends *ends = *state;
	uint64_t written = 0, read = 0;

	while (write_entry(&ends->writer, 56, written))
		written++;
	assert_in_range(written, RING_SIZE / 64 - 2, RING_SIZE / 64);
	assert_null(ring_reserve(&ends->writer, 56));
	/* A header cleared for the next entry must not have hit the oldest one. */
	while (read < written)
		assert_true(read_entry(&ends->reader, 56, read++));
	assert_true(write_entry(&ends->writer, 56, written));
	assert_true(read_entry(&ends->reader, 56, read));
}

/* The reader publishes its position only now and then: the longest must find room all the same. */
static void test_longest(void **state)
{
	struct ends *ends = *state;
	size_t longest = ring_longest(&ends->writer);
	uint64_t number = 0;
	size_t step;

	for (step = 0; step < RING_SIZE / 8; step++) {
		assert_true(write_entry(&ends->writer, longest, number));
		assert_true(read_entry(&ends->reader, longest, number++));
		assert_true(write_entry(&ends->writer, step % 64, number));
		assert_true(read_entry(&ends->reader, step % 64, number++));
	}
}

static void test_hostile_header(void **state)
{
	struct ends *ends = *state;
	uint64_t kind = (uint64_t)1 << 32, length;
	struct ring_entry entry;
	unsigned bit;

	for (bit = 48; bit < 64; bit++) {
		atomic_store(ring_header(&ends->writer, 0), 8 | kind | (uint64_t)1 << bit);
		assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	}
	for (length = ring_longest(&ends->reader) + 1; length <= UINT32_MAX; length *= 2) {
		atomic_store(ring_header(&ends->writer, 0), length | kind);
		assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	}
	atomic_store(ring_header(&ends->writer, 0), UINT32_MAX | kind);
	assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	atomic_store(ring_header(&ends->writer, 0), 8); /* kind 0 */
	assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	atomic_store(ring_header(&ends->writer, 0), (uint64_t)7 << 40);
	assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	atomic_store(ring_header(&ends->writer, 0), ring_longest(&ends->reader) | kind);
	assert_int_equal(ring_peek(&ends->reader, &entry), 1);
}

/* Whatever a reader claims to have read, the writer stays inside the ring and comes back. */
static void test_lying_tail(void **state)
{
	struct random_numbers numbers = random_start("ring, lying tail");
	struct ends *ends = *state;
	uint8_t *first = ends->writer.base, *end = first + 2 * RING_SIZE;
	int i;

	for (i = 0; i < 200000; i++) {
		size_t length = random_below(&numbers, ring_longest(&ends->writer) + 1);
		uint64_t lie = random_below(&numbers, 2) ?
				       ends->writer.position + random_below(&numbers, 9) * 8 - 32 :
				       random_next(&numbers);
		uint8_t *payload;

		atomic_store(ends->writer.tail, lie);
		payload = ring_reserve(&ends->writer, length);
		if (!payload)
			continue;
		assert_true(payload >= first && payload + length <= end);
		ring_commit(&ends->writer, length, 1, 0);
	}
	/* A tail ahead of the writer is no room, however far ahead. */
	while (ring_reserve(&ends->writer, 1000))
		ring_commit(&ends->writer, 1000, 1, 0);
	atomic_store(ends->writer.tail, ends->writer.position + 8);
	assert_null(ring_reserve(&ends->writer, 1000));
	atomic_store(ends->writer.tail, UINT64_MAX);
	assert_null(ring_reserve(&ends->writer, 1000));
	atomic_store(ends->writer.tail, ends->writer.position - RING_SIZE - 8);
	assert_null(ring_reserve(&ends->writer, 1000));
}

#define THREAD_MESSAGES 100000

struct writing {
	struct ring *ring;
	struct random_numbers numbers;
};

static size_t thread_length(struct random_numbers *numbers)
{
	return random_below(numbers, random_below(numbers, 16) ? 100 : RING_SIZE / 2 - 15);
}

static void *write_all(void *arg)
{
	struct writing *writing = arg;
	uint64_t number;

	for (number = 0; number < THREAD_MESSAGES; number++) {
		size_t length = thread_length(&writing->numbers);

		while (!write_entry(writing->ring, length, number))
			sched_yield();
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct random_numbers numbers = random_start("ring, two threads");
	struct ends *ends = *state;
	struct writing writing = { &ends->writer, numbers };
	uint64_t number;
	pthread_t writer;
	bool right = true;

	assert_int_equal(pthread_create(&writer, NULL, write_all, &writing), 0);
	for (number = 0; number < THREAD_MESSAGES; number++) {
		size_t length = thread_length(&numbers);
		struct ring_entry entry;
		int found;

		while (!(found = ring_peek(&ends->reader, &entry)))
			sched_yield();
		right = right && found == 1 && entry_is(&entry, length, number);
		ring_consume(&ends->reader, &entry);
		if (found != 1)
			break;
	}
	/* Not before, for the writer would go on without its ring. */
	if (number == THREAD_MESSAGES)
		pthread_join(writer, NULL);
	assert_true(right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_empty, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_random, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_full, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_longest, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_hostile_header, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_lying_tail, open_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_threads, open_ends, close_ends),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
