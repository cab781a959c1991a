/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_Init, some traffic in one pattern or none, MPI_Finalize. Does not use mpitest.c, which would
 * connect all ranks with each other.
 *
 *   finalize PATTERN    one of the patterns that finalize --list prints
 */
#include "mpi_t.h"

#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/patience.h"

#define LARGE (1 << 20)
#define TAG 2

static int rank, size, wrong;
static pid_t stopped; /* rank 1 of sends_to_stopped, for rank 0 */
static char *out, *in;

static void send_to(int to, int length)
{
	memset(out, rank + 1, (size_t)length);
	MPI_Send(out, length, MPI_CHAR, to, TAG, MPI_COMM_WORLD);
}

static void receive_from(int from, int length)
{
	int i;

	memset(in, 0, (size_t)length);
	MPI_Recv(in, length, MPI_CHAR, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (i = 0; i < length; i++)
		wrong += in[i] != (char)(from + 1);
}

static void nothing(void)
{
}

static void to_self(void)
{
	MPI_Request request;

	memset(out, rank + 1, 100);
	MPI_Isend(out, 100, MPI_CHAR, rank, TAG, MPI_COMM_WORLD, &request);
	receive_from(rank, 100);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_small(void)
{
	if (rank == 0 && size > 1)
		send_to(1, 8);
	if (rank == 1)
		receive_from(0, 8);
}

/* The sender is in MPI_Finalize before the receiver posts its receive. */
static void one_small_received_late(void)
{
	if (rank == 0 && size > 1)
		send_to(1, 8);
	if (rank == 1) {
		usleep(100000);
		receive_from(0, 8);
	}
}

static void one_large(void)
{
	if (rank == 0 && size > 1)
		send_to(size - 1, LARGE);
	if (rank && rank == size - 1)
		receive_from(0, LARGE);
}

/* MPI_Finalize must complete a send whose request was freed. */
static void freed_large_send(void)
{
	MPI_Request request;

	if (rank == 0 && size > 1) {
		memset(out, rank + 1, LARGE);
		MPI_Isend(out, LARGE, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
	}
	if (rank == 1) {
		usleep(100000);
		receive_from(0, LARGE);
	}
}

#define MESSAGES 1000
#define SHORT 4000

/* The same of more messages than there is room for, to a rank that does not call MPI yet. */
static void freed_short_sends(void)
{
	MPI_Request request;
	int i;

	memset(out, rank + 1, SHORT);
	for (i = 0; i < MESSAGES && rank == 0 && size > 1; i++) {
		MPI_Isend(out, SHORT, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
	}
	if (rank != 1)
		return;
	usleep(300000);
	for (i = 0; i < MESSAGES; i++)
		receive_from(0, SHORT);
}

/*
 * Sends to a rank that is stopped, with MPI_Finalize that does not wait for other ranks
 * (async_mpi_finalize): it ends although nothing takes the messages.
 */
static void sends_to_stopped(void)
{
	MPI_Request request;
	pid_t self = getpid();
	int i;

	if (rank == 1) {
		MPI_Send(&self, sizeof(self), MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
		raise(SIGSTOP);
	}
	if (rank || size < 2)
		return;
	MPI_Recv(&stopped, sizeof(stopped), MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (i = 0; i < MESSAGES; i++) {
		MPI_Isend(out, SHORT, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
	}
}

static void ring(void)
{
	MPI_Request request;

	memset(out, rank + 1, 1000);
	MPI_Isend(out, 1000, MPI_CHAR, (rank + 1) % size, TAG, MPI_COMM_WORLD, &request);
	receive_from((rank + size - 1) % size, 1000);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/*
 * A rank that communicates with two others connects to two only. The counts of connections are
 * summed up around the ring: one that was accepted before a rank began to count is counted only by
 * the rank that initiated it.
 */
static void neighbours(void)
{
	int right = (rank + 1) % size, left = (rank + size - 1) % size;
	long long most = size < 3 ? size - 1 : 2, peers, before = 0, sum;
	char mine = 1, other;

	mpi_t_watch();
	MPI_Sendrecv(&mine, 1, MPI_CHAR, right, TAG, &other, 1, MPI_CHAR, left, TAG, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv(&mine, 1, MPI_CHAR, left, TAG, &other, 1, MPI_CHAR, right, TAG, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	peers = mpi_t_counted("peers");
	mpi_t_unwatch();
	if (peers < 0 && strcmp(mpi_t_btl(), "exanest") != 0)
		return;
	if (rank)
		MPI_Recv(&before, 1, MPI_LONG_LONG, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	sum = before + peers;
	if (rank < size - 1)
		MPI_Send(&sum, 1, MPI_LONG_LONG, right, TAG, MPI_COMM_WORLD);
	if (peers >= 0 && peers <= most && (rank < size - 1 || sum >= (size > 2 ? size : most)))
		return;
	fprintf(stderr, "# rank %d: %lld peers, %lld with the ranks before it, of %d neighbours\n",
		rank, peers, sum, (int)most);
	wrong++;
}

static void star(void)
{
	int who;

	if (rank)
		send_to(0, 5000);
	for (who = 1; who < size && rank == 0; who++)
		receive_from(who, 5000);
}

static void pairs(void)
{
	int other = rank ^ 1;

	if (other >= size)
		return;
	if (rank < other)
		send_to(other, LARGE);
	else
		receive_from(other, LARGE);
}

static void all_to_all(void)
{
	MPI_Request *requests = malloc((size_t)size * sizeof(MPI_Request));
	int who;

	memset(out, rank + 1, 64);
	for (who = 0; who < size; who++)
		MPI_Isend(out, 64, MPI_CHAR, who, TAG, MPI_COMM_WORLD, &requests[who]);
	for (who = 0; who < size; who++)
		receive_from(who, 64);
	MPI_Waitall(size, requests, MPI_STATUSES_IGNORE);
	free(requests);
}

static void late_ranks(void)
{
	ring();
	usleep((useconds_t)(rank * 150000 / size));
}

static void window(void)
{
	MPI_Win win;

	MPI_Win_create(in, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_free(&win);
}

static void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
	const char *name;
	void (*run)(void);
	bool alone; /* not listed: it needs parameters of its own */
} patterns[] = {
	{ "nothing", nothing },
	{ "to_self", to_self },
	{ "one_small", one_small },
	{ "one_small_received_late", one_small_received_late },
	{ "one_large", one_large },
	{ "freed_large_send", freed_large_send },
	{ "freed_short_sends", freed_short_sends },
	{ "sends_to_stopped", sends_to_stopped, true },
	{ "ring", ring },
	{ "neighbours", neighbours },
	{ "star", star },
	{ "pairs", pairs },
	{ "everybody", all_to_all },
	{ "late_ranks", late_ranks },
	{ "window", window },
	{ "barrier", barrier },
};
#define PATTERNS (sizeof(patterns) / sizeof(*patterns))

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "";
	size_t i;

	if (strcmp(wanted, "--list") == 0) {
		for (i = 0; i < PATTERNS; i++) {
			if (!patterns[i].alone)
				puts(patterns[i].name);
		}
		return 0;
	}
	for (i = 0; i < PATTERNS && strcmp(wanted, patterns[i].name) != 0; i++)
		;
	if (i == PATTERNS) {
		fprintf(stderr,
			"usage: finalize PATTERN, one of those that finalize --list prints\n");
		return 2;
	}
	alarm(30 * patience());
	out = malloc(LARGE);
	in = malloc(LARGE);
	if (!out || !in)
		return 2;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	patterns[i].run();
	/* If MPI_Finalize waits for a time-out, this ends it. */
	alarm(10 * patience());
	MPI_Finalize();
	if (stopped)
		kill(stopped, SIGCONT);
	if (wrong)
		fprintf(stderr, "# rank %d: %d wrong\n", rank, wrong);
	if (rank == 0)
		printf("%sok 1 - finalize after %s\n1..1\n", wrong ? "not " : "", wanted);
	free(out);
	free(in);
	return wrong != 0;
}
