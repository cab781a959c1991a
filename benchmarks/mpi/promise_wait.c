/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes of ranks that wait: what it costs, how long a call takes, how late it ends. */
#include "promise.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sample.h"

#define MS 1e-3
/* Between two looks for a message, s, of a program that works between them. */
#define WORK 100e-6
/* After the last message until ranks count as idle, us. */
#define SETTLE_US 1000000

static void ms_sleep(long ms)
{
	usleep((useconds_t)ms * 1000);
}

/* ---- idle ---- */

/* Processor time of processes, s. */
static double processor_time(const int *processes, int count)
{
	double sum = 0;
	int i;

	for (i = 0; i < count; i++) {
		struct timespec used;
		clockid_t clock;

		if (clock_getcpuclockid(processes[i], &clock) || clock_gettime(clock, &used))
			promise_fail("cannot read the processor time of a rank");
		sum += (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
	}
	return sum;
}

/* Rank 0 sleeps, all others wait for its message. The figure is a share of two processors. */
void shape_idle(const struct promise *promise)
{
	int *processes = calloc((size_t)promise->ranks, sizeof(*processes));
	int i, process = getpid();
	double start, used;

	MPI_Gather(&process, 1, MPI_INT, processes, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (promise->rank) {
		MPI_Recv(&i, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		usleep(SETTLE_US);
		start = sample_seconds();
		used = processor_time(processes + 1, promise->ranks - 1);
		sleep((unsigned)promise->arguments[0]);
		used = processor_time(processes + 1, promise->ranks - 1) - used;
		promise_print("processors", 100 * used / 2 / (sample_seconds() - start));
		for (i = 1; i < promise->ranks; i++)
			MPI_Send(&i, 1, MPI_INT, i, 0, MPI_COMM_WORLD);
	}
	free(processes);
}

/* ---- wake ---- */

/* Rank 1 waits for messages of rank 0, which tell when they were sent. */
void shape_wake(const struct promise *promise)
{
	long i, count = promise->arguments[0];
	double sum = 0, worst = 0, time;

	for (i = 0; i < count; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		if (promise->rank == 0) {
			ms_sleep(promise->arguments[1]);
			time = sample_seconds();
			MPI_Send(&time, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
		} else if (promise->rank == 1) {
			MPI_Recv(&time, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			time = sample_seconds() - time;
			sum += time;
			worst = time > worst ? time : worst;
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (promise->rank == 1) {
		promise_print("mean", sum / (double)count / MS);
		promise_print("worst", worst / MS);
	}
}

/* ---- look ---- */

/* The longest call in a loop that lasts for a time. request: of MPI_Test; NULL: MPI_Iprobe. */
static double longest_call(double seconds, double work, MPI_Request *request)
{
	double start = sample_seconds(), longest = 0, before, after;
	int flag;

	do {
		before = sample_seconds();
		if (request)
			MPI_Test(request, &flag, MPI_STATUS_IGNORE);
		else
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag,
				   MPI_STATUS_IGNORE);
		after = sample_seconds();
		if (after - before > longest)
			longest = after - before;
		if (work > 0)
			promise_work(work);
	} while (after - start < seconds);
	return longest;
}

/* Rank 0 looks for messages, and the others wait in MPI_Recv. */
void shape_look(const struct promise *promise)
{
	double seconds = (double)promise->arguments[0] * MS;
	MPI_Request request;
	int i, token = 0;

	if (promise->rank) {
		MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (promise->rank == 1)
			MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
		return;
	}
	promise_print("iprobe", longest_call(seconds, 0, NULL) / MS);
	promise_print("iprobe-work", longest_call(seconds, WORK, NULL) / MS);
	MPI_Irecv(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
	promise_print("test", longest_call(seconds, 0, &request) / MS);
	promise_print("test-work", longest_call(seconds, WORK, &request) / MS);
	for (i = 1; i < promise->ranks; i++)
		MPI_Send(&token, 1, MPI_INT, i, 0, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- late ---- */

struct late {
	MPI_Win window;
	double *due; /* memory of rank 0 in the window: time since which the other rank waits in vain */
	long ms;
};

/* Rank 1 waits for a lock that rank 0 holds. Returns how late it got it, s. */
static double late_lock(const struct late *late, int rank)
{
	double lateness = 0;

	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, late->window);
		MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		ms_sleep(late->ms);
		*late->due = sample_seconds();
		MPI_Win_unlock(0, late->window);
	} else if (rank == 1) {
		MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, late->window);
		lateness = sample_seconds() - *late->due;
		MPI_Win_unlock(0, late->window);
	}
	return lateness;
}

/* Rank 1 waits in MPI_Win_start for rank 0's MPI_Win_post. */
static double late_start(const struct late *late, int rank)
{
	int other = !rank;
	double lateness = 0;
	MPI_Group world, group;

	if (rank > 1)
		return 0;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &other, &group);
	if (rank == 0) {
		ms_sleep(late->ms);
		*late->due = sample_seconds();
		MPI_Win_post(group, 0, late->window);
		MPI_Win_wait(late->window);
	} else {
		MPI_Win_start(group, 0, late->window);
		lateness = sample_seconds() - *late->due;
		MPI_Win_complete(late->window);
	}
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	return lateness;
}

struct generalized {
	MPI_Request request;
	double due; /* time of its completion, s */
	long ms;
};

static int request_query(void *state, MPI_Status *status)
{
	(void)state;
	MPI_Status_set_elements(status, MPI_BYTE, 0);
	MPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	return MPI_SUCCESS;
}

static int request_free(void *state)
{
	(void)state;
	return MPI_SUCCESS;
}

static int request_cancel(void *state, int complete)
{
	(void)state;
	(void)complete;
	return MPI_SUCCESS;
}

static void *request_complete(void *argument)
{
	struct generalized *generalized = argument;

	ms_sleep(generalized->ms);
	generalized->due = sample_seconds();
	MPI_Grequest_complete(generalized->request);
	return NULL;
}

/* Rank 0 waits for a request that a thread of its own completes. */
static double late_request(const struct late *late, int rank)
{
	struct generalized generalized = { .ms = late->ms };
	pthread_t thread;
	double lateness;

	if (rank)
		return 0;
	MPI_Grequest_start(request_query, request_free, request_cancel, NULL, &generalized.request);
	if (pthread_create(&thread, NULL, request_complete, &generalized))
		promise_fail("cannot create a thread");
	MPI_Wait(&generalized.request, MPI_STATUS_IGNORE);
	lateness = sample_seconds();
	pthread_join(thread, NULL);
	return lateness - generalized.due;
}

void shape_late(const struct promise *promise)
{
	static const struct {
		const char *name;
		double (*wait)(const struct late *late, int rank);
	} waits[] = {
		{ "lock", late_lock },
		{ "start", late_start },
		{ "request", late_request },
	};
	struct late late = { .ms = promise->arguments[1] };
	double *own, worst;
	MPI_Aint size;
	int unit;
	size_t i;
	long k;

	MPI_Win_allocate_shared(sizeof(*own), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &late.window);
	MPI_Win_shared_query(late.window, 0, &size, &unit, &late.due);
	for (i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		worst = 0;
		for (k = 0; k < promise->arguments[0]; k++) {
			double lateness;

			MPI_Barrier(MPI_COMM_WORLD);
			lateness = waits[i].wait(&late, promise->rank);
			worst = lateness > worst ? lateness : worst;
		}
		worst = promise_largest(worst);
		if (promise->rank == 0)
			promise_print(waits[i].name, worst / MS);
	}
	MPI_Win_free(&late.window);
}
