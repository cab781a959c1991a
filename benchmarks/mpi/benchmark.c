/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmark.h"

#include "pattern.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALIDATION_ROUNDS 5
/* Least length of a buffer then, so that a whole window of small messages fits side by side. */
#define VALIDATION_LENGTH ((size_t)4 << 20)
/* Room for the four-byte acknowledgement of the bandwidth tests. */
#define LENGTH_MIN 8
/*
 * Between two ranks: what OSU's default run, up to 4 MiB, allocates. A run for
 * a part of the sizes shall not be about smaller buffers than the whole would.
 */
#define LENGTH_TWO_RANKS ((size_t)4 << 20)

static double cpu_seconds(void)
{
	struct timespec used;

	/* What getrusage adds up, but not cut to microseconds: --cold times one message. */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

uint64_t benchmark_seed(const struct run *run, int source, int index)
{
	uint64_t seed = pattern_seed(run->size, (uint64_t)run->round);

	return pattern_seed(pattern_seed(seed, (uint64_t)source), (uint64_t)index);
}

int benchmark_check(const struct run *run, const char *message, int source, int index)
{
	size_t wrong = pattern_check(message, run->size, benchmark_seed(run, source, index));

	if (wrong == run->size)
		return 0;
	fprintf(stderr,
		"rank %d: message %d from rank %d, %zu bytes, round %d: byte %zu is wrong\n",
		run->rank, index, source, run->size, run->round, wrong);
	return -1;
}

static void columns_header(const struct run *run, const char *first, const char *second)
{
	const struct options *options = run->options;
	int i, columns = options->colds ? options->colds : 1;

	if (options->colds)
		printf("%-10s", "# Cold");
	for (i = 0; i < options->colds; i++) {
		printf("%20s", cold_name(options->cold[i]));
		if (second)
			printf("%20s", cold_name(options->cold[i]));
	}
	if (options->colds)
		printf("\n");
	printf("%-10s", "# Size");
	for (i = 0; i < columns; i++) {
		printf("%20s", first);
		if (second)
			printf("%20s", second);
	}
}

void latency_header(const struct run *run)
{
	columns_header(run, "Latency (us)", NULL);
}

/* More digits than OSU's two: 0.12 us would be rounded by 4 %. */
void latency_report(const struct run *run, double microseconds)
{
	if (run->rank == 0)
		printf("%20.4f", microseconds);
}

void bandwidth_header(const struct run *run)
{
	columns_header(run, "Bandwidth (MB/s)", run->options->cpu ? "CPU (s/GB)" : NULL);
}

void bandwidth_report(const struct run *run, const struct timing *timing, double bytes)
{
	double cpu = 0;

	if (run->options->cpu)
		MPI_Reduce(&timing->cpu, &cpu, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (run->rank)
		return;
	printf("%20.2f", bytes / 1e6 / timing->seconds);
	if (run->options->cpu)
		printf("%20.6f", cpu / (bytes / 1e9));
}

static size_t messages_held(const struct benchmark *benchmark, const struct run *run)
{
	switch (benchmark->hold) {
	case HOLD_MESSAGE_PER_RANK:
		return (size_t)run->ranks;
	case HOLD_WINDOW:
		return (size_t)run->options->window;
	default:
		return 1;
	}
}

/* Cold buffers again, and every rank has them. */
static void renew(struct run *run)
{
	if (cold_renew(run->cold)) {
		fprintf(stderr, "rank %d: cannot map cold buffers: %s\n", run->rank,
			strerror(errno));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	run->send = run->cold->send;
	run->receive = run->cold->receive;
}

/* Returns 0 if every rank found every byte right. */
static int validate(const struct benchmark *benchmark, struct run *run)
{
	size_t places = run->size ? run->length / run->size : SIZE_MAX;
	/* With --cold, every column has its own, and messages are long. */
	const int rounds = run->cold ? 1 : VALIDATION_ROUNDS;
	int wrong = 0, any = 0;

	if (places < (size_t)run->window)
		run->window = (int)places;
	run->stride = run->size;
	for (run->round = 0; run->round < rounds; run->round++) {
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

/* With --cold, every iteration has a clock and cold buffers of its own. */
static struct timing timed(const struct benchmark *benchmark, struct run *run, int iterations)
{
	const int rounds = run->cold ? iterations : 1;
	struct timing timing = { .iterations = iterations };
	int i;

	for (i = 0; i < rounds; i++) {
		if (run->cold) {
			renew(run);
			MPI_Barrier(MPI_COMM_WORLD);
		}
		timing.cpu -= cpu_seconds();
		timing.seconds += benchmark->exchange(run, iterations / rounds);
		timing.cpu += cpu_seconds();
	}
	return timing;
}

/* One column, or two with --cpu. */
static int measure(const struct benchmark *benchmark, struct run *run)
{
	const struct options *options = run->options;
	const struct loops *loops = run->size > LARGE_MESSAGE ? &options->large : &options->small;
	size_t touched = run->size * messages_held(benchmark, run);
	struct timing timing;
	int wrong = 0;

	if (options->validate)
		wrong = validate(benchmark, run);

	run->window = options->window;
	run->stride = run->cold || benchmark->hold == HOLD_WINDOW ? run->size : 0;
	if (run->cold)
		touched = run->length;
	memset(run->send, 'a', touched);
	if (run->receive)
		memset(run->receive, 'b', touched);
	MPI_Barrier(MPI_COMM_WORLD);

	if (loops->skip)
		timed(benchmark, run, loops->skip);
	timing = timed(benchmark, run, loops->iterations);
	benchmark->report(run, &timing);
	return wrong;
}

/* The same with buffers that are cold, in the place of the run's. */
static int measure_cold(const struct benchmark *benchmark, const struct run *warm, unsigned cold)
{
	struct run run = *warm;
	struct cold buffers;
	int wrong;

	run.length = run.size * (size_t)run.options->window;
	if (run.length < LENGTH_MIN)
		run.length = LENGTH_MIN;
	if (cold_begin(&buffers, run.length,
		       cold & COLD_SOURCE && (run.rank == 0 || !benchmark->one_way),
		       cold & COLD_DESTINATION && (run.rank == 1 || !benchmark->one_way))) {
		fprintf(stderr, "rank %d: cannot map %zu bytes: %s\n", run.rank, run.length,
			strerror(errno));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	run.cold = &buffers;
	run.send = buffers.send;
	run.receive = buffers.receive;
	run.window = run.options->window;
	wrong = measure(benchmark, &run);
	cold_end(&buffers);
	return wrong;
}

static int measure_size(const struct benchmark *benchmark, struct run *run)
{
	const struct options *options = run->options;
	int wrong = 0, i;

	if (run->rank == 0 && benchmark->groups & TAKES_SIZES)
		printf("%-10zu", run->size);
	if (!options->colds)
		wrong = measure(benchmark, run);
	for (i = 0; i < options->colds; i++)
		wrong |= measure_cold(benchmark, run, options->cold[i]);
	if (run->rank == 0) {
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

static const char *wrong_ranks(const struct benchmark *benchmark, int ranks)
{
	if (benchmark->ranks == RANKS_TWO && ranks != 2)
		return "this benchmark runs between two ranks: start it with mpirun -n 2";
	if (benchmark->ranks == RANKS_EVEN && (ranks < 2 || ranks % 2))
		return "this benchmark runs between pairs: start it with mpirun -n and an even "
		       "number";
	return NULL;
}

static int run_all(const struct benchmark *benchmark, struct run *run)
{
	const struct options *options = run->options;
	int wrong = 0;

	if (run->rank == 0) {
		printf("# %s\n", benchmark->title);
		benchmark->header(run);
		if (options->validate)
			printf("%20s", "Validation");
		printf("\n");
		fflush(stdout);
	}
	for (run->size = options->min_size; run->size <= options->max_size;
	     run->size = run->size ? run->size * 2 : 1)
		wrong |= measure_size(benchmark, run);
	return wrong;
}

int benchmark_main(const struct benchmark *benchmark, int argc, char **argv)
{
	struct options options = benchmark->defaults;
	struct run run = { .options = &options, .win = MPI_WIN_NULL };
	const bool one_sided = benchmark->groups & TAKES_RMA;
	char error[256];
	const char *complaint = NULL;
	int status = 1, short_of_memory;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &run.ranks);

	if (options_parse(&options, benchmark->groups, argc, argv, error, sizeof(error))) {
		complaint = error;
		goto finalize;
	}
	if (options.help) {
		if (run.rank == 0)
			options_help(&benchmark->defaults, benchmark->groups, argv[0],
				     benchmark->about);
		status = 0;
		goto finalize;
	}
	complaint = wrong_ranks(benchmark, run.ranks);
	if (complaint)
		goto finalize;

	run.window = options.window;
	run.length = benchmark->ranks == RANKS_TWO ? LENGTH_TWO_RANKS : LENGTH_MIN;
	if (run.length < options.max_size)
		run.length = options.max_size;
	run.length *= messages_held(benchmark, &run);
	if (options.validate && run.length < VALIDATION_LENGTH)
		run.length = VALIDATION_LENGTH;
	run.send = allocate_touched(run.length);
	run.receive = one_sided ? NULL : allocate_touched(run.length);
	run.requests = calloc(2 * (size_t)options.window, sizeof(MPI_Request));
	short_of_memory = !run.send || (!run.receive && !one_sided) || !run.requests;
	MPI_Allreduce(MPI_IN_PLACE, &short_of_memory, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (short_of_memory) {
		complaint = "not enough memory for the buffers: lower MAX of -m (or -W)";
		goto finalize;
	}
	complaint = benchmark->prepare ? benchmark->prepare(&run) : NULL;
	if (complaint)
		goto finalize;
	status = run_all(benchmark, &run);
	if (benchmark->finish)
		benchmark->finish(&run);
	if (status)
		complaint = "validation failed: wrong data arrived";
finalize:
	if (complaint && run.rank == 0)
		fprintf(stderr, "%s: %s\n", argv[0], complaint);
	free(run.requests);
	free(run.receive);
	free(run.send);
	MPI_Finalize();
	return status;
}
