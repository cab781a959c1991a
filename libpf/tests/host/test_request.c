/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "host/request.h"

static char object_memory[4096]; /* only addresses in it matter */

/* Only compared: two addresses that differ. */
static const pf_peer *peer(int i)
{
	static char peers[2];

	return (const pf_peer *)&peers[i];
}

static uint64_t open_request(struct requests *requests, enum request_kind kind, void *object,
			     const pf_peer *peer)
{
	return request_open(requests, kind, object, peer, NULL);
}

static void test_open_close(void **state)
{
	struct requests requests = { 0 };
	uint64_t a = open_request(&requests, REQUEST_BLOCK, object_memory, peer(0));
	uint64_t b = open_request(&requests, REQUEST_ATOMIC, object_memory + 1, NULL);

	assert_true(a && b && a != b);
	assert_ptr_equal(request_close(&requests, b, REQUEST_ATOMIC, NULL), object_memory + 1);
	assert_ptr_equal(request_close(&requests, a, REQUEST_BLOCK, peer(0)), object_memory);
	/* Spent. */
	assert_null(request_close(&requests, a, REQUEST_BLOCK, peer(0)));
	assert_null(request_close(&requests, b, REQUEST_ATOMIC, NULL));
	requests_destroy(&requests);
	requests_destroy(&requests);
}

static void test_stale(void **state)
{
	struct requests requests = { 0 };
	uint64_t old[100];
	int i, j;

	for (i = 0; i < 100; i++) {
		old[i] = open_request(&requests, REQUEST_BLOCK, object_memory + i, peer(0));
		assert_true(old[i] != 0);
		for (j = 0; j < i; j++) {
			assert_true(old[j] != old[i]);
			assert_null(request_close(&requests, old[j], REQUEST_BLOCK, peer(0)));
		}
		assert_ptr_equal(request_close(&requests, old[i], REQUEST_BLOCK, peer(0)),
				 object_memory + i);
	}
	/* One slot did all that. */
	assert_int_equal(requests.count, 64);
	requests_destroy(&requests);
}

static void test_wrong_peer_or_kind(void **state)
{
	struct requests requests = { 0 };
	uint64_t token = open_request(&requests, REQUEST_RESOLVE, object_memory, peer(0));

	assert_null(request_close(&requests, token, REQUEST_RESOLVE, peer(1)));
	assert_null(request_close(&requests, token, REQUEST_RESOLVE, NULL));
	assert_null(request_close(&requests, token, REQUEST_BLOCK, peer(0)));
	assert_null(request_close(&requests, token, REQUEST_NONE, peer(0)));
	/* None of these spent it. */
	assert_ptr_equal(request_close(&requests, token, REQUEST_RESOLVE, peer(0)), object_memory);
	requests_destroy(&requests);
}

static void test_invented(void **state)
{
	struct random_numbers numbers = random_start("request, invented tokens");
	struct requests requests = { 0 };
	uint64_t tokens[200];
	int i;

	assert_null(request_close(&requests, 0, REQUEST_BLOCK, peer(0)));
	assert_null(request_close(&requests, UINT64_MAX, REQUEST_BLOCK, peer(0)));
	for (i = 0; i < 200; i++)
		tokens[i] = open_request(&requests, REQUEST_BLOCK, object_memory + i, peer(0));
	for (i = 0; i < 200; i++) {
		assert_null(
			request_close(&requests, tokens[i] ^ 1ull << 63, REQUEST_BLOCK, peer(0)));
		assert_null(
			request_close(&requests, tokens[i] + (2ull << 32), REQUEST_BLOCK, peer(0)));
		assert_null(
			request_close(&requests, tokens[i] & UINT32_MAX, REQUEST_BLOCK, peer(0)));
		assert_null(request_close(&requests, tokens[i] | 1u << 31, REQUEST_BLOCK, peer(0)));
	}
	for (i = 0; i < 100000; i++) {
		uint64_t token = random_next(&numbers);

		/* Generations start at one: a guess may be right, if only just. */
		if (token >> 32 != 1)
			assert_null(request_close(&requests, token, REQUEST_BLOCK, peer(0)));
	}
	/* Slots that were never given out. */
	for (i = 0; i < 300; i++)
		assert_null(request_close(&requests, (uint64_t)i << 32 | 250, REQUEST_NONE, NULL));
	for (i = 0; i < 200; i++)
		assert_ptr_equal(request_close(&requests, tokens[i], REQUEST_BLOCK, peer(0)),
				 object_memory + i);
	requests_destroy(&requests);
}

static void test_generation_wraps(void **state)
{
	struct requests requests = { 0 };
	uint64_t token = open_request(&requests, REQUEST_BLOCK, object_memory, peer(0));
	uint32_t index = (uint32_t)token;

	requests.table[index].generation = UINT32_MAX;
	token = (uint64_t)UINT32_MAX << 32 | index;
	assert_ptr_equal(request_close(&requests, token, REQUEST_BLOCK, peer(0)), object_memory);
	/* 0 stands for "out of memory", so no token may be 0. */
	token = open_request(&requests, REQUEST_BLOCK, object_memory, peer(0));
	assert_int_equal((uint32_t)token, index);
	assert_true(token >> 32 != 0);
	requests_destroy(&requests);
}

/* The requests that a peer has not answered yet are counted where the caller says. */
static void test_owed(void **state)
{
	struct requests requests = { 0 };
	unsigned owed = 0;
	uint64_t a = request_open(&requests, REQUEST_BLOCK, object_memory, peer(1), &owed);
	uint64_t b = request_open(&requests, REQUEST_ATOMIC, object_memory + 1, peer(1), &owed);
	uint64_t c = request_open(&requests, REQUEST_RESOLVE, object_memory + 2, peer(1), NULL);

	assert_int_equal(owed, 2);
	request_close(&requests, a, REQUEST_BLOCK, peer(0));
	assert_int_equal(owed, 2);
	request_close(&requests, a, REQUEST_BLOCK, peer(1));
	request_close(&requests, a, REQUEST_BLOCK, peer(1));
	request_close(&requests, c, REQUEST_RESOLVE, peer(1));
	assert_int_equal(owed, 1);
	request_close(&requests, b, REQUEST_ATOMIC, peer(1));
	assert_int_equal(owed, 0);
	requests_destroy(&requests);
}

/* Against a plain list of what is open. */
static void test_random(void **state)
{
	struct random_numbers numbers = random_start("request, random");
	struct {
		uint64_t token;
		void *object;
		const pf_peer *peer;
	} open[1000];
	struct requests requests = { 0 };
	int count = 0, i;

	for (i = 0; i < 100000; i++) {
		if (count < 1000 && random_below(&numbers, 100) < 52) {
			open[count].object = object_memory + random_below(&numbers, 4096);
			open[count].peer = peer((int)random_below(&numbers, 2));
			open[count].token = open_request(&requests, REQUEST_BLOCK,
							 open[count].object, open[count].peer);
			assert_true(open[count++].token != 0);
		} else if (count) {
			int which = (int)random_below(&numbers, (uint64_t)count);

			assert_ptr_equal(request_close(&requests, open[which].token, REQUEST_BLOCK,
						       open[which].peer),
					 open[which].object);
			open[which] = open[--count];
		}
	}
	assert_true(requests.count <= 1024);
	requests_destroy(&requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_close),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_wrong_peer_or_kind),
		cmocka_unit_test(test_invented),
		cmocka_unit_test(test_generation_wraps),
		cmocka_unit_test(test_owed),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
