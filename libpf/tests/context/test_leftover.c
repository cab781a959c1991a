/* SPDX-License-Identifier: BSD-3-Clause */
/* After pf_close nothing of a context remains in the process. */
#include "pair.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static unsigned count_mappings(const char *name)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[4096];
	unsigned count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, name) != NULL;
	fclose(file);
	return count;
}

struct use {
	unsigned descriptors, threads, mappings;
};

static struct use used(void)
{
	return (struct use){ count_descriptors(), count_entries("/proc/self/task"),
			     count_mappings("memfd:libpf") };
}

static bool same(struct use a, struct use b)
{
	return a.descriptors == b.descriptors && a.threads == b.threads && a.mappings == b.mappings;
}

/*
 * A thread that was joined may still be in /proc: the kernel wakes the one that waits for it before
 * it removes it.
 */
static void check_same(struct use before)
{
	struct use now = used();
	int i;

	for (i = 0; i < 5000 && now.threads != before.threads; i++) {
		usleep(1000);
		now = used();
	}
	assert_int_equal(now.descriptors, before.descriptors);
	assert_int_equal(now.threads, before.threads);
	assert_int_equal(now.mappings, before.mappings);
}

static void test_open_close(void **state)
{
	pf_options options = pair_options();
	struct use before = used();
	int round;

	for (round = 0; round < 50; round++) {
		pf_context *context;

		assert_ok(pf_open(&options, NULL, &context));
		assert_false(same(used(), before));
		pf_close(context);
		check_same(before);
	}
}

/* Use all operations, and leave some incomplete. */
static void use_all(struct pair *pair, uint8_t *local)
{
	static struct pair_done done; /* completions may come after this function */
	uint64_t window = remote_address(pair->window);
	int i;

	pair_connect(pair);
	assert_ok(pair_put(pair, pair->peer, local, window, MIB).status);
	assert_ok(pair_get(pair, pair->peer, local, window, 100).status);
	assert_status(pair_put(pair, pair->peer, local, 4096, MIB).status, PF_ERR_FAULT);
	assert_status(pair_send(pair, pair->peer, 0, local, 1000), PF_OK);
	for (i = 0; i < 20; i++) {
		pf_put(pair->peer, local, window, MIB, 0, pair_completed, &done);
		pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, window, 1, 0, pair_completed, &done);
	}
	for (i = 0; i < 10; i++)
		pf_progress(pair->context);
}

enum end { CLOSE, KILL, KILL_AND_NOTICE };

static void open_and_end(void **state, enum end end)
{
	uint8_t *local = test_alloc(MIB);
	struct use before = used();
	int round;

	for (round = 0; round < 50; round++) {
		struct pair *pair = pair_open(state, .window = MIB);

		use_all(pair, local);
		if (end != CLOSE)
			pair_kill(pair, 1);
		if (end == KILL_AND_NOTICE) {
			pf_flush(pair->context, NULL, PF_FOREVER);
			while (!strstr(pf_peer_path(pair->peer), "gone"))
				pf_progress(pair->context);
		}
		pair_end(pair);
		check_same(before);
	}
	free(local);
}

static void test_closed(void **state)
{
	open_and_end(state, CLOSE);
}

static void test_killed(void **state)
{
	open_and_end(state, KILL);
}

/* Writing to the dead peer's socket does not raise SIGPIPE either. */
static void test_killed_noticed(void **state)
{
	struct sigaction action = { .sa_handler = SIG_DFL }, before;

	sigaction(SIGPIPE, &action, &before);
	open_and_end(state, KILL_AND_NOTICE);
	sigaction(SIGPIPE, &before, NULL);
}

/* Peers start and end while the context stays: it does not grow. */
static void test_peers_end(void **state)
{
	struct use before;
	pf_context *context, *other;
	pf_options options = pair_options();
	uint8_t address[PF_ADDRESS_MAX], other_address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_peer *peer, *back;
	int round, i;

	assert_ok(pf_open(&options, NULL, &context));
	pf_address(context, address, &length);
	before = used();
	for (round = 0; round < 50; round++) {
		assert_ok(pf_open(&options, NULL, &other));
		assert_ok(pf_peer_open(other, address, length, NULL, &peer));
		assert_status(pf_send(peer, 0, "x", 1, NULL, 0), PF_OK);
		pf_address(other, other_address, &length);
		assert_ok(pf_peer_open(context, other_address, length, NULL, &back));
		assert_status(pf_send(back, 0, "x", 1, NULL, 0), PF_OK);
		for (i = 0; i < 20; i++) {
			pf_progress(context);
			pf_progress(other);
			usleep(100);
		}
		pf_close(other);
		for (i = 0; i < 2000 && !same(used(), before); i++) {
			pf_progress(context);
			usleep(1000);
		}
		check_same(before);
	}
	pf_close(context);
}

/* A program that this process executes inherits no descriptor. */
static void test_close_on_exec(void **state)
{
	bool existed[1024] = { false };
	struct pair *pair;
	uint8_t *local = test_alloc(MIB);
	int fd, checked = 0;

	for (fd = 0; fd < 1024; fd++)
		existed[fd] = fcntl(fd, F_GETFD) >= 0;
	pair = pair_open(state, .window = MIB);
	use_all(pair, local);
	for (fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || existed[fd])
			continue;
		assert_true(flags & FD_CLOEXEC);
		checked++;
	}
	assert_true(checked > 5);
	/* Nor is there a file that a crash would leave behind. */
	assert_int_equal(count_mappings("/dev/shm"), 0);
	pair_end(pair);
	free(local);
}

static volatile sig_atomic_t signals, elsewhere;
static pthread_t main_thread;

static void on_signal(int number)
{
	signals++;
	if (!pthread_equal(pthread_self(), main_thread))
		elsewhere++;
}

/* The service thread handles none of the application's signals. */
static void test_signals(void **state)
{
	struct sigaction action = { .sa_handler = on_signal }, before;
	pf_options options = pair_options();
	pf_context *context;
	sigset_t mask_before = { 0 }, mask_after = { 0 };
	int i;

	main_thread = pthread_self();
	sigaction(SIGUSR1, &action, &before);
	pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
	assert_ok(pf_open(&options, NULL, &context));
	pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
	assert_memory_equal(&mask_before, &mask_after, sizeof(mask_before));
	for (i = 0; i < 100; i++) {
		kill(getpid(), SIGUSR1);
		usleep(100);
	}
	assert_true(signals > 0);
	assert_int_equal(elsewhere, 0);
	pf_close(context);
	sigaction(SIGUSR1, &before, NULL);
}

/* The thread sanitizer starts a thread of its own with the first one of the program. */
static void start_thread(void)
{
	pf_options options = pair_options();
	pf_context *context;

	if (pf_open(&options, NULL, &context) == PF_OK)
		pf_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_close),    IN_MODE(test_closed, DEFAULT),
		IN_MODE(test_closed, STREAM),         IN_MODE(test_killed, DEFAULT),
		IN_MODE(test_killed_noticed, STREAM), cmocka_unit_test(test_peers_end),
		PAIR_TEST(test_close_on_exec),        cmocka_unit_test(test_signals),
	};

	start_thread();
	return pair_run_tests("leftover", tests);
}
