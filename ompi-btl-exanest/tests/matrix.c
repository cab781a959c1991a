/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI part of the matrix of faults: messages from and into each kind of memory (libpf's
 * tests/memory.h), in both directions, with contents verified. Only kinds that a transfer can
 * access: an MPI program that sends from inaccessible memory is incorrect.
 *
 * tests/matrix-table reads the names of the tests.
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/machine.h"
#include "tests/memory.h"

enum role { ROLE_SEND, ROLE_RECEIVE, ROLE_BOTH };

/* The memory of this rank. */
static struct memory memory;

static int expect(const char *error)
{
	if (error)
		mpitest_fail("%s", error);
	return !error;
}

/* No rank has failed: otherwise others would wait for its messages. */
static int all_well(void)
{
	int mine = mpitest_failures() != 0, any;

	MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return !any;
}

/* Turns of a disturbance during which messages are sent. */
#define TURNS 4
#define MESSAGES_MOST 1000

static int disturbed_enough(void)
{
	int mine = !memory.kind->disturb || atomic_load(&memory.turns) >= TURNS, all;

	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return all;
}

static void message(int sender, int length)
{
	if (mpitest.rank == sender)
		MPI_Send(memory.start, length, MPI_BYTE, !sender, 1, MPI_COMM_WORLD);
	else
		MPI_Recv(memory.start, length, MPI_BYTE, sender, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
}

static void move(const struct memory_kind *kind, enum role role, int sender, size_t length,
		 const size_t offsets[2])
{
	const struct memory_kind *from = role == ROLE_RECEIVE ? memory_kinds[0] : kind;
	const struct memory_kind *to = role == ROLE_SEND ? memory_kinds[0] : kind;
	uint64_t sent = mpitest_message_seed(sender, !sender, length);
	int source = mpitest.rank == sender, opened, count = 0;

	opened = expect(memory_open(&memory, source ? from : to, source, length, offsets[!source],
				    source ? sent : ~sent));
	if (opened)
		expect(memory_disturb(&memory));
	if (all_well()) {
		do {
			message(sender, (int)length);
		} while (!disturbed_enough() && ++count < MESSAGES_MOST);
	}
	if (opened)
		expect(memory_settle(&memory));
	if (!all_well())
		goto out;
	if (!source && expect(memory_check(&memory, from, memory_position(offsets[0]), sent)))
		expect(memory_check_around(&memory));
	/* Without the disturbance. */
	message(sender, (int)length);
	if (!source && expect(memory_check(&memory, from, memory_position(offsets[0]), sent)))
		expect(memory_check_around(&memory));
out:
	if (opened)
		memory_close(&memory);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void each_length(const struct memory_kind *kind, enum role role)
{
	const size_t longest = memory_longest(),
		     lengths[] = { 1, 4095, 4096, 16385, MIB + 3, longest };
	uint64_t random = mpitest.test_seed;
	size_t i, count = sizeof(lengths) / sizeof(lengths[0]);
	int sender;

	/* The longest takes seconds: once for each kind. */
	if (role != ROLE_BOTH || kind->most || mpitest.quick)
		count--;
	if (kind->only)
		count = 1;
	for (i = 0; i < count && !mpitest_failures(); i++) {
		size_t length = kind->only ? kind->only : lengths[i];

		if (kind->most && length > kind->most)
			length = kind->most;
		for (sender = 0; sender < 2; sender++) {
			size_t aligned[2] = { 0, 0 };
			size_t offsets[2] = { 1 + mpitest_random_below(&random, PAGE - 1),
					      1 + mpitest_random_below(&random, PAGE - 1) };

			if (length < longest)
				move(kind, role, sender, length, aligned);
			if (!kind->only)
				move(kind, role, sender, length, offsets);
			if (!all_well())
				return;
		}
	}
}

/* Rank 0 prepares the machine for all ranks. */
static int prepare_machine(const struct memory_kind *kind, char *reason, size_t size)
{
	const char *text = mpitest.rank == 0 && kind->machine ? kind->machine() : NULL;

	snprintf(reason, size, "%s", text ? text : "");
	MPI_Bcast(reason, (int)size, MPI_CHAR, 0, MPI_COMM_WORLD);
	return !reason[0];
}

static void restore_machine(void)
{
	char reason[200] = "";
	const char *text = mpitest.rank == 0 ? machine_restore() : NULL;

	snprintf(reason, sizeof(reason), "%s", text ? text : "");
	MPI_Bcast(reason, sizeof(reason), MPI_CHAR, 0, MPI_COMM_WORLD);
	mpitest_expect(!reason[0], "%s", reason);
}

static void run_cell(const struct memory_kind *kind, enum role role)
{
	static const char *const roles[] = { "source", "destination", "both" };
	char name[120], reason[200];

	/* An MPI program cannot register pagers. */
	if (kind->engine)
		return;
	/* Kinds with one length take seconds. */
	if (kind->only && mpitest.quick)
		return;
	if ((role != ROLE_RECEIVE && kind->source != OUTCOME_MOVES) ||
	    (role != ROLE_SEND && (kind->destination != OUTCOME_MOVES || kind->source_only)))
		return;
	snprintf(name, sizeof(name), "%s: MPI %s moves", kind->name, roles[role]);
	if (!prepare_machine(kind, reason, sizeof(reason))) {
		restore_machine();
		mpitest_skip(name, "%s", reason);
		return;
	}
	mpitest_begin("%s", name);
	each_length(kind, role);
	restore_machine();
	mpitest_end();
}

int main(int argc, char **argv)
{
	const struct memory_kind *const *list, *kind;
	int role;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(2, 2);
	for (list = memory_kinds; *list; list++) {
		for (kind = *list; kind->name; kind++) {
			for (role = ROLE_SEND; role <= ROLE_BOTH; role++)
				run_cell(kind, (enum role)role);
		}
	}
	return mpitest_finish();
}
