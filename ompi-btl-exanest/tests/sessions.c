/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions of MPI 4: Open MPI opens and closes its components with the first and the last of them,
 * so that one process may do so several times. Does not use mpitest.c, which calls MPI_Init.
 *
 *   sessions PATTERN    one of the patterns that sessions --list prints: none if there are no sessions
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL 8
#define LARGE (1 << 20)
#define TAG 3

/* Open MPI 5.0 has sessions, and says that it is MPI 3.1. */
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5

static int rank, wrong;
static char *out, *in;

/* Each rank sends to its right neighbour, and all ranks add up their numbers. */
static void exchange(MPI_Comm comm)
{
	static const int lengths[] = { SMALL, LARGE };
	int size, sum = 0, left, i;
	size_t k;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	left = (rank + size - 1) % size;
	for (k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		memset(out, rank + 1, (size_t)lengths[k]);
		memset(in, 0, (size_t)lengths[k]);
		MPI_Sendrecv(out, lengths[k], MPI_CHAR, (rank + 1) % size, TAG, in, lengths[k],
			     MPI_CHAR, left, TAG, comm, MPI_STATUS_IGNORE);
		for (i = 0; i < lengths[k]; i++)
			wrong += in[i] != (char)(left + 1);
	}
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	wrong += sum != size * (size - 1) / 2;
}

struct session {
	MPI_Session handle;
	MPI_Comm comm; /* of all processes */
};

static struct session begin(const char *name)
{
	struct session session;
	MPI_Group group;

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session.handle);
	MPI_Group_from_session_pset(session.handle, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session.comm);
	MPI_Group_free(&group);
	exchange(session.comm);
	return session;
}

static void end(struct session *session)
{
	exchange(session->comm);
	MPI_Comm_free(&session->comm);
	MPI_Session_finalize(&session->handle);
}

static void one(void)
{
	struct session session = begin("one");

	end(&session);
}

static void three_times(void)
{
	struct session session;
	int i;

	for (i = 0; i < 3; i++) {
		session = begin("again");
		end(&session);
	}
}

static void first_ends_first(void)
{
	struct session first = begin("first"), second = begin("second");

	end(&first);
	end(&second);
}

static void first_ends_last(void)
{
	struct session first = begin("first"), second = begin("second");

	end(&second);
	end(&first);
}

static void without_communicator(void)
{
	struct session session;
	MPI_Session idle;

	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &idle);
	MPI_Session_finalize(&idle);
	session = begin("after");
	end(&session);
}

static void inside_world(void)
{
	struct session session;

	MPI_Init(NULL, NULL);
	exchange(MPI_COMM_WORLD);
	session = begin("inside");
	exchange(MPI_COMM_WORLD);
	end(&session);
	exchange(MPI_COMM_WORLD);
	MPI_Finalize();
}

static void around_world(void)
{
	struct session session = begin("around");

	MPI_Init(NULL, NULL);
	exchange(MPI_COMM_WORLD);
	exchange(session.comm);
	MPI_Finalize();
	end(&session);
}

static void after_world(void)
{
	struct session session;

	MPI_Init(NULL, NULL);
	exchange(MPI_COMM_WORLD);
	MPI_Finalize();
	session = begin("after");
	end(&session);
}

#define MESSAGES 1000
#define SHORT 4000

/*
 * The end of the last session completes sends whose requests were freed: more than there is room for, to
 * a rank that does not call MPI yet.
 */
static void freed_sends(void)
{
	struct session session = begin("freed");
	MPI_Request request;
	int i, k;

	memset(out, 1, SHORT);
	for (i = 0; i < MESSAGES && rank == 0; i++) {
		MPI_Isend(out, SHORT, MPI_CHAR, 1, TAG, session.comm, &request);
		MPI_Request_free(&request);
	}
	if (rank == 1)
		usleep(300000);
	for (i = 0; i < MESSAGES && rank == 1; i++) {
		memset(in, 0, SHORT);
		MPI_Recv(in, SHORT, MPI_CHAR, 0, TAG, session.comm, MPI_STATUS_IGNORE);
		for (k = 0; k < SHORT; k++)
			wrong += in[k] != 1;
	}
	MPI_Comm_free(&session.comm);
	MPI_Session_finalize(&session.handle);
}

#define THREADS 4
#define ROUNDS 300

struct talker {
	MPI_Comm comm;
	int number, wrong;
	pthread_t thread;
};

/* Both neighbours of a rank do the same with this thread's number as tag. */
static void *talk(void *arg)
{
	struct talker *talker = arg;
	char *sent = malloc(LARGE), *received = malloc(LARGE);
	int size, self, left, i, k;

	MPI_Comm_rank(talker->comm, &self);
	MPI_Comm_size(talker->comm, &size);
	left = (self + size - 1) % size;
	for (i = 0; i < ROUNDS; i++) {
		int length = i % 10 ? SMALL : LARGE;

		memset(sent, self + talker->number + i, (size_t)length);
		MPI_Sendrecv(sent, length, MPI_CHAR, (self + 1) % size, talker->number, received,
			     length, MPI_CHAR, left, talker->number, talker->comm,
			     MPI_STATUS_IGNORE);
		for (k = 0; k < length; k++)
			talker->wrong += received[k] != (char)(left + talker->number + i);
	}
	free(sent);
	free(received);
	return NULL;
}

/* The first session is for one thread, and has opened the components. */
static void threads_later(void)
{
	struct session session = begin("single");
	struct talker talkers[THREADS];
	int provided, i;

	MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
	for (i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++) {
		talkers[i] = (struct talker){ .comm = MPI_COMM_WORLD, .number = i };
		pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]);
	}
	while (i-- > 0) {
		pthread_join(talkers[i].thread, NULL);
		wrong += talkers[i].wrong;
	}
	MPI_Finalize();
	end(&session);
}

static const struct {
	const char *name;
	void (*run)(void);
} patterns[] = {
	{ "one", one },
	{ "three_times", three_times },
	{ "first_ends_first", first_ends_first },
	{ "first_ends_last", first_ends_last },
	{ "without_communicator", without_communicator },
	{ "inside_world", inside_world },
	{ "around_world", around_world },
	{ "after_world", after_world },
	{ "threads_later", threads_later },
	{ "freed_sends", freed_sends },
};
#define PATTERNS (sizeof(patterns) / sizeof(*patterns))

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "";
	size_t i;

	if (strcmp(wanted, "--list") == 0) {
		for (i = 0; i < PATTERNS; i++)
			puts(patterns[i].name);
		return 0;
	}
	for (i = 0; i < PATTERNS && strcmp(wanted, patterns[i].name) != 0; i++)
		;
	out = malloc(LARGE);
	in = malloc(LARGE);
	if (i == PATTERNS || !out || !in)
		return 2;
	patterns[i].run();
	if (wrong)
		fprintf(stderr, "# rank %d: %d wrong\n", rank, wrong);
	if (rank == 0)
		printf("%sok 1 - sessions: %s\n1..1\n", wrong ? "not " : "", wanted);
	free(out);
	free(in);
	return wrong != 0;
}

#else

int main(int argc, char **argv)
{
	return !(argc > 1 && strcmp(argv[1], "--list") == 0);
}

#endif
