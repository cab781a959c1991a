/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmark.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "first.h"
#include "pattern.h"

#define VALIDATION_ROUNDS 5
/* Least length of a buffer with --validate: separate places for a window of small messages. */
#define VALIDATION_LENGTH ((size_t)4 << 20)
/* At least the four-byte acknowledgement of the bandwidth benchmarks. */
#define LENGTH_LEAST 8
/*
 * Least length of a buffer between two ranks: the length that OSU's default
 * run allocates. A run of a few sizes then uses the same buffers as a run of
 * all of them.
 */
#define LENGTH_TWO_RANKS SIZE_MOST

double cpu_seconds(clockid_t clock)
{
	struct timespec used;

	/* In ns where getrusage has us: --cold times single messages. */
	clock_gettime(clock, &used);
	return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Different for every message of a run: rounds are not counted anew at each size. */
static uint64_t seed(const struct run *run, int source, int index)
{
	const int ranks = run->ranks, window = run->options->window;
	const uint64_t indices = (uint64_t)(ranks > window ? ranks : window);

	return ((uint64_t)run->round * (uint64_t)ranks + (uint64_t)source) * indices +
	       (uint64_t)index;
}

void message_fill(const struct run *run, char *message, int source, int index)
{
	pattern_fill(message, run->size, seed(run, source, index));
}

int message_check(const struct run *run, const char *message, int source, int index)
{
	if (pattern_matches(message, run->size, seed(run, source, index)))
		return 0;
	fprintf(stderr, "rank %d: wrong contents in message %d from rank %d, %zu bytes, round %d\n",
		run->rank, index, source, run->size, run->round);
	return -1;
}

void window_fill(const struct run *run, char *buffer)
{
	int i;

	for (i = 0; i < run->window; i++)
		message_fill(run, buffer + (size_t)i * run->stride, run->rank, i);
}

int window_check(const struct run *run, const char *buffer, int source)
{
	int i;

	for (i = 0; i < run->window; i++)
		if (message_check(run, buffer + (size_t)i * run->stride, source, i))
			return -1;
	return 0;
}

static void columns_header(const struct run *run, const char *const *heads, int count)
{
	const struct options *options = run->options;
	int i, k, columns = options->colds ? options->colds : 1;

	if (run->udp)
		udp_describe(run->udp);
	if (run->win != MPI_WIN_NULL)
		printf("# Window creation: MPI_Win_%s\n# Synchronization: MPI_Win_%s\n",
		       rma_create_name(options->create), rma_sync_name(options->sync));
	if (options->colds)
		printf("%-10s", "# Cold");
	for (i = 0; i < options->colds; i++)
		for (k = 0; k < count; k++)
			printf("%20s", cold_name(options->cold[i]));
	if (options->colds)
		printf("\n");
	printf("%-10s", "# Size");
	for (i = 0; i < columns; i++)
		for (k = 0; k < count; k++)
			printf("%20s", heads[k]);
}

/*
 * The reports have four decimals where OSU has two: 0.12 us would be rounded by
 * up to 4 %, and a slow transport's 0.004 MB/s to 0.
 */
void latency_header(const struct run *run)
{
	const char *const head = "Latency (us)";

	columns_header(run, &head, 1);
}

void latency_report(const struct run *run, const struct timing *timing)
{
	if (run->rank == 0)
		printf("%20.4f", timing->seconds * 1e6 / timing->iterations);
}

void bandwidth_header(const struct run *run)
{
	const char *heads[2 + COUNTERS];
	int count = 0;

	heads[count++] = "Bandwidth (MB/s)";
	if (run->options->cpu)
		heads[count++] = "CPU (s/GB)";
	if (run->options->waits) {
		heads[count++] = "Waits per message";
		heads[count++] = "NACKs per message";
	}
	columns_header(run, heads, count);
}

void bandwidth_report(const struct run *run, const struct timing *timing)
{
	double directions = run->benchmark->one_way ? 1 : 2;
	double messages = directions * run->window * timing->iterations;
	double bytes = messages * (double)run->size;
	double cpu = 0, counted[COUNTERS] = { 0 };
	int i;

	if (run->options->cpu)
		MPI_Reduce(&timing->cpu, &cpu, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (run->options->waits)
		MPI_Reduce(timing->counted, counted, COUNTERS, MPI_DOUBLE, MPI_SUM, 0,
			   MPI_COMM_WORLD);
	if (run->rank)
		return;
	printf("%20.4f", bytes / 1e6 / timing->seconds);
	if (run->options->cpu)
		printf("%20.6f", cpu / (bytes / 1e9));
	for (i = 0; run->options->waits && i < COUNTERS; i++)
		printf("%20.4f", counted[i] / messages);
}

static size_t messages_held(const struct run *run)
{
	switch (run->benchmark->hold) {
	case HOLD_MESSAGE_PER_RANK:
		return (size_t)run->ranks;
	case HOLD_WINDOW:
		return (size_t)run->options->window;
	default:
		return 1;
	}
}

static void fail_to_map(const struct run *run)
{
	fprintf(stderr, "rank %d: cannot map cold buffers of %zu bytes: %s%s\n", run->rank,
		run->length, strerror(errno),
		errno == EBUSY ? ": pages of a file stay in memory: run it in a folder on a disk" :
				 "");
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Make the cold buffers of this rank cold again. */
static void renew(struct run *run)
{
	if (cold_renew(run->cold))
		fail_to_map(run);
	run->send = run->cold->send;
	run->receive = run->cold->receive;
}

/* Returns 0 if every rank found all contents right. */
static int validate(struct run *run)
{
	const struct benchmark *benchmark = run->benchmark;
	size_t places = run->size ? run->length / run->size : SIZE_MAX;
	/* One round with --cold: each column has its own, and messages are long. */
	int rounds = run->cold ? 1 : VALIDATION_ROUNDS;
	int wrong = 0, any = 0;

	if (places < (size_t)run->window)
		run->window = (int)places;
	run->stride = run->size;
	for (; rounds > 0; rounds--) {
		run->round++;
		benchmark->fill(run);
		if (run->cold)
			renew(run);
		MPI_Barrier(MPI_COMM_WORLD);
		benchmark->exchange(run, 1);
		MPI_Barrier(MPI_COMM_WORLD);
		wrong |= benchmark->check(run);
	}
	wrong = wrong != 0;
	MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return any;
}

/* With --cold, each iteration is timed by itself and has newly mapped buffers. */
static struct timing timed(struct run *run, int iterations)
{
	const int rounds = run->cold ? iterations : 1;
	struct timing timing = { .iterations = iterations };
	int i;

	if (run->options->waits)
		counters_begin();
	for (i = 0; i < rounds; i++) {
		if (run->cold) {
			renew(run);
			MPI_Barrier(MPI_COMM_WORLD);
		}
		timing.cpu -= cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
		timing.seconds += run->benchmark->exchange(run, iterations / rounds);
		timing.cpu += cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
	}
	if (run->options->waits)
		counters_end(timing.counted);
	return timing;
}

/* Measure and print what report prints. */
static int measure(struct run *run)
{
	const struct options *options = run->options;
	const struct loops *loops = run->size > LARGE_MESSAGE ? &options->large : &options->small;
	size_t touched = run->cold ? run->length : run->size * messages_held(run);
	struct timing timing;
	int wrong = 0;

	if (options->validate)
		wrong = validate(run);

	run->window = options->window;
	run->stride = run->cold || run->benchmark->hold == HOLD_WINDOW ? run->size : 0;
	memset(run->send, 'a', touched);
	if (run->receive)
		memset(run->receive, 'b', touched);
	MPI_Barrier(MPI_COMM_WORLD);

	if (loops->skip)
		timed(run, loops->skip);
	timing = timed(run, loops->iterations);
	run->benchmark->report(run, &timing);
	return wrong;
}

/* The same with cold buffers in place of those of the run. */
static int measure_cold(struct run *warm, unsigned cold)
{
	const bool both = !warm->benchmark->one_way;
	const bool sends = warm->rank == 0 || both, receives = warm->rank == 1 || both;
	struct run run = *warm;
	struct cold buffers;
	int wrong;

	run.window = run.options->window;
	run.length = run.size * (size_t)run.window;
	if (run.length < LENGTH_LEAST)
		run.length = LENGTH_LEAST;
	if (cold_begin(&buffers, run.length, cold & COLD_SOURCE && sends,
		       cold & COLD_DESTINATION && receives, cold & COLD_FILE && receives))
		fail_to_map(&run);
	run.cold = &buffers;
	run.send = buffers.send;
	run.receive = buffers.receive;
	wrong = measure(&run);
	warm->round = run.round;
	cold_end(&buffers);
	return wrong;
}

static int measure_size(struct run *run)
{
	const struct options *options = run->options;
	double before = 0, after = 0;
	int wrong = 0, i;

	if (run->line)
		before = line_nanoseconds(run->line, run->rank);
	if (run->rank == 0 && run->benchmark->groups & TAKES_SIZES)
		printf("%-10zu", run->size);
	if (!options->colds)
		wrong = measure(run);
	for (i = 0; i < options->colds; i++)
		wrong |= measure_cold(run, options->cold[i]);
	if (run->line)
		after = line_nanoseconds(run->line, run->rank);
	if (run->rank == 0) {
		if (run->line)
			printf("%20.0f%20.0f", before, after);
		if (options->validate)
			printf("%20s", wrong ? "Fail" : "Pass");
		printf("\n");
		fflush(stdout);
	}
	return wrong;
}

static void *allocate_touched(size_t length)
{
	void *buffer;

	if (posix_memalign(&buffer, (size_t)sysconf(_SC_PAGESIZE), length))
		return NULL;
	memset(buffer, 0, length);
	return buffer;
}

static const char *check_ranks(const struct benchmark *benchmark, int ranks)
{
	if (benchmark->ranks == RANKS_TWO && ranks != 2)
		return "this benchmark runs between two ranks: start it with mpirun -n 2";
	if (benchmark->ranks == RANKS_EVEN && (ranks < 2 || ranks % 2))
		return "this benchmark runs between pairs: start it with mpirun -n and an even "
		       "number";
	return NULL;
}

static int run_all(struct run *run)
{
	const struct options *options = run->options;
	int wrong = 0;

	if (run->rank == 0) {
		printf("# %s\n", run->benchmark->title);
		run->benchmark->header(run);
		if (run->line)
			printf("%20s%20s", "Line before (ns)", "Line after (ns)");
		if (options->validate)
			printf("%20s", "Validation");
		printf("\n");
		fflush(stdout);
	}
	for (run->size = options->min_size; run->size <= options->max_size;
	     run->size = run->size ? run->size * 2 : 1)
		wrong |= measure_size(run);
	return wrong;
}

/* With --first: the time of a call, as the rank that waited longest saw it. */
static const char *run_first(struct run *run)
{
	const bool sized = run->benchmark->groups & TAKES_SIZES;
	const char *error = first_begin(run->rank, run->ranks);
	double seconds[FIRST_COUNTS], most[FIRST_COUNTS];
	long faults = first_faults(), all = 0;
	int i, done = 0;

	if (error)
		return error;
	for (i = 0; i < FIRST_COUNTS; i++) {
		seconds[i] = i ? seconds[i - 1] : 0;
		seconds[i] += run->benchmark->exchange(run, first_counts[i] - done);
		done = first_counts[i];
	}
	faults = first_faults() - faults;
	MPI_Reduce(seconds, most, FIRST_COUNTS, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&faults, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (run->rank)
		return NULL;
	printf("# %s\n%-10s", run->benchmark->title, sized ? "# Size" : "#");
	for (i = 0; i < FIRST_COUNTS; i++)
		printf("   First %4d (us)", first_counts[i]);
	printf("%17s\n", "Page faults");
	if (sized)
		printf("%-10zu", run->size);
	for (i = 0; i < FIRST_COUNTS; i++)
		printf("%17.4f", most[i] * 1e6 / first_counts[i]);
	printf("%17ld\n", all);
	return NULL;
}

static const char *check_first(const struct options *options)
{
	if (options->first && options->min_size != options->max_size)
		return "--first takes one size, because the ranks are new to each other only once: "
		       "-m N:N";
	if (options->first &&
	    (options->validate || options->colds || options->udp || options->line))
		return "--first takes no --validate, --cold, --udp or --line";
	return NULL;
}

int benchmark_main(const struct benchmark *benchmark, int argc, char **argv)
{
	struct options options = benchmark->defaults;
	struct run run = { .benchmark = benchmark, .options = &options, .win = MPI_WIN_NULL };
	const bool one_sided = benchmark->groups & TAKES_RMA;
	char option_error[256];
	const char *error = NULL;
	int status = 1, short_of_memory;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);

	if (options_parse(&options, benchmark->groups, argc, argv, option_error,
			  sizeof(option_error))) {
		error = option_error;
		goto finalize;
	}
	if (options.help) {
		if (run.rank == 0)
			options_help(&benchmark->defaults, benchmark->groups, argv[0],
				     benchmark->about);
		status = 0;
		goto finalize;
	}
	error = check_first(&options);
	if (!error)
		error = check_ranks(benchmark, run.ranks);
	if (error)
		goto finalize;

	run.window = options.window;
	run.length = benchmark->ranks == RANKS_TWO ? LENGTH_TWO_RANKS : LENGTH_LEAST;
	if (run.length < options.max_size)
		run.length = options.max_size;
	run.length *= messages_held(&run);
	if (options.validate && run.length < VALIDATION_LENGTH)
		run.length = VALIDATION_LENGTH;
	run.send = allocate_touched(run.length);
	run.receive = one_sided ? NULL : allocate_touched(run.length);
	run.requests = calloc(2 * (size_t)options.window, sizeof(MPI_Request));
	short_of_memory = !run.send || (!run.receive && !one_sided) || !run.requests;
	if (!options.first)
		MPI_Allreduce(MPI_IN_PLACE, &short_of_memory, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (short_of_memory) {
		error = "not enough memory for the buffers: lower MAX of -m (or -W)";
		goto finalize;
	}
	error = benchmark->prepare ? benchmark->prepare(&run) : NULL;
	if (error)
		goto finalize;
	if (options.first) {
		run.size = options.min_size;
		error = run_first(&run);
		status = error != NULL;
		goto finalize;
	}
	if (options.line) {
		run.line = run.ranks == 2 ? line_open(run.rank) : NULL;
		error = run.line ? NULL : "--line needs two ranks of one host";
		if (error)
			goto finalize;
	}
	status = run_all(&run);
	if (run.line)
		line_close(run.line);
	if (benchmark->finish)
		benchmark->finish(&run);
	if (status)
		error = "validation failed: wrong contents arrived";
finalize:
	if (error && run.rank == 0)
		fprintf(stderr, "%s: %s\n", argv[0], error);
	free(run.requests);
	free(run.receive);
	free(run.send);
	MPI_Finalize();
	return status;
}
