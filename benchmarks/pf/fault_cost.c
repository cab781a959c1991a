/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_cost: the time that page faults, and the ability to tolerate them, add to transfers. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../mpi/options.h"
#include "cost.h"

struct test {
	const char *name, *about;
	const char *columns[8]; /* the last is NULL */
	struct options defaults;
	int (*run)(const struct cost *cost);
};

static const struct test tests[] = {
	{ .name = "minor",
	  .about = "a processor's store to each of a number of untouched pages, a warm get, and a\n"
		   "get into untouched pages: medians, interleaved",
	  .columns = { "Touch (us)", "Warm get (us)", "Cold get (us)" },
	  .defaults = { .min_size = 4096,
			.max_size = 16384,
			.small = { 4000, 50 },
			.large = { 4000, 50 } },
	  .run = cost_minor },
	{ .name = "warm",
	  .about = "a warm get with a residency check before every copy, with the default\n"
		   "residency, and with the longest: medians of the means of batches of 12 ms,\n"
		   "interleaved",
	  .columns = { "Always check (us)", "Default (us)", "Rarely check (us)" },
	  .defaults = { .min_size = 4096,
			.max_size = 16384,
			.small = { 20, 1 },
			.large = { 20, 1 } },
	  .run = cost_warm },
	{ .name = "pager",
	  .about =
		  "a processor's access to an evicted page that a userfaultfd thread supplies,\n"
		  "with a thread that sleeps in poll and with one that spins; a get into an\n"
		  "evicted page, whose page fault is forwarded to a pager; the parts of that get:\n"
		  "from the post to the call of the pager, the call, from its return to the\n"
		  "completion; and the thread's UFFDIO_COPY: medians, interleaved",
	  .columns = { "Thread (us)", "Spinning (us)", "Forwarded (us)", "Notified (us)",
		       "Supplied (us)", "Retransmitted (us)", "UFFDIO_COPY (us)" },
	  .defaults = { .small = { 2000, 100 } },
	  .run = cost_pager },
	{ .name = "beside-pager",
	  .about = "eight streams of warm gets, alone and during a get into the memory of a pager\n"
		   "that takes 1 ms a page; the duration of that get: medians, interleaved",
	  .columns = { "Alone (MB/s)", "Beside (MB/s)", "Slow one (us)" },
	  .defaults = { .small = { 10, 1 } },
	  .run = cost_beside_pager },
	{ .name = "beside-swap",
	  .about = "the same during a put of memory that is swapped out",
	  .columns = { "Alone (MB/s)", "Beside (MB/s)", "Slow one (us)" },
	  .defaults = { .small = { 10, 1 } },
	  .run = cost_beside_swap },
	{ .name = "device",
	  .about =
		  "warm: process_vm_readv, a get by the engine of /dev/exanest, and such a get\n"
		  "into locked memory; into untouched pages: process_vm_readv, the get, and the\n"
		  "get with mlock before and munlock after it: medians, interleaved. On a machine\n"
		  "with one processor the times include the engine's work",
	  .columns = { "readv (us)", "Engine (us)", "Engine, locked (us)", "Cold readv (us)",
		       "Cold engine (us)", "Cold, locked (us)" },
	  .defaults = { .min_size = 4 << 20,
			.max_size = 4 << 20,
			.small = { 20, 3 },
			.large = { 20, 3 } },
	  .run = cost_device },
};

enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

static void help(const char *program)
{
	int i;

	printf("Usage: %s TEST [-m [MIN:]MAX] [-i ITERATIONS] [-x WARM-UP]\n\n"
	       "Measure the cost of page faults in transfers of libpf, between this process and a\n"
	       "partner that it forks. LIBPF_* environment variables set libpf's options. Tests:\n",
	       program);
	for (i = 0; i < TESTS; i++)
		printf("\n%s: %s.\n", tests[i].name, tests[i].about);
}

static const struct test *find(const char *name)
{
	int i;

	for (i = 0; i < TESTS; i++)
		if (!strcmp(tests[i].name, name))
			return &tests[i];
	return NULL;
}

static void print_header(const struct test *test)
{
	const char *const *column;

	printf("# libpf %s\n%-10s", test->name, test->defaults.max_size ? "# Size" : "#");
	for (column = test->columns; *column; column++)
		printf("%20s", *column);
	printf("\n");
}

static int run(const struct test *test, const struct options *options, struct cost *cost)
{
	const bool sized = test->defaults.max_size;

	print_header(test);
	for (cost->size = options->min_size; cost->size <= options->max_size; cost->size *= 2) {
		const struct loops *loops = cost->size > LARGE_MESSAGE ? &options->large :
									 &options->small;

		cost->iterations = loops->iterations;
		cost->warm_up = loops->skip;
		if (sized)
			printf("%-10zu", cost->size);
		if (test->run(cost))
			return -1;
		printf("\n");
		fflush(stdout);
		if (!sized)
			break;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct test *test = argc > 1 ? find(argv[1]) : NULL;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct options options;
	struct cores cores;
	pf_options pf;
	struct cost cost = { .cores = &cores, .options = &pf };
	char error[256];

	if (argc > 1 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		help(argv[0]);
		return 0;
	}
	if (!test)
		errx(2, "the first argument must be the name of a test: see --help");
	options = test->defaults;
	if (options_parse(&options, options.max_size ? TAKES_SIZES : 0, argc - 1, argv + 1, error,
			  sizeof(error)))
		errx(2, "%s", error);
	if (options.help) {
		help(argv[0]);
		return 0;
	}
	if (options.max_size && (!options.min_size || options.min_size % page))
		errx(2, "-m: give multiples of the page size, %zu bytes", page);
	if (cost_load_options(&pf))
		return 2;
	if (cores_choose(&cores))
		return 1;
	return run(test, &options, &cost) ? 1 : 0;
}
