/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that may not copy from each other, as in most containers: the
 * same operations with the same results, through the ring, and a sentence that
 * says why. The filter here is what Docker's default profile once did.
 */
#include "pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef PAIR_OVER_NET
static const bool over_net = true;
#else
static const bool over_net = false;
#endif

#define MIB ((size_t)1 << 20)
#define WINDOW (4 * MIB)

/* From now on this thread, and those that it starts, get error for these calls. */
static bool forbid(int error, long first, long second)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)first, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)second, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

	/* For all threads: the service thread probes as well. */
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static bool forbid_copies(int error)
{
	return forbid(error, SYS_process_vm_readv, SYS_process_vm_writev);
}

/* Partner 1 starts everything, partner 2 is what it is done to; either may be forbidden to copy. */
enum who { NOBODY, INITIATOR, TARGET, BOTH };

static enum who forbidden;
static int forbidden_error;

static void prepare(struct pair *me)
{
	bool initiator = me->side == 1;

	if (forbidden == BOTH || (forbidden == INITIATOR && initiator) ||
	    (forbidden == TARGET && !initiator))
		pair_check(me, forbid_copies(forbidden_error));
}

static void transfers(struct pair *me, pf_peer *peer)
{
	static const size_t sizes[] = { 1, 8, 4097, 65535, 65536, 200000, MIB + 3 };
	uint8_t *local = malloc(2 * MIB);
	pf_completion completion;
	size_t i, round;

	pair_check(me, local);
	for (round = 0; round < 4; round++) {
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			pattern_fill(local, sizes[i], i + round);
			pair_check_status(me,
					  pair_put(me, peer, local, remote_address(me->window + 5),
						   sizes[i])
						  .status,
					  PF_OK);
			pair_check(me, pattern_differs(me->window + 5, sizes[i], i + round) ==
					       sizes[i]);
			memset(local, 0, sizes[i]);
			pair_check_status(me,
					  pair_get(me, peer, local, remote_address(me->window + 5),
						   sizes[i])
						  .status,
					  PF_OK);
			pair_check(me, pattern_differs(local, sizes[i], i + round) == sizes[i]);
		}
	}
	/* Faults are reported as ever. */
	completion = pair_put(me, peer, local, 4096, 100000);
	pair_check(me, completion.status == PF_ERR_FAULT && completion.side == PF_SIDE_REMOTE &&
			       completion.address == 4096);
	completion = pair_get(me, peer, local, 4096, 100);
	pair_check(me, completion.status == PF_ERR_FAULT && completion.side == PF_SIDE_REMOTE &&
			       completion.address == 4096);
	completion = pair_put(me, peer, (void *)4096, remote_address(me->window), 100);
	pair_check(me, completion.status == PF_ERR_FAULT && completion.side == PF_SIDE_LOCAL &&
			       completion.address == 4096);
	pair_check(me, pair_atomic(me, peer, PF_SWAP, 8, remote_address(me->window), 3, 0).status ==
			       PF_OK);
	free(local);
}

static void initiate(struct pair *me)
{
	pf_peer *peer;

	if (me->side != 1) {
		pair_serve(me);
		return;
	}
	peer = pair_peer(me, 2);
	transfers(me, peer);
	/* For the test to look at: a static text, so it is at the same address there. */
	atomic_store(pair_value(me, 1, 0), remote_address(pf_peer_path(peer)));
	atomic_store(pair_value(me, 1, 1), pf_stat(me->context, PF_STAT_STREAM_BYTES));
	atomic_store(pair_value(me, 1, 2), pf_stat(me->context, PF_STAT_SINGLE_COPY_BYTES));
	pair_say(me, 1);
	pair_serve(me);
}

static struct pair *run(enum who who, int error)
{
	struct pair_setup setup = { .partners = 2,
				    .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .prepare = prepare,
				    .partner = initiate };
	struct pair *pair;

	forbidden = who;
	forbidden_error = error;
	pair = pair_start(&setup);
	pair_await(pair, 1, 1);
	return pair;
}

static void check_path(struct pair *pair, const char *text, bool ring)
{
	const char *path = (const char *)(uintptr_t)atomic_load(pair_value(pair, 1, 0));

	if (over_net) {
		assert_non_null(strstr(path, "over the network"));
		return;
	}
	if (!strstr(path, text))
		fail_msg("path: %s", path);
	assert_int_equal(atomic_load(pair_value(pair, 1, 1)) > 0, ring);
	assert_int_equal(atomic_load(pair_value(pair, 1, 2)) > 0, !ring);
}

static void test_permitted(void **state)
{
	struct pair *pair = run(NOBODY, 0);

	check_path(pair, "single copy", false);
	pair_end(pair);
}

static void test_initiator(void **state)
{
	struct pair *pair = run(INITIATOR, EPERM);

	check_path(pair, "process_vm_readv is not permitted", true);
	pair_end(pair);
}

static void test_target(void **state)
{
	struct pair *pair = run(TARGET, EPERM);

	/* It cannot help, but the initiator can do it alone. */
	check_path(pair, "single copy", false);
	pair_end(pair);
}

static void test_both(void **state)
{
	struct pair *pair = run(BOTH, EPERM);

	check_path(pair, "process_vm_readv is not permitted", true);
	pair_end(pair);
}

static void test_no_such_call(void **state)
{
	struct pair *pair = run(BOTH, ENOSYS);

	check_path(pair, "has no process_vm_readv", true);
	pair_end(pair);
}

static void test_invisible(void **state)
{
	struct pair *pair = run(INITIATOR, ESRCH);

	check_path(pair, "not visible", true);
	pair_end(pair);
}

static void test_other_error(void **state)
{
	struct pair *pair = run(BOTH, EINVAL);

	check_path(pair, "fails", true);
	pair_end(pair);
}

/* Taken away while transfers are under way: what is left goes through the ring. */
static void lose_midway(struct pair *me)
{
	struct pair_done done = { 0 };
	const unsigned count = 30;
	uint8_t *local;
	unsigned i;

	if (me->side != 1) {
		pair_await(me, 0, 1);
		if (forbidden == TARGET || forbidden == BOTH)
			pair_check(me, forbid_copies(EPERM));
		pair_serve(me);
		return;
	}
	pf_peer *peer = pair_peer(me, 2);

	local = malloc(MIB);
	pair_check(me, local);
	pattern_fill(local, MIB, 1);
	pair_check(me, pair_put(me, peer, local, remote_address(me->window), MIB).status == PF_OK);
	pair_check(me, over_net || strstr(pf_peer_path(peer), "single copy"));
	for (i = 0; i < count; i++)
		pair_check(me, pf_put(peer, local, remote_address(me->window), MIB - i,
				      pair_completed, &done) == PF_OK);
	pair_await_done(me, &done, count / 3);
	pair_say(me, 1);
	if (forbidden != TARGET)
		pair_check(me, forbid_copies(EPERM));
	pair_await_done(me, &done, count);
	pair_check_status(me, done.failure.status, PF_OK);
	pair_check(me, pattern_differs(me->window, MIB - count, 1) == MIB - count);
	if (forbidden != TARGET && !over_net)
		pair_check(me, strstr(pf_peer_path(peer), "not permitted"));
	transfers(me, peer);
	free(local);
	pair_say(me, 2);
	pair_serve(me);
}

static void midway(enum who who)
{
	struct pair_setup setup = { .partners = 2,
				    .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .partner = lose_midway };
	struct pair *pair;

	forbidden = who;
	pair = pair_start(&setup);
	pair_await(pair, 1, 1);
	pair_say(pair, 1);
	pair_await(pair, 1, 2);
	pair_end(pair);
}

static void test_midway_initiator(void **state)
{
	midway(INITIATOR);
}

static void test_midway_target(void **state)
{
	midway(TARGET);
}

static void test_midway_both(void **state)
{
	midway(BOTH);
}

/* Nothing is pinned, so no limit on pinned memory matters. */
static void test_nothing_locked(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW };
	struct pair *pair = pair_start(&setup);
	char line[256];
	unsigned found = 0;
	FILE *status;

	transfers(pair, pair->peer);
	status = fopen("/proc/self/status", "re");
	assert_non_null(status);
	while (fgets(line, sizeof(line), status)) {
		if (strncmp(line, "VmLck:", 6) && strncmp(line, "VmPin:", 6))
			continue;
		assert_int_equal(strtoul(line + 6, NULL, 10), 0);
		found++;
	}
	fclose(status);
	assert_int_equal(found, 2);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_permitted, pair_teardown),
		cmocka_unit_test_teardown(test_initiator, pair_teardown),
		cmocka_unit_test_teardown(test_target, pair_teardown),
		cmocka_unit_test_teardown(test_both, pair_teardown),
		cmocka_unit_test_teardown(test_no_such_call, pair_teardown),
		cmocka_unit_test_teardown(test_invisible, pair_teardown),
		cmocka_unit_test_teardown(test_other_error, pair_teardown),
		cmocka_unit_test_teardown(test_midway_initiator, pair_teardown),
		cmocka_unit_test_teardown(test_midway_target, pair_teardown),
		cmocka_unit_test_teardown(test_midway_both, pair_teardown),
		cmocka_unit_test_teardown(test_nothing_locked, pair_teardown),
	};

	return cmocka_run_group_tests_name("permission", tests, NULL, NULL);
}
