/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out of memory at each place in turn where libpf asks for some: an error that
 * says so, and everything in order afterwards.
 */
#include "stranger.h"

#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* In the thread that set it, the allocation to fail: 0 is the next, negative none. */
static _Thread_local int countdown = -1;
static _Thread_local unsigned refused;

static bool refuse(void)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	refused++;
	return true;
}

/* The linker puts these in place of the C library's, for libpf and this file only. */
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
	return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return refuse() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return refuse() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return refuse() ? NULL : __real_aligned_alloc(alignment, size);
}

struct scene {
	pf_context *contexts[2];
	pf_peer *to[2]; /* from the one to the other */
	unsigned posted, completed, sent, received;
	bool poor; /* something was refused: errors are in order */
};

static bool in_order(const struct scene *scene, int status)
{
	return status == PF_OK || status == PF_DONE ||
	       (scene->poor && (status == PF_ERR_MEMORY || status == PF_ERR_PEER ||
				status == PF_ERR_SYSTEM || status == PF_ERR_REFUSED));
}

static void on_complete(pf_context *context, const pf_completion *completion)
{
	struct scene *scene = completion->arg;

	scene->poor = scene->poor || refused;
	scene->completed++;
	assert_true(in_order(scene, completion->status) || completion->status == PF_ERR_FAULT);
}

static void on_message(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		       void *arg)
{
	((struct scene *)arg)->received++;
}

static void progress(struct scene *scene)
{
	pf_progress(scene->contexts[0]);
	pf_progress(scene->contexts[1]);
}

static void posted(struct scene *scene, int status)
{
	scene->poor = scene->poor || refused;
	assert_true(in_order(scene, status));
	scene->posted += status == PF_OK;
}

static void use(struct scene *scene, uint8_t *local, uint8_t *remote)
{
	uint64_t address = (uint64_t)(uintptr_t)remote;
	unsigned side, i;
	int status;

	for (side = 0; side < 2; side++) {
		pf_peer *to = scene->to[side];

		posted(scene, pf_put(to, local, address, 100, on_complete, scene));
		posted(scene, pf_put(to, local, address, MIB, on_complete, scene));
		posted(scene, pf_get(to, local, address, 200000, on_complete, scene));
		posted(scene, pf_get(to, local, 4096, 200000, on_complete, scene));
		posted(scene, pf_atomic(to, PF_ADD, 8, 1, address, 1, 0, on_complete, scene));
		status = pf_send(to, 0, "x", 1, NULL, 0);
		scene->poor = scene->poor || refused;
		assert_true(in_order(scene, status));
		scene->sent += status == PF_DONE;
	}
	/* What was accepted completes, and what was sent arrives, whatever was refused meanwhile. */
	for (i = 0;
	     i < 20000 && (scene->completed < scene->posted || scene->received < scene->sent);
	     i++) {
		progress(scene);
		if (i > 1000)
			usleep(100);
	}
}

/* False once there was nothing left to refuse. */
static bool play(int fail_at, const pf_options *options, uint8_t *local, uint8_t *remote)
{
	struct scene scene = { 0 };
	unsigned side;
	int status = PF_OK;

	refused = 0;
	countdown = fail_at;
	for (side = 0; side < 2 && status == PF_OK; side++)
		status = pf_open(options, &scene.contexts[side]);
	scene.poor = refused;
	assert_true(in_order(&scene, status));
	for (side = 0; side < 2 && status == PF_OK; side++) {
		struct address address;
		size_t length = sizeof(address);

		pf_set_receive(scene.contexts[side], on_message, &scene);
		assert_int_equal(pf_address(scene.contexts[!side], &address, &length), PF_OK);
		status = pf_peer_open(scene.contexts[side], &address, length, NULL,
				      &scene.to[side]);
		scene.poor = refused;
		assert_true(in_order(&scene, status));
	}
	if (status == PF_OK)
		use(&scene, local, remote);
	assert_int_equal(scene.completed, scene.posted);
	assert_int_equal(scene.received, scene.sent);
	countdown = -1;
	pf_close(scene.contexts[0]);
	pf_close(scene.contexts[1]);
	return refused;
}

static void each_place(bool single_copy)
{
	uint8_t *local = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	unsigned before = count_descriptors();
	pf_options options;
	int fail_at;

	assert_ptr_not_equal(local, MAP_FAILED);
	assert_int_equal(pf_options_init(&options, NULL), PF_OK);
	options.single_copy = single_copy;
	for (fail_at = 0; play(fail_at, &options, local, local + MIB); fail_at++)
		assert_int_equal(count_descriptors(), before);
	assert_int_equal(count_descriptors(), before);
	/* So many different places there are at least. */
	assert_true(fail_at > 10);
	munmap(local, 2 * MIB);
}

static void test_single_copy(void **state)
{
	each_place(true);
}

static void test_stream(void **state)
{
	each_place(false);
}

static int set_up(void **state)
{
	alarm(100);
	return sodium_init() < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_single_copy),
		cmocka_unit_test(test_stream),
	};

	return cmocka_run_group_tests_name("memory", tests, set_up, NULL);
}
