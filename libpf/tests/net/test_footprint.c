/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heap memory per peer over the network, malloc's own overhead included: contexts that all know
 * each other. README.md gives the figures.
 */
#include "unit.h"

#include <malloc.h>
#include <stdatomic.h>
#include <unistd.h>

#include "memory/residency.h"

#define CONTEXTS 32
#define PEERS (CONTEXTS * (CONTEXTS - 2)) /* each opens all others; one of them is in warm_up */
#define UNUSED_MOST 400
#define AT_REST_MOST 1024
#define PATIENCE 30000   /* ms */
#define SETTLED 1500     /* ms */
#define HINTS_OVER 20000 /* us */

static _Atomic int64_t heap;

static int64_t bytes_of(void *memory)
{
	return memory ? (int64_t)(malloc_usable_size(memory) + sizeof(size_t)) : 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
	void *memory = __real_malloc(size);

	heap += bytes_of(memory);
	return memory;
}

void *__wrap_calloc(size_t count, size_t size)
{
	void *memory = __real_calloc(count, size);

	heap += bytes_of(memory);
	return memory;
}

void *__wrap_realloc(void *memory, size_t size)
{
	int64_t before = bytes_of(memory);
	void *moved = __real_realloc(memory, size);

	if (moved)
		heap += bytes_of(moved) - before;
	return moved;
}

void __wrap_free(void *memory)
{
	heap -= bytes_of(memory);
	__real_free(memory);
}

static pf_context *contexts[CONTEXTS];
static uint8_t addresses[CONTEXTS][PF_ADDRESS_MAX];
static size_t lengths[CONTEXTS];
static pf_peer *peers[CONTEXTS][CONTEXTS]; /* of a context, to a context */
static unsigned received;

static void receive(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		    void *arg)
{
	received++;
}

static void completed(pf_context *context, const pf_completion *completion)
{
	assert_ok(completion->status);
	*(bool *)completion->arg = true;
}

static void progress(unsigned a, unsigned b)
{
	pf_progress(contexts[a]);
	pf_progress(contexts[b]);
}

static void put(unsigned from, unsigned to)
{
	uint64_t source = 1000 * from + to, destination = 0;
	bool done = false;

	assert_pending(pf_put(peers[from][to], &source, (uint64_t)(uintptr_t)&destination,
			      sizeof(source), 0, completed, &done));
	while (!done)
		progress(from, to);
	assert_int_equal(destination, source);
}

static void send_message(unsigned from, unsigned to)
{
	unsigned before = received;

	assert_status(pf_send(peers[from][to], 1, "x", 1, NULL, 0), PF_OK);
	while (received == before)
		progress(from, to);
	assert_int_equal(received, before + 1);
}

static void open_peer(unsigned from, unsigned to)
{
	assert_ok(pf_peer_open(contexts[from], addresses[to], lengths[to], NULL, &peers[from][to]));
}

static void open_contexts(void)
{
	const pf_callbacks callbacks = { .size = sizeof(callbacks), .receive = receive };
	pf_options options;
	unsigned i;

	setenv("LIBPF_CALIBRATE", "0", 1);
	pf_options_init(&options, sizeof(options), NULL);
	options.network = PF_NETWORK_ALWAYS;
	options.if_include = "lo";
	for (i = 0; i < CONTEXTS; i++) {
		lengths[i] = sizeof(addresses[i]);
		assert_ok(pf_open(&options, &callbacks, &contexts[i]));
		assert_ok(pf_address(contexts[i], addresses[i], &lengths[i]));
	}
}

static void progress_all(void)
{
	unsigned i;

	for (i = 0; i < CONTEXTS; i++)
		pf_progress(contexts[i]);
}

/* Bytes per peer on top of `before`: progress until they are at most `most`, or PATIENCE ends. */
static int64_t cost(int64_t before, unsigned count, int64_t most)
{
	int64_t each = 0;
	unsigned tries;

	for (tries = 0; tries < PATIENCE; tries++) {
		progress_all();
		each = (heap - before) / count;
		if (each <= most)
			break;
		usleep(1000);
	}
	return each;
}

/* Progress until the heap has not changed for longer than an association stays idle. */
static void settle(void)
{
	int64_t before = 0;
	unsigned tries, same;

	for (tries = same = 0; tries < PATIENCE && same < SETTLED; tries++) {
		same = heap == before ? same + 1 : 0;
		before = heap;
		progress_all();
		usleep(1000);
	}
	assert_int_equal(same, SETTLED);
}

/*
 * Allocate what a context allocates once: at first use, or, without PROCMAP_QUERY, the list of
 * mappings after a row of short accesses.
 */
static void warm_up(void)
{
	unsigned a, i;

	for (a = 0; a < CONTEXTS; a++)
		open_peer(a, a ^ 1);
	for (i = 0; i < RESIDENCY_STEADY_LOOKS; i++) {
		for (a = 0; a < CONTEXTS; a++)
			put(a, a ^ 1);
		/* Each put needs a look: the hints of the last are over. */
		usleep(HINTS_OVER);
	}
	for (a = 0; a < CONTEXTS; a++)
		send_message(a, a ^ 1);
	settle();
}

static void check(const char *what, int64_t before, int64_t most)
{
	int64_t each = cost(before, PEERS, most);

	print_message("# %s: %lld bytes each\n", what, (long long)each);
	assert_in_range(each, 1, most);
}

static void test_peers(void **state)
{
	int64_t before, most = 0;
	unsigned a, b;

	open_contexts();
	warm_up();
	before = heap;
	for (a = 0; a < CONTEXTS; a++) {
		for (b = 0; b < CONTEXTS; b++) {
			if (!peers[a][b] && a != b)
				open_peer(a, b);
		}
	}
	check("never used", before, UNUSED_MOST);

	/* One side of each pair only answers; its record must be no larger. */
	for (a = 0; a < CONTEXTS; a++) {
		for (b = a + 1; b < CONTEXTS; b++) {
			int64_t unused = heap;

			put(a, b);
			/* On a busy machine some that were used before are at rest already. */
			if (heap - unused > most)
				most = heap - unused;
		}
	}
	assert_true(most > 4 * AT_REST_MOST);
	check("at rest after puts", before, AT_REST_MOST);

	for (a = 0; a < CONTEXTS; a++) {
		for (b = 0; b < a; b++)
			send_message(a, b);
	}
	assert_true(heap - before > 4ll * PEERS * AT_REST_MOST);
	check("at rest after messages", before, AT_REST_MOST);
	for (a = 0; a < CONTEXTS; a++)
		pf_close(contexts[a]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peers),
	};

	return cmocka_run_group_tests_name("footprint", tests, NULL, NULL);
}
