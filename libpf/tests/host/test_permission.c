/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that may not copy from each other, as in most containers: the same operations have the
 * same results, through the ring, and pf_peer_path says why. The seccomp filter is like the one of
 * old default profiles of Docker.
 */
#include "pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/tracer.h"

#define WINDOW (4 * MIB)

/* From now on the filter answers these two system calls of every thread of this process so. */
static bool filter_calls(unsigned call, unsigned other, uint32_t answer)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static bool forbid_copies(int error)
{
	return filter_calls(SYS_process_vm_readv, SYS_process_vm_writev,
			    SECCOMP_RET_ERRNO | (uint32_t)error);
}

/* Sides of the partners. Partner 1 initiates everything, partner 2 is the target. */
enum { NONE = 0, INITIATOR = 1, TARGET = 2, BOTH = 3 };

struct permission_case {
	const char *name;
	unsigned forbidden; /* which partners may not copy */
	int error;
	const char *path; /* what the initiator's pf_peer_path contains */
	bool ring;        /* the bytes go through the ring */
};

/* If the target may not copy, the initiator does it alone. */
static const struct permission_case cases[] = {
	{ "permitted", NONE, 0, "single copy", false },
	{ "EPERM, initiator", INITIATOR, EPERM, "process_vm_readv is not permitted", true },
	{ "EPERM, target", TARGET, EPERM, "single copy", false },
	{ "EPERM, both", BOTH, EPERM, "process_vm_readv is not permitted", true },
	{ "ENOSYS, both", BOTH, ENOSYS, "has no process_vm_readv", true },
	{ "ESRCH, initiator", INITIATOR, ESRCH, "not visible", true },
	{ "EINVAL, both", BOTH, EINVAL, "fails", true },
};

/* The case of the current test; the partners inherit it. */
static const struct permission_case *current;

static void forbid_if_current(struct pair *me)
{
	if (current->forbidden & me->side)
		pair_check(me, forbid_copies(current->error));
}

static void transfers(struct pair *me, pf_peer *peer)
{
	static const size_t sizes[] = { 1, 8, 4097, 65535, 65536, 200000, MIB + 3 };
	uint8_t *local = test_alloc(2 * MIB);
	pf_completion completion;
	size_t i;

	for (i = 0; i < 4 * ARRAY_SIZE(sizes); i++)
		pair_exchange(me, 2, local, me->window + 5, sizes[i % ARRAY_SIZE(sizes)], i);
	/* Faults are reported as usual. */
	completion = pair_put(me, peer, local, 4096, 100000);
	pair_check(me, pair_is_fault(&completion, PF_SIDE_REMOTE, 4096));
	completion = pair_get(me, peer, local, 4096, 100);
	pair_check(me, pair_is_fault(&completion, PF_SIDE_REMOTE, 4096));
	completion = pair_put(me, peer, (void *)4096, remote_address(me->window), 100);
	pair_check(me, pair_is_fault(&completion, PF_SIDE_LOCAL, 4096));
	completion = pair_atomic(me, peer, PF_ATOMIC_SWAP, 8, remote_address(me->window), 3, 0);
	pair_check_status(me, completion.status, PF_OK);
	free(local);
}

static void initiate(struct pair *me)
{
	const char *path;

	if (me->side != INITIATOR)
		return;
	transfers(me, pair_peer(me, TARGET));
	path = pf_peer_path(pair_peer(me, TARGET));
	if (pair_over_net(&me->options)) {
		pair_check(me, strstr(path, "over the network"));
		return;
	}
	if (!strstr(path, current->path))
		pair_fail(me, __FILE__, __LINE__, path);
	pair_check(me, (pf_stat(me->context, PF_STAT_STREAM_BYTES) > 0) == current->ring);
	pair_check(me, (pf_stat(me->context, PF_STAT_SINGLE_COPY_BYTES) > 0) == !current->ring);
}

static void test_forbidden(void **state)
{
	struct pair *pair;

	current = *state;
	*state = NULL;
	pair = pair_open(state, .partners = 2, .window = WINDOW, .prepare = forbid_if_current,
			 .work = initiate);
	pair_await(pair, INITIATOR, PAIR_DONE);
	pair_end(pair);
}

/* Forbidden while transfers are under way: what is left goes through the ring. */
static void lose_midway(struct pair *me)
{
	struct pair_done done = { 0 };
	const unsigned count = 30;
	pf_peer *peer;
	uint8_t *local;
	unsigned i;

	if (me->side == TARGET) {
		pair_await(me, 0, 1);
		forbid_if_current(me);
		return;
	}
	peer = pair_peer(me, TARGET);
	local = test_alloc(MIB);
	pair_verify(me, TARGET, PUT, local, me->window, MIB, 1);
	pair_check(me, pair_over_net(&me->options) || strstr(pf_peer_path(peer), "single copy"));
	for (i = 0; i < count; i++)
		pair_post(me, peer, PUT, local, remote_address(me->window), MIB - i, &done);
	pair_await_done(me, &done, count / 3);
	pair_say(me, 1);
	forbid_if_current(me);
	pair_await_done(me, &done, count);
	pair_check_status(me, done.failure.status, PF_OK);
	pair_check_pattern(me, me->window, MIB - count, 1);
	if ((current->forbidden & INITIATOR) && !pair_over_net(&me->options))
		pair_check(me, strstr(pf_peer_path(peer), "not permitted"));
	transfers(me, peer);
	free(local);
}

static void test_midway(void **state)
{
	static struct permission_case midway = { .error = EPERM };
	struct pair *pair;

	for (midway.forbidden = INITIATOR; midway.forbidden <= BOTH; midway.forbidden++) {
		current = &midway;
		pair = pair_open(state, .partners = 2, .window = WINDOW, .work = lose_midway);
		pair_await(pair, INITIATOR, 1);
		pair_say(pair, 1);
		pair_await(pair, INITIATOR, PAIR_DONE);
		pair_end(pair);
	}
}

/* Nothing is locked or pinned, so no limit on such memory applies. */
static void test_nothing_locked(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *local = test_alloc(2 * MIB);

	pair_exchange(pair, 1, local, pair->window, 2 * MIB, 1);
	pair_check_not_pinned(pair);
	free(local);
	pair_end(pair);
}

static int single_copy_available(void)
{
	pf_capability list[32];
	int count = pf_capabilities(list, sizeof(list[0]), ARRAY_SIZE(list)), i;

	for (i = 0; i < count; i++) {
		if (!strcmp(list[i].name, "single copy"))
			return list[i].available;
	}
	return 3;
}

/* The end of a child that runs pf_capabilities: 0 or 1, whether single copy is available. */
static int available_in_child(void (*prepare)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		prepare();
		_exit(single_copy_available());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void lose_copies(void)
{
	if (!forbid_copies(EPERM))
		_exit(2);
}

static void lose_children(void)
{
	if (!filter_calls(SYS_clone, SYS_clone3, SECCOMP_RET_KILL_PROCESS))
		_exit(2);
}

static void lose_dumps(void)
{
	prctl(PR_SET_DUMPABLE, 0);
}

/* pf_capabilities knows whether copies are permitted, and starts neither process nor thread. */
static void test_capability(void **state)
{
	assert_int_equal(available_in_child(lose_copies), 0);
	assert_int_equal(available_in_child(lose_children), single_copy_available() << 8);
	/* CAP_SYS_PTRACE, which root has as a rule, makes up for it. */
	assert_int_equal(available_in_child(lose_dumps),
			 (single_copy_available() && tracer_is_privileged()) << 8);
}

/* Programs of other versions have shorter or longer entries. */
static void test_capability_sizes(void **state)
{
	struct {
		pf_capability known;
		uint64_t later;
	} longer[2];
	struct {
		const char *name;
		int available;
	} shorter[3];
	pf_capability list[2];

	memset(longer, 7, sizeof(longer));
	memset(shorter, 7, sizeof(shorter));
	assert_int_equal(pf_capabilities(list, sizeof(list[0]), 2), 2);
	assert_int_equal(pf_capabilities(&longer[0].known, sizeof(longer[0]), 2), 2);
	assert_int_equal(pf_capabilities((pf_capability *)shorter, sizeof(shorter[0]), 2), 2);
	assert_int_equal(pf_capabilities(NULL, sizeof(list[0]), 0), 0);
	assert_string_equal(longer[1].known.detail, list[1].detail);
	assert_int_equal(longer[0].later | longer[1].later, 0);
	assert_ptr_equal(shorter[1].name, list[1].name);
	assert_int_equal(shorter[1].available, list[1].available);
	assert_int_equal(shorter[2].available, 0x07070707);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[ARRAY_SIZE(cases) + 4] = {
		PAIR_TEST(test_midway), PAIR_TEST(test_nothing_locked),
		cmocka_unit_test(test_capability), cmocka_unit_test(test_capability_sizes)
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		tests[i + 4] = (struct CMUnitTest){ cases[i].name, test_forbidden, NULL,
						    pair_teardown, (void *)&cases[i] };
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return pair_run_tests("permission", tests);
}
