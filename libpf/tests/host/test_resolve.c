/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages in the page cache that the owner has not mapped: an owner that polls is asked through a ring,
 * and an owner that computes on the socket.
 */
#include "page.h"
#include "pair.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/context.h"
#include "host/peer.h"
#include "host/state.h"

#define PAGES 100
/* Farther than the kernel maps pages around a page fault. */
#define STRIDE ((size_t)2 << 20)
#define SEED 5

/* The side that computes says when, and waits for the test. */
enum { COMPUTES = 1, COMPUTED };

/* Requests that this process sent on sockets. */
static unsigned socket_requests;

/* The linker puts this in the place of the function. */
bool __real_connections_ask_now(struct connections *connections, struct connection *const *owner,
				const struct resolve *request);
bool __wrap_connections_ask_now(struct connections *connections, struct connection *const *owner,
				const struct resolve *request);

bool __wrap_connections_ask_now(struct connections *connections, struct connection *const *owner,
				const struct resolve *request)
{
	socket_requests++;
	return __real_connections_ask_now(connections, owner, request);
}

/* However slow this machine is, requests wait in the ring. */
static bool patient;

void __real_resolve_expire(struct host_state *host, bool all);
void __wrap_resolve_expire(struct host_state *host, bool all);

void __wrap_resolve_expire(struct host_state *host, bool all)
{
	unsigned i;

	for (i = 0; patient && i < host->asks_count; i++) {
		/* 0: the owner has told this process to use the socket. */
		if (host->asks[i].due)
			host->asks[i].due = UINT64_MAX;
	}
	__real_resolve_expire(host, all);
}

static char path[32];
static uint8_t *map;

static void unmap_file(void)
{
	munmap(map, PAGES * STRIDE);
	unlink(path);
}

/*
 * Map a file with a page every STRIDE bytes in the page cache, here and so in the partner, which is
 * forked. Skips the test if the file is on no disk. The name stays until the end: libpf asks about
 * the file.
 */
static void map_file(void)
{
	uint8_t page[4096];
	struct stat status;
	uint64_t i;
	int file;

	strcpy(path, "/var/tmp/libpf-test-XXXXXX");
	file = mkstemp(path);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, (off_t)(PAGES * STRIDE)), 0);
	for (i = 0; i < PAGES; i++) {
		pattern_fill(page, sizeof(page), SEED + i);
		assert_int_equal(pwrite(file, page, sizeof(page), (off_t)(i * STRIDE)),
				 sizeof(page));
	}
	map = mmap(NULL, PAGES * STRIDE, PROT_READ, MAP_SHARED, file, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(fstat(file, &status), 0);
	close(file);
	socket_requests = 0;
	patient = false;
	if (major(status.st_dev))
		return;
	unmap_file();
	print_message("# %s is on no disk\n", path);
	skip();
}

static void get_page(struct pair *me, uint64_t number)
{
	uint8_t page[4096] = { 0 };
	pf_completion completion = pair_get(me, me->peer, page, (uintptr_t)map + number * STRIDE,
					    sizeof(page));

	assert_status(completion.status, PF_OK);
	pair_check_pattern(me, page, sizeof(page), SEED + number);
}

static unsigned waiting_requests(const struct pair *me)
{
	return me->context->host->asks_count;
}

/* The owner polls. On a busy machine it may not have read the ring before a request. */
static void test_polling(void **state)
{
	bool by_ring = false;
	uint64_t faults, i;
	unsigned before;
	struct pair *me;

	map_file();
	patient = true;
	me = pair_open(state, .window = 4096);
	pair_connect(me);
	for (i = 0; i < PAGES && !by_ring; i++) {
		/* Ask through the ring each time. */
		((struct host_peer *)me->peer)->unasked = 0;
		before = socket_requests;
		faults = pf_stat(me->context, PF_STAT_REMOTE_FAULTS);
		get_page(me, i);
		by_ring = socket_requests == before &&
			  pf_stat(me->context, PF_STAT_REMOTE_FAULTS) > faults;
		assert_int_equal(waiting_requests(me), 0);
	}
	assert_true(by_ring);
	pair_end(me);
	unmap_file();
}

static void compute(struct pair *me)
{
	pair_await(me, 0, COMPUTES);
	pair_say(me, COMPUTES);
	pair_watch(me, 0, COMPUTED);
}

/* The owner computes: the socket has the request in time, and the next ones at once. */
static void test_computing(void **state)
{
	struct host_peer *owner;
	struct pair *me;
	unsigned before;
	uint64_t i;

	map_file();
	me = pair_open(state, .window = 4096, .work = compute);
	owner = (struct host_peer *)me->peer;
	pair_connect(me);
	pair_say(me, COMPUTES);
	pair_await(me, 1, COMPUTES);
	for (i = 0; i < 10; i++) {
		before = socket_requests;
		get_page(me, i);
		/* More than one only where the page was absent again before the copy. */
		assert_in_range(socket_requests - before, 1, 3);
		assert_int_equal(waiting_requests(me), 0);
	}
	assert_true(owner->unasked_next >= 2);
	/* Now the owner reads the ring, and answers late. */
	pair_say(me, COMPUTED);
	for (; i < PAGES; i++)
		get_page(me, i);
	pair_end(me);
	unmap_file();
}

/* The owner ends while a request waits in the ring. */
static void test_end(void **state)
{
	struct pair_done done = { 0 };
	uint8_t page[4096];
	struct pair *me;

	map_file();
	me = pair_open(state, .window = 4096, .work = compute, .peer_event_here = pair_note_end);
	pair_connect(me);
	pair_say(me, COMPUTES);
	pair_await(me, 1, COMPUTES);
	kill(pair_pid(me, 1), SIGSTOP);
	patient = true;
	pair_post(me, me->peer, GET, page, (uintptr_t)map, sizeof(page), &done);
	while (!waiting_requests(me))
		pf_progress(me->context);
	pair_kill(me, 1);
	pair_await_done(me, &done, 1);
	assert_true(done.failed == 1 && done.failure.status != PF_OK);
	assert_int_equal(waiting_requests(me), 0);
	assert_int_equal(socket_requests, 0);
	pair_end(me);
	unmap_file();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_polling),
		PAIR_TEST(test_computing),
		PAIR_TEST(test_end),
	};

	return pair_run_tests("resolve", tests);
}
