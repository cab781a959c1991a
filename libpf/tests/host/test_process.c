/* SPDX-License-Identifier: BSD-3-Clause */
/* The process behind a peer: its end, however that shows, and its descriptors. */
#include "pair.h"

#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/descriptor.h"
#include "host/connection_message.h"
#include "host/incoming.h"
#include "host/peer.h"

static struct {
	unsigned count;
	int status;
	char text[200];
} error;

static void on_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	if (reason == PF_PEER_LEFT)
		return;
	error.count++;
	error.status = status;
	snprintf(error.text, sizeof(error.text), "%s", text);
}

static void await_error(struct pair *pair)
{
	while (!error.count)
		pair_progress(pair);
}

static struct pair *start_prepared(void (*prepare)(struct pair *me),
				   void (*partner)(struct pair *me))
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = 4096,
				    .prepare = prepare,
				    .partner = partner,
				    .peer_event_here = on_end };

	memset(&error, 0, sizeof(error));
	return pair_start(&setup);
}

static struct pair *start(void (*partner)(struct pair *me))
{
	return start_prepared(NULL, partner);
}

/* End, and leave a child that keeps what it inherited. */
static void leave_child(struct pair *me)
{
	pid_t test = getppid(), child = fork();

	if (!child) {
		/* Longer than its parent, but not longer than the test. */
		while (!kill(test, 0))
			usleep(10000);
		_exit(0);
	}
	atomic_store(pair_value(me, 1, 0), (uint64_t)child);
	_exit(0);
}

static void leave_child_later(struct pair *me)
{
	pair_check_status(me, pair_send(me, me->peer, 0, "x", 1), PF_OK);
	pair_await(me, 0, 1);
	leave_child(me);
}

static void test_forked_child(void **state)
{
	struct pair *pair = start(leave_child_later);
	uint8_t byte = 1;
	pid_t child;

	assert_int_equal(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			 PF_OK);
	pair_say(pair, 1);
	await_error(pair);
	child = (pid_t)atomic_load(pair_value(pair, 1, 0));
	assert_int_equal(kill(child, 0), 0);
	kill(child, SIGKILL);
	assert_int_equal(error.status, PF_ERR_PEER);
	assert_int_equal(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			 PF_ERR_PEER);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* It ended before the first contact, and its child has the listener, which answers nothing. */
static void test_forked_listener(void **state)
{
	struct pair *pair = start(leave_child);
	uint8_t byte = 1;
	pid_t child;

	pair_wait_exit(pair, 1);
	child = (pid_t)atomic_load(pair_value(pair, 1, 0));
	assert_int_equal(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			 PF_ERR_PEER);
	await_error(pair);
	assert_int_equal(error.status, PF_ERR_PEER);
	assert_int_equal(kill(child, SIGKILL), 0);
	pair_end(pair);
}

static void test_descriptors_return(void **state)
{
	struct pair *pair = start(NULL);
	unsigned before = count_descriptors();
	uint8_t bytes[4096] = { 0 };

	/* Both directions, and a look at the partner's pages. */
	assert_int_equal(pair_put(pair, pair->peer, bytes, remote_address(pair->window),
				  sizeof(bytes))
				 .status,
			 PF_OK);
	assert_int_equal(pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8,
				     remote_address(pair->window), 1, 0)
				 .status,
			 PF_OK);
	assert_true(count_descriptors() > before);
	pair_kill(pair, 1);
	await_error(pair);
	while (count_descriptors() > before)
		pair_progress(pair);
	pair_end(pair);
}

/* No descriptor more than are open already; hard: not even on request. */
static void limit_descriptors(struct pair *me, bool hard)
{
	struct rlimit limit;
	int next = dup(0);

	pair_check(me, next > 0 && !getrlimit(RLIMIT_NOFILE, &limit));
	close(next);
	limit.rlim_cur = (rlim_t)next;
	if (hard)
		limit.rlim_max = (rlim_t)next;
	pair_check(me, !setrlimit(RLIMIT_NOFILE, &limit));
}

static void call_exhausted(struct pair *me)
{
	limit_descriptors(me, true);
	pair_check_status(me, pf_send(me->peer, 0, "x", 1, NULL, 0), PF_ERR_SYSTEM);
	pair_check(me, errno == EMFILE);
	pair_check(me, strstr(pf_peer_path(me->peer), "ulimit -n") != NULL);
}

/* The caller learns it at once, with the reason. */
static void test_caller_exhausted(void **state)
{
	struct pair *pair = start(call_exhausted);

	pair_wait_exit(pair, 1);
	assert_int_equal(error.count, 0);
	pair_end(pair);
}

static void serve_exhausted(struct pair *me)
{
	limit_descriptors(me, true);
	pair_say(me, 1);
	pair_serve(me);
}

/* One that is called, and has no descriptor for the caller, says so instead of nothing. */
static void test_called_exhausted(void **state)
{
	struct pair *pair = start(serve_exhausted);
	uint8_t byte = 1;

	pair_await(pair, 1, 1);
	assert_int_equal(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			 PF_ERR_SYSTEM);
	await_error(pair);
	assert_int_equal(error.status, PF_ERR_SYSTEM);
	assert_non_null(strstr(error.text, "the peer's process is out of file descriptors"));
	assert_non_null(strstr(pf_peer_path(pair->peer), "out of file descriptors"));
	pair_end(pair);
}

#define SPARE_DESCRIPTORS 32

static int spares[SPARE_DESCRIPTORS];

/*
 * Before the partner opens the context. A limit of descriptors is one of numbers, and a call by the test takes
 * some at any time: spare numbers above those that the call gives back are above a limit at the first free
 * number, and no use when closed.
 */
static void spare_take(struct pair *me)
{
	int i;

	for (i = 0; i < SPARE_DESCRIPTORS; i++)
		pair_check(me, (spares[i] = dup(0)) > 0);
}

static void spare_close(void)
{
	int i;

	for (i = 0; i < SPARE_DESCRIPTORS; i++)
		close(spares[i]);
}

/* Number 0 of the test: whether it calls the test before. */
static void lose_caller(struct pair *me)
{
	pair_await(me, 0, 1);
	if (*pair_value(me, 0, 0)) {
		pair_check_status(me, pair_send(me, me->peer, 0, "x", 1), PF_OK);
		while (peer_state(me->peer) != PF_PEER_CONNECTED)
			pair_progress(me);
	}
	limit_descriptors(me, true);
	pair_say(me, 1);
	pair_await(me, 0, 2);
	spare_close();
	while (pf_send(me->peer, 0, "x", 1, NULL, 0) != PF_ERR_PEER)
		pair_progress(me);
	pair_say(me, 2);
	pair_serve(me);
}

/* One that has given a peer up tells it so, whichever of them has called the other. */
static void test_given_up(void **state)
{
	uint8_t byte = 1;
	unsigned called;

	for (called = 0; called < 2; called++) {
		struct pair *pair = start_prepared(spare_take, lose_caller);

		*pair_value(pair, 0, 0) = called;
		pair_say(pair, 1);
		pair_await(pair, 1, 1);
		assert_status(
			pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			PF_ERR_SYSTEM);
		await_error(pair);
		pair_say(pair, 2);
		pair_await(pair, 1, 2);
		assert_int_equal(error.count, 1);
		pair_end(pair);
	}
}

/* It connects to the test only to answer, and for a while it cannot. */
static void answer_late(struct pair *me)
{
	/* The service thread has answered the call; nothing was sent to the test yet. */
	pair_watch(me, 0, 1);
	limit_descriptors(me, true);
	while (!load64(me->window))
		pair_progress(me);
	spare_close();
	pair_serve(me);
}

/* An answer that cannot be sent for want of a descriptor waits for one. */
static void test_answer_exhausted(void **state)
{
	struct pair *pair = start_prepared(spare_take, answer_late);
	struct pair_done done = { 0 };

	assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 1, 0,
				 pair_completed, &done));
	while (peer_state(pair->peer) != PF_PEER_CONNECTED)
		pair_progress(pair);
	pair_say(pair, 1);
	pair_await_done(pair, &done, 1);
	assert_ok(done.last.status);
	assert_int_equal(error.count, 0);
	pair_end(pair);
}

static void serve_soft_limit(struct pair *me)
{
	struct rlimit limit;

	limit_descriptors(me, false);
	/* Even from nothing it grows. */
	pair_check(me, !getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 0;
	pair_check(me, !setrlimit(RLIMIT_NOFILE, &limit));
	pair_say(me, 1);
	pair_serve(me);
}

/* Only the soft limit is in the way: it is raised when it is reached. */
static void test_soft_limit(void **state)
{
	struct pair *pair = start(serve_soft_limit);
	uint8_t byte = 1;

	pair_await(pair, 1, 1);
	assert_int_equal(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			 PF_OK);
	assert_int_equal(error.count, 0);
	pair_end(pair);
}

static void call_with_short_files(struct pair *me)
{
	const struct rlimit limit = { 4096, 4096 };

	pair_check(me, !setrlimit(RLIMIT_FSIZE, &limit));
	pair_check_status(me, pf_send(me->peer, 0, "x", 1, NULL, 0), PF_ERR_SYSTEM);
	pair_check(me, errno == EFBIG);
	pair_check(me, strstr(pf_peer_path(me->peer), "ulimit -f") != NULL);
}

/* Files may not be as long as a ring: an error, and not SIGXFSZ. */
static void test_short_files(void **state)
{
	struct pair *pair = start(call_with_short_files);

	pair_wait_exit(pair, 1);
	assert_int_equal(error.count, 0);
	pair_end(pair);
}

static void send_after_limit(struct pair *me)
{
	const struct rlimit limit = { 4096, 4096 };
	uint8_t message[8192];
	unsigned i;

	pair_connect(me);
	pair_check(me, !setrlimit(RLIMIT_FSIZE, &limit));
	for (i = 0; i < 100; i++) {
		pattern_fill(message, sizeof(message), i);
		pair_check_status(me, pair_send(me, me->peer, 0, message, sizeof(message)), PF_OK);
	}
	/* Through the ring by the kernel, which would write to the file. */
	pair_check_status(me,
			  pair_put(me, me->peer, message, remote_address(me->window), 4096).status,
			  PF_ERR_FAULT);
	pair_say(me, 1);
	pair_serve(me);
}

static void put_without_descriptor(struct pair *me)
{
	struct host_peer *peer = (struct host_peer *)me->peer;
	const struct rlimit limit = { 3, 3 };
	const void *outer;
	uint64_t word = 1;

	pair_connect(me);
	outer = check_enter(progress, me->context);
	host_peer_refuse_copy(peer, EPERM);
	check_leave(progress, outer);
	/* Before Linux 5.14, and where the kernel refuses single copy, the ring has a file. */
	if (peer->out.fd < 0 && host_peer_route(peer) != &route_device) {
		pair_check(me, !setrlimit(RLIMIT_NOFILE, &limit));
		pair_check_status(me,
				  pair_put(me, me->peer, &word, remote_address(me->window),
					   sizeof(word))
					  .status,
				  PF_ERR_MEMORY);
	}
	pair_say(me, 1);
	pair_serve(me);
}

/* A copy by way of a file, without a descriptor for the file: no bad address. */
static void test_no_descriptor(void **state)
{
	struct pair *pair = start(put_without_descriptor);

	pair_await(pair, 1, 1);
	pair_end(pair);
}

static void check_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	_Atomic uint64_t *count = pair_value(me, 0, 0);

	if (length == 8192)
		pair_check_pattern(me, data, length, (*count)++);
}

/* The same when the rings are there already: messages go on. */
static void test_short_files_later(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = 4096,
				    .partner = send_after_limit,
				    .receive_here = check_message,
				    .peer_event_here = on_end };
	struct pair *pair;

	memset(&error, 0, sizeof(error));
	setup.there.single_copy = 0;
	setup.there.transport = PF_TRANSPORT_HOST;
	pair = pair_start(&setup);
	pair_await(pair, 1, 1);
	pair_await_value(pair, 0, 0, 100);
	assert_int_equal(error.count, 0);
	pair_end(pair);
}

static int supply_nothing(pf_context *context, uint64_t address, void *page, size_t length,
			  void *arg)
{
	return PF_ERR_SYSTEM;
}

/* Also where only page faults need descriptors: the look at the pages of a peer, and a pager. */
static void test_soft_limit_faults(void **state)
{
	struct pair *pair = start(NULL);
	struct host_peer *peer = (struct host_peer *)pair->peer;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *paged = test_map(page), byte = 1;
	struct rlimit limit;
	pf_pager *pager;

	/* No transfer yet, so no look. */
	assert_ok(
		pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 1, 0)
			.status);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit_descriptors(pair, false);
	assert_ok(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status);
	if (!pair_on_device(&pair->options)) {
		assert_non_null(peer->residency);
		assert_true(peer->residency->pagemap >= 0);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	limit_descriptors(pair, false);
	assert_ok(pf_pager_register(pair->context, paged, page, supply_nothing, NULL, &pager));
	pf_pager_unregister(pager);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	munmap(paged, page);
	pair_end(pair);
}

static void *run_on(void *arg)
{
	struct pair *me = arg;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *paged = test_map(page);
	pf_completion completion;
	pf_context *other;
	pf_pager *pager;

	pair_await(me, 0, 2);
	completion = pair_put(me, me->peer, me->window, 4096, 8);
	pair_check(me, pair_is_fault(&completion, PF_SIDE_REMOTE, 4096));
	pair_check_status(me,
			  pf_pager_register(me->context, paged, page, supply_nothing, NULL, &pager),
			  PF_OK);
	pf_pager_unregister(pager);
	pair_check_status(me, pf_open(&me->options, NULL, &other), PF_OK);
	pf_close(other);
	pair_serve(me);
	pf_close(me->context);
	_exit(0);
}

static void end_main_thread(struct pair *me)
{
	pthread_t thread;

	pair_await(me, 0, 1);
	pair_check(me, !pthread_create(&thread, NULL, run_on, me));
	pthread_exit(NULL);
}

/* The kernel copies nothing to or from a process whose main thread has ended, but it lives. */
static void test_main_thread(void **state)
{
	struct pair *pair = start(end_main_thread);
	uint8_t *local = test_alloc(4096);
	struct iovec here = { local, 1 }, there = { pair->window, 1 };

	pair_exchange(pair, 1, local, pair->window, 4096, 1);
	pair_say(pair, 1);
	while (process_vm_readv(pair_pid(pair, 1), &here, 1, &there, 1, 0) == 1)
		pair_progress(pair);
	pair_say(pair, 2);
	pair_exchange(pair, 1, local, pair->window, 4096, 3);
	assert_ok(
		pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 1, 0)
			.status);
	if (!pair_on_device(&pair->options))
		assert_non_null(strstr(pf_peer_path(pair->peer), "main thread has ended"));
	assert_int_equal(error.count, 0);
	free(local);
	pair_end(pair);
}

/* Also where a context is opened, and its descriptor. */
static void test_soft_limit_open(void **state)
{
	struct pair *pair = start(NULL);
	struct rlimit limit;
	pf_context *other;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit_descriptors(pair, false);
	assert_ok(pf_open(&pair->options, NULL, &other));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	limit_descriptors(pair, false);
	assert_ok(pf_descriptor(other, &fd));
	pf_close(other);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	pair_end(pair);
}

static void *try_again(void *arg)
{
	bool *raised = arg;

	raised[1] = descriptor_limit_raised(EMFILE);
	raised[2] = descriptor_limit_raised(EMFILE);
	return NULL;
}

/* A thread whose call failed before another one raised the limit to its end tries again. */
static void test_raised_meanwhile(void **state)
{
	const bool expected[] = { true, true, false };
	struct rlimit limit, low;
	bool raised[3];
	pthread_t thread;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = limit.rlim_max - 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	raised[0] = descriptor_limit_raised(EMFILE);
	assert_int_equal(pthread_create(&thread, NULL, try_again, raised), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_memory_equal(raised, expected, sizeof(raised));
}

#define FULL_SOCKETS 4
#define FULL_MESSAGES 50

/* The user has more descriptors in flight than the process may have open, for a while. */
static void serve_in_flight(struct pair *me)
{
	struct connection_message message = { .magic = CONNECTION_MAGIC, .kind = CONNECTION_HELLO };
	const struct rlimit limit = { FULL_SOCKETS * FULL_MESSAGES / 2,
				      FULL_SOCKETS * FULL_MESSAGES / 2 };
	int ends[FULL_SOCKETS][2], i, j;

	/* The kernel has no such limit for root. */
	pair_check(me, getuid() || !setresuid(65534, 65534, 65534));
	for (i = 0; i < FULL_SOCKETS; i++) {
		pair_check(me, !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends[i]));
		for (j = 0; j < FULL_MESSAGES; j++)
			pair_check_status(me, connection_message_send(ends[i][0], &message, 0),
					  PF_OK);
	}
	pair_check(me, !setrlimit(RLIMIT_NOFILE, &limit));
	pair_check_status(me, connection_message_send(ends[0][0], &message, 0), PF_ERR_AGAIN);
	pair_say(me, 1);
	/* Time for a call, and for more than one attempt to answer it. */
	for (i = 0; i < 10; i++)
		pair_linger(me);
	for (i = 0; i < FULL_SOCKETS; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
	pair_serve(me);
}

/* Then the answer to a call waits, and nothing is lost. */
static void test_in_flight(void **state)
{
	struct pair *pair = start(serve_in_flight);
	uint8_t byte = 1;

	pair_await(pair, 1, 1);
	assert_int_equal(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
			 PF_OK);
	assert_int_equal(pair->window[0], 1);
	assert_int_equal(error.count, 0);
	pair_end(pair);
}

/* The linker puts this in the place of libevent's function. */
struct event;
struct event_base;
typedef void (*event_function)(int fd, short what, void *arg);
struct event *__real_event_new(struct event_base *base, int fd, short what, event_function function,
			       void *arg);
struct event *__wrap_event_new(struct event_base *base, int fd, short what, event_function function,
			       void *arg);
static _Atomic bool short_of_memory;
static _Atomic unsigned events;

struct event *__wrap_event_new(struct event_base *base, int fd, short what, event_function function,
			       void *arg)
{
	return short_of_memory && events++ % 2 == 0 ?
		       NULL :
		       __real_event_new(base, fd, what, function, arg);
}

/* Connections wait for memory for their events. */
static void test_events(void **state)
{
	struct pair *pair = start(NULL);
	uint8_t byte = 1;

	short_of_memory = true;
	assert_ok(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status);
	pair_kill(pair, 1);
	await_error(pair);
	short_of_memory = false;
	assert_true(events >= 3);
	assert_int_equal(error.status, PF_ERR_PEER);
	pair_end(pair);
}

/* Two sockets, one to watch the process, and one to look at its pages. */
#define DESCRIPTORS_MOST 4
/* The rings', without single copy. */
#define DESCRIPTORS_OF_RINGS 2

static void serve_touched(struct pair *me)
{
	*pair_value(me, 1, 1) = 1;
	pair_serve(me);
}

static void test_few_descriptors(void **state)
{
	struct pair *pair = start(serve_touched);
	const struct host_peer *peer = (struct host_peer *)pair->peer;
	const uint64_t there = remote_address(pair_value(pair, 1, 1));
	unsigned before = count_descriptors(), most = DESCRIPTORS_MOST, i;
	uint64_t word = 1;

	/* The partner has touched the page: where none is absent, no mappings are looked at. */
	pair_await_value(pair, 1, 1, 1);
	/* Both directions. */
	assert_ok(pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, there, 1, 0).status);
	assert_ok(pair_put(pair, pair->peer, &word, there, sizeof(word)).status);
	assert_ok(pair_get(pair, pair->peer, &word, there, sizeof(word)).status);
	if (peer->copy_error)
		most += DESCRIPTORS_OF_RINGS;
	/* The service thread closes those of a message after progress has heard of the message. */
	for (i = 0; i < 5000 && count_descriptors() - before > most; i++)
		usleep(1000);
	assert_in_range(count_descriptors() - before, 2, most);
	pair_end(pair);
}

/*
 * A program with many files: libpf raises the soft limit and takes numbers that select(2) cannot use, so
 * that the program's next descriptor is one that it can.
 */
static void test_low_numbers(void **state)
{
	const struct host_peer *peer;
	struct rlimit limit, before;
	struct pair *pair;
	int spare[512], count = 0, next;
	uint8_t byte = 1;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	if (before.rlim_max < 2 * FD_SETSIZE)
		skip();
	limit = (struct rlimit){ FD_SETSIZE, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	do {
		assert_true(count < (int)ARRAY_SIZE(spare));
		spare[count] = dup(STDOUT_FILENO);
		assert_true(spare[count] >= 0);
	} while (spare[count++] < 300);
	pair = start(NULL);
	pair_connect(pair);
	assert_ok(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status);
	peer = (struct host_peer *)pair->peer;
	/* With single copy the channels have none. */
	assert_true(peer->out.fd < 0 || peer->out.fd >= FD_SETSIZE);
	assert_true(peer->incoming->channel.fd < 0 || peer->incoming->channel.fd >= FD_SETSIZE);
	if (!pair_on_device(&pair->options) && peer->residency && peer->residency->pagemap >= 0)
		assert_true(peer->residency->pagemap >= FD_SETSIZE);
	next = dup(STDOUT_FILENO);
	assert_true(next < 300 + 100);
	close(next);
	pair_end(pair);
	while (count--)
		close(spare[count]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* ---- the number of a process that ended ---- */

/* Private memory, at the same address in the test and in each process that it forks. */
static uint64_t private_word;

struct held {
	struct task task;
	sem_t begun, over;
};

static void hold(struct task *task, bool dropped)
{
	struct held *held = (struct held *)task;

	sem_post(&held->begun);
	sem_wait(&held->over);
}

static void service_hold(struct pair *pair, struct held *held)
{
	*held = (struct held){ .task.run = hold };
	sem_init(&held->begun, 0, 0);
	sem_init(&held->over, 0, 0);
	service_run(&pair->context->service, &held->task);
	sem_wait(&held->begun);
}

/* A child of this process with that number; -1 with errno. */
static pid_t fork_as(pid_t number)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD,
					.set_tid = (uintptr_t)&number,
					.set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
}

/* A process with the number of a peer that ended: wait until told, then check the memory. */
static void successor(int told)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(read(told, &byte, 1) == 1 && !private_word ? 0 : 1);
}

/* Does the kernel mark robust mutexes of threads that end? An emulator does not. */
static bool marks_ends(void)
{
	void *head;
	size_t length;

	return !syscall(SYS_get_robust_list, 0, &head, &length);
}

/*
 * A peer ends while the service thread is busy, and another process gets its number. The next put
 * finds that the peer has ended, and does not reach the other process.
 */
static void test_number_reused(void **state)
{
	const uint64_t value = 1;
	const struct process *process;
	int told[2], status, i;
	struct held held;
	struct pair *pair;
	pid_t child;

	if (!marks_ends())
		skip();
	pair = start(NULL);
	assert_int_equal(pair_put(pair, pair->peer, &value, remote_address(pair->window), 8).status,
			 PF_OK);
	process = ((struct host_peer *)pair->peer)->process;
	assert_false(process_is_dead(process));
	service_hold(pair, &held);
	pair_kill(pair, 1);
	assert_true(process_is_dead(process));
	assert_int_equal(pipe(told), 0);
	child = fork_as(process->pid);
	if (!child)
		successor(told[0]);
	/* Without the privilege the kernel chooses the numbers: then only the mark was tested. */
	for (i = 0; i < 100 && child > 0; i++) {
		assert_status(pf_put(pair->peer, &value, remote_address(&private_word), 8, 0, NULL,
				     NULL),
			      PF_PENDING);
		pf_progress(pair->context);
	}
	if (child > 0) {
		assert_int_equal(write(told[1], "x", 1), 1);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	sem_post(&held.over);
	await_error(pair);
	assert_int_equal(error.status, PF_ERR_PEER);
	close(told[0]);
	close(told[1]);
	pair_end(pair);
}

static void run_another_program(struct pair *me)
{
	pair_await(me, 0, 1);
	execl("/bin/sleep", "sleep", "600", NULL);
	_exit(1);
}

/* The same for a peer that runs another program: it keeps its number. */
static void test_exec(void **state)
{
	const uint64_t value = 1;
	const struct process *process;
	struct held held;
	struct pair *pair;

	if (!marks_ends())
		skip();
	pair = start(run_another_program);
	assert_int_equal(pair_put(pair, pair->peer, &value, remote_address(pair->window), 8).status,
			 PF_OK);
	process = ((struct host_peer *)pair->peer)->process;
	service_hold(pair, &held);
	pair_say(pair, 1);
	while (!process_is_dead(process))
		usleep(1000);
	sem_post(&held.over);
	await_error(pair);
	assert_int_equal(error.status, PF_ERR_PEER);
	pair_kill(pair, 1);
	pair_end(pair);
}

static int flushed;

static void flush_inside(pf_context *context, const pf_completion *completion)
{
	flushed = pf_flush(context, NULL, PF_FOREVER);
}

/* From a callback, pf_flush would wait for the very operation that the callback is of. */
static void flush_in_callback(bool threads)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = 4096 };
	struct pair *pair;

	setup.here.threads = threads;
	pair = pair_start(&setup);
	flushed = 1;
	assert_int_equal(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 1, 0,
				   flush_inside, NULL),
			 PF_PENDING);
	assert_int_equal(pf_flush(pair->context, NULL, PF_FOREVER), PF_OK);
	assert_int_equal(flushed, PF_ERR_ARGUMENT);
	pair_end(pair);
}

static void test_flush(void **state)
{
	flush_in_callback(false);
	flush_in_callback(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_forked_child, pair_teardown),
		cmocka_unit_test_teardown(test_forked_listener, pair_teardown),
		cmocka_unit_test_teardown(test_descriptors_return, pair_teardown),
		cmocka_unit_test_teardown(test_caller_exhausted, pair_teardown),
		cmocka_unit_test_teardown(test_called_exhausted, pair_teardown),
		cmocka_unit_test_teardown(test_given_up, pair_teardown),
		cmocka_unit_test_teardown(test_answer_exhausted, pair_teardown),
		cmocka_unit_test_teardown(test_soft_limit, pair_teardown),
		cmocka_unit_test_teardown(test_soft_limit_faults, pair_teardown),
		cmocka_unit_test_teardown(test_soft_limit_open, pair_teardown),
		cmocka_unit_test_teardown(test_few_descriptors, pair_teardown),
		cmocka_unit_test_teardown(test_no_descriptor, pair_teardown),
		cmocka_unit_test_teardown(test_low_numbers, pair_teardown),
		cmocka_unit_test(test_raised_meanwhile),
		cmocka_unit_test_teardown(test_main_thread, pair_teardown),
		cmocka_unit_test_teardown(test_in_flight, pair_teardown),
		cmocka_unit_test_teardown(test_short_files, pair_teardown),
		cmocka_unit_test_teardown(test_short_files_later, pair_teardown),
		cmocka_unit_test_teardown(test_number_reused, pair_teardown),
		cmocka_unit_test_teardown(test_exec, pair_teardown),
		cmocka_unit_test_teardown(test_events, pair_teardown),
		cmocka_unit_test_teardown(test_flush, pair_teardown),
	};

	return pair_run_tests("process", tests);
}
