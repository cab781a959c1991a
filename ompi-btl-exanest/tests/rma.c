/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided communication: each kind of window with each kind of epoch. A rank accesses the memory
 * of its right neighbour; contended operations access that of rank 0.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)(4 << 20) + 4096) /* bytes of a window for the tests */
#define MOST_RANKS 64
#define COUNTER_TIMES 300

enum kind { CREATED, ALLOCATED, DYNAMIC, KINDS };
static const char *const kind_names[] = { "created", "allocated", "dynamic" };

enum epoch { FENCE, PSCW, LOCK, LOCK_ALL, EPOCHS };
static const char *const epoch_names[] = { "fence", "post-start", "lock", "lock_all" };

static MPI_Win win;
static unsigned char *memory;      /* of this rank in the window, with MPITEST_GUARD around it */
static MPI_Aint bases[MOST_RANKS]; /* displacement of each rank's memory */
static MPI_Group left_group, right_group;
static uint64_t round_number;

static MPI_Aint place(int target, size_t offset)
{
	return bases[target] + (MPI_Aint)offset;
}

static void open_window(enum kind kind)
{
	size_t length = ROOM + 2 * MPITEST_GUARD;
	unsigned char *base = NULL;
	MPI_Aint mine;

	switch (kind) {
	case CREATED:
		base = mpitest_alloc(length);
		MPI_Win_create(base, (MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		break;
	case ALLOCATED:
		MPI_Win_allocate((MPI_Aint)length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
		break;
	default:
		base = mpitest_alloc(length);
		MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		MPI_Win_attach(win, base, (MPI_Aint)length);
	}
	memory = base + MPITEST_GUARD;
	memset(base, 0, length);
	mine = MPITEST_GUARD;
	if (kind == DYNAMIC)
		MPI_Get_address(memory, &mine);
	MPI_Allgather(&mine, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
}

static void close_window(enum kind kind)
{
	if (kind == DYNAMIC)
		MPI_Win_detach(win, memory - MPITEST_GUARD);
	MPI_Win_free(&win);
	if (kind != ALLOCATED)
		free(memory - MPITEST_GUARD);
}

/* Begin access to the right neighbour's memory. */
static void enter(enum epoch epoch)
{
	switch (epoch) {
	case FENCE:
		MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
		break;
	case PSCW:
		MPI_Win_post(left_group, 0, win);
		MPI_Win_start(right_group, 0, win);
		break;
	case LOCK:
		MPI_Win_lock(MPI_LOCK_SHARED, mpitest.right, 0, win);
		break;
	default:
		MPI_Win_lock_all(0, win);
	}
}

/* End access; afterwards the left neighbour has ended its access too. */
static void leave(enum epoch epoch)
{
	switch (epoch) {
	case FENCE:
		MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
		return;
	case PSCW:
		MPI_Win_complete(win);
		MPI_Win_wait(win);
		return;
	case LOCK:
		MPI_Win_unlock(mpitest.right, win);
		break;
	default:
		MPI_Win_flush(mpitest.right, win);
		MPI_Win_unlock_all(win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mpitest.rank, 0, win);
	MPI_Win_unlock(mpitest.rank, win);
}

/* Wait until all ranks have prepared or checked their memory. */
static void settle(void)
{
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mpitest.rank, 0, win);
	MPI_Win_unlock(mpitest.rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
}

static const size_t lengths[] = { 0, 1, 3, 8, 100, 4096, 30001, 65536, 300000, 1048583, 4194305 };
static const size_t offsets[] = { 0, 1, 5, 64 };

/* Each length at each offset, in both directions. */
static void put_or_get(enum epoch epoch, int put)
{
	unsigned char *buffer = mpitest_alloc(ROOM + 8 + 2 * MPITEST_GUARD);
	size_t i, k;

	for (i = 0; i < MPITEST_COUNT(lengths); i++) {
		for (k = 0; k < MPITEST_COUNT(offsets) && offsets[k] + lengths[i] <= ROOM; k++) {
			unsigned char *own = memory + offsets[k];
			unsigned char *local = buffer + MPITEST_GUARD + k;
			unsigned char *to = put ? own : local;
			MPI_Aint remote = place(mpitest.right, offsets[k]);
			int length = (int)lengths[i];

			round_number++;
			mpitest_fill_message(put ? local : own, lengths[i],
					     put ? mpitest.right : mpitest.left, round_number);
			memset(to, 0, lengths[i]);
			mpitest_guard(to, lengths[i]);
			settle();
			enter(epoch);
			if (put)
				MPI_Put(local, length, MPI_BYTE, mpitest.right, remote, length,
					MPI_BYTE, win);
			else
				MPI_Get(local, length, MPI_BYTE, mpitest.right, remote, length,
					MPI_BYTE, win);
			leave(epoch);
			mpitest_verify_message(to, lengths[i], put ? mpitest.left : mpitest.right,
					       round_number, put ? "put" : "get");
			mpitest_verify_guard(to, lengths[i], put ? "put" : "get");
		}
	}
	free(buffer);
}

static void put(enum epoch epoch)
{
	put_or_get(epoch, 1);
}

static void get(enum epoch epoch)
{
	put_or_get(epoch, 0);
}

/* Columns of a matrix at the target, rows at the origin; other cells do not change. */
static void derived(enum epoch epoch)
{
	enum { ROWS = 301, WIDTH = 17, TAKEN = 5, CELLS = ROWS * WIDTH, PARTS = ROWS * TAKEN };
	int *matrix = (int *)(void *)memory, *out = mpitest_alloc(2 * PARTS * sizeof(int));
	int *in = out + PARTS, i, row, column, wanted;
	MPI_Datatype type;

	MPI_Type_vector(ROWS, TAKEN, WIDTH, MPI_INT, &type);
	MPI_Type_commit(&type);
	for (i = 0; i < CELLS; i++)
		matrix[i] = mpitest.rank * 1000000 - i;
	for (i = 0; i < PARTS; i++)
		out[i] = mpitest.rank * 1000000 + i;
	settle();
	enter(epoch);
	MPI_Put(out, PARTS, MPI_INT, mpitest.right, place(mpitest.right, 3 * sizeof(int)), 1, type,
		win);
	MPI_Get(in, PARTS, MPI_INT, mpitest.right, place(mpitest.right, 9 * sizeof(int)), 1, type,
		win);
	leave(epoch);
	for (i = 0; i < CELLS; i++) {
		row = i / WIDTH;
		column = i % WIDTH - 3;
		wanted = column >= 0 && column < TAKEN ?
				 mpitest.left * 1000000 + row * TAKEN + column :
				 mpitest.rank * 1000000 - i;
		if (matrix[i] != wanted) {
			mpitest_fail("put: cell %d is %d not %d", i, matrix[i], wanted);
			break;
		}
	}
	for (i = 0; i < PARTS; i++) {
		wanted = mpitest.right * 1000000 - (i / TAKEN * WIDTH + i % TAKEN + 9);
		if (in[i] != wanted) {
			mpitest_fail("get: element %d is %d not %d", i, in[i], wanted);
			break;
		}
	}
	MPI_Type_free(&type);
	free(out);
}

static uint64_t element(int who, int index)
{
	uint64_t state = mpitest_message_seed(who, index, round_number);

	return mpitest_random_below(&state, 1u << 30);
}

static uint64_t combine(MPI_Op op, uint64_t theirs, uint64_t ours)
{
	if (op == MPI_SUM)
		return theirs + ours;
	if (op == MPI_MAX)
		return theirs > ours ? theirs : ours;
	if (op == MPI_BXOR)
		return theirs ^ ours;
	if (op == MPI_REPLACE)
		return ours;
	return theirs; /* MPI_NO_OP */
}

/* Accumulate, and get_accumulate, which returns the old values. */
static void accumulate(enum epoch epoch)
{
	static const MPI_Op ops[] = { MPI_SUM, MPI_MAX, MPI_BXOR, MPI_REPLACE, MPI_NO_OP };
	static const int numbers[] = { 1, 3, 40, 5000, 100000 };
	uint64_t *target = (uint64_t *)(void *)memory, *out, *old;
	size_t i, k;
	int fetch, j, number;

	out = mpitest_alloc(2 * 100000 * sizeof(uint64_t));
	old = out + 100000;
	for (i = 0; i < 2 * MPITEST_COUNT(ops) * MPITEST_COUNT(numbers); i++) {
		MPI_Op op = ops[i / 2 % MPITEST_COUNT(ops)];

		fetch = i % 2 || op == MPI_NO_OP;
		k = i / 2 / MPITEST_COUNT(ops);
		number = numbers[k];
		round_number++;
		for (j = 0; j < number; j++) {
			target[j] = element(mpitest.rank, -1 - j);
			out[j] = element(mpitest.rank, j);
			old[j] = 0;
		}
		settle();
		enter(epoch);
		if (fetch)
			MPI_Get_accumulate(out, number, MPI_UINT64_T, old, number, MPI_UINT64_T,
					   mpitest.right, place(mpitest.right, 0), number,
					   MPI_UINT64_T, op, win);
		else
			MPI_Accumulate(out, number, MPI_UINT64_T, mpitest.right,
				       place(mpitest.right, 0), number, MPI_UINT64_T, op, win);
		leave(epoch);
		for (j = 0; j < number; j++) {
			uint64_t wanted = combine(op, element(mpitest.rank, -1 - j),
						  element(mpitest.left, j));

			if (target[j] != wanted ||
			    (fetch && old[j] != element(mpitest.right, -1 - j))) {
				mpitest_fail("%s of %d, operation %zu: element %d is wrong",
					     fetch ? "get_accumulate" : "accumulate", number,
					     i / 2 % MPITEST_COUNT(ops), j);
				break;
			}
		}
	}
	free(out);
}

/* Puts from each rank to each rank, with a slot for each put. */
static void put_to_all(enum epoch epoch)
{
	enum { SLOT = 24, TIMES = 40 };
	unsigned char *out = mpitest_alloc((size_t)SLOT * TIMES * MOST_RANKS);
	int who, i;

	memset(memory, 0, (size_t)SLOT * TIMES * (size_t)mpitest.size);
	round_number++;
	settle();
	if (epoch == FENCE)
		MPI_Win_fence(0, win);
	else
		MPI_Win_lock_all(0, win);
	for (who = 0; who < mpitest.size; who++) {
		unsigned char *part = out + (size_t)who * SLOT * TIMES;

		mpitest_fill_message(part, SLOT * TIMES, who, round_number);
		for (i = 0; i < TIMES; i++)
			MPI_Put(part + i * SLOT, SLOT, MPI_BYTE, who,
				place(who, (size_t)(mpitest.rank * TIMES + i) * SLOT), SLOT,
				MPI_BYTE, win);
	}
	if (epoch == FENCE) {
		MPI_Win_fence(0, win);
	} else {
		MPI_Win_flush_all(win);
		MPI_Win_unlock_all(win);
		settle();
	}
	for (who = 0; who < mpitest.size; who++)
		mpitest_verify_message(memory + (size_t)who * SLOT * TIMES, SLOT * TIMES, who,
				       round_number, "put by all ranks");
	free(out);
}

static void in_epochs(enum kind kind)
{
	static const struct {
		const char *name;
		void (*run)(enum epoch epoch);
	} tests[] = {
		{ "put", put },
		{ "get", get },
		{ "derived types", derived },
		{ "accumulate and get_accumulate", accumulate },
	};
	size_t i;
	int e;

	for (e = 0; e < EPOCHS; e++) {
		for (i = 0; i < MPITEST_COUNT(tests); i++) {
			mpitest_begin("%s, %s window, %s", tests[i].name, kind_names[kind],
				      epoch_names[e]);
			tests[i].run((enum epoch)e);
			mpitest_end();
		}
	}
}

static void put_to_all_fenced(void)
{
	put_to_all(FENCE);
}

static void put_to_all_locked(void)
{
	put_to_all(LOCK_ALL);
}

/* All ranks together. */
static int several_hosts(void)
{
	MPI_Comm host;
	int size;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_size(host, &size);
	MPI_Comm_free(&host);
	return size < mpitest.size;
}

/* Each value of the counter was returned to exactly one caller. */
static void check_tickets(const uint64_t *tickets, int times, uint64_t final)
{
	int counts[MOST_RANKS], places[MOST_RANKS], total = 0, i;
	uint64_t *all = mpitest_alloc((size_t)(COUNTER_TIMES * mpitest.size) * sizeof(uint64_t));
	char *seen = mpitest_alloc((size_t)(COUNTER_TIMES * mpitest.size));

	MPI_Allgather(&times, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
	for (i = 0; i < mpitest.size; i++) {
		places[i] = total;
		total += counts[i];
	}
	MPI_Gatherv(tickets, times, MPI_UINT64_T, all, counts, places, MPI_UINT64_T, 0,
		    MPI_COMM_WORLD);
	memset(seen, 0, (size_t)total);
	for (i = 0; i < total && mpitest.rank == 0; i++) {
		if (all[i] < (uint64_t)total && !seen[all[i]]++)
			continue;
		mpitest_fail("value %llu was returned twice, or never existed",
			     (unsigned long long)all[i]);
		break;
	}
	if (mpitest.rank == 0)
		mpitest_expect(final == (uint64_t)total, "the counter ends at %llu not %d",
			       (unsigned long long) final, total);
	free(all);
	free(seen);
}

static uint64_t *reset_counters(void)
{
	memset(memory, 0, 4096);
	settle();
	return (uint64_t *)(void *)memory;
}

static void fetch_and_op(void)
{
	uint64_t *counter, one = 1, tickets[COUNTER_TIMES];
	uint32_t *narrow, small = 1, got;
	double *real, half = 0.5, before;
	int i;

	counter = reset_counters();
	narrow = (uint32_t *)(counter + 1);
	real = (double *)(void *)(counter + 8);
	MPI_Win_lock_all(0, win);
	for (i = 0; i < COUNTER_TIMES; i++) {
		MPI_Fetch_and_op(&one, &tickets[i], MPI_UINT64_T, 0, place(0, 0), MPI_SUM, win);
		MPI_Win_flush(0, win);
		/* The upper half of this word must stay zero. */
		MPI_Fetch_and_op(&small, &got, MPI_UINT32_T, 0, place(0, 8), MPI_SUM, win);
		MPI_Fetch_and_op(&half, &before, MPI_DOUBLE, 0, place(0, 64), MPI_SUM, win);
		MPI_Win_flush(0, win);
	}
	MPI_Win_unlock_all(win);
	settle();
	check_tickets(tickets, COUNTER_TIMES, counter[0]);
	if (mpitest.rank == 0) {
		mpitest_expect(narrow[0] == (uint32_t)(COUNTER_TIMES * mpitest.size),
			       "the 32-bit counter ends at %u", narrow[0]);
		mpitest_expect(narrow[1] == 0, "the word behind it became %u", narrow[1]);
		mpitest_expect(real[0] == 0.5 * COUNTER_TIMES * mpitest.size,
			       "the sum of halves is %f", real[0]);
	}
}

/*
 * On its own host, osc/rdma compares and copies under a lock that it does not take for an atomic operation
 * of the BTL (ompi_osc_rdma_cas_local() and _cas_atomic()); met with Open MPI 5.0. So rank 0, where the
 * counter is, takes no part if another rank is on another host.
 */
static void compare_and_swap(void)
{
	int i, times = several_hosts() && mpitest.rank == 0 ? 0 : COUNTER_TIMES;
	uint64_t *counter, old, next, seen, tickets[COUNTER_TIMES];

	counter = reset_counters();
	MPI_Win_lock_all(0, win);
	for (i = 0; i < times; i++) {
		for (old = 0;; old = seen) {
			next = old + 1;
			MPI_Compare_and_swap(&next, &old, &seen, MPI_UINT64_T, 0, place(0, 0), win);
			MPI_Win_flush(0, win);
			if (seen == old)
				break;
		}
		tickets[i] = old;
	}
	MPI_Win_unlock_all(win);
	settle();
	check_tickets(tickets, times, counter[0]);
}

/* Under an exclusive lock a value that was read does not change before it is written. */
static void exclusive_lock(void)
{
	uint64_t *counter, tickets[COUNTER_TIMES], next;
	int i;

	counter = reset_counters();
	for (i = 0; i < COUNTER_TIMES; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&tickets[i], 8, MPI_BYTE, 0, place(0, 0), 8, MPI_BYTE, win);
		MPI_Win_flush(0, win);
		next = tickets[i] + 1;
		MPI_Put(&next, 8, MPI_BYTE, 0, place(0, 0), 8, MPI_BYTE, win);
		MPI_Win_unlock(0, win);
	}
	settle();
	check_tickets(tickets, COUNTER_TIMES, counter[0]);
}

/* All ranks add to the same elements of rank 0. */
static void contended_accumulate(void)
{
	enum { NUMBER = 1000, TIMES = 20 };
	uint64_t *target, out[NUMBER];
	int i, k, who;

	round_number++;
	memset(memory, 0, NUMBER * sizeof(uint64_t));
	settle();
	target = (uint64_t *)(void *)memory;
	for (i = 0; i < NUMBER; i++)
		out[i] = element(mpitest.rank, i);
	for (k = 0; k < TIMES; k++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
		MPI_Accumulate(out, NUMBER, MPI_UINT64_T, 0, place(0, 0), NUMBER, MPI_UINT64_T,
			       MPI_SUM, win);
		MPI_Win_unlock(0, win);
	}
	settle();
	for (i = 0; i < NUMBER && mpitest.rank == 0; i++) {
		uint64_t wanted = 0;

		for (who = 0; who < mpitest.size; who++)
			wanted += TIMES * element(who, i);
		mpitest_expect(target[i] == wanted, "element %d is %llu not %llu", i,
			       (unsigned long long)target[i], (unsigned long long)wanted);
	}
}

static void requests(void)
{
	enum { SLOTS = 32, LENGTH = 20000 };
	unsigned char *out = mpitest_alloc(SLOTS * LENGTH), *in = mpitest_alloc(SLOTS * LENGTH);
	MPI_Request list[SLOTS];
	int i;

	round_number++;
	mpitest_fill_message(out, SLOTS * LENGTH, mpitest.right, round_number);
	settle();
	MPI_Win_lock_all(0, win);
	for (i = 0; i < SLOTS; i++)
		MPI_Rput(out + i * LENGTH, LENGTH, MPI_BYTE, mpitest.right,
			 place(mpitest.right, (size_t)i * LENGTH), LENGTH, MPI_BYTE, win, &list[i]);
	MPI_Waitall(SLOTS, list, MPI_STATUSES_IGNORE);
	MPI_Win_flush(mpitest.right, win);
	for (i = SLOTS; i-- > 0;)
		MPI_Rget(in + i * LENGTH, LENGTH, MPI_BYTE, mpitest.right,
			 place(mpitest.right, (size_t)i * LENGTH), LENGTH, MPI_BYTE, win, &list[i]);
	MPI_Waitall(SLOTS, list, MPI_STATUSES_IGNORE);
	/* Every rank gets its own bytes again. */
	mpitest_verify(in, SLOTS * LENGTH,
		       mpitest_message_seed(mpitest.rank, mpitest.right, round_number), "rget");
	/* After the flush a message can tell the target that its bytes have arrived. */
	MPI_Sendrecv(NULL, 0, MPI_BYTE, mpitest.right, 1, NULL, 0, MPI_BYTE, mpitest.left, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Win_sync(win);
	mpitest_verify_message(memory, SLOTS * LENGTH, mpitest.left, round_number, "at the target");
	MPI_Win_unlock_all(win);
	free(out);
	free(in);
}

static void displacement_unit(void)
{
	enum { NUMBER = 1000 };
	double *base, out[NUMBER];
	int i;

	MPI_Win_allocate((2 * NUMBER + 7) * sizeof(double), sizeof(double), MPI_INFO_NULL,
			 MPI_COMM_WORLD, &base, &win);
	for (i = 0; i < NUMBER; i++)
		out[i] = mpitest.rank * 10000.0 + i;
	MPI_Win_fence(0, win);
	MPI_Put(out, NUMBER, MPI_DOUBLE, mpitest.right, 7, NUMBER, MPI_DOUBLE, win);
	MPI_Put(out, NUMBER, MPI_DOUBLE, mpitest.rank, 7 + NUMBER, NUMBER, MPI_DOUBLE, win);
	MPI_Win_fence(0, win);
	for (i = 0; i < NUMBER; i++) {
		mpitest_expect(base[7 + i] == mpitest.left * 10000.0 + i, "element %d is wrong", i);
		mpitest_expect(base[7 + NUMBER + i] == out[i], "own element %d is wrong", i);
	}
	MPI_Win_free(&win);
}

/* Each rank of this host changes a word of its own and one of the next rank. */
static void on_one_host(void)
{
	uint64_t *words, old, next, seen[2];
	int rank, ranks, kind, i;
	MPI_Win window;
	MPI_Comm host;

	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &rank);
	MPI_Comm_size(host, &ranks);
	for (kind = CREATED; kind <= ALLOCATED; kind++) {
		uint64_t *created = mpitest_alloc(sizeof(seen));

		words = created;
		if (kind == CREATED)
			MPI_Win_create(words, sizeof(seen), sizeof(*words), MPI_INFO_NULL, host,
				       &window);
		else
			MPI_Win_allocate(sizeof(seen), sizeof(*words), MPI_INFO_NULL, host, &words,
					 &window);
		MPI_Win_lock_all(0, window);
		words[0] = words[1] = (uint64_t)rank;
		MPI_Win_sync(window);
		MPI_Barrier(host);
		for (i = 0; i < 2; i++) {
			int target = (rank + i) % ranks;

			old = (uint64_t)target;
			next = 100 + (uint64_t)rank;
			MPI_Compare_and_swap(&next, &old, &seen[i], MPI_UINT64_T, target, i,
					     window);
			MPI_Win_flush(target, window);
			mpitest_expect(seen[i] == old, "rank %d of this host had %llu", target,
				       (unsigned long long)seen[i]);
		}
		MPI_Barrier(host);
		MPI_Win_sync(window);
		for (i = 0; i < 2; i++) {
			next = 100 + (uint64_t)((rank + i * (ranks - 1)) % ranks);
			mpitest_expect(words[i] == next, "word %d is %llu, not %llu, %s window", i,
				       (unsigned long long)words[i], (unsigned long long)next,
				       kind_names[kind]);
		}
		MPI_Win_unlock_all(window);
		MPI_Win_free(&window);
		free(created);
	}
	MPI_Comm_free(&host);
}

/* Regions are attached and detached while the window stays open. */
static void attach_and_detach(void)
{
	enum { REGIONS = 8, LENGTH = 50000 };
	unsigned char *regions[REGIONS], out[LENGTH];
	MPI_Aint mine, theirs;
	int i;

	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	for (i = 0; i < REGIONS; i++) {
		regions[i] = mpitest_alloc(LENGTH);
		MPI_Win_attach(win, regions[i], LENGTH);
		MPI_Get_address(regions[i], &mine);
		MPI_Sendrecv(&mine, 1, MPI_AINT, mpitest.left, 2, &theirs, 1, MPI_AINT,
			     mpitest.right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		mpitest_fill_message(out, LENGTH, mpitest.right, (uint64_t)i);
		MPI_Win_lock(MPI_LOCK_SHARED, mpitest.right, 0, win);
		MPI_Put(out, LENGTH, MPI_BYTE, mpitest.right, theirs, LENGTH, MPI_BYTE, win);
		MPI_Win_unlock(mpitest.right, win);
		settle();
		mpitest_verify_message(regions[i], LENGTH, mpitest.left, (uint64_t)i, "region");
		if (i % 2) {
			MPI_Win_detach(win, regions[i - 1]);
			free(regions[i - 1]);
		}
	}
	for (i = 1; i < REGIONS; i += 2) {
		MPI_Win_detach(win, regions[i]);
		free(regions[i]);
	}
	MPI_Win_free(&win);
}

/*
 * Before Open MPI 4.1.5, osc/rdma deadlocks at the first access to a dynamic window of another
 * host, over any BTL (open-mpi/ompi#10473).
 */
static int dynamic_hangs(void)
{
	const char *osc = getenv("OMPI_MCA_osc");

	return OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION < 2 && OMPI_RELEASE_VERSION < 5 &&
	       several_hosts() && !(osc && !strcmp(osc, "pt2pt"));
}

int main(int argc, char **argv)
{
	static const struct mpitest_case each_window[] = {
		{ "puts by all ranks, fence", put_to_all_fenced },
		{ "puts by all ranks, lock_all", put_to_all_locked },
		{ "contended fetch_and_op", fetch_and_op },
		{ "contended compare_and_swap", compare_and_swap },
		{ "get and put under an exclusive lock", exclusive_lock },
		{ "contended accumulate", contended_accumulate },
		{ "rput, flush and rget", requests },
	};
	static const struct mpitest_case own_window[] = {
		{ "a window with doubles as unit, and puts to the own rank", displacement_unit },
		{ "compare_and_swap in windows of the ranks of a host", on_one_host },
		{ "regions attached and detached", attach_and_detach },
	};
	MPI_Group world;
	int kind, kinds = KINDS;
	size_t i;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(1, MOST_RANKS);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &mpitest.left, &left_group);
	MPI_Group_incl(world, 1, &mpitest.right, &right_group);
	if (dynamic_hangs()) {
		mpitest_skip("dynamic windows", "osc/rdma of Open MPI %d.%d.%d hangs there",
			     OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
		kinds = DYNAMIC;
	}
	for (kind = 0; kind < kinds; kind++) {
		open_window((enum kind)kind);
		in_epochs((enum kind)kind);
		for (i = 0; i < MPITEST_COUNT(each_window); i++) {
			mpitest_begin("%s, %s window", each_window[i].name, kind_names[kind]);
			each_window[i].run();
			mpitest_end();
		}
		close_window((enum kind)kind);
	}
	mpitest_run_list(own_window, kinds > DYNAMIC ? 3 : 2);

	MPI_Group_free(&left_group);
	MPI_Group_free(&right_group);
	MPI_Group_free(&world);
	return mpitest_finish();
}
