/* SPDX-License-Identifier: BSD-3-Clause */
/* The two-sided benchmarks: latency, work_latency, bw, bibw, mbw_mr. */
#include "benchmark.h"

#include <stdio.h>

#define TAG_MESSAGE 100
#define TAG_ACKNOWLEDGE 101
#define ACKNOWLEDGE_BYTES 4
/* Processor time between two messages: longer than a transport may take to see that its program is busy. */
#define WORK_SECONDS 5e-3

static void receive_window(struct run *run, int peer, MPI_Request *requests)
{
	int i;

	for (i = 0; i < run->window; i++)
		MPI_Irecv(run->receive + (size_t)i * run->stride, (int)run->size, MPI_CHAR, peer,
			  TAG_MESSAGE, MPI_COMM_WORLD, &requests[i]);
}

static void send_window(struct run *run, int peer, MPI_Request *requests)
{
	int i;

	for (i = 0; i < run->window; i++)
		MPI_Isend(run->send + (size_t)i * run->stride, (int)run->size, MPI_CHAR, peer,
			  TAG_MESSAGE, MPI_COMM_WORLD, &requests[i]);
}

static void fill(struct run *run)
{
	window_fill(run, run->send);
}

static int check_from_other(struct run *run)
{
	return window_check(run, run->receive, 1 - run->rank);
}

static const char *open_udp(struct run *run)
{
	const char *error = NULL;

	if (run->options->udp)
		run->udp = udp_open(run->rank, &error);
	return error;
}

static void close_udp(struct run *run)
{
	if (run->udp)
		udp_close(run->udp);
}

static struct udp_messages udp_window(const struct run *run)
{
	return (struct udp_messages){ run->send, run->receive, run->size, run->stride,
				      run->window };
}

static double ping_pong(struct run *run, int repeats)
{
	const int size = (int)run->size, peer = 1 - run->rank;
	double start = MPI_Wtime();
	int i;

	if (run->udp) {
		const struct udp_messages messages = udp_window(run);

		return udp_ping_pong(run->udp, &messages, repeats) / 2;
	}
	for (i = 0; i < repeats; i++) {
		if (run->rank == 0)
			MPI_Send(run->send, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD);
		MPI_Recv(run->receive, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		if (run->rank == 1)
			MPI_Send(run->send, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start) / 2;
}

const struct benchmark benchmark_latency = {
	.title = "MPI Latency Test",
	.about = "Half the round-trip time between two ranks, with blocking send and receive.",
	.groups = TAKES_SIZES | TAKES_COLD | TAKES_UDP | TAKES_FIRST,
	.defaults = { .max_size = SIZE_MOST, LATENCY_LOOPS },
	.ranks = RANKS_TWO,
	.prepare = open_udp,
	.finish = close_udp,
	.header = latency_header,
	.exchange = ping_pong,
	.report = latency_report,
	.fill = fill,
	.check = check_from_other,
};

/* What takes the processor away meanwhile makes it longer, as it does with a program's work. */
static void work(void)
{
	double end = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + WORK_SECONDS;

	while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* Rank 0 works when MPI_Send has returned, rank 1 when its message is here. */
static double ping_work_pong(struct run *run, int repeats)
{
	const int size = (int)run->size, peer = 1 - run->rank;
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		if (run->rank == 0)
			MPI_Send(run->send, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD);
		else
			MPI_Recv(run->receive, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		work();
		if (run->rank == 0)
			MPI_Recv(run->receive, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		else
			MPI_Send(run->send, size, MPI_CHAR, peer, TAG_MESSAGE, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - start - repeats * WORK_SECONDS) / 2;
}

const struct benchmark benchmark_work_latency = {
	.title = "MPI Latency Test With Work",
	.about =
		"Half the round-trip time between two ranks that work for 5 ms in each round trip:\n"
		"rank 0 when MPI_Send has returned, rank 1 when the message is there. Without the\n"
		"work, but with what it takes longer because of the transport.",
	.groups = TAKES_SIZES,
	.defaults = { .max_size = SIZE_MOST, .small = { 100, 5 }, .large = { 50, 5 }, .window = 1 },
	.ranks = RANKS_TWO,
	.header = latency_header,
	.exchange = ping_work_pong,
	.report = latency_report,
	.fill = fill,
	.check = check_from_other,
};

/* Ranks of the first half send to those of the second; with two ranks, 0 to 1. */
static int pairs(const struct run *run)
{
	return run->ranks / 2;
}

static bool is_sender(const struct run *run)
{
	return run->rank < pairs(run);
}

/* The receiver acknowledges each window. */
static double one_way(struct run *run, int repeats)
{
	const int peer = is_sender(run) ? run->rank + pairs(run) : run->rank - pairs(run);
	double start = MPI_Wtime();
	int i;

	if (run->udp) {
		const struct udp_messages messages = udp_window(run);

		return udp_stream(run->udp, &messages, repeats);
	}
	for (i = 0; i < repeats; i++) {
		if (is_sender(run)) {
			send_window(run, peer, run->requests);
			MPI_Waitall(run->window, run->requests, MPI_STATUSES_IGNORE);
			MPI_Recv(run->receive, ACKNOWLEDGE_BYTES, MPI_CHAR, peer, TAG_ACKNOWLEDGE,
				 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			receive_window(run, peer, run->requests);
			MPI_Waitall(run->window, run->requests, MPI_STATUSES_IGNORE);
			MPI_Send(run->send, ACKNOWLEDGE_BYTES, MPI_CHAR, peer, TAG_ACKNOWLEDGE,
				 MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

static int check_one_way(struct run *run)
{
	return is_sender(run) ? 0 : window_check(run, run->receive, run->rank - pairs(run));
}

const struct benchmark benchmark_bw = {
	.title = "MPI Bandwidth Test",
	.about = "Rank 0 sends a window of messages; rank 1 acknowledges the window.",
	.groups = TAKES_SIZES | TAKES_WINDOW | TAKES_CPU | TAKES_COLD | TAKES_UDP | TAKES_WAITS,
	.defaults = { .min_size = 1, .max_size = SIZE_MOST, BANDWIDTH_LOOPS },
	.ranks = RANKS_TWO,
	.one_way = true,
	.prepare = open_udp,
	.finish = close_udp,
	.header = bandwidth_header,
	.exchange = one_way,
	.report = bandwidth_report,
	.fill = fill,
	.check = check_one_way,
};

/* As in OSU, without acknowledgements. */
static double both_ways(struct run *run, int repeats)
{
	const int peer = 1 - run->rank;
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		receive_window(run, peer, run->requests);
		send_window(run, peer, run->requests + run->window);
		MPI_Waitall(2 * run->window, run->requests, MPI_STATUSES_IGNORE);
	}
	return MPI_Wtime() - start;
}

const struct benchmark benchmark_bibw = {
	.title = "MPI Bi-Directional Bandwidth Test",
	.about = "Both ranks send each other a window of messages at the same time.",
	.groups = TAKES_SIZES | TAKES_WINDOW | TAKES_CPU,
	.defaults = { .min_size = 1, .max_size = SIZE_MOST, BANDWIDTH_LOOPS },
	.ranks = RANKS_TWO,
	.header = bandwidth_header,
	.exchange = both_ways,
	.report = bandwidth_report,
	.fill = fill,
	.check = check_from_other,
};

static double pairs_one_way(struct run *run, int repeats)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return one_way(run, repeats);
}

static void pairs_header(const struct run *run)
{
	printf("# [ pairs: %d ] [ window size: %d ]\n", pairs(run), run->window);
	printf("%-10s%20s%20s", "# Size", "MB/s", "Messages/s");
}

/* As in OSU: all messages over the mean time of the senders. */
static void pairs_report(const struct run *run, const struct timing *timing)
{
	double messages = (double)pairs(run) * run->window * timing->iterations;
	double mine = is_sender(run) ? timing->seconds : 0, seconds = 0;

	MPI_Reduce(&mine, &seconds, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (run->rank)
		return;
	seconds /= pairs(run);
	printf("%20.4f%20.2f", messages * (double)run->size / 1e6 / seconds, messages / seconds);
}

const struct benchmark benchmark_mbw_mr = {
	.title = "MPI Multiple Bandwidth / Message Rate Test",
	.about = "Pairs of ranks, one sending windows of messages to the other.",
	.groups = TAKES_SIZES | TAKES_WINDOW,
	.defaults = { .min_size = 1, .max_size = SIZE_MOST, BANDWIDTH_LOOPS },
	.ranks = RANKS_EVEN,
	.header = pairs_header,
	.exchange = pairs_one_way,
	.report = pairs_report,
	.fill = fill,
	.check = check_one_way,
};
