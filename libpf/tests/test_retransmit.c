/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults that the owner of a page can resolve and the kernel's copy cannot:
 * blocks are parked, resolved, sent again. The resolver's way to the kernel is
 * replaced here by a pager that makes pages accessible and fills them, on the
 * side that owns them and in that side's service thread.
 */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define WINDOW (8ul << 20)
#define PATTERN 21

/* What the pager does with [start, start + length) of this process. */
static struct {
	_Atomic(uint8_t *) start;
	size_t length;
	_Atomic bool fills;     /* it makes pages accessible; otherwise it only says so */
	_Atomic unsigned delay; /* microseconds before it does */
	_Atomic bool held;      /* it waits as long as this is set */
	_Atomic unsigned calls;
} pager;

/* The linker puts this in place of the C library's, for the resolver and this file only. */
int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);

int __wrap_madvise(void *address, size_t length, int advice)
{
	uint8_t *start = atomic_load(&pager.start), *page = address;

	if (!start || page < start || page >= start + pager.length ||
	    (advice != MADV_POPULATE_READ && advice != MADV_POPULATE_WRITE))
		return __real_madvise(address, length, advice);
	atomic_fetch_add(&pager.calls, 1);
	usleep(atomic_load(&pager.delay));
	while (atomic_load(&pager.held))
		usleep(100);
	if (!atomic_load(&pager.fills))
		return 0;
	if (mprotect(page, length, PROT_READ | PROT_WRITE) < 0)
		return -1;
	return __real_madvise(page, length, advice);
}

static void pager_start(uint8_t *start, size_t length, bool fills)
{
	mprotect(start, length, PROT_NONE);
	pager.length = length;
	atomic_store(&pager.fills, fills);
	atomic_store(&pager.calls, 0);
	atomic_store(&pager.delay, 0);
	atomic_store(&pager.held, false);
	atomic_store(&pager.start, start);
}

static void pager_stop(void)
{
	if (atomic_load(&pager.start))
		mprotect(atomic_load(&pager.start), pager.length, PROT_READ | PROT_WRITE);
	atomic_store(&pager.start, NULL);
	atomic_store(&pager.held, false);
}

static int teardown(void **state)
{
	pager_stop();
	return pair_teardown(state);
}

enum mode { MODE_SHARED, MODE_ALONE, MODE_STREAM, MODE_THREADS, MODE_IDLE };

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	switch (mode) {
	case MODE_ALONE:
		options.share_min = UINT64_MAX;
		break;
	case MODE_STREAM:
		options.single_copy = 0;
		break;
	case MODE_THREADS:
		options.threads = 1;
		break;
	case MODE_IDLE:
		options.idle_polls = 1;
		break;
	default:
		break;
	}
	return options;
}

/* Values of the test: 0 counts its wishes; 1 what, 2 length, 3 delay. The partner's: 0 calls. */
enum { PAGER_FILLS = 1, PAGER_LIES, PAGER_OFF };

static void serve_pager(struct pair *me)
{
	unsigned done = 0;

	while (pair_progress(me)) {
		atomic_store(pair_value(me, 1, 0), atomic_load(&pager.calls));
		if (atomic_load(pair_value(me, 0, 0)) == done)
			continue;
		pager_stop();
		if (atomic_load(pair_value(me, 0, 1)) != PAGER_OFF) {
			pager_start(me->window, atomic_load(pair_value(me, 0, 2)),
				    atomic_load(pair_value(me, 0, 1)) == PAGER_FILLS);
			atomic_store(&pager.delay, (unsigned)atomic_load(pair_value(me, 0, 3)));
		}
		pair_say(me, ++done);
	}
}

static unsigned wishes;

static void remote_pager(struct pair *pair, unsigned what, size_t length, unsigned delay)
{
	atomic_store(pair_value(pair, 0, 1), what);
	atomic_store(pair_value(pair, 0, 2), length);
	atomic_store(pair_value(pair, 0, 3), delay);
	atomic_store(pair_value(pair, 0, 0), ++wishes);
	pair_await(pair, 1, wishes);
}

static struct pair *start(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = WINDOW,
		.partner = serve_pager,
	};
	struct pair *pair = pair_start(&setup);

	wishes = 0;
	assert_int_equal(
		pair_put(pair, pair->peer, pair->shared, remote_address(pair->window), 8).status,
		PF_OK);
	return pair;
}

static uint8_t *map_local(size_t length)
{
	uint8_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
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
	uint8_t *local = map_local(WINDOW);
	uint64_t faults, again;
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t blocks = (lengths[i] - 1) / 16384 + 1;

		faults = pf_stat(pair->context, PF_STAT_REMOTE_FAULTS);
		again = pf_stat(pair->context, PF_STAT_RETRANSMITS);
		pattern_fill(pair->window, lengths[i], PATTERN + i);
		remote_pager(pair, PAGER_FILLS, WINDOW, 0);
		assert_int_equal(pair_get(pair, pair->peer, local, remote_address(pair->window),
					  lengths[i])
					 .status,
				 PF_OK);
		assert_int_equal(pattern_differs(local, lengths[i], PATTERN + i), lengths[i]);
		/* Each block met one fault, or none where a neighbour's pages came along. */
		faults = pf_stat(pair->context, PF_STAT_REMOTE_FAULTS) - faults;
		again = pf_stat(pair->context, PF_STAT_RETRANSMITS) - again;
		assert_in_range(faults, 1, 2 * blocks);
		assert_int_equal(again, faults);

		remote_pager(pair, PAGER_FILLS, WINDOW, 0);
		pattern_fill(local, lengths[i], PATTERN - i);
		assert_int_equal(pair_put(pair, pair->peer, local, remote_address(pair->window),
					  lengths[i])
					 .status,
				 PF_OK);
		assert_int_equal(pattern_differs(pair->window, lengths[i], PATTERN - i),
				 lengths[i]);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS), 0);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), 0);
	remote_pager(pair, PAGER_OFF, 0, 0);
	munmap(local, WINDOW);
	pair_end(pair);
}

static void test_local(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = map_local(WINDOW);
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		pattern_fill(local, lengths[i], PATTERN + i);
		pager_start(local, WINDOW, true);
		assert_int_equal(pair_put(pair, pair->peer, local, remote_address(pair->window),
					  lengths[i])
					 .status,
				 PF_OK);
		assert_int_equal(pattern_differs(pair->window, lengths[i], PATTERN + i),
				 lengths[i]);
		pattern_fill(pair->window, lengths[i], PATTERN - i);
		pager_start(local, WINDOW, true);
		assert_int_equal(pair_get(pair, pair->peer, local, remote_address(pair->window),
					  lengths[i])
					 .status,
				 PF_OK);
		pager_stop();
		assert_int_equal(pattern_differs(local, lengths[i], PATTERN - i), lengths[i]);
	}
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) > 0);
	/* The window is a file: what the partner has never touched of it may be on a disk. */
	assert_int_equal(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) +
				 pf_stat(pair->context, PF_STAT_REMOTE_FAULTS),
			 pf_stat(pair->context, PF_STAT_RETRANSMITS));
	assert_int_equal(resolve_times(pair->context), pf_stat(pair->context, PF_STAT_RETRANSMITS));
	munmap(local, WINDOW);
	pair_end(pair);
}

/* Both sides at the same time: a block may have to be parked twice. */
static void test_both(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = map_local(WINDOW);
	const size_t length = 1000000;

	pattern_fill(local, length, PATTERN);
	pager_start(local, WINDOW, true);
	remote_pager(pair, PAGER_FILLS, WINDOW, 0);
	assert_int_equal(
		pair_put(pair, pair->peer, local, remote_address(pair->window), length).status,
		PF_OK);
	assert_int_equal(pattern_differs(pair->window, length, PATTERN), length);
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) > 0);
	/* Through the ring the partner brings shared memory in by itself. */
	if ((enum mode)(uintptr_t)*state != MODE_STREAM)
		assert_true(pf_stat(pair->context, PF_STAT_REMOTE_FAULTS) > 0);
	remote_pager(pair, PAGER_OFF, 0, 0);
	pager_stop();
	munmap(local, WINDOW);
	pair_end(pair);
}

/* A resolver that says it is done when it is not is believed so often, and no more. */
static void test_retries(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = map_local(PAGE);
	pf_completion completion;
	uint64_t retries = pair_options().fault_retries;
	uint64_t before = pf_stat(pair->context, PF_STAT_RETRANSMITS);

	remote_pager(pair, PAGER_LIES, WINDOW, 0);
	completion = pair_get(pair, pair->peer, local, remote_address(pair->window + 40), 100);
	assert_int_equal(completion.status, PF_ERR_FAULT);
	assert_int_equal(completion.side, PF_SIDE_REMOTE);
	assert_true(completion.address == remote_address(pair->window + 40));
	assert_int_equal(pf_stat(pair->context, PF_STAT_RETRANSMITS) - before, retries);
	pair_await(pair, 1, wishes);
	while (atomic_load(pair_value(pair, 1, 0)) < retries)
		pair_progress(pair);
	assert_int_equal(atomic_load(pair_value(pair, 1, 0)), retries);
	remote_pager(pair, PAGER_OFF, 0, 0);
	assert_int_equal(
		pair_get(pair, pair->peer, local, remote_address(pair->window), 100).status, PF_OK);

	pager_start(local, PAGE, false);
	completion = pair_get(pair, pair->peer, local, remote_address(pair->window), 100);
	pager_stop();
	assert_int_equal(completion.status, PF_ERR_FAULT);
	assert_int_equal(completion.side, PF_SIDE_LOCAL);
	assert_true(completion.address == remote_address(local));
	munmap(local, PAGE);
	pair_end(pair);
}

static void count_message(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;

	atomic_fetch_add(pair_value(me, me->side, 0), 1);
}

/* A parked block holds up nobody else: not messages, not other transfers, not the caller. */
static void test_others_go_on(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = WINDOW,
		.receive = count_message,
	};
	struct pair *pair = pair_start(&setup);
	struct pair_done parked = { 0 };
	uint8_t *local = map_local(WINDOW), *other = map_local(WINDOW);
	int i;

	assert_int_equal(pair_put(pair, pair->peer, other, remote_address(pair->window), 8).status,
			 PF_OK);
	pattern_fill(local, 1000000, PATTERN);
	pager_start(local, WINDOW, true);
	atomic_store(&pager.held, true);
	assert_int_equal(pf_put(pair->peer, local, remote_address(pair->window), 1000000,
				pair_completed, &parked),
			 PF_OK);
	for (i = 0; i < 20; i++) {
		size_t length = 1 + (size_t)i * 50000;

		pattern_fill(other, length, (uint64_t)i);
		assert_int_equal(pair_put(pair, pair->peer, other,
					  remote_address(pair->window + WINDOW / 2), length)
					 .status,
				 PF_OK);
		assert_int_equal(pattern_differs(pair->window + WINDOW / 2, length, (uint64_t)i),
				 length);
		assert_int_equal(pair_send(pair, pair->peer, 1, "x", 1), PF_DONE);
	}
	while (atomic_load(pair_value(pair, 1, 0)) < 20)
		pair_progress(pair);
	assert_int_equal(parked.count, 0);
	atomic_store(&pager.held, false);
	pair_await_done(pair, &parked, 1);
	pager_stop();
	assert_int_equal(parked.last.status, PF_OK);
	assert_int_equal(pattern_differs(pair->window, 1000000, PATTERN), 1000000);
	munmap(local, WINDOW);
	munmap(other, WINDOW);
	pair_end(pair);
}

static unsigned errors;

static void count_error(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	errors++;
}

/* Ask for a page of the test's, which keeps a resolver of the test's busy. */
static void ask_for_page(struct pair *me)
{
	pair_await(me, 0, 1);
	pf_get(me->peer, me->window, atomic_load(pair_value(me, 0, 1)), 8, NULL, NULL);
	pair_serve(me);
}

/*
 * The peer dies while pages of ours are on their way in: what the resolver
 * says afterwards has nobody left to say it to.
 */
static void test_peer_dies(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = WINDOW,
		.partner = ask_for_page,
		.error_here = count_error,
	};
	struct pair *pair = pair_start(&setup);
	struct pair_done done = { 0 };
	uint8_t *local = map_local(WINDOW);
	int i;

	errors = 0;
	assert_int_equal(pair_put(pair, pair->peer, local, remote_address(pair->window), 8).status,
			 PF_OK);
	pager_start(local, WINDOW, true);
	atomic_store(&pager.held, true);
	atomic_store(pair_value(pair, 0, 1), remote_address(local));
	pair_say(pair, 1);
	while (!atomic_load(&pager.calls))
		pf_progress(pair->context);
	pair_kill(pair, 1);
	assert_int_equal(pf_put(pair->peer, local + 100000, remote_address(pair->window), 50000,
				pair_completed, &done),
			 PF_OK);
	/* A resolver that waits does not keep the service thread from hearing of the death. */
	pair_await_done(pair, &done, 1);
	assert_int_equal(done.last.status, PF_ERR_PEER);
	while (!errors)
		pf_progress(pair->context);
	atomic_store(&pager.held, false);
	for (i = 0; i < 50; i++) {
		usleep(1000);
		pf_progress(pair->context);
	}
	assert_int_equal(errors, 1);
	assert_int_equal(done.count, 1);
	pager_stop();
	munmap(local, WINDOW);
	pair_end(pair);
}

/* pf_close with pages on their way: abandoned, no callback, no wait for ever. */
static void test_close(void **state)
{
	struct pair *pair = start(state);
	struct pair_done done = { 0 };
	uint8_t *local = map_local(WINDOW);

	pager_start(local, WINDOW, true);
	atomic_store(&pager.delay, 20000);
	assert_int_equal(pf_put(pair->peer, local, remote_address(pair->window), 200000,
				pair_completed, &done),
			 PF_OK);
	while (!atomic_load(&pager.calls))
		pf_progress(pair->context);
	assert_int_equal(done.count, 0);
	pair_end(pair);
	assert_int_equal(done.count, 0);
	pager_stop();
	munmap(local, WINDOW);
}

/* ---- a page that the kernel itself brings in from another thread, when touched ---- */

struct filler {
	int fd;
	uint8_t *start;
	size_t length;
	uint8_t page[PAGE];
};

static void *fill_pages(void *arg)
{
	struct filler *filler = arg;
	struct uffd_msg message;

	/* Ends with the process, or when the pages are all there and the descriptor is closed. */
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

/* False if this process may not. */
static bool filler_start(struct filler *filler, uint8_t *start, size_t length)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { remote_address(start), length },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	filler->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (filler->fd < 0)
		return false;
	filler->start = start;
	filler->length = length;
	return !ioctl(filler->fd, UFFDIO_API, &api) &&
	       !ioctl(filler->fd, UFFDIO_REGISTER, &range) &&
	       !pthread_create(&thread, NULL, fill_pages, filler) && !pthread_detach(thread);
}

#define FILLED (64 * PAGE)

static void serve_filler(struct pair *me)
{
	uint8_t *memory = map_local(2 * FILLED);
	static struct filler filler;

	madvise(memory, 2 * FILLED, MADV_NOHUGEPAGE);
	if (!filler_start(&filler, memory, 2 * FILLED))
		memory = NULL;
	atomic_store(pair_value(me, 1, 1), remote_address(memory));
	pair_say(me, 1);
	pair_serve(me);
}

static void test_userfault(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = { .here = options_of(mode),
				    .there = options_of(mode),
				    .partner = serve_filler };
	struct pair *pair = pair_start(&setup);
	uint8_t *local = map_local(FILLED);
	uint64_t remote;
	size_t i;

	pair_await(pair, 1, 1);
	remote = atomic_load(pair_value(pair, 1, 1));
	if (!remote) {
		print_message("# userfaultfd is not permitted\n");
		munmap(local, FILLED);
		pair_end(pair);
		skip();
	}
	assert_int_equal(pair_get(pair, pair->peer, local, remote, FILLED).status, PF_OK);
	for (i = 0; i < FILLED; i++)
		assert_int_equal(local[i], i / PAGE);
	pattern_fill(local, FILLED, PATTERN);
	assert_int_equal(pair_put(pair, pair->peer, local, remote + FILLED, FILLED).status, PF_OK);
	memset(local, 0, FILLED);
	assert_int_equal(pair_get(pair, pair->peer, local, remote + FILLED, FILLED).status, PF_OK);
	assert_int_equal(pattern_differs(local, FILLED, PATTERN), FILLED);
	munmap(local, FILLED);
	pair_end(pair);
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, teardown, (void *)(uintptr_t)MODE_##mode              \
	}
#define IN_ALL(test)                                                                               \
	IN_MODE(test, SHARED), IN_MODE(test, ALONE), IN_MODE(test, STREAM),                        \
		IN_MODE(test, THREADS), IN_MODE(test, IDLE)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_remote),       IN_ALL(test_local),     IN_ALL(test_both),
		IN_ALL(test_retries),      IN_ALL(test_peer_dies), IN_ALL(test_close),
		IN_ALL(test_others_go_on), IN_ALL(test_userfault),
	};

	return cmocka_run_group_tests_name("retransmit", tests, NULL, NULL);
}
