/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large transfers while ranks do something else: compute, sleep, touch fresh
 * pages, send small messages, or keep many transfers in flight. One side alone
 * must be able to finish what the other does not help with.
 */
#include "mpitest.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LENGTH ((size_t)6 << 20)
#define TAG 8

static int left, right;
static unsigned char *out, *in;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Uses the core and does not call MPI. */
static void compute(double duration)
{
	double end = seconds() + duration;

	while (seconds() < end)
		;
}

static void pause_for(double duration)
{
	struct timespec pause = { .tv_nsec = (long)(duration * 1e9) };

	nanosleep(&pause, NULL);
}

/* One side is away at a time: the even ranks, the odd ones, both, nobody. */
static void busy_ranks(const char *name, void (*be_busy)(double), int posted)
{
	MPI_Request requests[2];
	int who;

	mpitest_begin("large messages while ranks %s, receives %s", name,
		      posted ? "posted" : "late");
	for (who = 0; who < 4; who++) {
		int busy = mpitest.rank % 2 ? who & 1 : who & 2;

		mpitest_fill(out, LENGTH, mpitest_message_seed(mpitest.rank, right, (uint64_t)who));
		memset(in, 0, LENGTH);
		if (posted)
			MPI_Irecv(in, (int)LENGTH, MPI_BYTE, left, TAG, MPI_COMM_WORLD,
				  &requests[0]);
		MPI_Isend(out, (int)LENGTH, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &requests[1]);
		if (busy)
			be_busy(0.03);
		if (!posted)
			MPI_Irecv(in, (int)LENGTH, MPI_BYTE, left, TAG, MPI_COMM_WORLD,
				  &requests[0]);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		mpitest_verify(in, LENGTH, mpitest_message_seed(left, mpitest.rank, (uint64_t)who),
			       "received");
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
	}
	mpitest_end();
}

/* Tests between slices of work, as codes that overlap do. */
static void slices_of_work(void)
{
	MPI_Request requests[2];
	int done = 0, round;

	mpitest_begin("a large exchange progressed by MPI_Testall between slices of work");
	for (round = 0; round < 5; round++, done = 0) {
		mpitest_fill(out, LENGTH,
			     mpitest_message_seed(mpitest.rank, right, (uint64_t)round));
		MPI_Irecv(in, (int)LENGTH, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, (int)LENGTH, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &requests[1]);
		while (!done) {
			compute(0.0005);
			MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
		}
		mpitest_verify(in, LENGTH,
			       mpitest_message_seed(left, mpitest.rank, (uint64_t)round),
			       "received");
	}
	mpitest_end();
}

static unsigned char *map(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (memory == MAP_FAILED)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return memory;
}

/* Every page of the destination is absent, then every page of both is dropped again. */
/* What btl_exanest_mode pin-cache has left locked must be unlocked first. */
static void drop_pages(void *memory)
{
	if (madvise(memory, LENGTH, MADV_DONTNEED) == 0)
		return;
	munlock(memory, LENGTH);
	mpitest_expect(madvise(memory, LENGTH, MADV_DONTNEED) == 0, "MADV_DONTNEED failed");
}

static void absent_pages(void)
{
	unsigned char *from = map(LENGTH), *to = map(LENGTH);
	size_t i, bad = LENGTH;
	int round;

	mpitest_begin("absent pages at the destination, and zero pages at the source");
	for (round = 0; round < 4; round++) {
		if (round % 2 == 0)
			mpitest_fill(from, LENGTH,
				     mpitest_message_seed(mpitest.rank, right, (uint64_t)round));
		else
			drop_pages(from);
		drop_pages(to);
		MPI_Sendrecv(from, (int)LENGTH, MPI_BYTE, right, TAG, to, (int)LENGTH, MPI_BYTE,
			     left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (round % 2 == 0) {
			mpitest_verify(to, LENGTH,
				       mpitest_message_seed(left, mpitest.rank, (uint64_t)round),
				       "received");
			continue;
		}
		for (i = 0; i < LENGTH && bad == LENGTH; i++) {
			if (to[i])
				bad = i;
		}
		mpitest_expect(bad == LENGTH, "a page never written came as 0x%02x at %zu",
			       bad < LENGTH ? to[bad] : 0, bad);
	}
	mpitest_end();
	munmap(from, LENGTH);
	munmap(to, LENGTH);
}

/* Any mapping is a buffer. */
static void unusual_memory(void)
{
	void *to = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *from = map(LENGTH);

	mpitest_begin("a read-only source and a shared destination");
	if (to == MAP_FAILED)
		MPI_Abort(MPI_COMM_WORLD, 2);
	mpitest_fill(from, LENGTH, mpitest_message_seed(mpitest.rank, right, 0));
	mprotect(from, LENGTH, PROT_READ);
	MPI_Sendrecv(from, (int)LENGTH, MPI_BYTE, right, TAG, to, (int)LENGTH, MPI_BYTE, left, TAG,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	mpitest_verify(to, LENGTH, mpitest_message_seed(left, mpitest.rank, 0), "received");
	mpitest_end();
	munmap(from, LENGTH);
	munmap(to, LENGTH);
}

/* All large, all at once, none expected, taken in reverse. */
static void many_unexpected(void)
{
	enum { MANY = 32 };
	size_t part = LENGTH / MANY;
	MPI_Request requests[MANY];
	int i;

	mpitest_begin("32 large unexpected messages, taken in reverse");
	for (i = 0; i < MANY; i++) {
		mpitest_fill(out + (size_t)i * part, part,
			     mpitest_message_seed(mpitest.rank, right, (uint64_t)i));
		MPI_Isend(out + (size_t)i * part, (int)part, MPI_BYTE, right, 100 + i,
			  MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = MANY; i-- > 0;) {
		MPI_Recv(in, (int)part, MPI_BYTE, left, 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		mpitest_verify(in, part, mpitest_message_seed(left, mpitest.rank, (uint64_t)i),
			       "received");
	}
	MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
	mpitest_end();
}

/* A derived type at either end keeps a transfer off the single copy; both at once. */
static void derived_beside_plain(void)
{
	enum { ROWS = 4000, WIDTH = 250, TAKEN = 190 };
	size_t cells = (size_t)ROWS * WIDTH;
	uint32_t *from = mpitest_alloc(cells * 4), *to = mpitest_alloc(cells * 4);
	MPI_Request requests[4];
	MPI_Datatype type;
	size_t i;

	MPI_Type_vector(ROWS, TAKEN, WIDTH, MPI_UINT32_T, &type);
	MPI_Type_commit(&type);
	mpitest_begin("large derived and plain messages at the same time");
	mpitest_fill(out, LENGTH, mpitest_message_seed(mpitest.rank, right, 5));
	for (i = 0; i < cells; i++) {
		from[i] = (uint32_t)((size_t)mpitest.rank * cells + i);
		to[i] = UINT32_MAX;
	}
	MPI_Isend(from, 1, type, right, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)LENGTH, MPI_BYTE, right, TAG + 1, MPI_COMM_WORLD, &requests[1]);
	compute(0.005);
	MPI_Irecv(in, (int)LENGTH, MPI_BYTE, left, TAG + 1, MPI_COMM_WORLD, &requests[2]);
	MPI_Irecv(to, 1, type, left, TAG, MPI_COMM_WORLD, &requests[3]);
	MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
	mpitest_verify(in, LENGTH, mpitest_message_seed(left, mpitest.rank, 5), "plain");
	for (i = 0; i < cells; i++) {
		uint32_t wanted = i % WIDTH < TAKEN ? (uint32_t)((size_t)left * cells + i) :
						      UINT32_MAX;

		if (to[i] != wanted) {
			mpitest_fail("cell %zu is %u not %u", i, to[i], wanted);
			break;
		}
	}
	mpitest_end();
	MPI_Type_free(&type);
	free(from);
	free(to);
}

/* Small messages go on in both directions while a large one is under way. */
static void small_beside_large(void)
{
	MPI_Request requests[2];
	int i, sent, got;

	mpitest_begin("small messages beside a large one");
	mpitest_fill(out, LENGTH, mpitest_message_seed(mpitest.rank, right, 9));
	MPI_Irecv(in, (int)LENGTH, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)LENGTH, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &requests[1]);
	for (i = 0; i < 500; i++) {
		sent = mpitest.rank * 1000 + i;
		MPI_Sendrecv(&sent, 1, MPI_INT, right, TAG + 1, &got, 1, MPI_INT, left, TAG + 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		mpitest_expect(got == left * 1000 + i, "small message %d says %d", i, got);
	}
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify(in, LENGTH, mpitest_message_seed(left, mpitest.rank, 9), "large");
	mpitest_end();
}

/* Some tens of microseconds of processor time, whoever else runs meanwhile. */
static volatile unsigned worked;

static void work(void)
{
	unsigned i;

	for (i = 0; i < 30000; i++)
		worked = worked + i;
}

/*
 * A program that looks for messages between pieces of work must not be made to
 * wait by the look, not even where ranks share cores. What the looks may cost
 * is measured in yields of the processor, which are what Open MPI itself does.
 */
static void looking_for_messages(void)
{
	enum { LOOKS = 3000, ATTEMPTS = 3 };
	int attempt, i, found, slow = 1, any_slow = 1;
	double began, yields = 0, looks = 0;

	mpitest_begin("looking for messages that are not there takes no time");
	/* Something else may need the cores for a moment, hardly three times. */
	for (attempt = 0; any_slow && attempt < ATTEMPTS; attempt++) {
		began = seconds();
		for (i = 0; i < LOOKS; i++) {
			work();
			sched_yield();
		}
		yields = seconds() - began;
		MPI_Barrier(MPI_COMM_WORLD);
		began = seconds();
		for (i = 0; i < LOOKS; i++) {
			work();
			MPI_Iprobe(MPI_ANY_SOURCE, TAG + 5, MPI_COMM_WORLD, &found,
				   MPI_STATUS_IGNORE);
		}
		looks = seconds() - began;
		slow = looks > 1.0 + 5 * yields;
		MPI_Allreduce(&slow, &any_slow, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	}
	mpitest_expect(!slow, "%d looks take %.3f s, as many yields %.3f s", LOOKS, looks, yields);
	mpitest_end();
}

int main(int argc, char **argv)
{
	int posted;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	left = (mpitest.rank + mpitest.size - 1) % mpitest.size;
	right = (mpitest.rank + 1) % mpitest.size;
	out = mpitest_alloc(LENGTH);
	in = mpitest_alloc(LENGTH);
	for (posted = 0; posted < 2; posted++) {
		busy_ranks("compute", compute, posted);
		busy_ranks("sleep", pause_for, posted);
	}
	slices_of_work();
	absent_pages();
	unusual_memory();
	many_unexpected();
	derived_beside_plain();
	small_beside_large();
	looking_for_messages();
	return mpitest_finish();
}
