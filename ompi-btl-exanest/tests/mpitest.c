/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpitest.h"

#include <endian.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable PRNGs, 2014). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

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
 * Every rank shows where it is before any of them exits, because the first
 * exit makes mpirun kill the rest.
 */
static void hung(int signal_number)
{
	void *frames[64];

	/* The signal may meet any thread: what the main one does is of interest. */
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
	backtrace(&frame, 1); /* the first call loads a library: not from a handler */
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
	return mix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) >> 32;
}

/* How much slower than usual this machine may be, such as one that is emulated. */
static unsigned patience(void)
{
	const char *factor = getenv("EXANEST_TEST_PATIENCE");
	unsigned value = factor ? (unsigned)strtoul(factor, NULL, 10) : 1;

	return value ? value : 1;
}

void mpitest_init(int *argc, char ***argv, int thread_level)
{
	MPI_Comm parent;
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
	if (granted < thread_level) {
		fprintf(stderr, "this MPI grants thread level %d, %d is needed\n", granted,
			thread_level);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &mpitest.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &mpitest.size);
	MPI_Comm_get_parent(&parent);
	reporter = mpitest.rank == 0 && parent == MPI_COMM_NULL;
	MPI_Comm_dup(MPI_COMM_WORLD, &result_comm);

	mpitest.seed = choose_seed();
	MPI_Bcast(&mpitest.seed, 1, MPI_UINT64_T, 0, result_comm);
	if (reporter) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		printf("# seed %llu\n", (unsigned long long)mpitest.seed);
	}
	alarm(0);
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
		hash = mix(hash ^ (uint64_t)(unsigned char)*c);
	mpitest.test_seed = mix(mpitest.seed + hash);
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

	if (memory)
		return memory;
	fprintf(stderr, "# rank %d: no memory for %zu bytes\n", mpitest.rank, length);
	MPI_Abort(MPI_COMM_WORLD, 2);
	abort();
}

uint64_t mpitest_random(uint64_t *state)
{
	*state += GOLDEN_RATIO;
	return mix(*state);
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

	return mix(mpitest.test_seed ^ mix(pair * GOLDEN_RATIO + number));
}

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	return mix(seed + (index + 1) * GOLDEN_RATIO);
}

static unsigned char pattern_byte(uint64_t seed, uint64_t position)
{
	return (unsigned char)(pattern_word(seed, position / 8) >> (position % 8 * 8));
}

void mpitest_fill_from(void *buffer, size_t length, uint64_t seed, uint64_t start)
{
	unsigned char *bytes = buffer;
	size_t i = 0;

	for (; i < length && (start + i) % 8; i++)
		bytes[i] = pattern_byte(seed, start + i);
	for (; i + 8 <= length; i += 8) {
		uint64_t word = htole64(pattern_word(seed, (start + i) / 8));

		memcpy(bytes + i, &word, 8);
	}
	for (; i < length; i++)
		bytes[i] = pattern_byte(seed, start + i);
}

static int matches(const unsigned char *bytes, size_t length, uint64_t seed, uint64_t start)
{
	size_t i = 0;

	for (; i < length && (start + i) % 8; i++) {
		if (bytes[i] != pattern_byte(seed, start + i))
			return 0;
	}
	for (; i + 8 <= length; i += 8) {
		uint64_t word;

		memcpy(&word, bytes + i, 8);
		if (le64toh(word) != pattern_word(seed, (start + i) / 8))
			return 0;
	}
	for (; i < length; i++) {
		if (bytes[i] != pattern_byte(seed, start + i))
			return 0;
	}
	return 1;
}

int mpitest_verify_from(const void *buffer, size_t length, uint64_t seed, uint64_t start,
			const char *what)
{
	const unsigned char *bytes = buffer;
	size_t i, first = 0, last = 0, wrong = 0;

	if (matches(bytes, length, seed, start))
		return 0;
	for (i = 0; i < length; i++) {
		if (bytes[i] == pattern_byte(seed, start + i))
			continue;
		if (!wrong++)
			first = i;
		last = i;
	}
	mpitest_fail("%s: %zu of %zu bytes wrong, offsets %zu to %zu, first 0x%02x not 0x%02x",
		     what, wrong, length, first, last, bytes[first],
		     pattern_byte(seed, start + first));
	return 1;
}

void mpitest_guard(void *buffer, size_t length)
{
	unsigned char *bytes = buffer;

	memset(bytes - MPITEST_GUARD, GUARD_BYTE, MPITEST_GUARD);
	memset(bytes + length, GUARD_BYTE, MPITEST_GUARD);
}

int mpitest_verify_guard(const void *buffer, size_t length, const char *what)
{
	const unsigned char *bytes = buffer;
	size_t i;

	for (i = 0; i < MPITEST_GUARD; i++) {
		if (bytes[length + i] != GUARD_BYTE) {
			mpitest_fail("%s: byte %zu behind the buffer of %zu was written", what, i,
				     length);
			return 1;
		}
		if (bytes[-1 - (ptrdiff_t)i] != GUARD_BYTE) {
			mpitest_fail("%s: byte %zu before the buffer of %zu was written", what,
				     i + 1, length);
			return 1;
		}
	}
	return 0;
}
