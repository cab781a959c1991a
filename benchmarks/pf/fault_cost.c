/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_cost: what faults, and the ability to have them, cost libpf's transfers. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../mpi/options.h"
#include "cost.h"

struct test {
	const char *name, *about;
	const char *columns[8]; /* ended by NULL */
	struct options defaults;
	int (*run)(const struct cost *cost);
};

static const struct test tests[] = {
	{ .name = "minor",
	  .about = "a get into pages never touched, the same get again, and a processor's own\n"
		   "store to each of as many such pages: medians, in turns",
	  .columns = { "Touch (us)", "Warm get (us)", "Cold get (us)" },
	  .defaults = { .min_size = 4096,
			.max_size = 16384,
			.small = { 4000, 50 },
			.large = { 4000, 50 } },
	  .run = cost_minor },
	{ .name = "warm",
	  .about = "a warm get while pages are looked for before every copy, by default, and\n"
		   "with the highest residency: medians of the means of batches of 12 ms",
	  .columns = { "Always look (us)", "Default (us)", "Rarely look (us)" },
	  .defaults = { .min_size = 4096,
			.max_size = 16384,
			.small = { 20, 1 },
			.large = { 20, 1 } },
	  .run = cost_warm },
	{ .name = "pager",
	  .about = "a processor's touch of an evicted page that a userfaultfd thread serves, one\n"
		   "that sleeps in poll and one that spins; a get into an evicted page, its fault\n"
		   "forwarded to the pager; and of that get: post to pager's call, the call, from\n"
		   "its return to completion; and the thread's UFFDIO_COPY: medians, in turns",
	  .columns = { "Thread (us)", "Spinning (us)", "Forwarded (us)", "Notified (us)",
		       "Supplied (us)", "Retransmitted (us)", "UFFDIO_COPY (us)" },
	  .defaults = { .small = { 2000, 100 } },
	  .run = cost_pager },
	{ .name = "beside-pager",
	  .about = "eight streams of warm gets, alone and while a get goes into memory of a pager\n"
		   "that takes 1 ms a page: medians, in turns",
	  .columns = { "Alone (MB/s)", "Beside (MB/s)", "Slow one took (us)" },
	  .defaults = { .small = { 10, 1 } },
	  .run = cost_beside_pager },
	{ .name = "beside-swap",
	  .about = "the same while a put comes out of swap",
	  .columns = { "Alone (MB/s)", "Beside (MB/s)", "Slow one took (us)" },
	  .defaults = { .small = { 10, 1 } },
	  .run = cost_beside_swap },
	{ .name = "device",
	  .about = "a get by the engine of /dev/exanest beside process_vm_readv and the same get\n"
		   "into locked memory, all warm; then into pages never touched: by\n"
		   "process_vm_readv, by the engine, and locked before and unlocked after it:\n"
		   "medians, in turns. On one processor the engine's own work is in it",
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
	       "What page faults cost transfers of libpf, between this process and a partner that\n"
	       "it forks. PF_* environment variables set libpf's options. Tests:\n",
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
	const pf_option_info *culprit = NULL;
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
		errx(2, "name a test first: see --help");
	options = test->defaults;
	if (options_parse(&options, options.max_size ? TAKES_SIZES : 0, argc - 1, argv + 1, error,
			  sizeof(error)))
		errx(2, "%s", error);
	if (options.help) {
		help(argv[0]);
		return 0;
	}
	if (options.max_size && (!options.min_size || options.min_size % page))
		errx(2, "-m: give whole pages of %zu bytes", page);
	if (pf_options_init(&pf, &culprit) != PF_OK)
		errx(2, "%s: not a possible value: see pf_info --options",
		     culprit ? culprit->name : "PF_ variable");
	if (cores_choose(&cores))
		return 1;
	return run(test, &options, &cost) ? 1 : 0;
}
