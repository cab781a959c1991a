/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page faults that the owner of the page can resolve and the kernel's copy cannot: blocks are
 * parked, resolved, retransmitted. A wrapped madvise makes and fills the pages, in the process that
 * owns them and on its service thread.
 */
#include "page.h"
#include "pair.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/context.h"
#include "host/block.h"
#include "memory/resolver.h"

#define WINDOW (8 * MIB)
#define SEED 21

/* What the wrapped madvise does with [start, start + length) of this process. */
static struct {
	_Atomic(uint8_t *) start;
	size_t length;
	_Atomic bool resolves; /* make pages accessible; otherwise only return success */
	_Atomic bool held;     /* wait while this is set */
	_Atomic unsigned calls;
} faulty;

/* The linker puts this in the place of the C library's function. */
int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);

int __wrap_madvise(void *address, size_t length, int advice)
{
	uint8_t *start = faulty.start, *page = address;

	if (!start || page < start || page >= start + faulty.length ||
	    (advice != MADV_POPULATE_READ && advice != MADV_POPULATE_WRITE))
		return __real_madvise(address, length, advice);
	faulty.calls++;
	while (faulty.held)
		usleep(100);
	if (!faulty.resolves)
		return 0;
	if (mprotect(page, length, PROT_READ | PROT_WRITE) < 0)
		return -1;
	return __real_madvise(page, length, advice);
}

static void faulty_stop(void)
{
	if (faulty.start)
		mprotect(faulty.start, faulty.length, PROT_READ | PROT_WRITE);
	faulty.start = NULL;
	faulty.held = false;
}

static void faulty_start(uint8_t *start, size_t length, bool resolves)
{
	faulty_stop();
	mprotect(start, length, PROT_NONE);
	faulty.length = length;
	faulty.resolves = resolves;
	faulty.calls = 0;
	faulty.start = start;
}

/* Commands to the partner, for its window. */
enum { RESOLVE, LIE, STOP };

static void run_command(struct pair *me, const uint64_t *arguments)
{
	/* Number 0: how often the resolver tried since the last command. */
	*pair_value(me, 1, 0) = faulty.calls;
	if (arguments[0] == STOP)
		faulty_stop();
	else
		faulty_start(me->window, WINDOW, arguments[0] == RESOLVE);
}

static struct pair *start(void **state)
{
	struct pair *pair;

	/* A failed test may have left it on. */
	faulty_stop();
	pair = pair_open(state, .window = WINDOW, .command = run_command,
			 .receive = pair_count_message);
	pair_connect(pair);
	return pair;
}

static void transfer(struct pair *pair, enum pair_direction direction, uint8_t *local,
		     size_t length)
{
	assert_ok(pair_transfer(pair, pair->peer, direction, local, remote_address(pair->window),
				length)
			  .status);
}

/* Every fault that was resolved has its time in the histogram. */
static uint64_t resolve_times(const pf_context *context)
{
	uint64_t count = 0;
	unsigned bucket;

	for (bucket = 0; bucket < PF_RESOLVE_BUCKETS; bucket++)
		count += pf_stat_resolve_time(context, bucket);
	return count;
}

static const size_t lengths[] = { 1, 4096, 16384, 100000, 3000000 };

static void test_remote(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t blocks = (lengths[i] - 1) / 16384 + 1;
		uint64_t faults = pf_stat(pair->context, PF_STAT_REMOTE_FAULTS);
		uint64_t again = pf_stat(pair->context, PF_STAT_RETRANSMITS);

		pattern_fill(pair->window, lengths[i], SEED + i);
		pair_command(pair, RESOLVE);
		transfer(pair, GET, local, lengths[i]);
		pair_check_pattern(pair, local, lengths[i], SEED + i);
		/* A block may fault twice, or not at all if a neighbour's fault brought its pages. */
		faults = pf_stat(pair->context, PF_STAT_REMOTE_FAULTS) - faults;
		again = pf_stat(pair->context, PF_STAT_RETRANSMITS) - again;
		assert_in_range(faults, 1, 2 * blocks);
		assert_int_equal(again, faults);

		pair_command(pair, RESOLVE);
		pattern_fill(local, lengths[i], SEED - i);
		transfer(pair, PUT, local, lengths[i]);
		pair_check_pattern(pair, pair->window, lengths[i], SEED - i);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS), 0);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), 0);
	munmap(local, WINDOW);
	pair_end(pair);
}

static void test_local(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		pattern_fill(local, lengths[i], SEED + i);
		faulty_start(local, WINDOW, true);
		transfer(pair, PUT, local, lengths[i]);
		pair_check_pattern(pair, pair->window, lengths[i], SEED + i);
		pattern_fill(pair->window, lengths[i], SEED - i);
		faulty_start(local, WINDOW, true);
		transfer(pair, GET, local, lengths[i]);
		faulty_stop();
		pair_check_pattern(pair, local, lengths[i], SEED - i);
	}
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) > 0);
	/* The window is a file: pages that the partner has not touched may fault too. */
	assert_int_equal(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) +
				 pf_stat(pair->context, PF_STAT_REMOTE_FAULTS),
			 pf_stat(pair->context, PF_STAT_RETRANSMITS));
	assert_int_equal(resolve_times(pair->context), pf_stat(pair->context, PF_STAT_RETRANSMITS));
	munmap(local, WINDOW);
	pair_end(pair);
}

/* Both sides fault: a block may be parked twice. */
static void test_both(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	const size_t length = 1000000;

	pattern_fill(local, length, SEED);
	faulty_start(local, WINDOW, true);
	pair_command(pair, RESOLVE);
	transfer(pair, PUT, local, length);
	pair_check_pattern(pair, pair->window, length, SEED);
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) > 0);
	/* When it writes what came through the ring, the partner resolves its own faults. */
	if (pair_mode(state) != MODE_STREAM)
		assert_true(pf_stat(pair->context, PF_STAT_REMOTE_FAULTS) > 0);
	faulty_stop();
	munmap(local, WINDOW);
	pair_end(pair);
}

/*
 * A block that was cut for /dev/exanest, whose engine was lost, is longer than a fault may resolve.
 * The rest of it goes on.
 */
static void test_long_block(void **state)
{
	const size_t length = 2ull * RESOLVER_LENGTH_MAX;
	struct pair *pair = pair_open(state, .window = length);
	uint8_t *local = test_map(length);
	struct pair_done done = { 0 };
	struct transfer *transfer;

	pair_connect(pair);
	pattern_fill(local, length, SEED);
	faulty_start(local, length, true);
	pair_post(pair, pair->peer, PUT, local, remote_address(pair->window), length, &done);
	transfer = (struct transfer *)pair->context->operations.posted.next;
	transfer->run = transfer->run_end = transfer->front = transfer->length;
	assert_non_null(block_new(transfer, transfer->pieces, 0, transfer->length));
	pair_await_done(pair, &done, 1);
	faulty_stop();
	assert_ok(done.last.status);
	pair_check_pattern(pair, pair->window, length, SEED);
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) >= length / POLICY_WINDOW_MAX);
	munmap(local, length);
	pair_end(pair);
}

/* If the resolver succeeds and the page still faults, fault_retries bounds the attempts. */
static void test_retries(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(PAGE);
	pf_completion completion;
	uint64_t before = pf_stat(pair->context, PF_STAT_RETRANSMITS);
	const uint64_t retries = pair->options.fault_retries;

	pair_command(pair, LIE);
	completion = pair_get(pair, pair->peer, local, remote_address(pair->window + 40), 100);
	assert_fault(completion, PF_SIDE_REMOTE, remote_address(pair->window + 40));
	assert_int_equal(pf_stat(pair->context, PF_STAT_RETRANSMITS) - before, retries);
	pair_command(pair, STOP);
	assert_int_equal(*pair_value(pair, 1, 0), retries);
	transfer(pair, GET, local, 100);

	faulty_start(local, PAGE, false);
	completion = pair_get(pair, pair->peer, local, remote_address(pair->window), 100);
	faulty_stop();
	assert_fault(completion, PF_SIDE_LOCAL, remote_address(local));
	munmap(local, PAGE);
	pair_end(pair);
}

/* A parked block delays no other transfer, no message and not the caller. */
static void test_others_go_on(void **state)
{
	struct pair *pair = start(state);
	struct pair_done parked = { 0 };
	uint8_t *local = test_map(WINDOW), *other = test_map(WINDOW);
	size_t i;

	pattern_fill(local, 1000000, SEED);
	faulty_start(local, WINDOW, true);
	faulty.held = true;
	pair_post(pair, pair->peer, PUT, local, remote_address(pair->window), 1000000, &parked);
	for (i = 0; i < 20; i++) {
		pair_verify(pair, 1, PUT, other, pair->window + WINDOW / 2, 1 + i * 50000, i);
		assert_status(pair_send(pair, pair->peer, 1, "x", 1), PF_OK);
	}
	pair_await_value(pair, 1, 0, 20);
	assert_int_equal(parked.count, 0);
	faulty.held = false;
	pair_await_done(pair, &parked, 1);
	faulty_stop();
	assert_ok(parked.last.status);
	pair_check_pattern(pair, pair->window, 1000000, SEED);
	munmap(local, WINDOW);
	munmap(other, WINDOW);
	pair_end(pair);
}

/* Fault on a page of the test, which keeps the test's resolver busy. */
static void ask_for_page(struct pair *me)
{
	pair_await(me, 0, 1);
	pf_get(me->peer, me->window, *pair_value(me, 0, 1), 8, NULL, NULL);
}

/* The peer dies while this process resolves a fault for it: the result has no receiver. */
static void test_peer_dies(void **state)
{
	struct pair *pair;
	struct pair_done done = { 0 };
	uint8_t *local = test_map(WINDOW);
	int i;

	faulty_stop();
	pair = pair_open(state, .window = WINDOW, .work = ask_for_page,
			 .peer_event_here = pair_note_end);
	pair_connect(pair);
	faulty_start(local, WINDOW, true);
	faulty.held = true;
	*pair_value(pair, 0, 1) = remote_address(local);
	pair_say(pair, 1);
	while (!faulty.calls)
		pf_progress(pair->context);
	pair_kill(pair, 1);
	pair_post(pair, pair->peer, PUT, local + 100000, remote_address(pair->window), 50000,
		  &done);
	/* The service thread hears of the death while the resolver waits. */
	pair_await_done(pair, &done, 1);
	assert_status(done.last.status, PF_ERR_PEER);
	while (!pair->errors.count)
		pf_progress(pair->context);
	faulty.held = false;
	for (i = 0; i < 5; i++)
		pair_linger(pair);
	assert_int_equal(pair->errors.count, 1);
	assert_int_equal(done.count, 1);
	faulty_stop();
	munmap(local, WINDOW);
	pair_end(pair);
}

static void *release_later(void *arg)
{
	usleep(20000);
	faulty.held = false;
	return NULL;
}

/* pf_close while faults are being resolved: it abandons them and calls nothing back. */
static void test_close(void **state)
{
	struct pair *pair = start(state);
	struct pair_done done = { 0 };
	uint8_t *local = test_map(WINDOW);
	pthread_t thread;

	faulty_start(local, WINDOW, true);
	faulty.held = true;
	pair_post(pair, pair->peer, PUT, local, remote_address(pair->window), 200000, &done);
	while (!faulty.calls)
		pf_progress(pair->context);
	assert_int_equal(done.count, 0);
	assert_int_equal(pthread_create(&thread, NULL, release_later, NULL), 0);
	pair_end(pair);
	assert_int_equal(done.count, 0);
	pthread_join(thread, NULL);
	faulty_stop();
	munmap(local, WINDOW);
}

/* ---- pages that another thread supplies through userfaultfd when they are touched ---- */

#define FILLED (64 * PAGE)

struct filler {
	int fd;
	uint8_t *start;
	uint8_t page[PAGE_MOST];
};

/* Fill each byte of a page with its number. Ends with the process. */
static void *fill_pages(void *arg)
{
	struct filler *filler = arg;
	struct uffd_msg message;

	while (read(filler->fd, &message, sizeof(message)) == (ssize_t)sizeof(message)) {
		uint64_t address = message.arg.pagefault.address & ~(PAGE - 1);
		struct uffdio_copy copy = { .dst = address,
					    .src = remote_address(filler->page),
					    .len = PAGE };

		usleep(100);
		memset(filler->page, (int)((address - remote_address(filler->start)) / PAGE), PAGE);
		ioctl(filler->fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static bool start_filler(struct filler *filler, size_t length)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { remote_address(filler->start), length },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	filler->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	return filler->fd >= 0 && !ioctl(filler->fd, UFFDIO_API, &api) &&
	       !ioctl(filler->fd, UFFDIO_REGISTER, &range) &&
	       !pthread_create(&thread, NULL, fill_pages, filler) && !pthread_detach(thread);
}

/* Number 1: the address of the memory, 0 if userfaultfd is not permitted. */
static void offer_filled(struct pair *me)
{
	static struct filler filler;

	filler.start = test_map(2 * FILLED);
	madvise(filler.start, 2 * FILLED, MADV_NOHUGEPAGE);
	if (start_filler(&filler, 2 * FILLED))
		*pair_value(me, 1, 1) = remote_address(filler.start);
}

static void test_userfault(void **state)
{
	struct pair *pair = pair_open(state, .work = offer_filled);
	uint8_t *local = test_alloc(FILLED);
	uint64_t remote;
	size_t i;

	pair_await(pair, 1, PAIR_DONE);
	remote = *pair_value(pair, 1, 1);
	if (!remote) {
		print_message("# userfaultfd is not permitted\n");
		free(local);
		pair_end(pair);
		skip();
	}
	assert_ok(pair_get(pair, pair->peer, local, remote, FILLED).status);
	for (i = 0; i < FILLED; i++)
		assert_int_equal(local[i], i / PAGE);
	pattern_fill(local, FILLED, SEED);
	assert_ok(pair_put(pair, pair->peer, local, remote + FILLED, FILLED).status);
	memset(local, 0, FILLED);
	assert_ok(pair_get(pair, pair->peer, local, remote + FILLED, FILLED).status);
	pair_check_pattern(pair, local, FILLED, SEED);
	free(local);
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, ALONE), IN_MODE(test, STREAM),                       \
		IN_MODE(test, THREADS), IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_remote),     IN_ALL(test_local),        IN_ALL(test_both),
		IN_ALL(test_long_block), IN_ALL(test_retries),      IN_ALL(test_peer_dies),
		IN_ALL(test_close),      IN_ALL(test_others_go_on), IN_ALL(test_userfault),
	};

	return pair_run_tests("retransmit", tests);
}
