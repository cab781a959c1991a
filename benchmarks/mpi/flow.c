/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of messages from rank 0 to rank 1, until a given time. Several jobs
 * can run at the same time and count what arrives over the same interval:
 * CLOCK_MONOTONIC is common to all processes of a machine, also to those in
 * other namespaces.
 */
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#define MESSAGE_BYTES (256 << 10)
#define WINDOW 16
#define STEPS_MOST 100000
#define TAG_DATA 1
#define TAG_END 2

struct span {
	double begin, end; /* CLOCK_MONOTONIC, s */
	double step;       /* interval of one line of output, s */
	int steps;
};

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory) {
		fprintf(stderr, "flow: no memory for %zu bytes\n", count * size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return memory;
}

/*
 * At the end the receiver reports the number of receives that it posted, and
 * the sender replies with the number of messages: as many, or more that are
 * under way already. Empty messages match the receives that are left.
 */
static void send_all(void)
{
	char *buffer = allocate(WINDOW, MESSAGE_BYTES);
	MPI_Request requests[WINDOW + 1];
	long long sent = 0, total = 0;
	int i;

	memset(buffer, 1, (size_t)WINDOW * MESSAGE_BYTES);
	MPI_Irecv(&total, 1, MPI_LONG_LONG, 1, TAG_END, MPI_COMM_WORLD, &requests[WINDOW]);
	for (i = 0; i < WINDOW; i++)
		requests[i] = MPI_REQUEST_NULL;
	for (i = 0; i < WINDOW; i++, sent++)
		MPI_Isend(buffer + (size_t)i * MESSAGE_BYTES, MESSAGE_BYTES, MPI_CHAR, 1, TAG_DATA,
			  MPI_COMM_WORLD, &requests[i]);
	for (;;) {
		MPI_Waitany(WINDOW + 1, requests, &i, MPI_STATUS_IGNORE);
		if (i == WINDOW)
			break;
		MPI_Isend(buffer + (size_t)i * MESSAGE_BYTES, MESSAGE_BYTES, MPI_CHAR, 1, TAG_DATA,
			  MPI_COMM_WORLD, &requests[i]);
		sent++;
	}
	if (total < sent)
		total = sent;
	MPI_Send(&total, 1, MPI_LONG_LONG, 1, TAG_END, MPI_COMM_WORLD);
	for (; sent < total; sent++)
		MPI_Send(buffer, 0, MPI_CHAR, 1, TAG_DATA, MPI_COMM_WORLD);
	MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
	free(buffer);
}

/* Count bytes by step. Returns the time at which the first message arrived. */
static double receive_all(const struct span *span, unsigned long long *bytes)
{
	char *buffer = allocate(WINDOW, MESSAGE_BYTES);
	MPI_Request requests[WINDOW];
	double first = 0, now;
	long long posted, total;
	int i;

	memset(buffer, 1, (size_t)WINDOW * MESSAGE_BYTES);
	for (posted = 0; posted < WINDOW; posted++)
		MPI_Irecv(buffer + (size_t)posted * MESSAGE_BYTES, MESSAGE_BYTES, MPI_CHAR, 0,
			  TAG_DATA, MPI_COMM_WORLD, &requests[posted]);
	for (;; posted++) {
		MPI_Waitany(WINDOW, requests, &i, MPI_STATUS_IGNORE);
		now = sample_seconds();
		if (first == 0)
			first = now;
		if (now >= span->end)
			break;
		if (now >= span->begin)
			bytes[(int)((now - span->begin) / span->step)] += MESSAGE_BYTES;
		MPI_Irecv(buffer + (size_t)i * MESSAGE_BYTES, MESSAGE_BYTES, MPI_CHAR, 0, TAG_DATA,
			  MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Send(&posted, 1, MPI_LONG_LONG, 0, TAG_END, MPI_COMM_WORLD);
	MPI_Recv(&total, 1, MPI_LONG_LONG, 0, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (; posted < total; posted++) {
		/* Request i is complete. */
		MPI_Irecv(buffer + (size_t)i * MESSAGE_BYTES, MESSAGE_BYTES, MPI_CHAR, 0, TAG_DATA,
			  MPI_COMM_WORLD, &requests[i]);
		MPI_Waitany(WINDOW, requests, &i, MPI_STATUS_IGNORE);
	}
	MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
	free(buffer);
	return first;
}

static int parse_seconds(const char *text, double *seconds)
{
	char *end;

	errno = 0;
	*seconds = strtod(text, &end);
	return errno || end == text || *end || !isfinite(*seconds) || *seconds <= 0 ? -1 : 0;
}

static int parse(struct span *span, int argc, char **argv)
{
	double steps;

	if (argc != 4 || parse_seconds(argv[1], &span->begin) ||
	    parse_seconds(argv[2], &span->end) || parse_seconds(argv[3], &span->step))
		return -1;
	steps = ceil((span->end - span->begin) / span->step);
	if (steps < 1 || steps > STEPS_MOST)
		return -1;
	span->steps = (int)steps;
	return 0;
}

static int report(const struct span *span, double first, const unsigned long long *bytes)
{
	int i;

	if (first > span->begin) {
		fprintf(stderr,
			"flow: the first message arrived %.3f s after BEGIN: give a later BEGIN\n",
			first - span->begin);
		return 1;
	}
	printf("# End of the step in s after BEGIN, bytes received in the step\n");
	for (i = 0; i < span->steps; i++)
		printf("%.3f %llu\n", (i + 1) * span->step, bytes[i]);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long long *bytes;
	struct span span;
	int rank, ranks, status = 0;

	if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		printf("Usage: mpirun -n 2 [...] flow BEGIN END STEP\n"
		       "Rank 0 sends messages to rank 1 until END. Rank 1 prints the number of bytes "
		       "that arrived in each STEP\nfrom BEGIN to END. All three are in seconds; "
		       "BEGIN and END are times of CLOCK_MONOTONIC.\n");
		return 0;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2 || parse(&span, argc, argv)) {
		if (rank == 0)
			fprintf(stderr,
				"flow: needs mpirun -n 2, and BEGIN END STEP in seconds: see --help\n");
		MPI_Finalize();
		return 1;
	}
	if (rank == 0) {
		send_all();
	} else {
		bytes = allocate((size_t)span.steps + 1, sizeof(*bytes));
		status = report(&span, receive_all(&span, bytes), bytes);
		free(bytes);
	}
	MPI_Finalize();
	return status;
}
