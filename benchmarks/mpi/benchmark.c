/* SPDX-License-Identifier: BSD-3-Clause */
#include "benchmark.h"

#include "pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
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

void latency_header(const struct run *run)
{
	(void)run;
	printf("%-10s%20s", "# Size", "Latency (us)");
}

/* More digits than OSU's two: 0.12 us would be rounded by 4 %. */
void latency_report(const struct run *run, double microseconds)
{
	if (run->rank == 0)
		printf("%-10zu%20.4f", run->size, microseconds);
}

void bandwidth_header(const struct run *run)
{
	printf("%-10s%20s", "# Size", "Bandwidth (MB/s)");
	if (run->options->cpu)
		printf("%20s", "CPU (s/GB)");
}

void bandwidth_report(const struct run *run, const struct timing *timing, double bytes)
{
	double cpu = 0;

	if (run->options->cpu)
		MPI_Reduce(&timing->cpu, &cpu, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (run->rank)
		return;
	printf("%-10zu%20.2f", run->size, bytes / 1e6 / timing->seconds);
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

/* Returns 0 if every rank found every byte right. */
static int validate(const struct benchmark *benchmark, struct run *run)
{
	size_t places = run->size ? run->length / run->size : SIZE_MAX;
	int wrong = 0, any = 0;

	if (places < (size_t)run->window)
		run->window = (int)places;
	run->stride = run->size;
	for (run->round = 0; run->round < VALIDATION_ROUNDS; run->round++) {
		benchmark->fill(run);
		MPI_Barrier(MPI_COMM_WORLD);
		benchmark->exchange(run, 1);
		MPI_Barrier(MPI_COMM_WORLD);
		wrong |= benchmark->check(run);
	}
	wrong = wrong != 0;
	MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return any;
}

static int measure(const struct benchmark *benchmark, struct run *run)
{
	const struct options *options = run->options;
	const struct loops *loops = run->size > LARGE_MESSAGE ? &options->large : &options->small;
	size_t touched = run->size * messages_held(benchmark, run);
	struct timing timing = { .iterations = loops->iterations };
	int wrong = 0;

	if (options->validate)
		wrong = validate(benchmark, run);

	run->window = options->window;
	run->stride = benchmark->hold == HOLD_WINDOW ? run->size : 0;
	memset(run->send, 'a', touched);
	if (run->receive)
		memset(run->receive, 'b', touched);
	MPI_Barrier(MPI_COMM_WORLD);

	benchmark->exchange(run, loops->skip);
	timing.cpu = -cpu_seconds();
	timing.seconds = benchmark->exchange(run, loops->iterations);
	timing.cpu += cpu_seconds();

	benchmark->report(run, &timing);
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
		wrong |= measure(benchmark, run);
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
