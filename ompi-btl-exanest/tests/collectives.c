/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, blocking and nonblocking. Each rank computes the results that it expects. */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BYTES (8u << 20) /* of one buffer */
#define MOST_RANKS 64

static const int counts[] = { 0, 1, 7, 500, 5000, 40000, 300000 };
#define COUNTS ((int)MPITEST_COUNT(counts))

/* The communicator under test, and whether to use the nonblocking calls. */
static MPI_Comm comm;
static int rank, size, nonblocking;
static char *out, *in;
static uint64_t round_number; /* of the test, the same on all ranks of comm */

#define CALL(blocking_call, nonblocking_call, ...)                                                 \
	do {                                                                                       \
		MPI_Request call_request;                                                          \
		if (nonblocking) {                                                                 \
			nonblocking_call(__VA_ARGS__, &call_request);                              \
			MPI_Wait(&call_request, MPI_STATUS_IGNORE);                                \
		} else {                                                                           \
			blocking_call(__VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

/* Contents depend on the ranks in comm, which differ from those of mpitest. */
static void fill(char *buffer, int length, int from, int to)
{
	mpitest_fill(buffer, length, mpitest_message_seed(from, to, round_number));
}

static void verify(const char *buffer, int length, int from, int to, const char *what)
{
	mpitest_verify(buffer, length, mpitest_message_seed(from, to, round_number), what);
}

/* Bytes of each of size parts, so that all fit the buffers. */
static int part(int count)
{
	int most = (int)(MOST_BYTES / (unsigned)size);

	return count < most ? count : most;
}

/* The parts of each rank in a buffer: equal, or for the v-collectives unequal, some of them empty. */
struct parts {
	int lengths[MOST_RANKS], offsets[MOST_RANKS];
};

static int unequal_part(int count, int who)
{
	return part(count) * (who % 4) / 4;
}

static struct parts make_parts(int count, int unequal)
{
	struct parts parts = { 0 };
	int i, at = 0;

	for (i = 0; i < size; i++) {
		parts.lengths[i] = unequal ? unequal_part(count, i) : part(count);
		parts.offsets[i] = at;
		at += parts.lengths[i];
	}
	return parts;
}

static void fill_parts(char *buffer, const struct parts *parts, int from)
{
	int i;

	for (i = 0; i < size; i++)
		fill(buffer + parts->offsets[i], parts->lengths[i], from, i);
}

static void verify_parts(const struct parts *parts, int to, const char *what)
{
	int i;

	for (i = 0; i < size; i++)
		verify(in + parts->offsets[i], parts->lengths[i], i, to, what);
}

static void bcast(int count)
{
	int root, step = size < 5 ? 1 : 3;

	for (root = 0; root < size; root += step) {
		round_number++;
		memset(in, 0, count);
		if (rank == root)
			fill(in, count, root, 0);
		CALL(MPI_Bcast, MPI_Ibcast, in, count, MPI_BYTE, root, comm);
		verify(in, count, root, 0, "bcast");
	}
}

static void gather(int count)
{
	int root = (int)(round_number % (unsigned)size), n = part(count), unequal;

	for (unequal = 0; unequal < 2; unequal++) {
		struct parts parts = make_parts(count, unequal);

		round_number++;
		fill(out, parts.lengths[rank], rank, 0);
		if (unequal)
			CALL(MPI_Gatherv, MPI_Igatherv, out, parts.lengths[rank], MPI_BYTE, in,
			     parts.lengths, parts.offsets, MPI_BYTE, root, comm);
		else
			CALL(MPI_Gather, MPI_Igather, out, n, MPI_BYTE, in, n, MPI_BYTE, root,
			     comm);
		if (rank == root)
			verify_parts(&parts, 0, unequal ? "gatherv" : "gather");
	}
}

static void scatter(int count)
{
	int root = (int)(round_number % (unsigned)size), n = part(count), unequal;

	for (unequal = 0; unequal < 2; unequal++) {
		struct parts parts = make_parts(count, unequal);

		round_number++;
		if (rank == root)
			fill_parts(out, &parts, 0);
		if (unequal)
			CALL(MPI_Scatterv, MPI_Iscatterv, out, parts.lengths, parts.offsets,
			     MPI_BYTE, in, parts.lengths[rank], MPI_BYTE, root, comm);
		else
			CALL(MPI_Scatter, MPI_Iscatter, out, n, MPI_BYTE, in, n, MPI_BYTE, root,
			     comm);
		verify(in, parts.lengths[rank], 0, rank, unequal ? "scatterv" : "scatter");
	}
}

static void allgather(int count)
{
	struct parts parts = make_parts(count, 0);
	int n = part(count);

	round_number++;
	fill(out, n, rank, 0);
	CALL(MPI_Allgather, MPI_Iallgather, out, n, MPI_BYTE, in, n, MPI_BYTE, comm);
	verify_parts(&parts, 0, "allgather");

	round_number++;
	fill(in + parts.offsets[rank], n, rank, 0);
	CALL(MPI_Allgather, MPI_Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_BYTE,
	     comm);
	verify_parts(&parts, 0, "allgather in place");

	parts = make_parts(count, 1);
	round_number++;
	fill(out, parts.lengths[rank], rank, 0);
	CALL(MPI_Allgatherv, MPI_Iallgatherv, out, parts.lengths[rank], MPI_BYTE, in, parts.lengths,
	     parts.offsets, MPI_BYTE, comm);
	verify_parts(&parts, 0, "allgatherv");
}

static void alltoall(int count)
{
	struct parts parts = make_parts(count, 0);
	int n = part(count);

	round_number++;
	fill_parts(out, &parts, rank);
	CALL(MPI_Alltoall, MPI_Ialltoall, out, n, MPI_BYTE, in, n, MPI_BYTE, comm);
	verify_parts(&parts, rank, "alltoall");

	round_number++;
	fill_parts(in, &parts, rank);
	CALL(MPI_Alltoall, MPI_Ialltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_BYTE,
	     comm);
	verify_parts(&parts, rank, "alltoall in place");
}

/* Rank r sends unequal_part(r + i) to rank i; alltoallw does the same, for some as shorts. */
static void alltoallv(int count)
{
	struct parts parts = make_parts(count, 0);
	MPI_Datatype types[MOST_RANKS];
	int counts_of[MOST_RANKS], i, with_types;

	for (i = 0; i < size; i++)
		parts.lengths[i] = unequal_part(count, rank + i) & ~1;
	for (with_types = 0; with_types < 2; with_types++) {
		round_number++;
		fill_parts(out, &parts, rank);
		for (i = 0; i < size; i++) {
			int shorts = with_types && (rank + i) % 2;

			types[i] = shorts ? MPI_SHORT : MPI_BYTE;
			counts_of[i] = parts.lengths[i] / (shorts ? 2 : 1);
		}
		if (with_types)
			CALL(MPI_Alltoallw, MPI_Ialltoallw, out, counts_of, parts.offsets, types,
			     in, counts_of, parts.offsets, types, comm);
		else
			CALL(MPI_Alltoallv, MPI_Ialltoallv, out, counts_of, parts.offsets, MPI_BYTE,
			     in, counts_of, parts.offsets, MPI_BYTE, comm);
		verify_parts(&parts, rank, with_types ? "alltoallw" : "alltoallv");
	}
}

/* Element index of rank who, small enough that sums are exact in a double. */
static uint64_t element(int who, int index)
{
	uint64_t state = mpitest_message_seed(who, index, round_number);

	return mpitest_random_below(&state, 1u << 20);
}

static uint64_t combine(MPI_Op op, uint64_t a, uint64_t b)
{
	if (op == MPI_SUM)
		return a + b;
	if (op == MPI_MAX)
		return a > b ? a : b;
	if (op == MPI_MIN)
		return a < b ? a : b;
	if (op == MPI_BXOR)
		return a ^ b;
	return a * b;
}

/* Elements of ranks first to last, combined. */
static uint64_t combined(MPI_Op op, int first, int last, int index)
{
	uint64_t value = element(first, index);

	while (first++ < last)
		value = combine(op, value, element(first, index));
	return value;
}

static void expect_reduced(MPI_Op op, int first, int last, int index, int number, const char *what)
{
	const uint64_t *got = (const uint64_t *)(const void *)in;
	int i, step = number > 2000 ? number / 1000 : 1;
	uint64_t wanted;

	for (i = 0; i < number; i += step) {
		wanted = combined(op, first, last, index + i);
		if (got[i] == wanted)
			continue;
		mpitest_fail("%s: element %d of %d is %llu not %llu", what, i, number,
			     (unsigned long long)got[i], (unsigned long long)wanted);
		return;
	}
}

static void own_elements(char *buffer, int number)
{
	uint64_t *elements = (uint64_t *)(void *)buffer;
	int i;

	round_number++;
	for (i = 0; i < number; i++)
		elements[i] = element(rank, i);
}

static void reduce(int count)
{
	static const MPI_Op ops[] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_PROD };
	int i, number = part(count) / 8 * 8, root = (int)(round_number % (unsigned)size);

	number = number > 40000 ? 40000 : number;
	for (i = 0; i < 5; i++) {
		own_elements(out, number);
		CALL(MPI_Reduce, MPI_Ireduce, out, in, number, MPI_UINT64_T, ops[i], root, comm);
		if (rank == root)
			expect_reduced(ops[i], 0, size - 1, 0, number, "reduce");

		own_elements(out, number);
		CALL(MPI_Allreduce, MPI_Iallreduce, out, in, number, MPI_UINT64_T, ops[i], comm);
		expect_reduced(ops[i], 0, size - 1, 0, number, "allreduce");
	}
	own_elements(in, number);
	CALL(MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, in, number, MPI_UINT64_T, MPI_SUM, comm);
	expect_reduced(MPI_SUM, 0, size - 1, 0, number, "allreduce in place");
}

static void reduce_scatter(int count)
{
	int i, lengths[MOST_RANKS], offset = 0, total = 0, number;

	number = part(count) / 8;
	number = number > 5000 ? 5000 : number;
	own_elements(out, number * size);
	CALL(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, out, in, number, MPI_UINT64_T,
	     MPI_SUM, comm);
	expect_reduced(MPI_SUM, 0, size - 1, rank * number, number, "reduce_scatter_block");

	for (i = 0; i < size; i++) {
		lengths[i] = number * (i % 3);
		if (i < rank)
			offset += lengths[i];
		total += lengths[i];
	}
	own_elements(out, total);
	CALL(MPI_Reduce_scatter, MPI_Ireduce_scatter, out, in, lengths, MPI_UINT64_T, MPI_MAX,
	     comm);
	expect_reduced(MPI_MAX, 0, size - 1, offset, lengths[rank], "reduce_scatter");
}

static void scan(int count)
{
	int number = part(count) / 8;

	number = number > 5000 ? 5000 : number;
	own_elements(out, number);
	CALL(MPI_Scan, MPI_Iscan, out, in, number, MPI_UINT64_T, MPI_SUM, comm);
	expect_reduced(MPI_SUM, 0, rank, 0, number, "scan");

	own_elements(out, number);
	CALL(MPI_Exscan, MPI_Iexscan, out, in, number, MPI_UINT64_T, MPI_SUM, comm);
	if (rank)
		expect_reduced(MPI_SUM, 0, rank - 1, 0, number, "exscan");
}

/* Affine maps modulo 2^32 compose associatively, not commutatively. */
struct affine {
	uint32_t scale, offset;
};

static struct affine compose(struct affine first, struct affine second)
{
	struct affine both = { first.scale * second.scale,
			       first.offset * second.scale + second.offset };

	return both;
}

static void compose_all(void *input, void *inout, int *length, MPI_Datatype *type)
{
	const struct affine *first = input;
	struct affine *second = inout;
	int i;

	(void)type;
	for (i = 0; i < *length; i++)
		second[i] = compose(first[i], second[i]);
}

static struct affine affine_of(int who, int index)
{
	struct affine map = { (uint32_t)(2 * who + 3 + index), (uint32_t)(7 * who + 1 + index) };

	return map;
}

static void own_operation(int count)
{
	struct affine *mine = (struct affine *)(void *)out, *got = (struct affine *)(void *)in;
	struct affine wanted;
	MPI_Datatype type;
	int i, who, number;
	MPI_Op op;

	number = part(count) / 8;
	MPI_Type_contiguous(2, MPI_UINT32_T, &type);
	MPI_Type_commit(&type);
	MPI_Op_create(compose_all, 0, &op);
	for (i = 0; i < number; i++)
		mine[i] = affine_of(rank, i);
	CALL(MPI_Allreduce, MPI_Iallreduce, out, in, number, type, op, comm);
	for (i = 0; i < number; i++) {
		wanted = affine_of(0, i);
		for (who = 1; who < size; who++)
			wanted = compose(wanted, affine_of(who, i));
		if (got[i].scale != wanted.scale || got[i].offset != wanted.offset) {
			mpitest_fail("allreduce of maps: element %d of %d is wrong", i, number);
			break;
		}
	}
	MPI_Op_free(&op);
	MPI_Type_free(&type);
}

static void located(int count)
{
	struct {
		double value;
		int where;
	} *mine = (void *)out, *got = (void *)in;
	int i, who, best, number = part(count) / 16, step = number <= 2000 ? 1 : 101;

	round_number++;
	for (i = 0; i < number; i++) {
		mine[i].value = (double)element(rank, i);
		mine[i].where = rank;
	}
	CALL(MPI_Allreduce, MPI_Iallreduce, out, in, number, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
	for (i = 0; i < number; i += step) {
		best = 0;
		for (who = 1; who < size; who++) {
			if (element(who, i) > element(best, i))
				best = who;
		}
		if (got[i].where != best || got[i].value != (double)element(best, i)) {
			mpitest_fail("maxloc: element %d of %d is wrong", i, number);
			break;
		}
	}
}

/*
 * None may leave before the last one has entered, which sends a message before. A synchronous send
 * has been received when it returns; ranks of several machines have no clock in common.
 */
static void barrier(int count)
{
	struct timespec late = { .tv_nsec = 1000000 };
	MPI_Request request;
	int who, other, received, token = 0;

	if (count > 7)
		return;
	for (who = 0; who < size; who++) {
		if (who != rank)
			MPI_Irecv(&token, 1, MPI_INT, who, 0, comm, &request);
		else
			nanosleep(&late, NULL);
		for (other = 0; who == rank && other < size; other++)
			if (other != rank)
				MPI_Ssend(&token, 1, MPI_INT, other, 0, comm);
		CALL(MPI_Barrier, MPI_Ibarrier, comm);
		if (who == rank)
			continue;
		MPI_Test(&request, &received, MPI_STATUS_IGNORE);
		mpitest_expect(received, "left a barrier before rank %d entered it", who);
		if (!received)
			MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

static const struct {
	const char *name;
	void (*run)(int count);
} collectives[] = {
	{ "barrier", barrier },
	{ "bcast", bcast },
	{ "gather", gather },
	{ "scatter", scatter },
	{ "allgather", allgather },
	{ "alltoall", alltoall },
	{ "alltoallv", alltoallv },
	{ "reduce", reduce },
	{ "reduce_scatter", reduce_scatter },
	{ "scan", scan },
	{ "own_operation", own_operation },
	{ "maxloc", located },
};

/* 24 at once on one communicator, completed in reverse. */
static void in_flight(void)
{
	enum { FLIGHTS = 24, LENGTH = 3000 };
	MPI_Request requests[FLIGHTS];
	size_t stride = (size_t)LENGTH * (size_t)size;
	char *base, *room = mpitest_alloc(FLIGHTS * stride * 2);
	int i, k;

	for (i = 0; i < FLIGHTS; i++) {
		base = room + 2 * stride * (size_t)i;
		round_number = (uint64_t)i;
		for (k = 0; k < size; k++)
			fill(base + k * LENGTH, LENGTH, rank, i % 2 ? k : 0);
		(i % 2 ? MPI_Ialltoall : MPI_Iallgather)(base, LENGTH, MPI_BYTE, base + stride,
							 LENGTH, MPI_BYTE, comm, &requests[i]);
	}
	for (i = FLIGHTS; i-- > 0;) {
		MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		base = room + 2 * stride * (size_t)i + stride;
		round_number = (uint64_t)i;
		for (k = 0; k < size; k++)
			verify(base + k * LENGTH, LENGTH, k, i % 2 ? rank : 0, "in flight");
	}
	free(room);
}

static void neighbours(void)
{
	enum { LENGTH = 70000 };
	int periods[] = { 1 }, extents[] = { size }, left, right;
	MPI_Comm ring;

	MPI_Cart_create(MPI_COMM_WORLD, 1, extents, periods, 0, &ring);
	MPI_Cart_shift(ring, 0, 1, &left, &right);
	for (nonblocking = 0; nonblocking < 2; nonblocking++) {
		round_number = 1;
		fill(out, LENGTH, rank, 0);
		fill(out + LENGTH, LENGTH, rank, 1);
		CALL(MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, out, LENGTH, MPI_BYTE, in,
		     LENGTH, MPI_BYTE, ring);
		/* With two ranks both neighbours are one rank: the order is not defined. */
		if (size > 2) {
			verify(in, LENGTH, left, 1, "from the left");
			verify(in + LENGTH, LENGTH, right, 0, "from the right");
		}
		round_number++;
		fill(out, LENGTH, rank, 0);
		CALL(MPI_Neighbor_allgather, MPI_Ineighbor_allgather, out, LENGTH, MPI_BYTE, in,
		     LENGTH, MPI_BYTE, ring);
		verify(in, LENGTH, left, 0, "gathered from the left");
		verify(in + LENGTH, LENGTH, right, 0, "gathered from the right");
	}
	MPI_Comm_free(&ring);
}

/* Between the even and the odd ranks. */
static void intercommunicator(void)
{
	int odd = rank % 2, root, sum, wanted, i;
	MPI_Comm half, inter;

	if (size < 2)
		return;
	MPI_Comm_split(MPI_COMM_WORLD, odd, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !odd, 9, &inter);
	round_number = 0;
	for (i = 0; i < COUNTS; i++) {
		round_number++;
		root = odd ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
		if (root == MPI_ROOT)
			fill(in, counts[i], 0, 0);
		MPI_Bcast(in, counts[i], MPI_BYTE, root, inter);
		if (odd)
			verify(in, counts[i], 0, 0, "bcast");
	}
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
	for (wanted = 0, i = !odd; i < size; i += 2)
		wanted += i;
	mpitest_expect(sum == wanted, "the sum of the other half is %d not %d", sum, wanted);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void many(void)
{
	int i, one, sum, times = size > 2 ? 1000 : 5000;

	for (i = 0; i < times; i++) {
		one = rank + i;
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
		mpitest_expect(sum == size * (size - 1) / 2 + size * i, "allreduce %d gives %d", i,
			       sum);
		if (i % 3 == 0)
			MPI_Barrier(comm);
	}
}

static void use_comm(MPI_Comm under_test)
{
	comm = under_test;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
}

static void run_collectives(MPI_Comm under_test, const char *name, int most)
{
	size_t i;
	int k;

	use_comm(under_test);
	for (i = 0; i < MPITEST_COUNT(collectives); i++) {
		for (nonblocking = 0; nonblocking < 2; nonblocking++) {
			mpitest_begin("%s%s over %s", nonblocking ? "nonblocking " : "",
				      collectives[i].name, name);
			round_number = 0;
			for (k = 0; k < COUNTS && counts[k] <= most; k++)
				collectives[i].run(counts[k]);
			mpitest_end();
		}
	}
}

int main(int argc, char **argv)
{
	static const struct mpitest_case others[] = {
		{ "24 nonblocking collectives at once", in_flight },
		{ "neighbour alltoall and allgather on a ring", neighbours },
		{ "bcast and allreduce over an intercommunicator", intercommunicator },
		{ "many allreduces and barriers in a row", many },
	};
	int most = counts[COUNTS - 1], small = 5000;
	MPI_Comm other;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(1, MOST_RANKS);
	out = mpitest_alloc(MOST_BYTES);
	in = mpitest_alloc(MOST_BYTES);
	run_collectives(MPI_COMM_WORLD, "all ranks", mpitest.quick ? 40000 : most);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -mpitest.rank, &other);
	run_collectives(other, "all ranks in reverse", small);
	MPI_Comm_free(&other);
	MPI_Comm_split(MPI_COMM_WORLD, mpitest.rank % 2, 0, &other);
	run_collectives(other, "every second rank", small);
	MPI_Comm_free(&other);
	use_comm(MPI_COMM_WORLD);
	mpitest_run(others);
	return mpitest_finish();
}
