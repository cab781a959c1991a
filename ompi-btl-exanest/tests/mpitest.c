/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpitest.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/patience.h"
#include "tools/pattern.h"

#define REPORTED_FAILURES 5 /* reasons printed by one rank for one test */
#define DEFAULT_TIMEOUT 60
#define EXIT_HUNG 124 /* as timeout(1) */
#define GUARD_BYTE 0xa5
#define GOLDEN_RATIO 0x9e3779b97f4a7c15ull

struct mpitest mpitest;

static MPI_Comm result_comm = MPI_COMM_NULL;
static int argument_count;
static char **arguments;
static unsigned timeout_seconds = DEFAULT_TIMEOUT;
static int tests_run, tests_failed;
static int reporter; /* rank 0, but not of a spawned job */
static pthread_t main_thread;
static atomic_int failures;
static char test_name[200];
static char hung_line[300];

static void write_text(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n <= 0)
			return;
		text += n;
		left -= (size_t)n;
	}
}

/*
 * SIGALRM: print where this rank is, and wait for the others to do the same: the first exit makes
 * mpirun kill the rest.
 */
static void hung(int signal_number)
{
	void *frames[64];

	/* The signal may arrive on any thread. */
	if (!pthread_equal(pthread_self(), main_thread)) {
		pthread_kill(main_thread, signal_number);
		return;
	}
	write_text(STDERR_FILENO, hung_line);
	backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
	if (reporter) {
		write_text(STDOUT_FILENO, "not ok - hung: ");
		write_text(STDOUT_FILENO, test_name);
		write_text(STDOUT_FILENO, "\n");
	}
	sleep(2);
	_exit(EXIT_HUNG);
}

static void watch(void)
{
	struct sigaction action = { .sa_handler = hung };
	void *frame;

	main_thread = pthread_self();
	backtrace(&frame, 1); /* the first call loads a library, which a handler may not */
	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
}

const char *mpitest_option(const char *option)
{
	int i;

	for (i = 1; i < argument_count; i++) {
		if (strcmp(arguments[i], option) == 0)
			return i + 1 < argument_count ? arguments[i + 1] : "";
	}
	return NULL;
}

long mpitest_number(const char *option, long absent)
{
	const char *text = mpitest_option(option);
	char *end;
	long value;

	if (!text)
		return absent;
	value = strtol(text, &end, 10);
	if (end == text || *end) {
		fprintf(stderr, "%s: '%s' is not a number\n", option, text);
		exit(2);
	}
	return value;
}

static uint64_t choose_seed(void)
{
	const char *text = mpitest_option("--seed");
	struct timespec now;

	if (text)
		return strtoull(text, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &now);
	return pattern_mix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) >> 32;
}

void mpitest_continue_on(MPI_Comm comm)
{
	MPI_Comm parent;

	MPI_Comm_rank(comm, &mpitest.rank);
	MPI_Comm_size(comm, &mpitest.size);
	mpitest.left = (mpitest.rank + mpitest.size - 1) % mpitest.size;
	mpitest.right = (mpitest.rank + 1) % mpitest.size;
	MPI_Comm_get_parent(&parent);
	reporter = mpitest.rank == 0 && parent == MPI_COMM_NULL;
	if (reporter)
		setvbuf(stdout, NULL, _IOLBF, 0);
	if (result_comm != MPI_COMM_NULL)
		MPI_Comm_free(&result_comm);
	MPI_Comm_dup(comm, &result_comm);
}

void mpitest_init(int *argc, char ***argv, int thread_level)
{
	int granted;

	argument_count = *argc;
	arguments = *argv;
	timeout_seconds = (unsigned)mpitest_number("--timeout", DEFAULT_TIMEOUT) * patience();
	mpitest.quick = mpitest_option("--quick") != NULL;
	snprintf(test_name, sizeof(test_name), "MPI_Init");
	snprintf(hung_line, sizeof(hung_line), "# hung in MPI_Init\n");
	watch();
	alarm(timeout_seconds);

	MPI_Init_thread(argc, argv, thread_level, &granted);
	if (granted < thread_level)
		mpitest_abort("this MPI grants thread level %d, %d is needed", granted,
			      thread_level);
	mpitest_continue_on(MPI_COMM_WORLD);

	mpitest.seed = choose_seed();
	MPI_Bcast(&mpitest.seed, 1, MPI_UINT64_T, 0, result_comm);
	/* run-mpi takes it for the end of MPI_Init. */
	if (reporter)
		printf("# seed %llu\n", (unsigned long long)mpitest.seed);
	alarm(0);
}

void mpitest_abort(const char *format, ...)
{
	va_list list;

	fprintf(stderr, "# rank %d: ", mpitest.rank);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	MPI_Abort(MPI_COMM_WORLD, 2);
	abort();
}

void mpitest_need_ranks(int least, int most)
{
	if (mpitest.size < least || mpitest.size > most)
		mpitest_abort("%d to %d ranks are needed, not %d", least, most, mpitest.size);
}

int mpitest_finish(void)
{
	snprintf(test_name, sizeof(test_name), "MPI_Finalize");
	snprintf(hung_line, sizeof(hung_line), "# rank %d: hung in MPI_Finalize\n", mpitest.rank);
	alarm(timeout_seconds);
	if (reporter)
		printf("1..%d\n", tests_run);
	MPI_Comm_free(&result_comm);
	MPI_Finalize();
	alarm(0);
	return tests_failed || !tests_run;
}

void mpitest_begin(const char *format, ...)
{
	va_list list;
	uint64_t hash = 0;
	const char *c;

	va_start(list, format);
	vsnprintf(test_name, sizeof(test_name), format, list);
	va_end(list);
	snprintf(hung_line, sizeof(hung_line), "# rank %d: hung in '%s' for %u s, here:\n",
		 mpitest.rank, test_name, timeout_seconds);
	for (c = test_name; *c; c++)
		hash = pattern_mix(hash ^ (uint64_t)(unsigned char)*c);
	mpitest.test_seed = pattern_mix(mpitest.seed + hash);
	atomic_store(&failures, 0);
	alarm(timeout_seconds);
}

void mpitest_end(void)
{
	int mine = atomic_load(&failures) != 0, failed_ranks = 0;

	MPI_Allreduce(&mine, &failed_ranks, 1, MPI_INT, MPI_SUM, result_comm);
	alarm(0);
	tests_run++;
	if (failed_ranks)
		tests_failed++;
	if (!reporter)
		return;
	printf("%sok %d - %s\n", failed_ranks ? "not " : "", tests_run, test_name);
	if (failed_ranks)
		printf("# failed on %d of %d ranks; replay with --seed %llu\n", failed_ranks,
		       mpitest.size, (unsigned long long)mpitest.seed);
}

void mpitest_skip(const char *name, const char *format, ...)
{
	va_list list;

	tests_run++;
	if (!reporter)
		return;
	printf("ok %d - %s # SKIP ", tests_run, name);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

void mpitest_run_list(const struct mpitest_case *cases, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		mpitest_begin("%s", cases[i].name);
		cases[i].run();
		mpitest_end();
	}
}

void mpitest_fail(const char *format, ...)
{
	char line[400];
	size_t length;
	va_list list;

	if (atomic_fetch_add(&failures, 1) >= REPORTED_FAILURES)
		return;
	length = (size_t)snprintf(line, sizeof(line), "# rank %d: %s: ", mpitest.rank, test_name);
	va_start(list, format);
	vsnprintf(line + length, sizeof(line) - length, format, list);
	va_end(list);
	fprintf(stderr, "%s\n", line);
}

int mpitest_failures(void)
{
	return atomic_load(&failures);
}

void *mpitest_alloc(size_t length)
{
	void *memory = malloc(length ? length : 1);

	if (!memory)
		mpitest_abort("no memory for %zu bytes", length);
	return memory;
}

void *mpitest_map(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		mpitest_abort("no memory for %zu bytes", length);
	return memory;
}

long mpitest_proc_kb(const char *path, const char *field)
{
	FILE *file = fopen(path, "re");
	char line[200];
	long kb = -1;

	while (file && kb < 0 && fgets(line, sizeof(line), file)) {
		if (strncmp(line, field, strlen(field)) == 0)
			kb = strtol(line + strlen(field), NULL, 10);
	}
	if (file)
		fclose(file);
	return kb;
}

double mpitest_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t mpitest_random(uint64_t *state)
{
	*state += GOLDEN_RATIO;
	return pattern_mix(*state);
}

uint64_t mpitest_random_below(uint64_t *state, uint64_t limit)
{
	return limit ? mpitest_random(state) % limit : 0;
}

size_t mpitest_random_size(uint64_t *state, size_t most)
{
	unsigned bits = 0;
	uint64_t ceiling;

	while (bits < 63 && most >> bits)
		bits++;
	ceiling = 1ull << mpitest_random_below(state, bits + 1);
	if (ceiling > most)
		ceiling = (uint64_t)most + 1;
	return (size_t)mpitest_random_below(state, ceiling);
}

uint64_t mpitest_message_seed(int from, int to, uint64_t number)
{
	uint64_t pair = ((uint64_t)(uint32_t)from << 32) | (uint32_t)to;

	return pattern_mix(mpitest.test_seed ^ pattern_mix(pair * GOLDEN_RATIO + number));
}

void mpitest_fill(void *buffer, size_t length, uint64_t seed)
{
	pattern_fill(buffer, length, seed);
}

int mpitest_verify(const void *buffer, size_t length, uint64_t seed, const char *what)
{
	size_t at = pattern_differs(buffer, length, seed);
	unsigned char expected;

	if (at == length)
		return 0;
	pattern_fill_from(&expected, 1, seed, at);
	mpitest_fail("%s: byte %zu of %zu is 0x%02x not 0x%02x", what, at, length,
		     ((const unsigned char *)buffer)[at], expected);
	return 1;
}

void mpitest_shift(const void *out, void *in, size_t length, int tag)
{
	MPI_Sendrecv(out, (int)length, MPI_BYTE, mpitest.right, tag, in, (int)length, MPI_BYTE,
		     mpitest.left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void mpitest_guard(void *buffer, size_t length)
{
	unsigned char *bytes = buffer;

	memset(bytes - MPITEST_GUARD, GUARD_BYTE, MPITEST_GUARD);
	memset(bytes + length, GUARD_BYTE, MPITEST_GUARD);
}

int mpitest_verify_guard(const void *buffer, size_t length, const char *what)
{
	const unsigned char *before = (const unsigned char *)buffer - MPITEST_GUARD;
	const unsigned char *behind = (const unsigned char *)buffer + length;
	size_t i;

	for (i = 0; i < MPITEST_GUARD; i++) {
		if (before[i] != GUARD_BYTE || behind[i] != GUARD_BYTE) {
			mpitest_fail("%s: a byte %s the buffer of %zu bytes was written", what,
				     before[i] != GUARD_BYTE ? "before" : "behind", length);
			return 1;
		}
	}
	return 0;
}
