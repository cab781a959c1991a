/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic that --seed replays. The plan of messages is the same on all ranks; each rank
 * decides when it posts them and how it waits.
 *
 *   --rounds N    rounds of each kind of receives
 *   --seconds N   as many rounds as take N seconds together instead
 *   --while FILE  after these seconds go on while there is this file
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)8 << 20)   /* of one message */
#define MOST_MESSAGES 200              /* of one round */
#define ROUND_BYTES ((size_t)48 << 20) /* of all messages of one round */
#define TAGS 3                         /* few, so that messages of one tag have an order */

struct planned {
	int from, to, tag;
	size_t length;
	int synchronous;
	uint64_t seed;
};

struct buffer {
	unsigned char *memory, *data;
};

static struct planned plan[MOST_MESSAGES];
static struct buffer buffers[2 * MOST_MESSAGES];
static MPI_Request requests[2 * MOST_MESSAGES];
static int planned, request_count;
static uint64_t own_state;
static double seconds;      /* of one kind of receives; 0: as many rounds as given */
static const char *awaited; /* the file that the last kind waits for to vanish, or NULL */

static void make_plan(uint64_t *state, int unique_tags)
{
	int i, most = 1 + (int)mpitest_random_below(state, MOST_MESSAGES);
	size_t longest = 1 + mpitest_random_size(state, MOST_BYTES), total = 0;

	planned = 0;
	for (i = 0; i < most && total < ROUND_BYTES; i++) {
		struct planned *message = &plan[planned++];

		message->from = (int)mpitest_random_below(state, (uint64_t)mpitest.size);
		message->to = (int)mpitest_random_below(state, (uint64_t)mpitest.size);
		message->tag = unique_tags ? i : (int)mpitest_random_below(state, TAGS);
		message->length = mpitest_random_size(state, longest);
		message->synchronous = mpitest_random_below(state, 4) == 0;
		message->seed = mpitest_random(state);
		total += message->length;
	}
}

/* New memory at any alignment, whose pages may be absent. */
static unsigned char *new_buffer(struct buffer *buffer, size_t length)
{
	size_t offset = MPITEST_GUARD + mpitest_random_below(&own_state, 16);

	buffer->memory = mpitest_alloc(length + offset + MPITEST_GUARD);
	buffer->data = buffer->memory + offset;
	mpitest_guard(buffer->data, length);
	return buffer->data;
}

/* Do something else, at times. */
static void pause_or_probe(void)
{
	struct timespec pause = { .tv_nsec = (long)mpitest_random_below(&own_state, 200000) };
	int found;

	switch (mpitest_random_below(&own_state, 24)) {
	case 0:
		nanosleep(&pause, NULL);
		break;
	case 1:
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
		break;
	case 2:
		if (request_count)
			MPI_Request_get_status(requests[0], &found, MPI_STATUS_IGNORE);
	}
}

static void start_send(int i)
{
	const struct planned *message = &plan[i];
	unsigned char *data = new_buffer(&buffers[i], message->length);
	MPI_Request *request = &requests[request_count++];

	mpitest_fill(data, message->length, message->seed);
	if (message->synchronous)
		MPI_Issend(data, (int)message->length, MPI_BYTE, message->to, message->tag,
			   MPI_COMM_WORLD, request);
	else
		MPI_Isend(data, (int)message->length, MPI_BYTE, message->to, message->tag,
			  MPI_COMM_WORLD, request);
}

static void start_receive(int i)
{
	const struct planned *message = &plan[i];
	unsigned char *data = new_buffer(&buffers[MOST_MESSAGES + i], message->length);

	MPI_Irecv(data, (int)message->length, MPI_BYTE, message->from, message->tag, MPI_COMM_WORLD,
		  &requests[request_count++]);
}

static void wait_one_by_one(void)
{
	int i, first = (int)mpitest_random_below(&own_state, (uint64_t)request_count);

	for (i = 0; i < request_count; i++)
		MPI_Wait(&requests[(first + i) % request_count], MPI_STATUS_IGNORE);
}

static void wait_for_some(int way)
{
	int indices[2 * MOST_MESSAGES], done = 0, some, flag;

	while (done < request_count) {
		switch (way) {
		case 0:
			MPI_Waitany(request_count, requests, &some, MPI_STATUS_IGNORE);
			some = some != MPI_UNDEFINED;
			break;
		case 1:
			MPI_Testany(request_count, requests, &some, &flag, MPI_STATUS_IGNORE);
			some = flag && some != MPI_UNDEFINED;
			break;
		case 2:
			MPI_Waitsome(request_count, requests, &some, indices, MPI_STATUSES_IGNORE);
			break;
		default:
			MPI_Testsome(request_count, requests, &some, indices, MPI_STATUSES_IGNORE);
		}
		done += some;
	}
}

static void wait_for_all(void)
{
	int way = (int)mpitest_random_below(&own_state, 6);

	if (!request_count)
		return;
	if (way < 4)
		wait_for_some(way);
	else if (way == 4)
		wait_one_by_one();
	else
		MPI_Waitall(request_count, requests, MPI_STATUSES_IGNORE);
	request_count = 0;
}

static void check_and_free(int i)
{
	const struct planned *message = &plan[i];
	struct buffer *in = &buffers[MOST_MESSAGES + i];

	if (in->memory) {
		if (mpitest_verify(in->data, message->length, message->seed, "received") ||
		    mpitest_verify_guard(in->data, message->length, "received"))
			mpitest_fail("... in message %d: %zu bytes from %d with tag %d", i,
				     message->length, message->from, message->tag);
		free(in->memory);
	}
	free(buffers[i].memory);
}

/* Sends are in the order of the plan, and so are receives; how they alternate is random. */
static void named_receives(void)
{
	int sent = 0, taken = 0;

	while (sent < planned || taken < planned) {
		int sends = taken == planned ||
			    (sent < planned && mpitest_random_below(&own_state, 2));

		if (sends) {
			if (plan[sent].from == mpitest.rank)
				start_send(sent);
			sent++;
		} else {
			if (plan[taken].to == mpitest.rank)
				start_receive(taken);
			taken++;
		}
		pause_or_probe();
	}
	wait_for_all();
}

/* Tags are unique in a round, and identify the message. */
static void wildcard_receives(void)
{
	int i, count, expected = 0, sent = 0;
	MPI_Message message;
	MPI_Status status;

	for (i = 0; i < planned; i++)
		expected += plan[i].to == mpitest.rank;
	while (expected || sent < planned) {
		if (sent < planned && (!expected || mpitest_random_below(&own_state, 2))) {
			if (plan[sent].from == mpitest.rank)
				start_send(sent);
			sent++;
			continue;
		}
		/* To block while there are sends to start could be a deadlock. */
		if (sent < planned) {
			MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &count, &message,
				    &status);
			if (!count)
				continue;
		} else {
			MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
		}
		i = status.MPI_TAG;
		MPI_Get_count(&status, MPI_BYTE, &count);
		if (i >= planned || plan[i].to != mpitest.rank ||
		    plan[i].from != status.MPI_SOURCE || plan[i].length != (size_t)count ||
		    buffers[MOST_MESSAGES + i].memory) {
			mpitest_fail("%d bytes with tag %d from %d arrived, which no rank sent",
				     count, i, status.MPI_SOURCE);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
		new_buffer(&buffers[MOST_MESSAGES + i], (size_t)count);
		MPI_Imrecv(buffers[MOST_MESSAGES + i].data, count, MPI_BYTE, &message,
			   &requests[request_count++]);
		expected--;
	}
	wait_for_all();
}

/* Rank 0 decides: all ranks end after the same round. */
static int goes_on(double end)
{
	int more = MPI_Wtime() < end || (awaited && access(awaited, F_OK) == 0);

	MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return more;
}

static void traffic(const char *name, void (*run)(void), int unique_tags, int rounds)
{
	int i, round, sum;
	uint64_t state;
	double end;

	if (seconds > 0)
		mpitest_begin("%g s, %s", seconds, name);
	else
		mpitest_begin("%d rounds, %s", rounds, name);
	state = mpitest.test_seed;
	own_state = mpitest.test_seed + 1 + (uint64_t)mpitest.rank;
	end = MPI_Wtime() + seconds;
	for (round = 0; seconds > 0 ? goes_on(end) : round < rounds; round++) {
		make_plan(&state, unique_tags);
		memset(buffers, 0, sizeof(buffers));
		run();
		for (i = 0; i < planned; i++)
			check_and_free(i);
		/* All ranks synchronize at times; otherwise fast ranks are ahead. */
		if (unique_tags || mpitest_random_below(&state, 4) == 0)
			MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	}
	mpitest_end();
}

int main(int argc, char **argv)
{
	int rounds;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	rounds = (int)mpitest_number("--rounds", mpitest.quick ? 40 : 200);
	seconds = (double)mpitest_number("--seconds", 0) / 2;
	traffic("receives by source and tag", named_receives, 0, rounds);
	awaited = mpitest_option("--while");
	traffic("receives of any message", wildcard_receives, 1, rounds);
	return mpitest_finish();
}
