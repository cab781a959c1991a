/* SPDX-License-Identifier: BSD-3-Clause */
/* The modes of point-to-point communication: each delivers the bytes and keeps its guarantees. */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST (1024 * 1024 + 3)
#define TAG 17

static const int lengths[] = { 0, 1, 100, 4000, 4097, 40000, 200000, LARGEST };
#define LENGTHS ((int)MPITEST_COUNT(lengths))

static unsigned char *out, *in;
static uint64_t message;

typedef int (*send_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*start_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static const struct mode {
	const char *name;
	send_function send;
	start_function isend;
	start_function send_init;
} modes[] = {
	{ "standard", MPI_Send, MPI_Isend, MPI_Send_init },
	{ "synchronous", MPI_Ssend, MPI_Issend, MPI_Ssend_init },
	{ "buffered", MPI_Bsend, MPI_Ibsend, MPI_Bsend_init },
	{ "ready", MPI_Rsend, MPI_Irsend, MPI_Rsend_init },
};

/* ---- what most tests do: one message to the right, and one from the left ---- */

static void fill(int length)
{
	message++;
	mpitest_fill_message(out, length, mpitest.right, message);
	memset(in, 0xee, length);
}

static void start_send(start_function start, int length, MPI_Request *request)
{
	start(out, length, MPI_BYTE, mpitest.right, TAG, MPI_COMM_WORLD, request);
}

static void start_receive(int length, MPI_Request *request)
{
	MPI_Irecv(in, length, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD, request);
}

static void receive(int length, MPI_Status *status)
{
	MPI_Recv(in, length, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD, status);
}

static void verify(const MPI_Status *status, int length, const char *what)
{
	int count;

	MPI_Get_count(status, MPI_BYTE, &count);
	mpitest_expect(count == length && status->MPI_SOURCE == mpitest.left &&
			       status->MPI_TAG == TAG,
		       "%s: %d bytes arrived as %d bytes from %d with tag %d", what, length, count,
		       status->MPI_SOURCE, status->MPI_TAG);
	mpitest_verify_message(in, length, mpitest.left, message, what);
}

/* A ready send may start when its receiver has announced that the receive is posted. */
static void announce_receive(void)
{
	MPI_Sendrecv(NULL, 0, MPI_BYTE, mpitest.left, TAG + 1, NULL, 0, MPI_BYTE, mpitest.right,
		     TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* ---- each mode ---- */

static void blocking(const struct mode *mode, int length)
{
	MPI_Request request;
	MPI_Status status;

	fill(length);
	start_receive(length, &request);
	announce_receive();
	mode->send(out, length, MPI_BYTE, mpitest.right, TAG, MPI_COMM_WORLD);
	MPI_Wait(&request, &status);
	verify(&status, length, mode->name);
}

static void nonblocking(const struct mode *mode, int length)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];

	fill(length);
	start_receive(length, &requests[0]);
	announce_receive();
	start_send(mode->isend, length, &requests[1]);
	MPI_Waitall(2, requests, statuses);
	verify(&statuses[0], length, mode->name);
}

/*
 * Open MPI before 4.1.9 sends wrong bytes when a persistent buffered send is started again
 * (open-mpi/ompi pull request 12797): that mode is started once.
 */
static void persistent(const struct mode *mode, int length)
{
	int round, rounds = mode->send == MPI_Bsend ? 1 : 10;
	MPI_Request requests[2];
	MPI_Status status;

	MPI_Recv_init(in, length, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD, &requests[0]);
	start_send(mode->send_init, length, &requests[1]);
	for (round = 0; round < rounds; round++) {
		fill(length);
		MPI_Start(&requests[0]);
		announce_receive();
		MPI_Start(&requests[1]);
		MPI_Wait(&requests[0], &status);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		verify(&status, length, mode->name);
	}
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
}

static void to_self(const struct mode *mode, int length)
{
	uint64_t seed = mpitest_message_seed(mpitest.rank, mpitest.rank, ++message);
	MPI_Request requests[2];

	mpitest_fill(out, length, seed);
	MPI_Irecv(in, length, MPI_BYTE, mpitest.rank, TAG, MPI_COMM_WORLD, &requests[0]);
	mode->isend(out, length, MPI_BYTE, mpitest.rank, TAG, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify(in, length, seed, mode->name);
}

static const struct {
	const char *name;
	void (*run)(const struct mode *mode, int length);
} of_modes[] = {
	{ "blocking", blocking },
	{ "nonblocking", nonblocking },
	{ "persistent", persistent },
	{ "to the own rank", to_self },
};

/* ---- guarantees, each with every length ---- */

/* A synchronous send is not complete before it is received. */
static void synchronous_waits(int length)
{
	MPI_Request request;
	MPI_Status status;
	int k, done = 0;

	fill(length);
	start_send(MPI_Issend, length, &request);
	/* The barrier makes progress on both sides, and no receive is posted yet. */
	MPI_Barrier(MPI_COMM_WORLD);
	for (k = 0; k < 100 && !done; k++) {
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		mpitest_expect(!done, "%d bytes: complete before any receive", length);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	receive(length, &status);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	verify(&status, length, "synchronous");
}

/* A buffered send completes without a receive, and its buffer can be overwritten. */
static void buffered_is_local(int length)
{
	MPI_Status status;

	fill(length);
	MPI_Bsend(out, length, MPI_BYTE, mpitest.right, TAG, MPI_COMM_WORLD);
	memset(out, 0x55, length);
	MPI_Barrier(MPI_COMM_WORLD);
	receive(length, &status);
	verify(&status, length, "buffered");
}

static void sendrecv(int length)
{
	MPI_Status status;

	fill(length);
	MPI_Sendrecv(out, length, MPI_BYTE, mpitest.right, TAG, in, length, MPI_BYTE, mpitest.left,
		     TAG, MPI_COMM_WORLD, &status);
	verify(&status, length, "sendrecv");

	fill(length);
	memcpy(in, out, length);
	MPI_Sendrecv_replace(in, length, MPI_BYTE, mpitest.right, TAG, mpitest.left, TAG,
			     MPI_COMM_WORLD, &status);
	verify(&status, length, "sendrecv_replace");

	in[0] = 7;
	MPI_Sendrecv(out, 1, MPI_BYTE, MPI_PROC_NULL, TAG, in, 1, MPI_BYTE, MPI_PROC_NULL, TAG,
		     MPI_COMM_WORLD, &status);
	mpitest_expect(status.MPI_SOURCE == MPI_PROC_NULL && in[0] == 7,
		       "MPI_PROC_NULL delivered a message");
}

static void probe_from(int source, int tag, int immediate, int length)
{
	int found, count;
	MPI_Request request;
	MPI_Status status;

	fill(length);
	start_send(MPI_Isend, length, &request);
	if (immediate) {
		do {
			MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, &status);
		} while (!found);
	} else {
		MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
	}
	MPI_Get_count(&status, MPI_BYTE, &count);
	mpitest_expect(count == length && status.MPI_SOURCE == mpitest.left,
		       "%d bytes probed as %d bytes from %d", length, count, status.MPI_SOURCE);
	receive(length, &status);
	verify(&status, length, "after probe");
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void probe(int length)
{
	probe_from(mpitest.left, TAG, 0, length);
	probe_from(mpitest.left, TAG, 1, length);
}

static void probe_any(int length)
{
	probe_from(MPI_ANY_SOURCE, MPI_ANY_TAG, 0, length);
	probe_from(MPI_ANY_SOURCE, MPI_ANY_TAG, 1, length);
}

static void matched_probe(int length)
{
	MPI_Request request, matched_receive;
	MPI_Message matched;
	MPI_Status status;
	int found, after, immediate;

	for (immediate = 0; immediate < 2; immediate++) {
		fill(length);
		start_send(MPI_Isend, length, &request);
		if (immediate) {
			do {
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found,
					    &matched, &status);
			} while (!found);
		} else {
			MPI_Mprobe(mpitest.left, TAG, MPI_COMM_WORLD, &matched, &status);
		}
		MPI_Iprobe(mpitest.left, TAG, MPI_COMM_WORLD, &after, MPI_STATUS_IGNORE);
		mpitest_expect(!after, "a matched message was found again");
		if (immediate) {
			MPI_Imrecv(in, length, MPI_BYTE, &matched, &matched_receive);
			MPI_Wait(&matched_receive, &status);
		} else {
			MPI_Mrecv(in, length, MPI_BYTE, &matched, &status);
		}
		verify(&status, length, "matched");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		/* The left neighbour must not send the next message before this probe is done. */
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

/* A cancelled receive does not match the message of the next one. */
static void cancel(int length)
{
	MPI_Request requests[2];
	MPI_Status status;
	int cancelled;

	fill(length);
	start_receive(LARGEST, &requests[0]);
	MPI_Cancel(&requests[0]);
	MPI_Wait(&requests[0], &status);
	MPI_Test_cancelled(&status, &cancelled);
	mpitest_expect(cancelled, "the receive was not cancelled");
	/* The left neighbour must not send before the cancel. */
	MPI_Barrier(MPI_COMM_WORLD);

	start_receive(length, &requests[0]);
	start_send(MPI_Isend, length, &requests[1]);
	MPI_Wait(&requests[0], &status);
	MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
	MPI_Test_cancelled(&status, &cancelled);
	mpitest_expect(!cancelled, "a receive that was not cancelled counts as cancelled");
	verify(&status, length, "after cancel");
}

/* A send whose request is freed arrives. */
static void freed_request(int length)
{
	MPI_Request request;
	MPI_Status status;

	fill(length);
	start_send(MPI_Isend, length, &request);
	MPI_Request_free(&request);
	receive(length, &status);
	verify(&status, length, "freed request");
	/* Afterwards the right neighbour has the bytes, and the buffer is free. */
	MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
	const char *name;
	void (*run)(int length);
} guarantees[] = {
	{ "a synchronous send completes only when it is received", synchronous_waits },
	{ "a buffered send completes without a receive, and its buffer is free",
	  buffered_is_local },
	{ "sendrecv, sendrecv_replace, and with MPI_PROC_NULL", sendrecv },
	{ "probe and iprobe, given source and tag", probe },
	{ "probe and iprobe, any source and tag", probe_any },
	{ "mprobe and mrecv, improbe and imrecv", matched_probe },
	{ "a cancelled receive takes no message from the next one", cancel },
	{ "a send whose request is freed arrives", freed_request },
};

/* ---- others ---- */

/* Rank 0 receives from any rank; the status describes each message. */
static void any_source(void)
{
	int i, k, count, which;
	MPI_Status status;

	for (i = 0; i < LENGTHS; i++) {
		if (mpitest.rank) {
			mpitest_fill_message(out, lengths[i], 0, i);
			MPI_Send(out, lengths[i], MPI_BYTE, 0, 100 * i + mpitest.rank,
				 MPI_COMM_WORLD);
			continue;
		}
		for (k = 1; k < mpitest.size; k++) {
			MPI_Recv(in, LARGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
				 &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			which = status.MPI_TAG / 100;
			mpitest_expect(status.MPI_TAG % 100 == status.MPI_SOURCE &&
					       which < LENGTHS && count == lengths[which],
				       "%d bytes with tag %d from %d", count, status.MPI_TAG,
				       status.MPI_SOURCE);
			mpitest_verify_message(in, count, status.MPI_SOURCE, which, "any source");
		}
	}
}

/*
 * Open MPI's ob1 fetches a large message completely, also into a shorter receive
 * (mca_pml_ob1_recv_request_progress_rget uses the sender's length), over any BTL with get: the
 * bytes behind the buffer are checked only for small messages.
 */
static void truncation(void)
{
	static const int pairs[][2] = { { 1, 0 },     { 100, 99 },        { 100, 1 },
					{ 4097, 50 }, { 200000, 199999 }, { LARGEST, 4096 } };
	unsigned char *target = in + MPITEST_GUARD;
	MPI_Request request, receive_request;
	MPI_Status status;
	MPI_Comm comm;
	int i, error, class;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (i = 0; i < 2 * (int)MPITEST_COUNT(pairs); i++) {
		int sent = pairs[i / 2][0], taken = pairs[i / 2][1], posted = i % 2;

		fill(sent);
		if (sent <= 100)
			mpitest_guard(target, taken);
		if (posted)
			MPI_Irecv(target, taken, MPI_BYTE, mpitest.left, TAG, comm,
				  &receive_request);
		MPI_Isend(out, sent, MPI_BYTE, mpitest.right, TAG, comm, &request);
		error = posted ?
				MPI_Wait(&receive_request, &status) :
				MPI_Recv(target, taken, MPI_BYTE, mpitest.left, TAG, comm, &status);
		MPI_Error_class(error, &class);
		mpitest_expect(class == MPI_ERR_TRUNCATE, "%d bytes into %d: error class %d", sent,
			       taken, class);
		if (sent <= 100)
			mpitest_verify_guard(target, taken, "truncated");
		MPI_Wait(&request, MPI_STATUS_IGNORE);

		fill(sent);
		MPI_Isend(out, sent, MPI_BYTE, mpitest.right, TAG, comm, &request);
		error = MPI_Recv(in, sent, MPI_BYTE, mpitest.left, TAG, comm, &status);
		mpitest_expect(error == MPI_SUCCESS, "the message after a truncated one failed");
		verify(&status, sent, "after a truncated message");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Comm_free(&comm);
}

/* The same ranks and the same tag: only the communicator distinguishes the messages. */
static void communicators(void)
{
	enum { COMMS = 8 };
	MPI_Comm comms[COMMS];
	MPI_Request requests[COMMS];
	int i, k, length, bound, found, *tag_bound;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_bound, &found);
	bound = found ? *tag_bound : 32767;
	for (k = 0; k < COMMS; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
	for (i = 0; i < LENGTHS; i++) {
		length = lengths[i] / COMMS;
		for (k = 0; k < COMMS; k++) {
			mpitest_fill_message(out + k * length, length, mpitest.right,
					     i * COMMS + k);
			MPI_Isend(out + k * length, length, MPI_BYTE, mpitest.right, bound - i,
				  comms[k], &requests[k]);
		}
		for (k = COMMS; k-- > 0;) {
			MPI_Recv(in, length, MPI_BYTE, mpitest.left, bound - i, comms[k],
				 MPI_STATUS_IGNORE);
			mpitest_verify_message(in, length, mpitest.left, i * COMMS + k,
					       "by communicator");
		}
		MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
	}
	for (k = 0; k < COMMS; k++)
		MPI_Comm_free(&comms[k]);
}

int main(int argc, char **argv)
{
	static const struct mpitest_case others[] = {
		{ "any source and any tag from all ranks", any_source },
		{ "a message longer than its receive is MPI_ERR_TRUNCATE, the next is complete",
		  truncation },
		{ "communicators and the largest tag keep messages apart", communicators },
	};
	/* A message may hold its part of the buffer until the next one is sent. */
	int attached = 3 * (LARGEST + MPI_BSEND_OVERHEAD), k;
	void *buffer;
	size_t i, m;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	out = mpitest_alloc(LARGEST + 2 * MPITEST_GUARD);
	in = mpitest_alloc(LARGEST + 2 * MPITEST_GUARD);
	buffer = mpitest_alloc(attached);
	MPI_Buffer_attach(buffer, attached);
	for (m = 0; m < MPITEST_COUNT(modes); m++) {
		for (i = 0; i < MPITEST_COUNT(of_modes); i++) {
			mpitest_begin("%s, %s", modes[m].name, of_modes[i].name);
			for (k = 0; k < LENGTHS; k++)
				of_modes[i].run(&modes[m], lengths[k]);
			mpitest_end();
		}
	}
	for (i = 0; i < MPITEST_COUNT(guarantees); i++) {
		mpitest_begin("%s", guarantees[i].name);
		for (k = 0; k < LENGTHS; k++)
			guarantees[i].run(lengths[k]);
		mpitest_end();
	}
	mpitest_run(others);
	MPI_Buffer_detach(&buffer, &attached);
	free(buffer);
	return mpitest_finish();
}
