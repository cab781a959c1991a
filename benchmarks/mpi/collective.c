/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective benchmarks: barrier, bcast, allreduce, reduce_scatter, allgather, alltoall. */
#include "benchmark.h"

#include <stdio.h>
#include <time.h>

#include "sample.h"

#define ROOT 0

/* As in OSU: an untimed barrier after each call, except after calls of MPI_Barrier. */
static double exchange(struct run *run, int repeats)
{
	const bool sized = run->options->max_size;
	double seconds = 0;
	int i;

	for (i = 0; i < repeats; i++) {
		double start = MPI_Wtime();

		run->benchmark->operation(run, ROOT, 0);
		seconds += MPI_Wtime() - start;
		if (sized)
			MPI_Barrier(MPI_COMM_WORLD);
	}
	return seconds;
}

static void header(const struct run *run)
{
	if (run->options->max_size)
		printf("%-10s", "# Size");
	else
		printf("# ");
	printf("%18s", "Avg Latency(us)");
	if (run->options->full)
		printf("%18s%18s%12s", "Min Latency(us)", "Max Latency(us)", "Iterations");
}

static void report(const struct run *run, const struct timing *timing)
{
	double mine = timing->seconds * 1e6 / timing->iterations, sum = 0, least = 0, most = 0;

	MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (run->rank)
		return;
	printf("%18.4f", sum / run->ranks);
	if (run->options->full)
		printf("%18.4f%18.4f%12d", least, most, timing->iterations);
}

#define COLLECTIVE .ranks = RANKS_ANY, .header = header, .exchange = exchange, .report = report
#define COLLECTIVE_LOOPS .small = { 1000, 200 }, .large = { 100, 10 }, .window = 1
#define COLLECTIVE_SIZE_MOST ((size_t)1 << 20)

/* When this rank entered and left the barrier that is validated, s. */
static double entered, left;

static void barrier(struct run *run, int peer, int index)
{
	(void)run;
	(void)peer;
	(void)index;
	MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank enters late: no rank may leave before that. */
static void barrier_fill(struct run *run)
{
	const struct timespec late = { .tv_nsec = 2000000 };

	MPI_Barrier(MPI_COMM_WORLD);
	if (run->rank == run->round % run->ranks)
		nanosleep(&late, NULL);
	entered = sample_seconds();
	MPI_Barrier(MPI_COMM_WORLD);
	left = sample_seconds();
}

static int barrier_check(struct run *run)
{
	double last_entered, first_left;

	MPI_Allreduce(&entered, &last_entered, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&left, &first_left, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	if (first_left >= last_entered)
		return 0;
	if (run->rank == 0)
		fprintf(stderr,
			"round %d: a rank left the barrier %.1f us before the last entered\n",
			run->round, (last_entered - first_left) * 1e6);
	return -1;
}

/* The clocks of different hosts cannot be compared. */
static const char *barrier_prepare(struct run *run)
{
	MPI_Comm host;
	int on_host;

	if (!run->options->validate)
		return NULL;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_size(host, &on_host);
	MPI_Comm_free(&host);
	return on_host == run->ranks ? NULL : "--validate needs all ranks on one host";
}

const struct benchmark benchmark_barrier = {
	.title = "MPI Barrier Latency Test",
	.about = "Time of MPI_Barrier, mean over the ranks.",
	.groups = TAKES_FULL | TAKES_FIRST,
	.defaults = { COLLECTIVE_LOOPS },
	.prepare = barrier_prepare,
	.operation = barrier,
	COLLECTIVE,
	.fill = barrier_fill,
	.check = barrier_check,
};

static void bcast(struct run *run, int root, int index)
{
	(void)index;
	MPI_Bcast(run->rank == root ? run->send : run->receive, (int)run->size, MPI_CHAR, root,
		  MPI_COMM_WORLD);
}

static void bcast_fill(struct run *run)
{
	if (run->rank == ROOT)
		message_fill(run, run->send, ROOT, 0);
}

static int bcast_check(struct run *run)
{
	return run->rank == ROOT ? 0 : message_check(run, run->receive, ROOT, 0);
}

const struct benchmark benchmark_bcast = {
	.title = "MPI Broadcast Latency Test",
	.about = "Time of MPI_Bcast from rank 0, mean over the ranks.",
	.groups = TAKES_SIZES | TAKES_FULL | TAKES_FIRST,
	.defaults = { .min_size = 1, .max_size = COLLECTIVE_SIZE_MOST, COLLECTIVE_LOOPS },
	.operation = bcast,
	COLLECTIVE,
	.fill = bcast_fill,
	.check = bcast_check,
};

static int floats(const struct run *run)
{
	return (int)(run->size / sizeof(float));
}

static void allreduce(struct run *run, int peer, int index)
{
	(void)peer;
	(void)index;
	MPI_Allreduce(run->send, run->receive, floats(run), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Small integers: their sum is exact in any order. */
static float element(const struct run *run, int rank, int index)
{
	return (float)((index + rank + 7 * run->round) % 61);
}

/* The elements of count ranks' blocks. */
static void fill_elements(struct run *run, int count)
{
	float *values = (float *)(void *)run->send;
	int i;

	for (i = 0; i < count * floats(run); i++)
		values[i] = element(run, run->rank, i);
}

/* Is the received block the sum of the ranks' elements from first on? */
static int check_sums(const struct run *run, int first)
{
	const float *values = (const float *)(void *)run->receive;
	int i, rank;

	for (i = 0; i < floats(run); i++) {
		float sum = 0;

		for (rank = 0; rank < run->ranks; rank++)
			sum += element(run, rank, first + i);
		if (values[i] == sum)
			continue;
		fprintf(stderr, "rank %d: %zu bytes, round %d: element %d is %g, not %g\n",
			run->rank, run->size, run->round, i, (double)values[i], (double)sum);
		return -1;
	}
	return 0;
}

static void allreduce_fill(struct run *run)
{
	fill_elements(run, 1);
}

static int allreduce_check(struct run *run)
{
	return check_sums(run, 0);
}

static const char *prepare_floats(struct run *run)
{
	return run->options->min_size % sizeof(float) || !run->options->min_size ?
		       "MIN of -m must be a multiple of 4: the elements are floats" :
		       NULL;
}

const struct benchmark benchmark_allreduce = {
	.title = "MPI Allreduce Latency Test",
	.about = "Time of MPI_Allreduce, sum of floats, mean over the ranks.",
	.groups = TAKES_SIZES | TAKES_FULL | TAKES_FIRST,
	.defaults = { .min_size = sizeof(float),
		      .max_size = COLLECTIVE_SIZE_MOST,
		      COLLECTIVE_LOOPS },
	.prepare = prepare_floats,
	.operation = allreduce,
	COLLECTIVE,
	.fill = allreduce_fill,
	.check = allreduce_check,
};

static void reduce_scatter(struct run *run, int peer, int index)
{
	(void)peer;
	(void)index;
	MPI_Reduce_scatter_block(run->send, run->receive, floats(run), MPI_FLOAT, MPI_SUM,
				 MPI_COMM_WORLD);
}

static void reduce_scatter_fill(struct run *run)
{
	fill_elements(run, run->ranks);
}

static int reduce_scatter_check(struct run *run)
{
	return check_sums(run, run->rank * floats(run));
}

const struct benchmark benchmark_reduce_scatter = {
	.title = "MPI Reduce_scatter_block Latency Test",
	.about =
		"Time of MPI_Reduce_scatter_block, sum of floats, mean over the ranks; the size is that "
		"of one rank's block.",
	.groups = TAKES_SIZES | TAKES_FULL | TAKES_FIRST,
	.defaults = { .min_size = sizeof(float),
		      .max_size = COLLECTIVE_SIZE_MOST,
		      COLLECTIVE_LOOPS },
	.prepare = prepare_floats,
	.hold = HOLD_MESSAGE_PER_RANK,
	.operation = reduce_scatter,
	COLLECTIVE,
	.fill = reduce_scatter_fill,
	.check = reduce_scatter_check,
};

static void allgather(struct run *run, int peer, int index)
{
	(void)peer;
	(void)index;
	MPI_Allgather(run->send, (int)run->size, MPI_CHAR, run->receive, (int)run->size, MPI_CHAR,
		      MPI_COMM_WORLD);
}

static void allgather_fill(struct run *run)
{
	message_fill(run, run->send, run->rank, 0);
}

static int allgather_check(struct run *run)
{
	int from;

	for (from = 0; from < run->ranks; from++)
		if (message_check(run, run->receive + (size_t)from * run->size, from, 0))
			return -1;
	return 0;
}

const struct benchmark benchmark_allgather = {
	.title = "MPI Allgather Latency Test",
	.about =
		"Time of MPI_Allgather, mean over the ranks; the size is that of one rank's block.",
	.groups = TAKES_SIZES | TAKES_FULL | TAKES_FIRST,
	.defaults = { .min_size = 1, .max_size = COLLECTIVE_SIZE_MOST, COLLECTIVE_LOOPS },
	.hold = HOLD_MESSAGE_PER_RANK,
	.operation = allgather,
	COLLECTIVE,
	.fill = allgather_fill,
	.check = allgather_check,
};

static void alltoall(struct run *run, int peer, int index)
{
	(void)peer;
	(void)index;
	MPI_Alltoall(run->send, (int)run->size, MPI_CHAR, run->receive, (int)run->size, MPI_CHAR,
		     MPI_COMM_WORLD);
}

static void alltoall_fill(struct run *run)
{
	int to;

	for (to = 0; to < run->ranks; to++)
		message_fill(run, run->send + (size_t)to * run->size, run->rank, to);
}

static int alltoall_check(struct run *run)
{
	int from;

	for (from = 0; from < run->ranks; from++)
		if (message_check(run, run->receive + (size_t)from * run->size, from, run->rank))
			return -1;
	return 0;
}

const struct benchmark benchmark_alltoall = {
	.title = "MPI All-to-All Personalized Exchange Latency Test",
	.about = "Time of MPI_Alltoall, mean over the ranks; the size is that of one message.",
	.groups = TAKES_SIZES | TAKES_FULL | TAKES_FIRST,
	.defaults = { .min_size = 1, .max_size = COLLECTIVE_SIZE_MOST, COLLECTIVE_LOOPS },
	.hold = HOLD_MESSAGE_PER_RANK,
	.operation = alltoall,
	COLLECTIVE,
	.fill = alltoall_fill,
	.check = alltoall_check,
};
