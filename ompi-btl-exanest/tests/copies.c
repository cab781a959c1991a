/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between ranks that copy for each other: below Open MPI's btl/sm, component
 * smsc/exanest returns from a copy when it is complete, and makes no progress but its own meanwhile.
 * Three ranks or more.
 *
 *   --denied   the kernel permits no copies: the messages go another way
 */
#include "mpitest.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (4u << 20)
#define ROUNDS 40

static unsigned char *in, *out;

/* Without the component the program would test another one. */
static void is_loaded(void)
{
	void *const *selected = dlsym(RTLD_DEFAULT, "mca_smsc");
	/* The third and fourth words are functions: get_endpoint and return_endpoint. */
	void *const *module = selected ? *selected : NULL;
	Dl_info where = { 0 };

	mpitest_expect(module && dladdr(module[2], &where) && where.dli_fname &&
			       strstr(where.dli_fname, "mca_smsc_exanest.so"),
		       "smsc/exanest is not used: %s is",
		       where.dli_fname ? where.dli_fname : "no component");
}

/* Does a line of the memory map contain the name? */
static int is_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, name) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

/* A copy by libpf connects two processes. */
static void is_shared(void)
{
	const int denied = mpitest_option("--denied") != NULL;

	mpitest_expect(is_mapped("libpf channel") == !denied, "long messages are %scopied by libpf",
		       denied ? "" : "not ");
}

/* Send a message to one rank and receive one from another, each way at once. */
static void exchange(int to, int from, size_t length, uint64_t number)
{
	mpitest_fill_message(out, length, to, number);
	mpitest_guard(in, length);
	MPI_Sendrecv(out, (int)length, MPI_BYTE, to, 1, in, (int)length, MPI_BYTE, from, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	mpitest_verify_message(in, length, from, number, "received");
	mpitest_verify_guard(in, length, "received");
}

static void both_ways(void)
{
	int other = mpitest.rank ^ 1, i;

	for (i = 0; i < ROUNDS && other < mpitest.size; i++)
		exchange(other, other, LENGTH - (size_t)i, (uint64_t)i);
}

static void in_a_ring(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		exchange(mpitest.right, mpitest.left, LENGTH / 2 + (size_t)i, (uint64_t)i);
}

/* All ranks copy to and from rank 0 at the same time. */
static void from_all(void)
{
	MPI_Request requests[2];
	int i, peer;

	for (i = 0; i < ROUNDS / 4; i++) {
		if (mpitest.rank) {
			mpitest_fill_message(out, LENGTH, 0, (uint64_t)i);
			MPI_Isend(out, LENGTH, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[0]);
			MPI_Irecv(in, LENGTH, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &requests[1]);
			MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
			mpitest_verify_message(in, LENGTH, 0, (uint64_t)i, "from rank 0");
			continue;
		}
		for (peer = 1; peer < mpitest.size; peer++) {
			mpitest_fill_message(out, LENGTH, peer, (uint64_t)i);
			MPI_Sendrecv(out, LENGTH, MPI_BYTE, peer, 3, in, LENGTH, MPI_BYTE, peer, 2,
				     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			mpitest_verify_message(in, LENGTH, peer, (uint64_t)i, "to rank 0");
		}
	}
}

/* Put to the right neighbour and get back from there, by copies of the component. */
static void one_sided(void)
{
	MPI_Win window;
	int i;

	MPI_Win_create(in, LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_lock_all(0, window);
	for (i = 0; i < ROUNDS / 4; i++) {
		mpitest_fill_message(out, LENGTH, mpitest.right, (uint64_t)i);
		MPI_Put(out, LENGTH, MPI_BYTE, mpitest.right, 0, LENGTH, MPI_BYTE, window);
		MPI_Win_flush(mpitest.right, window);
		memset(out, 0, LENGTH);
		MPI_Get(out, LENGTH, MPI_BYTE, mpitest.right, 0, LENGTH, MPI_BYTE, window);
		MPI_Win_flush(mpitest.right, window);
		mpitest_verify(out, LENGTH,
			       mpitest_message_seed(mpitest.rank, mpitest.right, (uint64_t)i),
			       "got back");
		MPI_Barrier(MPI_COMM_WORLD);
		mpitest_verify_message(in, LENGTH, mpitest.left, (uint64_t)i, "put here");
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

/* Sources and destinations without a page: the owner resolves them while the rest moves. */
static void absent(void)
{
	int i;

	for (i = 0; i < ROUNDS / 4; i++) {
		unsigned char *source = mpitest_map(LENGTH), *destination = mpitest_map(LENGTH);

		/* Every third page of the source exists; the others are read as zeros. */
		for (size_t at = 0; at < LENGTH; at += 3 * 4096)
			memset(source + at, mpitest.rank + 1, 4096);
		MPI_Sendrecv(source, LENGTH, MPI_BYTE, mpitest.right, 1, destination, LENGTH,
			     MPI_BYTE, mpitest.left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (size_t at = 0; at < LENGTH; at += 4096) {
			int expected = at / 4096 % 3 ? 0 : mpitest.left + 1;

			if (destination[at] == expected && destination[at + 4095] == expected)
				continue;
			mpitest_fail("page %zu of the source has %d, not %d", at / 4096,
				     destination[at], expected);
			break;
		}
		munmap(source, LENGTH);
		munmap(destination, LENGTH);
	}
}

/* A rank is stopped in the middle of copies: the peers wait, and the data is right. */
static void stopped(void)
{
	pid_t stopper = 0;
	int i, busy = 1;

	if (mpitest.rank == 1) {
		pid_t rank = getpid();

		stopper = fork();
		if (!stopper) {
			for (i = 0; i < 8; i++) {
				usleep(7000 + 1000 * (useconds_t)i);
				kill(rank, SIGSTOP);
				usleep(30000);
				kill(rank, SIGCONT);
			}
			_exit(0);
		}
		mpitest_expect(stopper > 0, "fork failed");
	}
	for (i = 0; busy; i++) {
		exchange(mpitest.right, mpitest.left, LENGTH, (uint64_t)i);
		busy = stopper > 0 && waitpid(stopper, NULL, WNOHANG) == 0;
		MPI_Bcast(&busy, 1, MPI_INT, 1, MPI_COMM_WORLD);
	}
}

static volatile sig_atomic_t signals;

static void count_signal(int signal_number)
{
	(void)signal_number;
	signals++;
}

static void interrupted(void)
{
	const struct itimerval period = { { 0, 500 }, { 0, 500 } }, none = { { 0 } };
	struct sigaction action = { .sa_handler = count_signal }, before;
	int i;

	/* Without SA_RESTART. */
	signals = 0;
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &period, NULL);
	for (i = 0; i < ROUNDS; i++)
		exchange(mpitest.right, mpitest.left, LENGTH, (uint64_t)i);
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &before, NULL);
	mpitest_expect(signals > 0, "no signal came");
}

/* The length from which both ranks copy is between these. */
static void all_lengths(void)
{
	size_t length;
	int i;

	for (length = 4096; length <= LENGTH; length *= 2) {
		for (i = -1; i <= 1; i++)
			exchange(mpitest.right, mpitest.left, length + (size_t)i, (uint64_t)i);
	}
}

int main(int argc, char **argv)
{
	static const struct mpitest_case cases[] = {
		{ "the component copies", is_loaded },
		{ "lengths around powers of two", all_lengths },
		{ "both processes are connected by libpf", is_shared },
		{ "two ranks copy from each other", both_ways },
		{ "all ranks copy in a ring", in_a_ring },
		{ "all ranks copy to and from one", from_all },
		{ "puts and gets", one_sided },
		{ "pages are absent on both sides", absent },
		{ "a rank is stopped in the middle of copies", stopped },
		{ "signals interrupt copies", interrupted },
	};

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(3, 64);
	out = mpitest_map(LENGTH + 4096);
	in = (unsigned char *)mpitest_map(LENGTH + 4096 + 2 * MPITEST_GUARD) + MPITEST_GUARD;
	mpitest_run(cases);
	return mpitest_finish();
}
