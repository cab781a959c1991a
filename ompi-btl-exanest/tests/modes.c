/* SPDX-License-Identifier: BSD-3-Clause */
/* The modes of point-to-point: each delivers the right bytes and keeps its own promise. */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST (1024 * 1024 + 3)
#define TAG 17

static const int lengths[] = { 0, 1, 100, 4000, 4097, 40000, 200000, LARGEST };
#define LENGTHS ((int)(sizeof(lengths) / sizeof(*lengths)))

static unsigned char *out, *in;
static uint64_t message;
static int left, right;

typedef int (*send_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int (*start_function)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

struct mode {
	const char *name;
	send_function send;
	start_function isend;
	start_function send_init;
};

static const struct mode modes[] = {
	{ "standard", MPI_Send, MPI_Isend, MPI_Send_init },
	{ "synchronous", MPI_Ssend, MPI_Issend, MPI_Ssend_init },
	{ "buffered", MPI_Bsend, MPI_Ibsend, MPI_Bsend_init },
	{ "ready", MPI_Rsend, MPI_Irsend, MPI_Rsend_init },
};
#define MODES ((int)(sizeof(modes) / sizeof(*modes)))

static void fill(int length)
{
	message++;
	mpitest_fill(out, (size_t)length, mpitest_message_seed(mpitest.rank, right, message));
	memset(in, 0xee, (size_t)length);
}

static void verify(const MPI_Status *status, int from, int length, const char *what)
{
	int count;

	MPI_Get_count(status, MPI_BYTE, &count);
	mpitest_expect(count == length && status->MPI_SOURCE == from && status->MPI_TAG == TAG,
		       "%s: %d bytes arrived as %d bytes from %d with tag %d", what, length, count,
		       status->MPI_SOURCE, status->MPI_TAG);
	mpitest_verify(in, (size_t)length, mpitest_message_seed(from, mpitest.rank, message), what);
}

/* A ready send may start once the receiver has said that it is waiting. */
static void tell_left_that_receive_is_posted(void)
{
	MPI_Sendrecv(NULL, 0, MPI_BYTE, left, TAG + 1, NULL, 0, MPI_BYTE, right, TAG + 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void blocking(const struct mode *mode)
{
	MPI_Request request;
	MPI_Status status;
	int i;

	mpitest_begin("%s, blocking", mode->name);
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Irecv(in, lengths[i], MPI_BYTE, left, TAG, MPI_COMM_WORLD, &request);
		tell_left_that_receive_is_posted();
		mode->send(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD);
		MPI_Wait(&request, &status);
		verify(&status, left, lengths[i], mode->name);
	}
	mpitest_end();
}

static void nonblocking(const struct mode *mode)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int i;

	mpitest_begin("%s, nonblocking", mode->name);
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Irecv(in, lengths[i], MPI_BYTE, left, TAG, MPI_COMM_WORLD, &requests[0]);
		tell_left_that_receive_is_posted();
		mode->isend(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, statuses);
		verify(&statuses[0], left, lengths[i], mode->name);
	}
	mpitest_end();
}

/*
 * Open MPI before 4.1.9 sends garbage when a persistent buffered send is
 * started again (open-mpi/ompi pull request 12797): that mode starts once.
 */
static void persistent(const struct mode *mode)
{
	int i, round, rounds = mode->send == MPI_Bsend ? 1 : 10;
	MPI_Request requests[2];
	MPI_Status status;

	mpitest_begin("%s, persistent, started %d times", mode->name, rounds);
	for (i = 0; i < LENGTHS; i++) {
		MPI_Recv_init(in, lengths[i], MPI_BYTE, left, TAG, MPI_COMM_WORLD, &requests[0]);
		mode->send_init(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD,
				&requests[1]);
		for (round = 0; round < rounds; round++) {
			fill(lengths[i]);
			MPI_Start(&requests[0]);
			tell_left_that_receive_is_posted();
			MPI_Start(&requests[1]);
			MPI_Wait(&requests[0], &status);
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			verify(&status, left, lengths[i], mode->name);
		}
		MPI_Request_free(&requests[0]);
		MPI_Request_free(&requests[1]);
	}
	mpitest_end();
}

static void synchronous_waits_for_receiver(void)
{
	MPI_Request request;
	MPI_Status status;
	int i, k, done, length;

	mpitest_begin("a synchronous send completes only once it is received");
	for (i = 0; i < LENGTHS; i++) {
		length = lengths[i];
		fill(length);
		MPI_Issend(out, length, MPI_BYTE, right, TAG, MPI_COMM_WORLD, &request);
		/* The barrier drives progress on both sides, and no receive is posted yet. */
		MPI_Barrier(MPI_COMM_WORLD);
		for (k = 0; k < 100; k++) {
			MPI_Test(&request, &done, MPI_STATUS_IGNORE);
			mpitest_expect(!done, "%d bytes: complete before any receive", length);
			if (done)
				break;
		}
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Recv(in, length, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &status);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		verify(&status, left, length, "synchronous");
	}
	mpitest_end();
}

/* The caller may overwrite its buffer at once, received or not. */
static void buffered_is_local(void)
{
	MPI_Status status;
	uint64_t seed;
	int i, length;

	mpitest_begin("a buffered send completes with no receive, and its buffer is free");
	for (i = 0; i < LENGTHS; i++) {
		length = lengths[i];
		fill(length);
		MPI_Bsend(out, length, MPI_BYTE, right, TAG, MPI_COMM_WORLD);
		memset(out, 0x55, (size_t)length);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Recv(in, length, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &status);
		seed = mpitest_message_seed(left, mpitest.rank, message);
		mpitest_verify(in, (size_t)length, seed, "buffered");
	}
	mpitest_end();
}

static void sendrecv(void)
{
	MPI_Status status;
	int i;

	mpitest_begin("sendrecv, sendrecv_replace, and with MPI_PROC_NULL");
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Sendrecv(out, lengths[i], MPI_BYTE, right, TAG, in, lengths[i], MPI_BYTE, left,
			     TAG, MPI_COMM_WORLD, &status);
		verify(&status, left, lengths[i], "sendrecv");

		fill(lengths[i]);
		memcpy(in, out, (size_t)lengths[i]);
		MPI_Sendrecv_replace(in, lengths[i], MPI_BYTE, right, TAG, left, TAG,
				     MPI_COMM_WORLD, &status);
		verify(&status, left, lengths[i], "sendrecv_replace");
	}
	in[0] = 7;
	MPI_Sendrecv(out, 1, MPI_BYTE, MPI_PROC_NULL, TAG, in, 1, MPI_BYTE, MPI_PROC_NULL, TAG,
		     MPI_COMM_WORLD, &status);
	mpitest_expect(status.MPI_SOURCE == MPI_PROC_NULL && in[0] == 7,
		       "MPI_PROC_NULL delivered something");
	mpitest_end();
}

static void probe(int any, int immediate)
{
	int source = any ? MPI_ANY_SOURCE : left, tag = any ? MPI_ANY_TAG : TAG;
	int i, found, count;
	MPI_Request request;
	MPI_Status status;

	mpitest_begin("%s, %s", immediate ? "iprobe" : "probe",
		      any ? "any source and tag" : "given source and tag");
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Isend(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD, &request);
		if (immediate) {
			do {
				MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, &status);
			} while (!found);
		} else {
			MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
		}
		MPI_Get_count(&status, MPI_BYTE, &count);
		mpitest_expect(count == lengths[i] && status.MPI_SOURCE == left,
			       "%d bytes probed as %d bytes from %d", lengths[i], count,
			       status.MPI_SOURCE);
		MPI_Recv(in, lengths[i], MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
			 MPI_COMM_WORLD, &status);
		verify(&status, left, lengths[i], "after probe");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	mpitest_end();
}

static void matched_probe(int immediate)
{
	MPI_Request request, receive;
	MPI_Message matched;
	MPI_Status status;
	int i, found, after;

	mpitest_begin("%s", immediate ? "improbe and imrecv" : "mprobe and mrecv");
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Isend(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD, &request);
		if (immediate) {
			do {
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found,
					    &matched, &status);
			} while (!found);
		} else {
			MPI_Mprobe(left, TAG, MPI_COMM_WORLD, &matched, &status);
		}
		MPI_Iprobe(left, TAG, MPI_COMM_WORLD, &after, MPI_STATUS_IGNORE);
		mpitest_expect(!after, "a matched message was found again");
		if (immediate) {
			MPI_Imrecv(in, lengths[i], MPI_BYTE, &matched, &receive);
			MPI_Wait(&receive, &status);
		} else {
			MPI_Mrecv(in, lengths[i], MPI_BYTE, &matched, &status);
		}
		verify(&status, left, lengths[i], "matched");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		/* The right neighbour's message must not be taken for this round's. */
		MPI_Barrier(MPI_COMM_WORLD);
	}
	mpitest_end();
}

static void cancel(void)
{
	MPI_Request requests[2];
	MPI_Status status;
	int i, cancelled;

	mpitest_begin("a cancelled receive takes no message from the next one");
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Irecv(in, LARGEST, MPI_BYTE, left, TAG, MPI_COMM_WORLD, &requests[0]);
		MPI_Cancel(&requests[0]);
		MPI_Wait(&requests[0], &status);
		MPI_Test_cancelled(&status, &cancelled);
		mpitest_expect(cancelled, "the receive was not cancelled");
		/* A neighbour that is ahead must not send before the cancel. */
		MPI_Barrier(MPI_COMM_WORLD);

		MPI_Irecv(in, lengths[i], MPI_BYTE, left, TAG, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD, &requests[1]);
		MPI_Wait(&requests[0], &status);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		MPI_Test_cancelled(&status, &cancelled);
		mpitest_expect(!cancelled, "an ordinary receive counts as cancelled");
		verify(&status, left, lengths[i], "after cancel");
	}
	mpitest_end();
}

/* Rank 0 takes what comes; the status must tell the truth about each message. */
static void any_source(void)
{
	int i, k, count, peers = mpitest.size - 1;
	MPI_Status status;

	mpitest_begin("any source and any tag from all ranks");
	for (i = 0; i < LENGTHS; i++) {
		if (mpitest.rank) {
			mpitest_fill(out, (size_t)lengths[i],
				     mpitest_message_seed(mpitest.rank, 0, (uint64_t)i));
			MPI_Send(out, lengths[i], MPI_BYTE, 0, 100 * i + mpitest.rank,
				 MPI_COMM_WORLD);
			continue;
		}
		for (k = 0; k < peers; k++) {
			int which;

			MPI_Recv(in, LARGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
				 &status);
			MPI_Get_count(&status, MPI_BYTE, &count);
			which = status.MPI_TAG / 100;
			mpitest_expect(status.MPI_TAG % 100 == status.MPI_SOURCE &&
					       which < LENGTHS && count == lengths[which],
				       "%d bytes with tag %d from %d", count, status.MPI_TAG,
				       status.MPI_SOURCE);
			mpitest_verify(in, (size_t)count,
				       mpitest_message_seed(status.MPI_SOURCE, 0, (uint64_t)which),
				       "any source");
		}
	}
	mpitest_end();
}

static void self(void)
{
	MPI_Request requests[2];
	MPI_Status status;
	uint64_t seed;
	int i, m;

	mpitest_begin("messages to oneself in every mode");
	for (m = 0; m < MODES; m++) {
		for (i = 0; i < LENGTHS; i++) {
			seed = mpitest_message_seed(mpitest.rank, mpitest.rank, ++message);
			mpitest_fill(out, (size_t)lengths[i], seed);
			MPI_Irecv(in, lengths[i], MPI_BYTE, mpitest.rank, TAG, MPI_COMM_WORLD,
				  &requests[0]);
			modes[m].isend(out, lengths[i], MPI_BYTE, mpitest.rank, TAG, MPI_COMM_WORLD,
				       &requests[1]);
			MPI_Wait(&requests[0], &status);
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			mpitest_verify(in, (size_t)lengths[i], seed, "to oneself");
		}
	}
	mpitest_end();
}

/*
 * Open MPI's ob1 fetches a large message in full even into a shorter receive
 * (mca_pml_ob1_recv_request_progress_rget goes by the sender's length), over
 * any BTL with get: so the room behind is only watched for small messages.
 */
static void truncation(void)
{
	static const int pairs[][2] = { { 1, 0 },     { 100, 99 },        { 100, 1 },
					{ 4097, 50 }, { 200000, 199999 }, { LARGEST, 4096 } };
	MPI_Status status;
	MPI_Request request;
	MPI_Comm comm;
	int i, error, class, posted;

	mpitest_begin("a message longer than its receive is MPI_ERR_TRUNCATE, the next is whole");
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	for (i = 0; i < 2 * (int)(sizeof(pairs) / sizeof(*pairs)); i++) {
		int sent = pairs[i / 2][0], taken = pairs[i / 2][1];
		unsigned char *target = in + MPITEST_GUARD;
		MPI_Request receive;

		posted = i % 2;
		fill(sent);
		if (sent <= 100)
			mpitest_guard(target, (size_t)taken);
		if (posted)
			MPI_Irecv(target, taken, MPI_BYTE, left, TAG, comm, &receive);
		MPI_Isend(out, sent, MPI_BYTE, right, TAG, comm, &request);
		if (posted)
			error = MPI_Wait(&receive, &status);
		else
			error = MPI_Recv(target, taken, MPI_BYTE, left, TAG, comm, &status);
		MPI_Error_class(error, &class);
		mpitest_expect(class == MPI_ERR_TRUNCATE, "%d bytes into %d: error class %d", sent,
			       taken, class);
		if (sent <= 100)
			mpitest_verify_guard(target, (size_t)taken, "truncated");
		MPI_Wait(&request, MPI_STATUS_IGNORE);

		fill(sent);
		MPI_Isend(out, sent, MPI_BYTE, right, TAG, comm, &request);
		error = MPI_Recv(in, sent, MPI_BYTE, left, TAG, comm, &status);
		mpitest_expect(error == MPI_SUCCESS, "the message behind a truncated one failed");
		verify(&status, left, sent, "behind a truncated message");
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Comm_free(&comm);
	mpitest_end();
}

static void freed_requests(void)
{
	MPI_Request request;
	MPI_Status status;
	int i;

	mpitest_begin("a send whose request is freed arrives all the same");
	for (i = 0; i < LENGTHS; i++) {
		fill(lengths[i]);
		MPI_Isend(out, lengths[i], MPI_BYTE, right, TAG, MPI_COMM_WORLD, &request);
		MPI_Request_free(&request);
		MPI_Recv(in, lengths[i], MPI_BYTE, left, TAG, MPI_COMM_WORLD, &status);
		verify(&status, left, lengths[i], "freed request");
		/* The buffer is ours again once the neighbour has the bytes. */
		MPI_Barrier(MPI_COMM_WORLD);
	}
	mpitest_end();
}

/* Same ranks, same tag: only the communicator tells the messages apart. */
static void communicators(void)
{
	enum { COMMS = 8 };
	MPI_Comm comms[COMMS];
	MPI_Request requests[COMMS];
	int i, k, length, bound, found, *tag_bound;

	mpitest_begin("communicators and the largest tag keep messages apart");
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_bound, &found);
	bound = found ? *tag_bound : 32767;
	for (k = 0; k < COMMS; k++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
	for (i = 0; i < LENGTHS; i++) {
		length = lengths[i] / COMMS;
		for (k = 0; k < COMMS; k++) {
			mpitest_fill(out + k * length, (size_t)length,
				     mpitest_message_seed(mpitest.rank, right,
							  (uint64_t)(i * COMMS + k)));
			MPI_Isend(out + k * length, length, MPI_BYTE, right, bound - i, comms[k],
				  &requests[k]);
		}
		for (k = COMMS; k-- > 0;) {
			MPI_Recv(in, length, MPI_BYTE, left, bound - i, comms[k],
				 MPI_STATUS_IGNORE);
			mpitest_verify(in, (size_t)length,
				       mpitest_message_seed(left, mpitest.rank,
							    (uint64_t)(i * COMMS + k)),
				       "by communicator");
		}
		MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
	}
	for (k = 0; k < COMMS; k++)
		MPI_Comm_free(&comms[k]);
	mpitest_end();
}

int main(int argc, char **argv)
{
	/* A message may hold its part of the buffer until the next one is sent. */
	int m, attached = 3 * (LARGEST + MPI_BSEND_OVERHEAD);
	void *buffer;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	left = (mpitest.rank + mpitest.size - 1) % mpitest.size;
	right = (mpitest.rank + 1) % mpitest.size;
	out = mpitest_alloc(LARGEST + 2 * MPITEST_GUARD);
	in = mpitest_alloc(LARGEST + 2 * MPITEST_GUARD);
	buffer = mpitest_alloc((size_t)attached);
	MPI_Buffer_attach(buffer, attached);

	for (m = 0; m < MODES; m++) {
		blocking(&modes[m]);
		nonblocking(&modes[m]);
		persistent(&modes[m]);
	}
	synchronous_waits_for_receiver();
	buffered_is_local();
	sendrecv();
	probe(0, 0);
	probe(0, 1);
	probe(1, 0);
	probe(1, 1);
	matched_probe(0);
	matched_probe(1);
	cancel();
	any_source();
	self();
	truncation();
	freed_requests();
	communicators();

	MPI_Buffer_detach(&buffer, &attached);
	free(buffer);
	return mpitest_finish();
}
