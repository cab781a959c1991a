/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <libpf/pf.h>
#include "base/number.h"
#include "host/channel.h"

#define RING_MOST ((size_t)256 << 10)
#define EAGER_MOST                                                                                 \
	(64u << 10) /* the largest default of eager_limit, without the header of the message */
#define MOST_ENTRIES (RING_MOST / RING_HEADER)
#define ROUNDS(times) quick_or((times) / 8, REPEAT(times))

/* The smallest ring, one that may grow to its full size, and one that may not grow. */
static const struct shape {
	size_t size;
	int64_t allowance;
	bool dropped; /* the file's descriptor is */
} smallest = { RING_SIZE_MIN, INT64_MAX }, dropped = { RING_MOST, INT64_MAX, true },
  growing = { RING_MOST, INT64_MAX }, fixed = { RING_MOST, 0 },
  large = { 4 * RING_LAP_AMPLE, INT64_MAX }, half = { RING_MOST, 2 * RING_MOST };

/* One ring, as its two processes see it. */
struct ends {
	struct channel channel;
	_Atomic int64_t allowance;
	struct ring writer, reader;
	size_t lengths[MOST_ENTRIES]; /* of what was written and not yet read */
	uint64_t written, read;
};

static struct ends *open_ends(void **state)
{
	const struct shape *shape = *state;
	struct ends *ends = calloc(1, sizeof(*ends));

	assert_non_null(ends);
	atomic_init(&ends->allowance, shape->allowance);
	assert_int_equal(channel_create(&ends->channel, shape->size, &ends->allowance, NULL),
			 PF_OK);
	if (shape->dropped)
		channel_drop_file(&ends->channel);
	ends->writer = ends->channel.ring;
	ends->reader = ends->channel.ring;
	return ends;
}

static void close_ends(struct ends *ends)
{
	channel_destroy(&ends->channel);
	free(ends);
}

/* Kind and tag depend on the number, so that a wrong entry is detected. */
static uint8_t kind_of(uint64_t number)
{
	return (uint8_t)(1 + number % 200);
}

static uint32_t tag_of(uint64_t number)
{
	return (uint32_t)(number * 0x9e3779b9u);
}

static bool write_entry(struct ends *ends, size_t length)
{
	uint8_t *payload = ring_reserve(&ends->writer, length);

	if (!payload)
		return false;
	assert_int_equal((uintptr_t)payload % 8, 0);
	pattern_fill(payload, length, ends->written);
	ring_commit(&ends->writer, length, kind_of(ends->written), tag_of(ends->written));
	ends->lengths[ends->written++ % MOST_ENTRIES] = length;
	return true;
}

static bool entry_is(const struct ring_entry *entry, size_t length, uint64_t number)
{
	return entry->length == length && entry->kind == kind_of(number) &&
	       entry->tag == tag_of(number) &&
	       pattern_differs(entry->payload, length, number) == length;
}

/* The first call may find only that the writer wrapped. */
static int look(struct ring *ring, struct ring_entry *entry)
{
	int found = ring_peek(ring, entry);

	return found ? found : ring_peek(ring, entry);
}

static void read_entry(struct ends *ends)
{
	struct ring_entry entry = { 0 };

	assert_true(ring_ready(&ends->reader));
	assert_int_equal(look(&ends->reader, &entry), 1);
	assert_true(entry_is(&entry, ends->lengths[ends->read % MOST_ENTRIES], ends->read));
	ring_consume(&ends->reader, &entry);
	ends->read++;
}

static void read_all(struct ends *ends)
{
	struct ring_entry entry = { 0 };

	while (ends->read < ends->written)
		read_entry(ends);
	assert_int_equal(look(&ends->reader, &entry), 0);
}

static void test_empty(void **state)
{
	struct ends *ends = open_ends(state);
	struct ring_entry entry = { 0 };

	assert_false(ring_ready(&ends->reader));
	assert_int_equal(ring_peek(&ends->reader, &entry), 0);
	/* An entry that is reserved but not committed is invisible. */
	memset(ring_reserve(&ends->writer, 100), 0xff, 100);
	assert_false(ring_ready(&ends->reader));
	assert_true(write_entry(ends, 0));
	read_all(ends);
	close_ends(ends);
}

/*
 * Random lengths: at the end of the ring there is enough room, just enough, or too little. A ring
 * grows only while it is new, so there are many.
 */
static void test_random(void **state)
{
	struct random_numbers numbers = random_start("ring, random lengths");
	unsigned round, i;

	for (round = 0; round < ROUNDS(500); round++) {
		struct ends *ends = open_ends(state);
		uint64_t shift = random_below(&numbers, 12), most = random_below(&numbers, 4) + 1;

		for (i = 0; i < 500; i++) {
			size_t longest = ring_longest(&ends->writer) >>
					 (random_below(&numbers, 64) ? shift : 0);
			uint64_t reads = random_below(&numbers, most + 1);

			write_entry(ends, random_below(&numbers, longest + 1));
			assert_true(ends->writer.position - ends->reader.position <=
				    ends->writer.size);
			for (; reads && ends->read < ends->written; reads--)
				read_entry(ends);
			/* Two in a row find the ring idle. */
			for (reads = random_below(&numbers, 16); reads > 12; reads--)
				ring_shrink(&ends->writer);
		}
		read_all(ends);
		close_ends(ends);
	}
}

static void test_full(void **state)
{
	struct ends *ends = open_ends(state);
	const size_t length = 56;
	int round;

	for (round = 0; round < 20; round++) {
		uint64_t before = ends->written;

		while (write_entry(ends, length))
			;
		assert_null(ring_reserve(&ends->writer, length));
		assert_true(ends->written - before >= RING_LAP_FIRST / 2 / ring_span(length));
		/* Clearing the next header must not overwrite the oldest entry. */
		read_all(ends);
	}
	close_ends(ends);
}

/* The longest entry has room although the reader does not publish every position. */
static void test_longest(void **state)
{
	struct ends *ends = open_ends(state);
	size_t longest = ring_longest(&ends->writer), step;

	for (step = 0; step < 3000; step++) {
		bool written = write_entry(ends, longest);

		/* At the latest after the reader has read everything. */
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

/* Pages of the ring that have memory. */
static size_t pages_of(struct ends *ends)
{
	unsigned char resident[RING_MOST / 4096];
	size_t count = 0, i, page = (size_t)sysconf(_SC_PAGESIZE);

	assert_int_equal(mincore(ends->writer.base, ends->writer.size, resident), 0);
	for (i = 0; i < ends->writer.size / page; i++)
		count += resident[i] & 1;
	return count;
}

/* A ring uses few pages with little traffic, and all of them if it may grow. */
static void test_memory(void **state)
{
	const struct shape *shape = *state;
	struct ends *ends = open_ends(state);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int i;

	for (i = 0; i < 300; i++) {
		assert_true(write_entry(ends, 100));
		read_all(ends);
	}
	/* No page more for an entry across the end of the lap. */
	assert_true(pages_of(ends) <= number_max(RING_LAP_FIRST / page, 1));
	for (i = 0; i < 50000; i++) {
		while (!write_entry(ends, 100))
			read_all(ends);
	}
	if (shape->allowance)
		assert_int_equal(pages_of(ends), ends->writer.size / page);
	else
		assert_true(pages_of(ends) <= RING_LAP_FIRST / page + 1);
	assert_true(atomic_load(&ends->allowance) >= 0);
	close_ends(ends);
}

/*
 * Long entries, each read at once: pages that were never used are dear, so the lap grows only after
 * many wraps. A writer without room does not wait for that.
 */
static void test_growth(void **state)
{
	struct ends *ends = open_ends(state);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), length = 6000;
	uint64_t bytes = 0;

	while (ends->writer.lap == RING_LAP_FIRST) {
		assert_true(pages_of(ends) <= RING_LAP_FIRST / page + 1);
		assert_true(write_entry(ends, length));
		read_all(ends);
		bytes += ring_span(length);
	}
	assert_true(bytes >= RING_WRAPS * RING_LAP_FIRST);
	close_ends(ends);

	ends = open_ends(state);
	while (ends->writer.position <= RING_LAP_FIRST)
		assert_true(write_entry(ends, length));
	assert_true(write_entry(ends, length));
	assert_int_equal(ends->writer.lap, 2 * RING_LAP_FIRST);
	close_ends(ends);
}

/* Entries lie in pages that the writer has made, and those of a grown lap are there before the entries. */
static void test_pages_ahead(void **state)
{
	struct ends *ends = open_ends(state);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), length = 2000;
	const struct ring *writer = &ends->writer;
	uint64_t made = 0;
	unsigned parts = 0;

	while (writer->lap < 4 * RING_PART) {
		assert_true(write_entry(ends, length));
		assert_true(writer->position + RING_HEADER <= writer->made);
		if (writer->made == made)
			continue;
		made = writer->made;
		parts++;
		if (made > 2 * RING_LAP_FIRST)
			assert_true(pages_of(ends) * page >= made);
	}
	/* Two for each doubling of the lap at most, and not one for each page. */
	assert_true(parts <= 12);
	close_ends(ends);
}

/* A writer whose entries are all read has room for the next; very long ones need a long lap. */
static void test_never_waits(void **state)
{
	static const size_t lengths[] = { 8, 100, 4096, 8184, 12000, 32768, 65536 };
	const struct shape *shape = *state;
	size_t i, most = shape->allowance ? RING_MOST / 4 : EAGER_MOST;
	int j;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && lengths[i] <= most; i++) {
		struct ends *ends = open_ends(state);

		for (j = 0; j < 1000; j++) {
			assert_true(write_entry(ends, lengths[i]));
			read_all(ends);
		}
		close_ends(ends);
	}
}

/* Nor does one wait whose reader is more than half a lap behind, if the lap may not grow. */
static void test_behind(void **state)
{
	const size_t length = 1000, most = RING_MOST / 16 * 5 / ring_span(length);
	struct ends *ends = open_ends(state);
	int i;

	for (i = 0; i < 2000; i++) {
		assert_true(write_entry(ends, length));
		if (ends->written - ends->read > most)
			read_entry(ends);
	}
	assert_int_equal(ends->writer.lap, RING_MOST / 2);
	close_ends(ends);
}

/* The length of the lap after many entries of this length, each read at once. */
static uint64_t lap_with(struct ends *ends, size_t length)
{
	int i;

	for (i = 0; i < 100 * RING_WRAPS; i++) {
		assert_true(write_entry(ends, length));
		read_all(ends);
	}
	return ends->writer.lap;
}

/* Entries that are read at once stay in the first lap with room for RING_LAP_ENTRIES of them. */
static void test_short(void **state)
{
	const size_t most = (RING_LAP_FIRST / RING_LAP_ENTRIES & ~7u) - 2 * RING_HEADER;
	struct ends *ends = open_ends(state);

	assert_int_equal(lap_with(ends, most), RING_LAP_FIRST);
	assert_int_equal(lap_with(ends, most + 1), 2 * RING_LAP_FIRST);
	assert_int_equal(lap_with(ends, 4 * most), 4 * RING_LAP_FIRST);
	ends->writer.entries = 0;
	assert_int_equal(lap_with(ends, 8 * most), 4 * RING_LAP_FIRST);
	close_ends(ends);
}

/* A writer that is ahead does not wait for room up to an ample lap, and does beyond it. */
static void test_ahead(void **state)
{
	const size_t length = 6000;
	struct ends *ends = open_ends(state);
	unsigned i;

	while (write_entry(ends, length))
		;
	assert_int_equal(ends->writer.lap, RING_LAP_AMPLE);
	/* Then only after many wraps. */
	for (i = 0; ends->writer.lap == RING_LAP_AMPLE; i++) {
		read_all(ends);
		while (write_entry(ends, length))
			;
	}
	assert_true(i >= RING_WRAPS);
	close_ends(ends);
}

/* A ring that nobody reads leaves most of what it may have to the others. */
static void test_allowance(void **state)
{
	struct ends *ends = open_ends(state);
	const struct ring *ring = &ends->writer;
	const int64_t all = RING_MOST;
	int64_t taken, left;

	atomic_store(&ends->allowance, all);
	while (write_entry(ends, 100))
		;
	taken = (int64_t)(ring->taken - RING_LAP_FIRST);
	left = atomic_load(&ends->allowance);
	assert_true(ring->refused);
	assert_true(taken > 0 && ring->taken >= number_max(ring->lap, ring->made));
	assert_int_equal(left, all - taken);
	assert_true(left < RING_PART_OF_ALLOWANCE * (int64_t)(2 * ring->lap - ring->taken));
	assert_true(left > all / 2);
	ring_give_back(&ends->writer);
	assert_int_equal(atomic_load(&ends->allowance), all);
	close_ends(ends);
}

/* Whether the ring takes nothing from the allowance, and has the memory of the first lap alone. */
static bool is_shrunk(struct ends *ends)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return ends->writer.lap == RING_LAP_FIRST && atomic_load(&ends->allowance) == INT64_MAX &&
	       pages_of(ends) <= RING_LAP_FIRST / page + 1;
}

static void grow_to(struct ends *ends, uint64_t lap)
{
	while (ends->writer.lap < lap)
		assert_true(write_entry(ends, 1000));
	read_all(ends);
}

/* Wherever the position is, an idle ring shrinks, and works and grows afterwards. */
static void test_shrink(void **state)
{
	struct ends *ends = open_ends(state);
	struct ring_entry entry;
	unsigned more;

	for (more = 0; more < 100; more++) {
		grow_to(ends, RING_MOST / 2);
		for (; ends->written % 100 != more; read_all(ends))
			assert_true(write_entry(ends, 1000));
		assert_true(atomic_load(&ends->allowance) < INT64_MAX);
		assert_false(ring_shrink(&ends->writer));
		assert_false(is_shrunk(ends));
		if (ring_shrink(&ends->writer)) {
			/* The reader comes to the start first. */
			assert_false(ring_shrink(&ends->writer));
			assert_false(is_shrunk(ends));
			assert_int_equal(look(&ends->reader, &entry), 0);
			assert_false(ring_shrink(&ends->writer));
		}
		assert_true(is_shrunk(ends));
	}
	close_ends(ends);
}

/* A ring that is written to, or not read, keeps its memory. */
static void test_no_shrink(void **state)
{
	struct ends *ends = open_ends(state);
	uint64_t position;
	unsigned i;

	grow_to(ends, RING_MOST / 2);
	for (i = 0; i < 1000; i++) {
		assert_false(ring_shrink(&ends->writer));
		assert_true(write_entry(ends, 1000));
		read_all(ends);
	}
	/* Until there are unread entries at the start and at the end. */
	do {
		while (write_entry(ends, 1000))
			;
		for (i = 0; i < 10; i++)
			read_entry(ends);
		write_entry(ends, 1000);
		position = ends->writer.position;
		for (i = 0; i < 3; i++)
			assert_false(ring_shrink(&ends->writer));
		assert_int_equal(ends->writer.position, position);
	} while (position / RING_MOST == ends->reader.position / RING_MOST);
	assert_true(ends->writer.lap >= RING_MOST / 2);
	read_all(ends);
	close_ends(ends);
}

/* Of memory that is locked (mlockall): the kernel frees none of it. */
static bool locked;

/* The linker replaces the function by this one. */
int __wrap_madvise(void *start, size_t length, int advice);
int __real_madvise(void *start, size_t length, int advice);

int __wrap_madvise(void *start, size_t length, int advice)
{
	if (!locked || advice != MADV_REMOVE)
		return __real_madvise(start, length, advice);
	errno = EINVAL;
	return -1;
}

/* A ring whose memory the kernel does not free keeps its lap, and what that took from the allowance. */
static void test_locked(void **state)
{
	struct ends *ends = open_ends(state);
	int64_t left;
	unsigned i;

	grow_to(ends, RING_MOST / 2);
	left = atomic_load(&ends->allowance);
	locked = true;
	for (i = 0; i < 4; i++) {
		ring_shrink(&ends->writer);
		read_all(ends);
	}
	locked = false;
	assert_int_equal(ends->writer.position & (RING_MOST - 1), 0);
	assert_int_equal(ends->writer.lap, RING_MOST / 2);
	assert_int_equal(atomic_load(&ends->allowance), left);
	assert_false(ring_shrink(&ends->writer));
	assert_int_equal(ends->writer.lap, RING_LAP_FIRST);
	close_ends(ends);
}

/* A long entry takes from the allowance, too, and has its room although the allowance is used up. */
static void test_forced(void **state)
{
	struct ends *ends = open_ends(state);
	unsigned i;

	for (i = 0; i < 10; i++) {
		assert_true(write_entry(ends, EAGER_MOST));
		read_all(ends);
		assert_true(ends->writer.refused);
		assert_int_equal(atomic_load(&ends->allowance),
				 -(int64_t)(number_max(ends->writer.lap, ends->writer.made) -
					    RING_LAP_FIRST));
	}
	assert_int_equal(ends->writer.lap, RING_LAP_FORCED);
	close_ends(ends);
}

static void test_hostile_header(void **state)
{
	struct ends *ends = open_ends(state);
	uint64_t kind = (uint64_t)1 << RING_KIND, length;
	struct ring_entry entry = { 0 };

	for (length = ring_longest(&ends->reader) + 1; length <= RING_LENGTH_MOST; length *= 2) {
		atomic_store(ring_header(&ends->writer, 0), length | kind);
		assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	}
	atomic_store(ring_header(&ends->writer, 0), RING_LENGTH_MOST | kind);
	assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	atomic_store(ring_header(&ends->writer, 0), 8); /* kind 0 */
	assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	atomic_store(ring_header(&ends->writer, 0), (uint64_t)7 << RING_TAG);
	assert_int_equal(ring_peek(&ends->reader, &entry), -1);
	atomic_store(ring_header(&ends->writer, 0), ring_longest(&ends->reader) | kind);
	assert_int_equal(ring_peek(&ends->reader, &entry), 1);
	close_ends(ends);
}

/* An endless chain of skips: each call must return, and the position stays at a start of the ring. */
static void test_hostile_skip(void **state)
{
	struct ends *ends = open_ends(state);
	struct ring_entry entry = { 0 };
	unsigned i;

	atomic_store(ring_header(&ends->writer, 0), (uint64_t)RING_SKIP << RING_KIND | 8);
	for (i = 1; i <= 10; i++) {
		assert_int_not_equal(ring_peek(&ends->reader, &entry), 1);
		assert_int_equal(ends->reader.position, i * ends->reader.size);
	}
	close_ends(ends);
}

/* Whatever tail a reader stores, the writer stays inside the ring and returns. */
static void test_lying_tail(void **state)
{
	struct random_numbers numbers = random_start("ring, lying tail");
	struct ends *ends = open_ends(state);
	uint8_t *first = ends->writer.base, *end = first + 2 * ends->writer.size;
	unsigned i;

	for (i = 0; i < ROUNDS(200000); i++) {
		size_t length = random_below(&numbers, ring_longest(&ends->writer) + 1);
		uint64_t lie = random_below(&numbers, 2) ?
				       ends->writer.position + random_below(&numbers, 9) * 8 - 32 :
				       random_next(&numbers);
		uint8_t *payload;

		atomic_store(ends->writer.tail, lie);
		ring_shrink(&ends->writer);
		ring_shrink(&ends->writer);
		payload = ring_reserve(&ends->writer, length);
		if (!payload)
			continue;
		assert_true(payload >= first && payload + length <= end);
		ring_commit(&ends->writer, length, 1, 0);
	}
	/* A tail ahead of the writer, or too far behind it, is no room. */
	while (ring_reserve(&ends->writer, 1000))
		ring_commit(&ends->writer, 1000, 1, 0);
	atomic_store(ends->writer.tail, ends->writer.position + 8);
	assert_null(ring_reserve(&ends->writer, 1000));
	atomic_store(ends->writer.tail, UINT64_MAX);
	assert_null(ring_reserve(&ends->writer, 1000));
	atomic_store(ends->writer.tail, ends->writer.position - ends->writer.size - 8);
	assert_null(ring_reserve(&ends->writer, 1000));
	close_ends(ends);
}

static void test_past_cache(void **state)
{
	enum { PLACES = 64, LONGEST = 300 };
	uint8_t from[PLACES + LONGEST], to[2 * PLACES + LONGEST];
	size_t place, length, i;

	(void)state;
	pattern_fill(from, sizeof(from), 1);
	for (place = 0; place < PLACES; place++) {
		for (length = 0; length <= LONGEST; length++) {
			const uint8_t *source = from + (place * 7 + length) % PLACES;
			uint8_t *copy = to + place;

			memset(to, 0, sizeof(to));
			past_cache_copy(copy, source, length);
			assert_memory_equal(copy, source, length);
			for (i = 0; i < sizeof(to); i++)
				assert_true(!to[i] || (i >= place && i < place + length));
		}
	}
}

static void lines_take(struct ring *ring, unsigned count, uint64_t ns)
{
	while (count--)
		ring_line_took(ring, ns);
}

/* It takes as many slow lines, or quick ones, to change whether the reader counts as far. */
static void test_far(void **state)
{
	struct ends *ends = open_ends(state);
	struct ring *ring = &ends->writer;
	unsigned votes;

	assert_false(ring->far);
	lines_take(ring, 100, RING_FAR_NS);
	lines_take(ring, RING_FAR_VOTES - 1, 1000000000);
	assert_false(ring->far);
	lines_take(ring, 1, RING_FAR_NS);
	lines_take(ring, 1, RING_FAR_NS + 1);
	assert_false(ring->far);
	lines_take(ring, 100, RING_FAR_NS + 1);
	assert_true(ring->far);
	/* Lines that were here say nothing. */
	lines_take(ring, 100, RING_NEAR_NS - 1);
	lines_take(ring, RING_FAR_VOTES - 1, RING_NEAR_NS);
	assert_true(ring->far);
	lines_take(ring, 1, RING_NEAR_NS);
	assert_false(ring->far);
	/* A tail that was loaded before says nothing; the next one is measured soon. */
	votes = ring->far_votes;
	atomic_store(ring->tail, ring->tail_loaded);
	ring_measure(ring);
	assert_int_equal(ring->far_entries, RING_FAR_ENTRIES / 4);
	assert_int_equal(ring->far_votes, votes);
	atomic_store(ring->tail, 8);
	ring_measure(ring);
	assert_int_equal(ring->tail_loaded, 8);
	assert_int_equal(ring->far_entries, RING_FAR_ENTRIES);
	close_ends(ends);
}

#define THREAD_MESSAGES ROUNDS(100000)

struct writing {
	struct ring *ring;
	struct random_numbers numbers;
	uint8_t *bytes; /* 64 more than the longest entry */
};

static size_t thread_length(const struct ring *ring, struct random_numbers *numbers)
{
	return random_below(numbers, random_below(numbers, 64) ? 100 : ring_longest(ring) + 1);
}

static void *write_all(void *arg)
{
	struct writing *writing = arg;
	unsigned shrinks;
	uint64_t number;

	for (number = 0; number < THREAD_MESSAGES; number++) {
		size_t length = thread_length(writing->ring, &writing->numbers);
		uint8_t *payload;

		/* The second call finds the ring idle, wherever the reader is meanwhile. */
		for (shrinks = number % 64 ? 0 : 4; shrinks; shrinks--)
			ring_shrink(writing->ring);
		while (!(payload = ring_reserve(writing->ring, length)))
			sched_yield();
		/* Past the caches and not, from any place in a line. */
		writing->ring->far = number / 64 % 2;
		writing->ring->far_entries = UINT_MAX;
		pattern_fill(writing->bytes + number % 64, length, number);
		ring_fill(writing->ring, payload, writing->bytes + number % 64, length);
		ring_commit(writing->ring, length, kind_of(number), tag_of(number));
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct random_numbers numbers = random_start("ring, two threads");
	struct ends *ends = open_ends(state);
	struct writing writing = { &ends->writer, numbers,
				   test_alloc(ring_longest(&ends->writer) + 64) };
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
	/* After an error the reader has stopped, and the writer would never end. */
	if (!wrong) {
		pthread_join(writer, NULL);
		free(writing.bytes);
	}
	assert_int_equal(wrong, 0);
	close_ends(ends);
}

#define WITH(test, shape)                                                                          \
	{                                                                                          \
#test " " #shape, test, NULL, NULL, (void *)(uintptr_t) & (shape)                  \
	}
#define WITH_ALL(test) WITH(test, smallest), WITH(test, growing), WITH(test, fixed)

/* ---- no memory: vm.overcommit_memory=2 at its limit ---- */

static bool no_memory;

/* The linker replaces the functions by these. */
ssize_t __wrap_pwritev(int fd, const struct iovec *pieces, int count, off_t offset);
ssize_t __real_pwritev(int fd, const struct iovec *pieces, int count, off_t offset);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);

ssize_t __wrap_pwritev(int fd, const struct iovec *pieces, int count, off_t offset)
{
	if (!no_memory)
		return __real_pwritev(fd, pieces, count, offset);
	errno = ENOSPC;
	return -1;
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (!no_memory)
		return __real_fallocate(fd, mode, offset, length);
	errno = ENOSPC;
	return -1;
}

static blkcnt_t blocks(const struct ends *ends)
{
	struct stat file;

	assert_int_equal(fstat(ends->channel.fd, &file), 0);
	return file.st_blocks;
}

/* Write entries of that length until there is no room; returns how many. */
static unsigned fill_up(struct ends *ends, size_t length)
{
	unsigned count = 0;
	uint8_t *payload;

	while ((payload = ring_reserve(&ends->writer, length))) {
		memset(payload, 1, length);
		ring_commit(&ends->writer, length, 1, 0);
		count++;
	}
	return count;
}

static unsigned drain_ends(struct ends *ends)
{
	unsigned count = 0, empty = 0;
	struct ring_entry entry = { 0 };
	int found;

	/* Behind an entry that skips, there may be more. */
	while (empty < 2) {
		found = ring_peek(&ends->reader, &entry);
		assert_true(found >= 0);
		empty = found ? 0 : empty + 1;
		if (found) {
			ring_consume(&ends->reader, &entry);
			count++;
		}
	}
	ring_publish(&ends->reader);
	return count;
}

/*
 * A store to a page that the kernel refuses raises SIGBUS. So a ring that gets no more pages goes on with
 * those that it has, and asks for none by a store.
 */
static void test_no_memory(void **state)
{
	static const size_t lengths[] = { 8, 100, 1000, 3000 };
	struct ends *ends = open_ends(state);
	blkcnt_t before = blocks(ends);
	unsigned round, count, i;

	no_memory = true;
	for (round = 0; round < 100; round++) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			count = fill_up(ends, lengths[i]);
			assert_true(count > 0);
			assert_int_equal(drain_ends(ends), count);
		}
	}
	assert_null(ring_reserve(&ends->writer, 2 * RING_LAP_FIRST));
	assert_int_equal(blocks(ends), before);
	no_memory = false;
	assert_int_equal(fill_up(ends, 2 * RING_LAP_FIRST) > 1, 1);
	assert_true(drain_ends(ends) > 1);
	/* Once more with what it got meanwhile. */
	no_memory = true;
	before = blocks(ends);
	for (round = 0; round < 100; round++) {
		count = fill_up(ends, 2 * RING_LAP_FIRST);
		assert_true(count > 0);
		assert_int_equal(drain_ends(ends), count);
	}
	assert_int_equal(blocks(ends), before);
	no_memory = false;
	close_ends(ends);
}

static void test_no_memory_at_first(void **state)
{
	_Atomic int64_t allowance = 0;
	struct channel channel;

	no_memory = true;
	assert_status(channel_create(&channel, RING_MOST, &allowance, NULL), PF_ERR_MEMORY);
	no_memory = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ALL(test_empty),
		WITH_ALL(test_random),
		WITH_ALL(test_full),
		WITH_ALL(test_longest),
		WITH_ALL(test_memory),
		WITH_ALL(test_hostile_header),
		WITH_ALL(test_hostile_skip),
		WITH_ALL(test_lying_tail),
		WITH_ALL(test_threads),
		WITH(test_past_cache, growing),
		WITH(test_far, growing),
		WITH(test_random, dropped),
		WITH(test_full, dropped),
		WITH(test_growth, growing),
		WITH(test_growth, dropped),
		WITH(test_short, growing),
		WITH(test_ahead, large),
		WITH(test_allowance, growing),
		WITH(test_shrink, growing),
		WITH(test_shrink, dropped),
		WITH(test_no_shrink, growing),
		WITH(test_locked, growing),
		WITH(test_forced, fixed),
		WITH(test_pages_ahead, growing),
		WITH(test_pages_ahead, dropped),
		WITH(test_never_waits, growing),
		WITH(test_never_waits, fixed),
		WITH(test_behind, half),
		WITH(test_no_memory, growing),
		cmocka_unit_test(test_no_memory_at_first),
	};

#ifdef __SANITIZE_THREAD__
	/* The only ones with threads. */
	cmocka_set_test_filter("test_threads *");
#endif
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
