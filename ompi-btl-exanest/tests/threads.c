/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: several threads of each rank communicate at once, distinguished by tag, by
 * communicator, or not at all.
 */
#include "mpitest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define MOST_BYTES (1u << 20)

struct worker {
	pthread_t thread;
	int number;
	MPI_Comm comm;
	void (*run)(struct worker *worker);
	uint64_t state; /* the same for this number on every rank */
	unsigned char *out, *in;
};

static struct worker workers[THREADS];
static MPI_Comm comms[THREADS];
static int rounds;
static atomic_int received;

static void *start(void *argument)
{
	struct worker *worker = argument;

	worker->run(worker);
	return NULL;
}

/* The main thread waits outside MPI: the other threads make progress. */
static void run_threads(void (*run)(struct worker *), int own_comm)
{
	int i;

	for (i = 0; i < THREADS; i++) {
		struct worker *worker = &workers[i];

		worker->number = i;
		worker->comm = own_comm ? comms[i] : MPI_COMM_WORLD;
		worker->run = run;
		worker->state = mpitest.test_seed + (uint64_t)i;
		if (pthread_create(&worker->thread, NULL, start, worker))
			MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

static uint64_t seed_of(int from, int to, const struct worker *worker, int round)
{
	return mpitest_message_seed(from, to, (uint64_t)(worker->number * 1000000 + round));
}

static void exchange(struct worker *worker, int round, size_t length)
{
	MPI_Request requests[2];

	mpitest_fill(worker->out, length, seed_of(mpitest.rank, mpitest.right, worker, round));
	MPI_Irecv(worker->in, (int)length, MPI_BYTE, mpitest.left, worker->number, worker->comm,
		  &requests[0]);
	MPI_Isend(worker->out, (int)length, MPI_BYTE, mpitest.right, worker->number, worker->comm,
		  &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify(worker->in, length, seed_of(mpitest.left, mpitest.rank, worker, round),
		       "received");
}

static void small(struct worker *worker)
{
	int round;

	for (round = 0; round < 4 * rounds; round++)
		exchange(worker, round, (size_t)(round % 300));
}

static void any_size(struct worker *worker)
{
	int round;

	for (round = 0; round < rounds; round++)
		exchange(worker, round, mpitest_random_size(&worker->state, MOST_BYTES));
}

/* All functions in which a thread can wait: none may block other threads. */
static void every_wait(struct worker *worker)
{
	int round, done, which;

	for (round = 0; round < rounds; round++) {
		size_t length = mpitest_random_size(&worker->state, MOST_BYTES / 4);
		uint64_t seed = seed_of(mpitest.left, mpitest.rank, worker, round);
		MPI_Request requests[2];
		MPI_Message message;

		mpitest_fill(worker->out, length,
			     seed_of(mpitest.rank, mpitest.right, worker, round));
		MPI_Isend(worker->out, (int)length, MPI_BYTE, mpitest.right, worker->number,
			  worker->comm, &requests[1]);
		switch (round % 4) {
		case 0:
			MPI_Recv(worker->in, (int)length, MPI_BYTE, mpitest.left, worker->number,
				 worker->comm, MPI_STATUS_IGNORE);
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			break;
		case 1:
			MPI_Mprobe(mpitest.left, worker->number, worker->comm, &message,
				   MPI_STATUS_IGNORE);
			MPI_Mrecv(worker->in, (int)length, MPI_BYTE, &message, MPI_STATUS_IGNORE);
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			break;
		case 2:
			MPI_Irecv(worker->in, (int)length, MPI_BYTE, mpitest.left, worker->number,
				  worker->comm, &requests[0]);
			do {
				MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
			} while (!done);
			break;
		default:
			MPI_Irecv(worker->in, (int)length, MPI_BYTE, mpitest.left, worker->number,
				  worker->comm, &requests[0]);
			MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
			MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
		}
		mpitest_verify(worker->in, length, seed, "received");
	}
}

static void collectives(struct worker *worker)
{
	int round, sum, one;

	for (round = 0; round < rounds; round++) {
		size_t length = mpitest_random_size(&worker->state, MOST_BYTES / 8);
		int root = round % mpitest.size;

		one = mpitest.rank + round;
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, worker->comm);
		mpitest_expect(sum == mpitest.size * (mpitest.size - 1) / 2 + mpitest.size * round,
			       "thread %d, allreduce %d gives %d", worker->number, round, sum);
		if (mpitest.rank == root)
			mpitest_fill(worker->in, length, seed_of(root, 0, worker, round));
		MPI_Bcast(worker->in, (int)length, MPI_BYTE, root, worker->comm);
		mpitest_verify(worker->in, length, seed_of(root, 0, worker, round), "bcast");
	}
}

/*
 * A thread gets any of the messages, whose first bytes are its number. Each thread receives as many
 * as it sends.
 */
static void any_message(struct worker *worker)
{
	MPI_Request request;
	MPI_Message message;
	MPI_Status status;
	int round, length;
	uint64_t number;

	for (round = 0; round < rounds; round++) {
		size_t size = 8 + mpitest_random_size(&worker->state, MOST_BYTES / 16);

		number = (uint64_t)worker->number * 1000000u + (uint64_t)round;
		memcpy(worker->out, &number, 8);
		mpitest_fill_message(worker->out + 8, size - 8, mpitest.right, number);
		MPI_Isend(worker->out, (int)size, MPI_BYTE, mpitest.right, 77, worker->comm,
			  &request);

		MPI_Mprobe(MPI_ANY_SOURCE, 77, worker->comm, &message, &status);
		MPI_Get_count(&status, MPI_BYTE, &length);
		MPI_Mrecv(worker->in, length, MPI_BYTE, &message, &status);
		memcpy(&number, worker->in, 8);
		mpitest_verify_message(worker->in + 8, (size_t)length - 8, mpitest.left, number,
				       "received");
		atomic_fetch_add(&received, 1);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

/* Many in flight from each thread: rings and queues fill up. */
static void flood(struct worker *worker)
{
	enum { FLIGHT = 64, LENGTH = 3000 };
	MPI_Request requests[2 * FLIGHT];
	int round, i;

	for (round = 0; round < rounds / 8 + 1; round++) {
		for (i = 0; i < FLIGHT; i++) {
			mpitest_fill(worker->out + i * LENGTH, LENGTH,
				     seed_of(mpitest.rank, mpitest.right, worker,
					     round * FLIGHT + i));
			MPI_Isend(worker->out + i * LENGTH, LENGTH, MPI_BYTE, mpitest.right,
				  worker->number, worker->comm, &requests[FLIGHT + i]);
		}
		for (i = 0; i < FLIGHT; i++)
			MPI_Irecv(worker->in + i * LENGTH, LENGTH, MPI_BYTE, mpitest.left,
				  worker->number, worker->comm, &requests[i]);
		MPI_Waitall(2 * FLIGHT, requests, MPI_STATUSES_IGNORE);
		for (i = 0; i < FLIGHT; i++)
			mpitest_verify(worker->in + i * LENGTH, LENGTH,
				       seed_of(mpitest.left, mpitest.rank, worker,
					       round * FLIGHT + i),
				       "in a flood");
	}
}

static void test(const char *name, void (*run)(struct worker *), int own_comm)
{
	mpitest_begin("%d threads, %s, %s", THREADS, name,
		      own_comm ? "own communicators" : "one communicator");
	run_threads(run, own_comm);
	mpitest_end();
}

int main(int argc, char **argv)
{
	int i, own, wanted;

	mpitest_init(&argc, &argv, MPI_THREAD_MULTIPLE);
	rounds = mpitest.quick ? 30 : 100;
	for (i = 0; i < THREADS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
		workers[i].out = mpitest_alloc(MOST_BYTES);
		workers[i].in = mpitest_alloc(MOST_BYTES);
	}
	for (own = 0; own < 2; own++) {
		test("small messages", small, own);
		test("any size", any_size, own);
		test("every way to wait", every_wait, own);
		test("flood", flood, own);
	}
	test("collectives", collectives, 1);

	mpitest_begin("%d threads, each receives any message", THREADS);
	atomic_store(&received, 0);
	run_threads(any_message, 0);
	wanted = THREADS * rounds;
	mpitest_expect(atomic_load(&received) == wanted, "%d messages arrived, not %d",
		       atomic_load(&received), wanted);
	mpitest_end();

	for (i = 0; i < THREADS; i++) {
		MPI_Comm_free(&comms[i]);
		free(workers[i].out);
		free(workers[i].in);
	}
	return mpitest_finish();
}
