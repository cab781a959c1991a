/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "patience.h"

#define STEP_END UINT32_MAX

/* Requests of ioctl(2) on /proc/PID/pagemap and maps, of Linux 6.7 and 6.11. */
#define PAGEMAP_SCAN 0xc0606610
#define PROCMAP_QUERY 0xc0686611

struct side {
	_Atomic uint32_t step;
	_Atomic bool addressed;
	size_t address_length;
	uint8_t address[PF_ADDRESS_MAX];
	_Atomic uint64_t values[PAIR_VALUES];
	uint8_t *window;
};

struct pair_shared {
	struct side sides[PAIR_SIDES];
	/* pair_command: how many the test has asked for, and partner 1 has run. */
	_Atomic unsigned commands, commands_done;
	uint64_t arguments[PAIR_ARGUMENTS];
	_Atomic bool failed;
	char failure[256];
};

/* What the test knows of its partners. */
static struct {
	struct pair *pair;
	struct pair_setup setup;
	struct pair *threads_side[PAIR_SIDES];
	pthread_t threads[PAIR_SIDES];
	pid_t pids[PAIR_SIDES]; /* 0: no process, or waited for */
	bool threaded[PAIR_SIDES];
	int window;       /* descriptor, -1 if there is none */
	unsigned seconds; /* after which a test counts as hung */
} test;

/* The case that runs, in a program whose cases pair_run_cases runs. */
static const struct CMUnitTest *running;

/* What the name of the program says of all pairs. */
static struct {
	bool threads, net;
	enum pf_auth auth;
} variant;

/*
 * A kernel before Linux 6.7, for this process and its children: it refuses PAGEMAP_SCAN and PROCMAP_QUERY.
 * The program is skipped where filters of system calls are refused, as in an emulator.
 */
static void use_old_kernel(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) +
							   (__BYTE_ORDER == __BIG_ENDIAN ? 4 : 0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PAGEMAP_SCAN, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROCMAP_QUERY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		printf("1..0 # SKIP no filter of system calls: %s\n", strerror(errno));
		fflush(stdout);
		_exit(0);
	}
}

static bool set_word(const char *word)
{
	if (strcmp(word, "threads") == 0)
		variant.threads = true;
	else if (strcmp(word, "net") == 0)
		variant.net = true;
	else if (strcmp(word, "old") == 0)
		use_old_kernel();
	else if (strcmp(word, "full") == 0 && variant.net)
		variant.auth = PF_AUTH_FULL;
	else if (strcmp(word, "encrypt") == 0 && variant.net)
		variant.auth = PF_AUTH_ENCRYPT;
	else
		return false;
	return true;
}

/* Before main: a program whose name is wrong must not run, whatever it calls. */
__attribute__((constructor)) static void read_variant(void)
{
	char name[256], *word, *rest = name;

	snprintf(name, sizeof(name), "%s", program_invocation_short_name);
	strsep(&rest, "-");
	while ((word = strsep(&rest, "-"))) {
		if (set_word(word))
			continue;
		fprintf(stderr,
			"%s: '%s' names no variant of a test: after '-' come threads, net or old, "
			"after net also full or encrypt\n",
			program_invocation_short_name, word);
		_exit(2);
	}
}

void pair_use_net(void)
{
	variant.net = true;
}

int pair_unless_net(void **state)
{
	(void)state;
	return 0;
}

int pair_unless_threads(void **state)
{
	(void)state;
	return 0;
}

int pair_unless_either(void **state)
{
	(void)state;
	return 0;
}

static bool is_left_out(const struct CMUnitTest *test_case)
{
	CMFixtureFunction mark = test_case->setup_func;

	return (variant.net && (mark == pair_unless_net || mark == pair_unless_either)) ||
	       (variant.threads && (mark == pair_unless_threads || mark == pair_unless_either));
}

static uintptr_t mode_of(const struct CMUnitTest *test_case)
{
	return (uintptr_t)test_case->initial_state;
}

/*
 * Whether a mode is the default. With LIBPF_TRANSPORT=device the engine moves all blocks, whatever
 * share_min and single_copy are: see choose_route in host/peer.c. single_copy, share_min, run_max and
 * ring_memory are options of the host transport; between hosts ring_size is only the limit of pf_send.
 */
static bool is_default(uintptr_t mode)
{
	const char *transport = getenv("LIBPF_TRANSPORT");

	switch (mode) {
	case MODE_SHARE_ALL:
	case MODE_ALONE:
	case MODE_STREAM:
		return variant.net || (transport && strcmp(transport, "device") == 0);
	case MODE_SMALL_RING_STREAM:
	case MODE_NO_GROWTH:
	case MODE_SHORT_RUNS:
		return variant.net;
	default:
		return false;
	}
}

/* Whether a case repeats another one. */
static bool is_repeated(const struct CMUnitTest *cases, size_t count,
			const struct CMUnitTest *test_case)
{
	size_t i;

	if (!is_default(mode_of(test_case)))
		return false;
	for (i = 0; i < count; i++) {
		if (cases[i].test_func == test_case->test_func &&
		    mode_of(&cases[i]) == MODE_DEFAULT)
			return true;
	}
	return false;
}

/* The setup function of each case, whose state is the case as the program lists the case. */
static int case_begin(void **state)
{
	running = *state;
	*state = running->initial_state;
	return running->setup_func ? running->setup_func(state) : 0;
}

int pair_run_cases(const char *group, const struct CMUnitTest *cases, size_t count)
{
	struct CMUnitTest *chosen = test_alloc(count * sizeof(*chosen));
	size_t i, number = 0;
	int failed;

	for (i = 0; i < count; i++) {
		if (is_left_out(&cases[i]) || is_repeated(cases, count, &cases[i]))
			continue;
		chosen[number] = cases[i];
		chosen[number].setup_func = case_begin;
		chosen[number++].initial_state = (void *)(uintptr_t)&cases[i];
	}
	failed = _cmocka_run_group_tests(group, chosen, number, NULL, NULL);
	free(chosen);
	return failed;
}

pf_options pair_options(void)
{
	static bool cleaned;
	pf_options options;

	if (!cleaned) {
		const pf_option_info *info;
		char name[64];
		size_t i;

		for (info = pf_option_table(); info->name; info++) {
			snprintf(name, sizeof(name), "LIBPF_%s", info->name);
			for (i = 0; name[i]; i++)
				name[i] = (char)(name[i] >= 'a' ? name[i] - 32 : name[i]);
			if (strcmp(name, "LIBPF_TRANSPORT") != 0)
				unsetenv(name);
		}
		setenv("LIBPF_CALIBRATE", "0", 1);
		cleaned = true;
	}
	pf_options_init(&options, sizeof(options), NULL);
	if (variant.net) {
		options.network = PF_NETWORK_ALWAYS;
		options.if_include = "lo";
		options.auth = variant.auth;
	}
	return options;
}

pf_options pair_mode_options(void **state)
{
	pf_options options = pair_options();
	enum pair_mode mode = pair_mode(state);

	if (mode == MODE_STREAM || mode == MODE_SMALL_RING_STREAM)
		options.single_copy = 0;
	if (mode == MODE_SMALL_RING || mode == MODE_SMALL_RING_STREAM)
		options.ring_size = 16384;
	options.threads = mode == MODE_THREADS;
	switch (mode) {
	case MODE_SHARE_ALL:
		options.share_min = 4096;
		break;
	case MODE_ALONE:
		options.share_min = UINT64_MAX;
		break;
	case MODE_NO_GROWTH:
		options.ring_memory = 0;
		break;
	case MODE_SHORT_RUNS:
		options.run_max = 4096;
		options.share_min = 8192;
		break;
	case MODE_SMALL_BLOCKS:
		options.block_size = 4096;
		break;
	case MODE_WAIT:
		options.wake = 1;
		break;
	default:
		break;
	}
	return options;
}

static bool is_partner(const struct pair *me)
{
	return me->side != 0;
}

void pair_fail(struct pair *me, const char *file, int line, const char *text)
{
	if (!is_partner(me)) {
		fail_msg("%s:%d: %s", file, line, text);
		return;
	}
	if (!atomic_load(&me->shared->failed)) {
		snprintf(me->shared->failure, sizeof(me->shared->failure), "partner %u, %s:%d: %s",
			 me->side, file, line, text);
		atomic_store(&me->shared->failed, true);
	}
	if (test.setup.thread)
		pthread_exit(NULL);
	_exit(1);
}

static bool ending(const struct pair *me)
{
	return atomic_load(&me->shared->sides[0].step) == STEP_END;
}

static void check_partners(struct pair *me)
{
	unsigned side;
	int status;

	if (is_partner(me))
		return;
	if (atomic_load(&me->shared->failed))
		fail_msg("%s", me->shared->failure);
	for (side = 1; side <= me->partners && !ending(me); side++) {
		if (!test.pids[side] || waitpid(test.pids[side], &status, WNOHANG) <= 0)
			continue;
		test.pids[side] = 0;
		/* setup.partner may return early. */
		if (status || !test.setup.partner)
			fail_msg("partner %u ended early with status %#x", side, status);
	}
}

/* Polls in vain after which a side sleeps between two. */
enum { POLLS_AWAKE = 512 };

bool pair_progress(struct pair *me)
{
	static _Thread_local unsigned calls;
	unsigned looks = 1024; /* after so many calls */

	/* There may be fewer processors than sides, and there are other tests beside: without sleep most of
	   the processors' time would go into polls. */
	if (me->options.wake) {
		pf_wait(me->context, 1000);
	} else if (pf_progress(me->context)) {
		me->in_vain = 0;
	} else if (++me->in_vain < POLLS_AWAKE || me->awake) {
		sched_yield();
	} else {
		usleep(50 * (me->in_vain < POLLS_AWAKE + 20 ? me->in_vain - POLLS_AWAKE : 20));
		looks = 64;
	}
	if (++calls % looks == 0)
		check_partners(me);
	return !ending(me);
}

void pair_serve(struct pair *me)
{
	struct pair_shared *shared = me->shared;

	while (pair_progress(me)) {
		if (me->side != 1 || shared->commands == shared->commands_done)
			continue;
		me->in_vain = 0;
		test.setup.command(me, shared->arguments);
		shared->commands_done++;
	}
}

void pair_run_command(struct pair *me, const uint64_t *arguments)
{
	struct pair_shared *shared = me->shared;

	memcpy(shared->arguments, arguments, sizeof(shared->arguments));
	shared->commands++;
	while (shared->commands_done != shared->commands)
		pair_progress(me);
}

void pair_linger(struct pair *me)
{
	int i;

	for (i = 0; i < 10; i++) {
		pf_progress(me->context);
		usleep(1000);
	}
}

void pair_compute(uint64_t nanoseconds)
{
	uint64_t end = clock_nanoseconds(CLOCK_MONOTONIC) + nanoseconds;

	while (clock_nanoseconds(CLOCK_MONOTONIC) < end)
		;
}

void pair_check_not_pinned(struct pair *me)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned lines = 0;
	char line[256];

	pair_check(me, file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "VmLck:", 6) && strncmp(line, "VmPin:", 6))
			continue;
		pair_check(me, strtoul(line + 6, NULL, 10) == 0);
		lines++;
	}
	fclose(file);
	pair_check(me, lines == 2);
}

void pair_say(struct pair *me, unsigned step)
{
	atomic_store(&me->shared->sides[me->side].step, step);
}

static bool reached(struct pair *me, unsigned side, unsigned step)
{
	if (is_partner(me) && ending(me) && side)
		pair_fail(me, __FILE__, __LINE__, "the test ended while a partner waited");
	return atomic_load(&me->shared->sides[side].step) >= step;
}

void pair_await(struct pair *me, unsigned side, unsigned step)
{
	while (!reached(me, side, step))
		pair_progress(me);
}

void pair_watch(struct pair *me, unsigned side, unsigned step)
{
	while (!reached(me, side, step)) {
		usleep(200);
		check_partners(me);
	}
}

void pair_await_all(struct pair *me, unsigned step)
{
	unsigned side;

	for (side = 1; side <= me->partners; side++)
		pair_await(me, side, step);
}

_Atomic uint64_t *pair_value(struct pair *me, unsigned side, unsigned which)
{
	return &me->shared->sides[side].values[which];
}

void pair_await_value(struct pair *me, unsigned side, unsigned which, uint64_t least)
{
	while (*pair_value(me, side, which) < least)
		pair_progress(me);
}

void pair_count_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
			void *arg)
{
	struct pair *me = arg;

	(*pair_value(me, me->side, 0))++;
}

void pair_note_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	struct pair *me = arg;

	pair_check(me, reason >= PF_PEER_LEFT && reason == pf_peer_state(peer));
	/* It must say what happened. */
	pair_check(me, text && strlen(text) >= 5);
	me->errors.received = (unsigned)*pair_value(me, me->side, 0);
	if (reason == PF_PEER_LEFT) {
		pair_check_status(me, status, PF_ERR_PEER);
		me->errors.left++;
		return;
	}
	me->errors.count++;
	me->errors.status = status;
	me->errors.peer = peer;
}

/* Another side, once its window and its address are known. */
static struct side *await_side(struct pair *me, unsigned side)
{
	struct side *other = &me->shared->sides[side];

	while (!atomic_load(&other->addressed)) {
		usleep(100);
		check_partners(me);
		if (is_partner(me) && ending(me) && side)
			pair_fail(me, __FILE__, __LINE__, "the test ended before it began");
	}
	return other;
}

pf_peer *pair_peer(struct pair *me, unsigned side)
{
	struct side *other = await_side(me, side);
	pf_peer *peer;

	pair_check_status(
		me, pf_peer_open(me->context, other->address, other->address_length, me, &peer),
		PF_OK);
	return peer;
}

void pair_connect(struct pair *me)
{
	uint64_t there = pair_there(me, !me->side, me->window);
	uint8_t bytes[8];

	pair_check_status(me, pair_get(me, me->peer, bytes, there, sizeof(bytes)).status, PF_OK);
	pair_check_status(me, pair_put(me, me->peer, bytes, there, sizeof(bytes)).status, PF_OK);
	pair_check_status(me, pair_atomic(me, me->peer, PF_ATOMIC_ADD, 8, there, 0, 0).status,
			  PF_OK);
}

uint64_t pair_there(struct pair *me, unsigned side, const void *mine)
{
	return remote_address(await_side(me, side)->window + ((const uint8_t *)mine - me->window));
}

/* Arguments: what, address, length, protection. */
void pair_change(struct pair *me, const uint64_t *arguments)
{
	void *start = (void *)(uintptr_t)arguments[1];

	(void)me;
	switch ((enum pair_change)arguments[0]) {
	case PAIR_PROTECT:
		mprotect(start, arguments[2], (int)arguments[3]);
		break;
	case PAIR_UNMAP:
		munmap(start, arguments[2]);
		break;
	case PAIR_DROP:
		madvise(start, arguments[2], MADV_DONTNEED);
		break;
	}
}

void pair_change_side(struct pair *me, enum pf_side side, enum pair_change what, const void *start,
		      size_t length, int protection)
{
	const uint64_t arguments[PAIR_ARGUMENTS] = { (uint64_t)what,
						     side == PF_SIDE_REMOTE ?
							     pair_there(me, 1, start) :
							     remote_address(start),
						     length, (uint64_t)protection };

	if (side == PF_SIDE_REMOTE)
		pair_run_command(me, arguments);
	else
		pair_change(me, arguments);
}

static void open_context(struct pair *me)
{
	const struct pair_setup *setup = &test.setup;
	const pf_options *options = me->side ? &setup->there : &setup->here;
	const pf_callbacks callbacks = {
		.size = sizeof(callbacks),
		.receive = me->side ? setup->receive : setup->receive_here,
		.receive_pieces = me->side ? setup->receive_pieces : setup->receive_pieces_here,
		.notice = me->side ? setup->notice : setup->notice_here,
		.peer_event = me->side ? setup->peer_event : setup->peer_event_here,
		.log = me->side ? NULL : setup->log_here,
		.log_level = PF_LOG_INFO,
		.room = me->side ? NULL : setup->room_here,
		.arg = me,
	};
	struct side *own = &me->shared->sides[me->side];

	me->options = *options;
	pair_check_status(me, pf_open(options, &callbacks, &me->context), PF_OK);
	if (setup->opened)
		setup->opened(me);
	else if (pair_on_device(options))
		pf_join(me->context, "tests", strlen("tests"));
	own->window = me->window;
	own->address_length = sizeof(own->address);
	pair_check_status(me, pf_address(me->context, own->address, &own->address_length), PF_OK);
	atomic_store(&own->addressed, true);
}

static void *map_window(void)
{
	void *memory = mmap(NULL, test.setup.window, PROT_READ | PROT_WRITE, MAP_SHARED,
			    test.window, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void run_partner(struct pair *me)
{
	const struct pair_setup *setup = &test.setup;

	if (setup->prepare)
		setup->prepare(me);
	open_context(me);
	me->peer = pair_peer(me, 0);
	if (setup->work) {
		setup->work(me);
		pair_say(me, PAIR_DONE);
	}
	if (setup->partner)
		setup->partner(me);
	else
		pair_serve(me);
	pf_close(me->context);
	me->context = NULL;
}

static void *thread_partner(void *arg)
{
	struct pair *me = arg;

	/* The two sides have the window at different addresses, as processes have memory. */
	if (me->window)
		me->window = map_window();
	run_partner(me);
	return NULL;
}

static void start_thread(struct pair *pair, unsigned side)
{
	struct pair *me = calloc(1, sizeof(*me));

	assert_non_null(me);
	*me = *pair;
	me->side = side;
	assert_int_equal(pthread_create(&test.threads[side], NULL, thread_partner, me), 0);
	test.threads_side[side] = me;
	test.threaded[side] = true;
}

static void start_process(struct pair *pair, unsigned side)
{
	pid_t parent = getpid();

	fflush(NULL);
	test.pids[side] = fork();
	assert_true(test.pids[side] >= 0);
	if (test.pids[side])
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	signal(SIGALRM, SIG_DFL);
	pair->side = side;
	run_partner(pair);
	fflush(NULL);
	_exit(0);
}

/* For a signal handler, which may not use stdio. */
static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(2);
}

static void say_number(const char *text, uint64_t number)
{
	char digits[24], *at = digits + sizeof(digits) - 2;

	memcpy(at, "\n", 2);
	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	say(text);
	say(at);
}

/* SIGALRM: the test may wait in a loop that does not look at the partners. */
static void hung(int number)
{
	struct pair_shared *shared = test.pair->shared;
	unsigned side;

	say("# hung: ");
	say(running ? running->name : "a test");
	say_number(", for seconds: ", test.seconds);
	if (atomic_load(&shared->failed)) {
		say("# ");
		say(shared->failure);
		say("\n");
	}
	for (side = 0; side <= test.pair->partners; side++) {
		say_number("# side: ", side);
		say_number("#   step: ", atomic_load(&shared->sides[side].step));
		say_number("#   first value: ", atomic_load(&shared->sides[side].values[0]));
		if (side && test.pids[side] && waitpid(test.pids[side], NULL, WNOHANG) > 0)
			say_number("#   has ended, as process ", (uint64_t)test.pids[side]);
	}
	_exit(1);
}

struct pair *pair_start(const struct pair_setup *setup)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	unsigned side;

	assert_non_null(pair);
	memset(&test, 0, sizeof(test));
	test.pair = pair;
	test.setup = *setup;
	test.setup.thread = setup->thread || variant.threads;
	test.window = -1;
	test.seconds = PAIR_SECONDS * patience();
	pair->partners = setup->partners ? setup->partners : 1;
	assert_true(pair->partners < PAIR_SIDES);
	pair->shared = mmap(NULL, sizeof(*pair->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pair->shared, MAP_FAILED);
	if (setup->window) {
		test.window = memfd_create("window", MFD_CLOEXEC);
		assert_int_equal(ftruncate(test.window, (off_t)setup->window), 0);
		pair->window = map_window();
		assert_non_null(pair->window);
	}
	signal(SIGALRM, hung);
	alarm(test.seconds);
	/* Fork before this process has threads. */
	for (side = 1; side <= pair->partners; side++) {
		if (test.setup.thread)
			start_thread(pair, side);
		else
			start_process(pair, side);
	}
	open_context(pair);
	pair->peer = pair_peer(pair, 1);
	return pair;
}

int pair_pid(const struct pair *pair, unsigned side)
{
	return test.pids[side];
}

static int wait_for(unsigned side)
{
	int status = 0;

	if (test.pids[side])
		waitpid(test.pids[side], &status, 0);
	test.pids[side] = 0;
	if (test.threaded[side])
		pthread_join(test.threads[side], NULL);
	test.threaded[side] = false;
	return status;
}

void pair_kill(struct pair *pair, unsigned side)
{
	if (test.pids[side])
		kill(test.pids[side], SIGKILL);
	wait_for(side);
}

void pair_wait_exit(struct pair *pair, unsigned side)
{
	int status = wait_for(side);

	if (atomic_load(&pair->shared->failed))
		fail_msg("%s", pair->shared->failure);
	if (status)
		fail_msg("partner %u ended with status %#x", side, status);
}

static void release(struct pair *pair)
{
	unsigned side;

	for (side = 1; side <= pair->partners; side++) {
		struct pair *partner = test.threads_side[side];

		if (!partner)
			continue;
		/* A thread that failed did not close its context. */
		pf_close(partner->context);
		if (partner->window)
			munmap(partner->window, test.setup.window);
		free(partner);
	}
	munmap(pair->shared, sizeof(*pair->shared));
	if (pair->window) {
		munmap(pair->window, test.setup.window);
		close(test.window);
	}
	alarm(0);
	test.pair = NULL;
	free(pair);
}

void pair_end(struct pair *pair)
{
	unsigned side;

	pair_say(pair, STEP_END);
	for (side = 1; side <= pair->partners; side++)
		pair_wait_exit(pair, side);
	pf_close(pair->context);
	release(pair);
}

int pair_teardown(void **state)
{
	struct pair *pair = test.pair;
	unsigned side;

	if (!pair)
		return 0;
	pair_say(pair, STEP_END);
	for (side = 1; side <= pair->partners; side++)
		pair_kill(pair, side);
	pf_close(pair->context);
	release(pair);
	return 0;
}

void pair_completed(pf_context *context, const pf_completion *completion)
{
	struct pair_done *done = completion->arg;

	done->last = *completion;
	if (completion->status != PF_OK) {
		done->failure = *completion;
		done->failed++;
	}
	done->count++;
}

void pair_await_done(struct pair *me, const struct pair_done *done, unsigned count)
{
	while (done->count < count)
		pair_progress(me);
}

static int post(pf_peer *peer, enum pair_direction direction, void *local, uint64_t remote,
		size_t length, struct pair_done *done)
{
	return direction == PUT ? pf_put(peer, local, remote, length, 0, pair_completed, done) :
				  pf_get(peer, local, remote, length, pair_completed, done);
}

void pair_post(struct pair *me, pf_peer *peer, enum pair_direction direction, void *local,
	       uint64_t remote, size_t length, struct pair_done *done)
{
	int status = post(peer, direction, local, remote, length, done);

	if (status == PF_OK)
		done->count++;
	else
		pair_check_status(me, status, PF_PENDING);
}

/* Wait for the completion of what was posted with this status. */
static pf_completion await_status(struct pair *me, const struct pair_done *done, int status)
{
	if (status == PF_PENDING) {
		pair_await_done(me, done, 1);
		return done->last;
	}
	return (pf_completion){ .status = status };
}

pf_completion pair_transfer(struct pair *me, pf_peer *peer, enum pair_direction direction,
			    void *local, uint64_t remote, size_t length)
{
	struct pair_done done = { 0 };

	return await_status(me, &done, post(peer, direction, local, remote, length, &done));
}

static int post_vector(pf_peer *peer, enum pair_direction direction, pf_piece *pieces,
		       unsigned count, struct pair_done *done)
{
	int status = direction == PUT ? pf_putv(peer, pieces, count, 0, pair_completed, done) :
					pf_getv(peer, pieces, count, pair_completed, done);

	memset(pieces, 0xff, count * sizeof(*pieces));
	return status;
}

void pair_post_vector(struct pair *me, pf_peer *peer, enum pair_direction direction,
		      pf_piece *pieces, unsigned count, struct pair_done *done)
{
	int status = post_vector(peer, direction, pieces, count, done);

	if (status == PF_OK)
		done->count++;
	else
		pair_check_status(me, status, PF_PENDING);
}

pf_completion pair_transfer_vector(struct pair *me, pf_peer *peer, enum pair_direction direction,
				   pf_piece *pieces, unsigned count)
{
	struct pair_done done = { 0 };

	return await_status(me, &done, post_vector(peer, direction, pieces, count, &done));
}

pf_completion pair_put_signal(struct pair *me, pf_peer *peer, const void *local, uint64_t remote,
			      size_t length, pf_signal signal)
{
	struct pair_done done = { 0 };
	int status = pf_put_signal(peer, local, remote, length, &signal, 0, pair_completed, &done);

	/* The operation keeps no pointer to the signal. */
	memset(&signal, 0xff, sizeof(signal));
	pair_check(me, status != PF_OK);
	return await_status(me, &done, status);
}

pf_completion pair_put(struct pair *me, pf_peer *peer, const void *local, uint64_t remote,
		       size_t length)
{
	return pair_transfer(me, peer, PUT, (void *)(uintptr_t)local, remote, length);
}

pf_completion pair_get(struct pair *me, pf_peer *peer, void *local, uint64_t remote, size_t length)
{
	return pair_transfer(me, peer, GET, local, remote, length);
}

pf_completion pair_atomic(struct pair *me, pf_peer *peer, enum pf_atomic_op op, unsigned width,
			  uint64_t remote, uint64_t operand, uint64_t compare)
{
	struct pair_done done = { 0 };

	return await_status(me, &done,
			    pf_atomic(peer, op, width, remote, operand, compare, pair_completed,
				      &done));
}

bool pair_is_fault(const pf_completion *completion, enum pf_side side, uint64_t address)
{
	if (completion->status == PF_ERR_FAULT && completion->side == side &&
	    completion->address == address && completion->reason == PF_REASON_UNRESOLVED)
		return true;
	print_error("expected a fault of side %d at %#llx: \"%s\", side %d, reason %d, %#llx\n",
		    side, (unsigned long long)address, pf_strerror(completion->status),
		    completion->side, completion->reason, (unsigned long long)completion->address);
	return false;
}

void pair_verify_at(const char *file, int line, struct pair *me, unsigned side,
		    enum pair_direction direction, void *local, void *window, size_t length,
		    uint64_t seed)
{
	void *source = direction == PUT ? local : window;
	void *destination = direction == PUT ? window : local;
	pf_completion completion;
	char text[160];
	size_t at;

	pattern_fill(source, length, seed);
	memset(destination, 0, length);
	completion = pair_transfer(me, pair_peer(me, side), direction, local,
				   pair_there(me, side, window), length);
	if (completion.status != PF_OK)
		pair_fail(me, file, line, pf_strerror(completion.status));
	at = pattern_differs(destination, length, seed);
	snprintf(text, sizeof(text), "%s of %zu bytes: byte %zu is wrong",
		 direction == PUT ? "put" : "get", length, at);
	if (at != length)
		pair_fail(me, file, line, text);
}

int pair_send(struct pair *me, pf_peer *peer, uint32_t tag, const void *data, size_t length)
{
	int status;

	while ((status = pf_send(peer, tag, NULL, 0, data, length)) == PF_ERR_AGAIN)
		pair_progress(me);
	return status;
}
