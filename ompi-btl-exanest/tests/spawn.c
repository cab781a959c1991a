/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that connect at run time: MPI_Comm_spawn, merge, disconnect, and MPI_Comm_accept and
 * MPI_Comm_connect between two spawned jobs. The spawned ranks run this program with --role.
 *
 *   --window         only share a window with spawned ranks
 *   --accept FILE    instead: write a port to FILE and accept the job of another mpirun
 *   --connect FILE   ... the other one of the two; both need mpirun --ompi-server
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG 6
#define MOST_ARGUMENTS 8
#define MOST_REMOTE 64

static const int lengths[] = { 0, 1, 4096, 70000, 3000001 };
#define LENGTHS ((int)MPITEST_COUNT(lengths))

static unsigned char *out, *in;

/* From all ranks to all ranks of the other side. Sides are 0 and 1. */
static void exchange(MPI_Comm inter, int side, int round)
{
	MPI_Request requests[MOST_REMOTE];
	int i, other, mine, theirs;
	uint64_t number;

	MPI_Comm_rank(inter, &mine);
	MPI_Comm_remote_size(inter, &theirs);
	for (i = 0; i < LENGTHS; i++) {
		number = (uint64_t)(round * 100 + i * 2);
		mpitest_fill(out, (size_t)lengths[i],
			     mpitest_message_seed(mine, 0, number + (uint64_t)side));
		for (other = 0; other < theirs; other++)
			MPI_Isend(out, lengths[i], MPI_BYTE, other, TAG, inter, &requests[other]);
		for (other = 0; other < theirs; other++) {
			MPI_Recv(in, lengths[i], MPI_BYTE, other, TAG, inter, MPI_STATUS_IGNORE);
			mpitest_verify(in, (size_t)lengths[i],
				       mpitest_message_seed(other, 0, number + (uint64_t)!side),
				       "from the other job");
		}
		MPI_Waitall(theirs, requests, MPI_STATUSES_IGNORE);
	}
}

/* A communicator of both jobs: a ring and an allreduce. */
static void merge(MPI_Comm inter, int high)
{
	int rank, size, left, right, sum, length = lengths[LENGTHS - 1];
	MPI_Comm both;

	MPI_Intercomm_merge(inter, high, &both);
	MPI_Comm_rank(both, &rank);
	MPI_Comm_size(both, &size);
	left = (rank + size - 1) % size;
	right = (rank + 1) % size;
	mpitest_fill(out, (size_t)length, mpitest_message_seed(rank, right, 1000));
	MPI_Sendrecv(out, length, MPI_BYTE, right, TAG, in, length, MPI_BYTE, left, TAG, both,
		     MPI_STATUS_IGNORE);
	mpitest_verify(in, (size_t)length, mpitest_message_seed(left, rank, 1000), "merged ring");
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, both);
	mpitest_expect(sum == size * (size - 1) / 2, "merged allreduce gives %d", sum);
	MPI_Comm_free(&both);
}

#define WINDOW 100000

/*
 * A window of both jobs. The ranks of one side write to it at all ranks of the other, which have not sent
 * anything to most of them.
 */
static void share_window(MPI_Comm inter, int side)
{
	int rank, theirs, other;
	unsigned char *memory;
	MPI_Comm both;
	MPI_Win win;

	MPI_Comm_rank(inter, &rank);
	MPI_Comm_remote_size(inter, &theirs);
	memory = mpitest_alloc((size_t)theirs * WINDOW);
	memset(memory, 0, (size_t)theirs * WINDOW);
	MPI_Intercomm_merge(inter, side, &both);
	MPI_Win_create(memory, (MPI_Aint)theirs * WINDOW, 1, MPI_INFO_NULL, both, &win);
	mpitest_fill(out, WINDOW, mpitest_message_seed(rank, 0, 2000));
	MPI_Win_fence(0, win);
	/* Side 0 has the lower ranks of both. */
	for (other = 0; other < theirs && side == 1; other++)
		MPI_Put(out, WINDOW, MPI_BYTE, other, (MPI_Aint)rank * WINDOW, WINDOW, MPI_BYTE,
			win);
	MPI_Win_fence(0, win);
	for (other = 0; other < theirs && side == 0; other++)
		mpitest_verify(memory + (size_t)other * WINDOW, WINDOW,
			       mpitest_message_seed(other, 0, 2000), "window of both jobs");
	MPI_Win_free(&win);
	free(memory);
	MPI_Comm_free(&both);
}

/* Tell each side how many failures the other one had. */
static void settle(MPI_Comm inter, const char *who)
{
	int mine = mpitest_failures(), theirs = 0;

	MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, inter);
	mpitest_expect(theirs == 0, "%d failures among %s", theirs, who);
}

static MPI_Comm spawn(char *program, const char *role, int count, MPI_Comm parents)
{
	char words[MOST_ARGUMENTS][32], *arguments[MOST_ARGUMENTS + 1];
	int i, errors[MOST_REMOTE];
	MPI_Comm inter;

	snprintf(words[0], sizeof(*words), "--role");
	snprintf(words[1], sizeof(*words), "%s", role);
	snprintf(words[2], sizeof(*words), "--seed");
	snprintf(words[3], sizeof(*words), "%llu", (unsigned long long)mpitest.seed);
	snprintf(words[4], sizeof(*words), "--timeout");
	snprintf(words[5], sizeof(*words), "%ld", mpitest_number("--timeout", 60));
	for (i = 0; i < 6; i++)
		arguments[i] = words[i];
	arguments[6] = NULL;
	MPI_Comm_spawn(program, arguments, count, MPI_INFO_NULL, 0, parents, &inter, errors);
	return inter;
}

static void spawn_and_exchange(char *program, int count, int round)
{
	MPI_Comm inter;

	mpitest_begin("spawn %d, exchange, merge, disconnect, round %d", count, round);
	mpitest.test_seed = mpitest.seed;
	inter = spawn(program, "partner", count, MPI_COMM_WORLD);
	exchange(inter, 0, 0);
	merge(inter, 0);
	settle(inter, "the spawned ranks");
	MPI_Comm_disconnect(&inter);
	mpitest_end();
}

static void spawn_and_share(char *program, int count)
{
	MPI_Comm inter;

	mpitest_begin("spawn %d and share a window", count);
	mpitest.test_seed = mpitest.seed;
	inter = spawn(program, "window", count, MPI_COMM_WORLD);
	share_window(inter, 0);
	settle(inter, "the spawned ranks");
	MPI_Comm_disconnect(&inter);
	mpitest_end();
}

/* The parents communicate with each other while they spawn. */
static void each_its_own(char *program)
{
	MPI_Comm inter;
	int got;

	mpitest_begin("every rank spawns one of its own");
	mpitest.test_seed = mpitest.seed;
	inter = spawn(program, "partner", 1, MPI_COMM_SELF);
	exchange(inter, 0, 0);
	mpitest_shift(&mpitest.rank, &got, sizeof(got), TAG);
	mpitest_expect(got == mpitest.left, "%d arrived from rank %d", got, mpitest.left);
	merge(inter, 0);
	settle(inter, "the spawned ranks");
	MPI_Comm_disconnect(&inter);
	mpitest_end();
}

static void connect_spawned(char *program)
{
	MPI_Comm accepting, connecting;
	char port[MPI_MAX_PORT_NAME] = "";

	mpitest_begin("two spawned jobs connect to each other");
	mpitest.test_seed = mpitest.seed;
	accepting = spawn(program, "accept", 2, MPI_COMM_WORLD);
	connecting = spawn(program, "connect", 2, MPI_COMM_WORLD);
	if (mpitest.rank == 0) {
		MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, TAG, accepting, MPI_STATUS_IGNORE);
		MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, TAG, connecting);
	}
	settle(accepting, "the ranks that accept");
	settle(connecting, "the ranks that connect");
	MPI_Comm_disconnect(&accepting);
	MPI_Comm_disconnect(&connecting);
	mpitest_end();
}

static void as_partner(MPI_Comm parent)
{
	exchange(parent, 1, 0);
	merge(parent, 1);
}

static void as_acceptor(MPI_Comm parent)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter;

	if (mpitest.rank == 0) {
		MPI_Open_port(MPI_INFO_NULL, port);
		MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, TAG, parent);
	}
	MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	exchange(inter, 0, 1);
	MPI_Comm_disconnect(&inter);
	if (mpitest.rank == 0)
		MPI_Close_port(port);
}

static void as_connector(MPI_Comm parent)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter;

	if (mpitest.rank == 0)
		MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, TAG, parent, MPI_STATUS_IGNORE);
	MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	exchange(inter, 1, 1);
	MPI_Comm_disconnect(&inter);
}

static void write_port(const char *path, const char *port)
{
	char unfinished[4096];
	FILE *file;

	snprintf(unfinished, sizeof(unfinished), "%s.unfinished", path);
	file = fopen(unfinished, "w");
	if (!file || fputs(port, file) < 0 || fclose(file) || rename(unfinished, path))
		mpitest_abort("cannot write %s", path);
}

/* The other job may start later. */
static void read_port(const char *path, char *port)
{
	FILE *file;

	while (!(file = fopen(path, "r")))
		usleep(10000);
	if (!fgets(port, MPI_MAX_PORT_NAME, file))
		mpitest_abort("%s has no port", path);
	fclose(file);
}

static int between_mpiruns(const char *path, int accepts)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter;

	mpitest_begin("%s the job of another mpirun", accepts ? "accept" : "connect to");
	mpitest.test_seed = mpitest.seed;
	if (accepts) {
		if (mpitest.rank == 0) {
			MPI_Open_port(MPI_INFO_NULL, port);
			write_port(path, port);
		}
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	} else {
		if (mpitest.rank == 0)
			read_port(path, port);
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	}
	exchange(inter, !accepts, 2);
	merge(inter, !accepts);
	settle(inter, "the other job");
	MPI_Comm_disconnect(&inter);
	if (accepts && mpitest.rank == 0)
		MPI_Close_port(port);
	mpitest_end();
	return mpitest_finish();
}

static int spawned(const char *role)
{
	MPI_Comm parent;

	MPI_Comm_get_parent(&parent);
	mpitest_begin("as a spawned %s", role);
	mpitest.test_seed = mpitest.seed;
	if (strcmp(role, "accept") == 0)
		as_acceptor(parent);
	else if (strcmp(role, "connect") == 0)
		as_connector(parent);
	else if (strcmp(role, "window") == 0)
		share_window(parent, 1);
	else
		as_partner(parent);
	settle(parent, "the parents");
	MPI_Comm_disconnect(&parent);
	mpitest_end();
	return mpitest_finish();
}

int main(int argc, char **argv)
{
	char *program = argv[0];
	const char *role;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	out = mpitest_alloc((size_t)lengths[LENGTHS - 1]);
	in = mpitest_alloc((size_t)lengths[LENGTHS - 1]);
	role = mpitest_option("--role");
	if (role)
		return spawned(role);
	if (mpitest_option("--accept"))
		return between_mpiruns(mpitest_option("--accept"), 1);
	if (mpitest_option("--connect"))
		return between_mpiruns(mpitest_option("--connect"), 0);

	spawn_and_share(program, 4);
	if (mpitest_option("--window"))
		return mpitest_finish();
	spawn_and_exchange(program, 1, 1);
	spawn_and_exchange(program, 3, 1);
	spawn_and_exchange(program, 2, 2);
	each_its_own(program);
	connect_spawned(program);
	return mpitest_finish();
}
