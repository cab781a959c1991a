/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large transfers while ranks do something else: compute, sleep, touch new pages, send small
 * messages, or keep many transfers in flight. One side alone must be able to finish a transfer.
 */
#include "mpitest.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LENGTH ((size_t)6 << 20)
#define TAG 8

static unsigned char *out, *in;

/* Use the processor, and do not call MPI. */
static void compute(double duration)
{
	double end = mpitest_seconds() + duration;

	while (mpitest_seconds() < end)
		;
}

static void pause_for(double duration)
{
	struct timespec pause = { .tv_nsec = (long)(duration * 1e9) };

	nanosleep(&pause, NULL);
}

/* The even ranks are busy, the odd ones, both, or none. */
static void busy_ranks(const char *name, void (*be_busy)(double), int posted)
{
	MPI_Request requests[2];
	int who;

	mpitest_begin("large messages while ranks %s, receives %s", name,
		      posted ? "posted" : "late");
	for (who = 0; who < 4; who++) {
		int busy = mpitest.rank % 2 ? who & 1 : who & 2;

		mpitest_fill_message(out, LENGTH, mpitest.right, (uint64_t)who);
		memset(in, 0, LENGTH);
		if (posted)
			MPI_Irecv(in, (int)LENGTH, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD,
				  &requests[0]);
		MPI_Isend(out, (int)LENGTH, MPI_BYTE, mpitest.right, TAG, MPI_COMM_WORLD,
			  &requests[1]);
		if (busy)
			be_busy(0.03);
		if (!posted)
			MPI_Irecv(in, (int)LENGTH, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD,
				  &requests[0]);
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		mpitest_verify_message(in, LENGTH, mpitest.left, (uint64_t)who, "received");
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
	}
	mpitest_end();
}

/* MPI_Testall between slices of work, as in programs that overlap communication. */
static void slices_of_work(void)
{
	MPI_Request requests[2];
	int done = 0, round;

	for (round = 0; round < 5; round++, done = 0) {
		mpitest_fill_message(out, LENGTH, mpitest.right, (uint64_t)round);
		MPI_Irecv(in, (int)LENGTH, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD,
			  &requests[0]);
		MPI_Isend(out, (int)LENGTH, MPI_BYTE, mpitest.right, TAG, MPI_COMM_WORLD,
			  &requests[1]);
		while (!done) {
			compute(0.0005);
			MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
		}
		mpitest_verify_message(in, LENGTH, mpitest.left, (uint64_t)round, "received");
	}
}

/* With btl_exanest_mode pin-cache the pages may be locked, and must be unlocked first. */
static void drop_pages(void *memory)
{
	if (madvise(memory, LENGTH, MADV_DONTNEED) == 0)
		return;
	munlock(memory, LENGTH);
	mpitest_expect(madvise(memory, LENGTH, MADV_DONTNEED) == 0, "MADV_DONTNEED failed");
}

static void absent_pages(void)
{
	unsigned char *from = mpitest_map(LENGTH), *to = mpitest_map(LENGTH);
	size_t i, bad = LENGTH;
	int round;

	for (round = 0; round < 4; round++) {
		if (round % 2 == 0)
			mpitest_fill_message(from, LENGTH, mpitest.right, (uint64_t)round);
		else
			drop_pages(from);
		drop_pages(to);
		mpitest_shift(from, to, LENGTH, TAG);
		if (round % 2 == 0) {
			mpitest_verify_message(to, LENGTH, mpitest.left, (uint64_t)round,
					       "received");
			continue;
		}
		for (i = 0; i < LENGTH && bad == LENGTH; i++) {
			if (to[i])
				bad = i;
		}
		mpitest_expect(bad == LENGTH,
			       "a page that was never written arrived as 0x%02x at byte %zu",
			       bad < LENGTH ? to[bad] : 0, bad);
	}
	munmap(from, LENGTH);
	munmap(to, LENGTH);
}

/* Buffers that are not private writable memory. */
static void unusual_memory(void)
{
	void *to = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *from = mpitest_map(LENGTH);

	if (to == MAP_FAILED)
		mpitest_abort("no shared memory");
	mpitest_fill_message(from, LENGTH, mpitest.right, 0);
	mprotect(from, LENGTH, PROT_READ);
	mpitest_shift(from, to, LENGTH, TAG);
	mpitest_verify_message(to, LENGTH, mpitest.left, 0, "received");
	munmap(from, LENGTH);
	munmap(to, LENGTH);
}

/* Large messages that arrive before their receives, which are in reverse order. */
static void many_unexpected(void)
{
	enum { MANY = 32 };
	size_t part = LENGTH / MANY;
	MPI_Request requests[MANY];
	int i;

	for (i = 0; i < MANY; i++) {
		mpitest_fill_message(out + (size_t)i * part, part, mpitest.right, (uint64_t)i);
		MPI_Isend(out + (size_t)i * part, (int)part, MPI_BYTE, mpitest.right, 100 + i,
			  MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = MANY; i-- > 0;) {
		MPI_Recv(in, (int)part, MPI_BYTE, mpitest.left, 100 + i, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		mpitest_verify_message(in, part, mpitest.left, (uint64_t)i, "received");
	}
	MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
}

/* A transfer of a derived type does not use the single copy; here both kinds are in flight. */
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
	mpitest_fill_message(out, LENGTH, mpitest.right, 5);
	for (i = 0; i < cells; i++) {
		from[i] = (uint32_t)((size_t)mpitest.rank * cells + i);
		to[i] = UINT32_MAX;
	}
	MPI_Isend(from, 1, type, mpitest.right, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)LENGTH, MPI_BYTE, mpitest.right, TAG + 1, MPI_COMM_WORLD, &requests[1]);
	compute(0.005);
	MPI_Irecv(in, (int)LENGTH, MPI_BYTE, mpitest.left, TAG + 1, MPI_COMM_WORLD, &requests[2]);
	MPI_Irecv(to, 1, type, mpitest.left, TAG, MPI_COMM_WORLD, &requests[3]);
	MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
	mpitest_verify_message(in, LENGTH, mpitest.left, 5, "plain");
	for (i = 0; i < cells; i++) {
		uint32_t wanted = i % WIDTH < TAKEN ? (uint32_t)((size_t)mpitest.left * cells + i) :
						      UINT32_MAX;

		if (to[i] != wanted) {
			mpitest_fail("cell %zu is %u not %u", i, to[i], wanted);
			break;
		}
	}
	MPI_Type_free(&type);
	free(from);
	free(to);
}

/* Small messages in both directions during a large one. */
static void small_beside_large(void)
{
	MPI_Request requests[2];
	int i, sent, got;

	mpitest_fill_message(out, LENGTH, mpitest.right, 9);
	MPI_Irecv(in, (int)LENGTH, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)LENGTH, MPI_BYTE, mpitest.right, TAG, MPI_COMM_WORLD, &requests[1]);
	for (i = 0; i < 500; i++) {
		sent = mpitest.rank * 1000 + i;
		mpitest_shift(&sent, &got, sizeof(sent), TAG + 1);
		mpitest_expect(got == mpitest.left * 1000 + i, "small message %d has %d", i, got);
	}
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify_message(in, LENGTH, mpitest.left, 9, "large");
}

/* Some ten microseconds of processor time. */
static volatile unsigned worked;

static void work(void)
{
	unsigned i;

	for (i = 0; i < 30000; i++)
		worked = worked + i;
}

/*
 * With --timing: MPI_Iprobe between pieces of work does not sleep, also when ranks share
 * processors. The limit is a multiple of the time of sched_yield, which Open MPI calls itself.
 */
static void probe_does_not_sleep(void)
{
	enum { PROBES = 3000, ATTEMPTS = 3 };
	int attempt, i, found, slow = 1, any_slow = 1;
	double began, yields = 0, probes = 0;

	/* Other processes may need the processors for a moment, hardly three times. */
	for (attempt = 0; any_slow && attempt < ATTEMPTS; attempt++) {
		began = mpitest_seconds();
		for (i = 0; i < PROBES; i++) {
			work();
			sched_yield();
		}
		yields = mpitest_seconds() - began;
		MPI_Barrier(MPI_COMM_WORLD);
		began = mpitest_seconds();
		for (i = 0; i < PROBES; i++) {
			work();
			MPI_Iprobe(MPI_ANY_SOURCE, TAG + 5, MPI_COMM_WORLD, &found,
				   MPI_STATUS_IGNORE);
		}
		probes = mpitest_seconds() - began;
		slow = probes > 1.0 + 5 * yields;
		MPI_Allreduce(&slow, &any_slow, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	}
	mpitest_expect(!slow, "%d probes take %.3f s, as many yields %.3f s", PROBES, probes,
		       yields);
}

int main(int argc, char **argv)
{
	static const struct mpitest_case cases[] = {
		{ "a large exchange progressed by MPI_Testall between slices of work",
		  slices_of_work },
		{ "absent pages at the destination, and zero pages at the source", absent_pages },
		{ "a read-only source and a shared destination", unusual_memory },
		{ "32 large unexpected messages, taken in reverse", many_unexpected },
		{ "large derived and plain messages at the same time", derived_beside_plain },
		{ "small messages beside a large one", small_beside_large },
	};
	static const struct mpitest_case timing[] = {
		{ "a probe without a message does not sleep", probe_does_not_sleep },
	};
	int posted;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	out = mpitest_alloc(LENGTH);
	in = mpitest_alloc(LENGTH);
	if (mpitest_option("--timing")) {
		mpitest_run(timing);
		return mpitest_finish();
	}
	for (posted = 0; posted < 2; posted++) {
		busy_ranks("compute", compute, posted);
		busy_ranks("sleep", pause_for, posted);
	}
	mpitest_run(cases);
	return mpitest_finish();
}
