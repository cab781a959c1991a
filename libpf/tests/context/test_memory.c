/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each allocation of libpf in turn fails: the call that needs it returns an error, what was
 * accepted before completes, and nothing is left behind.
 */
#include "stranger.h"

#include <unistd.h>

/* Of this thread: allocations until the one that fails, negative for none. */
static _Thread_local int countdown = -1;
static _Thread_local unsigned failures;

static bool fails(void)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	failures++;
	return true;
}

/* The linker puts these in the place of the C library's, for libpf and this file only. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

struct contexts {
	pf_context *contexts[2];
	pf_peer *peers[2]; /* of each context: the other one */
	unsigned posted, completed, sent, received;
};

/* Is this a status that a call may return? Errors only after a failure. */
static bool is_expected(int status)
{
	return status == PF_OK || status == PF_PENDING ||
	       (failures && (status == PF_ERR_MEMORY || status == PF_ERR_PEER ||
			     status == PF_ERR_SYSTEM || status == PF_ERR_REFUSED));
}

static void on_complete(pf_context *context, const pf_completion *completion)
{
	((struct contexts *)completion->arg)->completed++;
	assert_true(is_expected(completion->status) || completion->status == PF_ERR_FAULT);
}

static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	((struct contexts *)arg)->received++;
}

static void post(struct contexts *both, int status)
{
	assert_true(is_expected(status));
	both->posted += status == PF_PENDING;
}

static void use(struct contexts *both, uint8_t *local, uint8_t *remote)
{
	uint64_t address = (uint64_t)(uintptr_t)remote;
	unsigned side, i;
	int status;

	for (side = 0; side < 2; side++) {
		pf_peer *to = both->peers[side];

		post(both, pf_put(to, local, address, 100, 0, on_complete, both));
		post(both, pf_put(to, local, address, MIB, 0, on_complete, both));
		post(both, pf_get(to, local, address, 200000, on_complete, both));
		post(both, pf_get(to, local, 4096, 200000, on_complete, both));
		post(both, pf_atomic(to, PF_ATOMIC_ADD, 8, address, 1, 0, on_complete, both));
		status = pf_send(to, 0, "x", 1, NULL, 0);
		assert_true(is_expected(status));
		both->sent += status == PF_OK;
	}
	for (i = 0; i < 20000 && (both->completed < both->posted || both->received < both->sent);
	     i++) {
		pf_progress(both->contexts[0]);
		pf_progress(both->contexts[1]);
		if (i > 1000)
			usleep(100);
	}
	assert_int_equal(both->completed, both->posted);
	assert_int_equal(both->received, both->sent);
}

/* Open, use and close two contexts while one allocation fails; false if there were fewer. */
static bool run_once(int fail_at, const pf_options *options, uint8_t *local, uint8_t *remote)
{
	struct contexts both = { 0 };
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_message,
					 .arg = &both };
	unsigned side;
	int status = PF_OK;

	failures = 0;
	countdown = fail_at;
	for (side = 0; side < 2 && status == PF_OK; side++)
		status = pf_open(options, &callbacks, &both.contexts[side]);
	for (side = 0; side < 2 && status == PF_OK; side++) {
		struct address address = stranger_address_of(both.contexts[!side]);

		status = pf_peer_open(both.contexts[side], &address, sizeof(address), NULL,
				      &both.peers[side]);
	}
	assert_true(is_expected(status));
	if (status == PF_OK)
		use(&both, local, remote);
	countdown = -1;
	pf_close(both.contexts[0]);
	pf_close(both.contexts[1]);
	return failures;
}

static void fail_each(bool single_copy)
{
	uint8_t *local = test_map(2 * MIB);
	unsigned before = count_descriptors();
	pf_options options;
	int fail_at = 0;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.single_copy = single_copy;
	while (run_once(fail_at++, &options, local, local + MIB))
		assert_int_equal(count_descriptors(), before);
	assert_int_equal(count_descriptors(), before);
	assert_true(fail_at > 11);
	munmap(local, 2 * MIB);
}

static void test_single_copy(void **state)
{
	fail_each(true);
}

static void test_stream(void **state)
{
	fail_each(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_single_copy),
		cmocka_unit_test(test_stream),
	};

	return cmocka_run_group_tests_name("memory", tests, stranger_set_up, NULL);
}
