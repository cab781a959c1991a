/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_END UINT32_MAX

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
	_Atomic bool failed;
	char failure[256];
};

/* The test's own record of its partners. */
static struct {
	struct pair *pair;
	struct pair_setup setup;
	struct pair *threads_side[PAIR_SIDES];
	pthread_t threads[PAIR_SIDES];
	pid_t pids[PAIR_SIDES]; /* 0: no process, or seen off */
	bool threaded[PAIR_SIDES];
	int window;       /* descriptor, -1 if there is none */
	unsigned seconds; /* until a test hangs */
} test;

pf_options pair_options(void)
{
	static bool cleaned;
	pf_options options;

	if (!cleaned) {
		const pf_option_info *info;
		char name[64];
		size_t i;

		for (info = pf_option_table(); info->name; info++) {
			snprintf(name, sizeof(name), "PF_%s", info->name);
			for (i = 0; name[i]; i++)
				name[i] = (char)(name[i] >= 'a' ? name[i] - 32 : name[i]);
			if (strcmp(name, "PF_TRANSPORT") != 0)
				unsetenv(name);
		}
		setenv("PF_CALIBRATE", "0", 1);
		cleaned = true;
	}
	pf_options_init(&options, NULL);
#ifdef PAIR_OVER_NET
	options.network = PF_NETWORK_ALWAYS;
	options.if_include = "lo";
#endif
#ifdef PAIR_AUTH
	options.auth = PAIR_AUTH;
#endif
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
		/* One with a part of its own may be through with it before others have begun. */
		if (status || !test.setup.partner)
			fail_msg("partner %u ended by itself, status %#x", side, status);
	}
}

bool pair_progress(struct pair *me)
{
	static _Thread_local unsigned calls;

	/* Fewer cores than sides must not make a test slow. */
	if (!pf_progress(me->context))
		sched_yield();
	if (++calls % 1024 == 0)
		check_partners(me);
	return !ending(me);
}

void pair_serve(struct pair *me)
{
	while (pair_progress(me))
		;
}

void pair_say(struct pair *me, unsigned step)
{
	atomic_store(&me->shared->sides[me->side].step, step);
}

static bool reached(struct pair *me, unsigned side, unsigned step)
{
	/* Whoever waits for something that will not come any more had better end. */
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

_Atomic uint64_t *pair_value(struct pair *me, unsigned side, unsigned which)
{
	return &me->shared->sides[side].values[which];
}

pf_peer *pair_peer(struct pair *me, unsigned side)
{
	struct side *other = &me->shared->sides[side];
	pf_peer *peer;

	while (!atomic_load(&other->addressed)) {
		usleep(100);
		check_partners(me);
		if (is_partner(me) && ending(me) && side)
			pair_fail(me, __FILE__, __LINE__, "the test ended before it began");
	}
	pair_check(me, pf_peer_open(me->context, other->address, other->address_length, me,
				    &peer) == PF_OK);
	return peer;
}

uint64_t pair_there(struct pair *me, unsigned side, const void *mine)
{
	return remote_address(me->shared->sides[side].window +
			      ((const uint8_t *)mine - me->window));
}

static void open_context(struct pair *me, const pf_options *options, pf_receive_fn receive,
			 pf_error_fn error)
{
	struct side *own = &me->shared->sides[me->side];

	pair_check(me, pf_open(options, &me->context) == PF_OK);
	pf_set_receive(me->context, receive, me);
	pf_set_error(me->context, error, me);
	if (test.setup.opened)
		test.setup.opened(me);
	else if (pair_on_device(options))
		pf_join(me->context, "tests", strlen("tests"));
	own->window = me->window;
	own->address_length = sizeof(own->address);
	pair_check(me, pf_address(me->context, own->address, &own->address_length) == PF_OK);
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
	open_context(me, &setup->there, setup->receive, setup->error);
	me->peer = pair_peer(me, 0);
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

	/* At another address, so that nothing takes the two sides' memory for the same. */
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

/* What a signal handler may call is write(2), and little else. */
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

/* The test may wait in a loop of its own, without a look at its partners. */
static void hung(int number)
{
	struct pair_shared *shared = test.pair->shared;
	unsigned side;

	say_number("# a hang, no end after seconds: ", test.seconds);
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

/* How much slower than usual this machine may be, such as one that is emulated. */
static unsigned patience(void)
{
	const char *factor = getenv("EXANEST_TEST_PATIENCE");
	unsigned value = factor ? (unsigned)strtoul(factor, NULL, 10) : 1;

	return value ? value : 1;
}

struct pair *pair_start(const struct pair_setup *setup)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	unsigned side;

	assert_non_null(pair);
	memset(&test, 0, sizeof(test));
	test.pair = pair;
	test.setup = *setup;
#ifdef PAIR_IN_THREADS
	test.setup.thread = true;
#endif
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
	/* Processes first: a fork from among threads is no clean one. */
	for (side = 1; side <= pair->partners; side++) {
		if (test.setup.thread)
			start_thread(pair, side);
		else
			start_process(pair, side);
	}
	open_context(pair, &setup->here, setup->receive_here, setup->error_here);
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
	assert_int_equal(wait_for(side), 0);
}

static void release(struct pair *pair)
{
	unsigned side;

	for (side = 1; side <= pair->partners; side++) {
		struct pair *partner = test.threads_side[side];

		if (!partner)
			continue;
		/* A thread that failed has left its context open. */
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
	int status;

	pair_say(pair, STEP_END);
	for (side = 1; side <= pair->partners; side++) {
		status = wait_for(side);
		if (status && !atomic_load(&pair->shared->failed))
			fail_msg("partner %u ended with status %#x", side, status);
	}
	if (atomic_load(&pair->shared->failed))
		fail_msg("%s", pair->shared->failure);
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

/* What became of it, once it has become something. */
static pf_completion await_status(struct pair *me, const struct pair_done *done, int status)
{
	if (status == PF_OK) {
		pair_await_done(me, done, 1);
		return done->last;
	}
	return (pf_completion){ .status = status == PF_DONE ? PF_OK : status };
}

pf_completion pair_put(struct pair *me, pf_peer *peer, const void *local, uint64_t remote,
		       size_t length)
{
	struct pair_done done = { 0 };

	return await_status(me, &done, pf_put(peer, local, remote, length, pair_completed, &done));
}

pf_completion pair_get(struct pair *me, pf_peer *peer, void *local, uint64_t remote, size_t length)
{
	struct pair_done done = { 0 };

	return await_status(me, &done, pf_get(peer, local, remote, length, pair_completed, &done));
}

pf_completion pair_atomic(struct pair *me, pf_peer *peer, enum pf_atomic_op op, unsigned width,
			  uint64_t remote, uint64_t operand, uint64_t compare)
{
	struct pair_done done = { 0 };

	return await_status(me, &done,
			    pf_atomic(peer, op, width, 1, remote, operand, compare, pair_completed,
				      &done));
}

int pair_send(struct pair *me, pf_peer *peer, uint8_t tag, const void *data, size_t length)
{
	int status;

	while ((status = pf_send(peer, tag, NULL, 0, data, length)) == PF_ERR_AGAIN)
		pair_progress(me);
	return status;
}
