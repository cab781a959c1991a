/* SPDX-License-Identifier: BSD-3-Clause */
/* What remains of a context after it: nothing. */
#include "pair.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static unsigned entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static unsigned lines(const char *path, const char *with)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	unsigned count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, with) != NULL;
	fclose(file);
	return count;
}

struct use {
	unsigned descriptors, threads, mappings;
};

static struct use used(void)
{
	return (struct use){
		.descriptors = entries("/proc/self/fd"),
		.threads = entries("/proc/self/task"),
		.mappings = lines("/proc/self/maps", "memfd:libpf"),
	};
}

static bool same(struct use a, struct use b)
{
	return a.descriptors == b.descriptors && a.threads == b.threads && a.mappings == b.mappings;
}

static void check_same(struct use now, struct use before)
{
	assert_int_equal(now.descriptors, before.descriptors);
	assert_int_equal(now.threads, before.threads);
	assert_int_equal(now.mappings, before.mappings);
}

static void test_open_close(void **state)
{
	struct use before = used();
	int round;

	for (round = 0; round < 50; round++) {
		pf_options options = pair_options();
		pf_context *context;

		assert_int_equal(pf_open(&options, &context), PF_OK);
		assert_false(same(used(), before));
		pf_close(context);
		check_same(used(), before);
	}
}

static void everything(struct pair *pair, uint8_t *local)
{
	static struct pair_done done; /* they may complete after this returns */
	int i;

	assert_int_equal(
		pair_put(pair, pair->peer, local, remote_address(pair->window), MIB).status, PF_OK);
	assert_int_equal(
		pair_get(pair, pair->peer, local, remote_address(pair->window), 100).status, PF_OK);
	assert_int_equal(pair_put(pair, pair->peer, local, 4096, MIB).status, PF_ERR_FAULT);
	assert_int_equal(
		pair_atomic(pair, pair->peer, PF_ADD, 8, remote_address(pair->window), 1, 0).status,
		PF_OK);
	assert_int_equal(pair_send(pair, pair->peer, 0, local, 1000), PF_DONE);
	/* And some that are not done when the context is closed. */
	for (i = 0; i < 20; i++) {
		pf_put(pair->peer, local, remote_address(pair->window), MIB, pair_completed, &done);
		pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window), 1, 0,
			  pair_completed, &done);
	}
	for (i = 0; i < 10; i++)
		pf_progress(pair->context);
}

static void each_end(bool stream, int end)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = MIB };
	uint8_t *local = calloc(1, MIB);
	struct use before = used();
	int round;

	assert_non_null(local);
	setup.here.single_copy = setup.there.single_copy = !stream;
	for (round = 0; round < 50; round++) {
		struct pair *pair = pair_start(&setup);

		everything(pair, local);
		if (end) {
			pair_kill(pair, 1);
			if (end == 2) {
				pf_flush(pair->context, NULL);
				while (!strstr(pf_peer_path(pair->peer), "gone"))
					pf_progress(pair->context);
			}
		}
		pair_end(pair);
		check_same(used(), before);
	}
	free(local);
}

static void test_closed(void **state)
{
	each_end(false, 0);
}

static void test_closed_stream(void **state)
{
	each_end(true, 0);
}

static void test_killed(void **state)
{
	each_end(false, 1);
}

static void test_killed_noticed(void **state)
{
	each_end(true, 2);
}

/* Peers come and go while the context stays: it does not grow by those that went. */
static void test_peers_go(void **state)
{
	struct use before;
	pf_context *context, *other;
	pf_options options = pair_options();
	uint8_t address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	int round, i;

	assert_int_equal(pf_open(&options, &context), PF_OK);
	pf_address(context, address, &length);
	before = used();
	for (round = 0; round < 50; round++) {
		pf_peer *peer, *back;
		uint8_t other_address[PF_ADDRESS_MAX];

		assert_int_equal(pf_open(&options, &other), PF_OK);
		assert_int_equal(pf_peer_open(other, address, length, NULL, &peer), PF_OK);
		assert_int_equal(pf_send(peer, 0, "x", 1, NULL, 0), PF_DONE);
		pf_address(other, other_address, &length);
		assert_int_equal(pf_peer_open(context, other_address, length, NULL, &back), PF_OK);
		assert_int_equal(pf_send(back, 0, "x", 1, NULL, 0), PF_DONE);
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
		check_same(used(), before);
	}
	pf_close(context);
}

/* A program that this process becomes, or starts, inherits nothing. */
static void test_close_on_exec(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = MIB };
	bool existed[1024] = { false };
	struct pair *pair;
	uint8_t *local = calloc(1, MIB);
	int fd, checked = 0;

	assert_non_null(local);
	for (fd = 0; fd < 1024; fd++)
		existed[fd] = fcntl(fd, F_GETFD) >= 0;
	pair = pair_start(&setup);
	everything(pair, local);
	for (fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || existed[fd])
			continue;
		assert_true(flags & FD_CLOEXEC);
		checked++;
	}
	assert_true(checked > 5);
	/* Nor is there anything that a crash would leave behind. */
	assert_int_equal(lines("/proc/self/maps", "/dev/shm"), 0);
	pair_end(pair);
	free(local);
}

/* The application's own signals are its own: the service thread takes none of them. */
static volatile sig_atomic_t signals, elsewhere;
static pthread_t main_thread;

static void on_signal(int number)
{
	signals++;
	if (!pthread_equal(pthread_self(), main_thread))
		elsewhere++;
}

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
	assert_int_equal(pf_open(&options, &context), PF_OK);
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

/* SIGPIPE of a dead peer's socket must not reach the application. */
static void test_no_sigpipe(void **state)
{
	struct sigaction action = { .sa_handler = SIG_DFL }, before;

	sigaction(SIGPIPE, &action, &before);
	each_end(true, 2);
	sigaction(SIGPIPE, &before, NULL);
}

/* The thread sanitizer starts a thread of its own with the first. */
static int start_once(void **state)
{
	pf_options options = pair_options();
	pf_context *context;

	if (pf_open(&options, &context) != PF_OK)
		return -1;
	pf_close(context);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_close),
		cmocka_unit_test_teardown(test_closed, pair_teardown),
		cmocka_unit_test_teardown(test_closed_stream, pair_teardown),
		cmocka_unit_test_teardown(test_killed, pair_teardown),
		cmocka_unit_test_teardown(test_killed_noticed, pair_teardown),
		cmocka_unit_test(test_peers_go),
		cmocka_unit_test_teardown(test_close_on_exec, pair_teardown),
		cmocka_unit_test(test_signals),
		cmocka_unit_test_teardown(test_no_sigpipe, pair_teardown),
	};

	return cmocka_run_group_tests_name("leftover", tests, start_once, NULL);
}
