/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of messages from all ranks but the last to the last, until a given
 * time. Several jobs can run at the same time and count what arrives over the
 * same interval: CLOCK_MONOTONIC is common to all processes of a machine, also
 * to those in other namespaces.
 */
#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "span.h"

#define BYTES_DEFAULT (256 << 10)
#define BYTES_MOST (64 << 20)
#define WINDOW_DEFAULT 16
#define WINDOW_MOST 64
#define TAG_DATA 1
#define TAG_END 2
/* Bytes from one stamp in a message to the next: exanest's unit of retransmission. */
#define STAMP_INTERVAL 256
#define NAME_LONGEST 128
#define COUNTERS 4

struct settings {
	struct span span;
	int bytes;  /* of a message */
	int window; /* messages of a sender that are in progress at a time */
	int rank;
	int senders;
};

/* What the receiver has of one sender. */
struct sender {
	char *buffers;
	MPI_Request *requests;     /* settings.window of the array of all senders */
	long long *numbers;        /* of the message that each request receives */
	long long posted;          /* number of receives */
	unsigned long long *bytes; /* by step */
};

struct receiver {
	const struct settings *settings;
	struct sender *senders;
	MPI_Request *requests;    /* of all senders */
	unsigned long long wrong; /* number of messages with wrong contents */
	double first;             /* time at which the first message arrived, s */
	double last;              /* ... and the last one */
	double pause, pause_end;  /* longest time without a message in the span, and its end, s */
};

/* The counters of btl exanest that are printed, where it is loaded. */
static const char *const counters[COUNTERS] = { "net_sent", "net_bytes", "net_lost",
						"net_dropped" };

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory) {
		fprintf(stderr, "flow: no memory for %zu bytes\n", count * size);
		MPI_Abort(MPI_COMM_WORLD, 1);
		exit(1); /* not reached */
	}
	return memory;
}

/* ---- contents: a number in every STAMP_INTERVAL bytes tells sender, message and place ---- */

static uint64_t stamp_of(int sender, long long number, int place)
{
	return ((uint64_t)sender << 56) + ((uint64_t)number << 24) + (uint64_t)place + 1;
}

static void stamp(char *buffer, int bytes, int sender, long long number)
{
	int place;

	for (place = 0; place + (int)sizeof(uint64_t) <= bytes; place += STAMP_INTERVAL) {
		uint64_t value = stamp_of(sender, number, place);

		memcpy(buffer + place, &value, sizeof(value));
	}
}

static int is_stamped(const char *buffer, int bytes, int sender, long long number)
{
	int place;

	for (place = 0; place + (int)sizeof(uint64_t) <= bytes; place += STAMP_INTERVAL) {
		uint64_t value = stamp_of(sender, number, place);

		if (memcmp(buffer + place, &value, sizeof(value)) != 0)
			return 0;
	}
	return 1;
}

/* ---- a sender ---- */

static void send_one(const struct settings *settings, char *buffers, int slot, long long number,
		     MPI_Request *request)
{
	char *buffer = buffers + (size_t)slot * (size_t)settings->bytes;

	stamp(buffer, settings->bytes, settings->rank, number);
	MPI_Isend(buffer, settings->bytes, MPI_CHAR, settings->senders, TAG_DATA, MPI_COMM_WORLD,
		  request);
}

/*
 * At the end the receiver reports the number of receives that it posted, and
 * the sender replies with the number of messages: as many, or more that are
 * under way already. Empty messages match the receives that are left.
 */
static void send_all(const struct settings *settings)
{
	MPI_Request requests[WINDOW_MOST + 1];
	int i, window = settings->window;
	char *buffers = allocate((size_t)window, (size_t)settings->bytes);
	long long sent, total = 0;

	memset(buffers, 1, (size_t)window * (size_t)settings->bytes);
	MPI_Irecv(&total, 1, MPI_LONG_LONG, settings->senders, TAG_END, MPI_COMM_WORLD,
		  &requests[window]);
	for (sent = 0; sent < window; sent++)
		send_one(settings, buffers, (int)sent, sent, &requests[sent]);
	for (;;) {
		MPI_Waitany(window + 1, requests, &i, MPI_STATUS_IGNORE);
		if (i == window)
			break;
		send_one(settings, buffers, i, sent++, &requests[i]);
	}
	if (total < sent)
		total = sent;
	MPI_Send(&total, 1, MPI_LONG_LONG, settings->senders, TAG_END, MPI_COMM_WORLD);
	for (; sent < total; sent++)
		MPI_Send(buffers, 0, MPI_CHAR, settings->senders, TAG_DATA, MPI_COMM_WORLD);
	MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
	free(buffers);
}

/* ---- the receiver ---- */

static void post(struct receiver *receiver, int number, int slot)
{
	const struct settings *settings = receiver->settings;
	struct sender *sender = &receiver->senders[number];

	sender->numbers[slot] = sender->posted++;
	MPI_Irecv(sender->buffers + (size_t)slot * (size_t)settings->bytes, settings->bytes,
		  MPI_CHAR, number, TAG_DATA, MPI_COMM_WORLD, &sender->requests[slot]);
}

/* A receive is complete. An empty message matched a receive that was left. */
static void check(struct receiver *receiver, int number, int slot, const MPI_Status *status)
{
	const struct settings *settings = receiver->settings;
	const struct sender *sender = &receiver->senders[number];
	int count;

	MPI_Get_count(status, MPI_CHAR, &count);
	if (!count)
		return;
	receiver->wrong += count != settings->bytes ||
			   !is_stamped(sender->buffers + (size_t)slot * (size_t)settings->bytes,
				       settings->bytes, number, sender->numbers[slot]);
}

static void note_pause(struct receiver *receiver, double now)
{
	const struct span *span = &receiver->settings->span;
	double start = receiver->last > span->begin ? receiver->last : span->begin;
	double end = now < span->end ? now : span->end;

	if (end - start > receiver->pause) {
		receiver->pause = end - start;
		receiver->pause_end = end - span->begin;
	}
	receiver->last = now;
}

/* Receive the rest of a sender's messages. */
static void drain(struct receiver *receiver, int number)
{
	struct sender *sender = &receiver->senders[number];
	int slot, window = receiver->settings->window;
	MPI_Status status;
	long long total;

	MPI_Recv(&total, 1, MPI_LONG_LONG, number, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (;;) {
		MPI_Waitany(window, sender->requests, &slot, &status);
		if (slot == MPI_UNDEFINED)
			break;
		check(receiver, number, slot, &status);
		if (sender->posted < total)
			post(receiver, number, slot);
	}
	/* Messages that are left when all requests are complete. */
	while (sender->posted < total) {
		post(receiver, number, 0);
		MPI_Wait(&sender->requests[0], &status);
		check(receiver, number, 0, &status);
	}
}

/* Count bytes by sender and step. */
static void receive_all(struct receiver *receiver)
{
	const struct settings *settings = receiver->settings;
	const struct span *span = &settings->span;
	int i, number, slot, window = settings->window;
	MPI_Status status;
	double now;

	for (slot = 0; slot < window; slot++)
		for (number = 0; number < settings->senders; number++)
			post(receiver, number, slot);
	for (;;) {
		MPI_Waitany(settings->senders * window, receiver->requests, &i, &status);
		number = i / window;
		slot = i % window;
		now = sample_seconds();
		if (receiver->first == 0)
			receiver->first = now;
		check(receiver, number, slot, &status);
		if (now >= span->begin)
			note_pause(receiver, now);
		if (now >= span->end)
			break;
		if (span_contains(span, now))
			receiver->senders[number].bytes[span_step(span, now)] +=
				(unsigned long long)settings->bytes;
		post(receiver, number, slot);
	}
	for (number = 0; number < settings->senders; number++)
		MPI_Send(&receiver->senders[number].posted, 1, MPI_LONG_LONG, number, TAG_END,
			 MPI_COMM_WORLD);
	for (number = 0; number < settings->senders; number++)
		drain(receiver, number);
}

static void receiver_create(struct receiver *receiver, const struct settings *settings)
{
	size_t senders = (size_t)settings->senders, window = (size_t)settings->window, i;

	*receiver = (struct receiver){ .settings = settings };
	receiver->senders = allocate(senders, sizeof(*receiver->senders));
	receiver->requests = allocate(senders * window, sizeof(*receiver->requests));
	for (i = 0; i < senders; i++) {
		struct sender *sender = &receiver->senders[i];

		sender->buffers = allocate(window, (size_t)settings->bytes);
		memset(sender->buffers, 1, window * (size_t)settings->bytes);
		sender->requests = receiver->requests + i * window;
		sender->numbers = allocate(window, sizeof(*sender->numbers));
		sender->bytes = allocate((size_t)settings->span.steps + 1, sizeof(*sender->bytes));
	}
}

static void receiver_destroy(struct receiver *receiver)
{
	int i;

	for (i = 0; i < receiver->settings->senders; i++) {
		free(receiver->senders[i].buffers);
		free(receiver->senders[i].numbers);
		free(receiver->senders[i].bytes);
	}
	free(receiver->senders);
	free(receiver->requests);
}

static int report(const struct receiver *receiver)
{
	const struct span *span = &receiver->settings->span;
	int i, number;

	if (receiver->wrong) {
		fprintf(stderr, "flow: %llu messages arrived with wrong contents\n",
			receiver->wrong);
		return 1;
	}
	if (receiver->first > span->begin) {
		fprintf(stderr,
			"flow: the first message arrived %.3f s after BEGIN: give a later BEGIN\n",
			receiver->first - span->begin);
		return 1;
	}
	printf("# End of the step in s after BEGIN, bytes received in the step from each sender\n");
	for (i = 0; i < span->steps; i++) {
		printf("%.3f", (i + 1) * span->step);
		for (number = 0; number < receiver->settings->senders; number++)
			printf(" %llu", receiver->senders[number].bytes[i]);
		printf("\n");
	}
	printf("# pause %.6f s until %.6f s after BEGIN: the longest without a message\n",
	       receiver->pause, receiver->pause_end);
	return 0;
}

/* ---- counters ---- */

struct counting {
	MPI_T_pvar_session session;
	MPI_T_pvar_handle handles[COUNTERS];
	bool counts[COUNTERS];
};

/* A counter counts from here on. */
static void start_counters(struct counting *counting)
{
	int granted, index, count;
	size_t i;

	MPI_T_init_thread(MPI_THREAD_SINGLE, &granted);
	if (MPI_T_pvar_session_create(&counting->session))
		return;
	for (i = 0; i < COUNTERS; i++) {
		char name[NAME_LONGEST];

		snprintf(name, sizeof(name), "btl_exanest_%s", counters[i]);
		if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) ||
		    MPI_T_pvar_handle_alloc(counting->session, index, NULL, &counting->handles[i],
					    &count))
			continue;
		/* One that always counts cannot be started, and needs not. */
		(void)MPI_T_pvar_start(counting->session, counting->handles[i]);
		counting->counts[i] = count == 1;
	}
}

/* Print the sum over all ranks of each counter that all of them have. */
static void print_counters(const struct counting *counting, const struct settings *settings)
{
	size_t i;

	for (i = 0; i < COUNTERS; i++) {
		unsigned long long mine[2] = { 0 }, all[2];

		if (counting->counts[i])
			mine[0] = !MPI_T_pvar_read(counting->session, counting->handles[i],
						   &mine[1]);
		MPI_Reduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, settings->senders,
			   MPI_COMM_WORLD);
		if (settings->rank == settings->senders &&
		    all[0] == (unsigned long long)settings->senders + 1)
			printf("# %s %llu\n", counters[i], all[1]);
	}
	MPI_T_finalize();
}

/* ---- command line ---- */

static int parse_count(const char *text, int most, int *count)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 1 || value > most)
		return -1;
	*count = (int)value;
	return 0;
}

static int parse(struct settings *settings, int argc, char **argv)
{
	static const struct option options[] = { { "bytes", required_argument, NULL, 'b' },
						 { "window", required_argument, NULL, 'w' },
						 { 0 } };
	int option, status = 0;

	settings->bytes = BYTES_DEFAULT;
	settings->window = WINDOW_DEFAULT;
	opterr = 0;
	while (!status && (option = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
		if (option == 'b')
			status = parse_count(optarg, BYTES_MOST, &settings->bytes);
		else if (option == 'w')
			status = parse_count(optarg, WINDOW_MOST, &settings->window);
		else
			status = -1;
	}
	return status ? status : span_parse(&settings->span, argc - optind, argv + optind);
}

static void usage(void)
{
	printf("Usage: mpirun -n N [...] flow [--bytes BYTES] [--window MESSAGES] BEGIN END STEP\n"
	       "All ranks but the last send messages of BYTES (%d), MESSAGES (%d) at a time, to the "
	       "last rank until END.\nIt checks the contents, and prints the number of bytes that "
	       "arrived from each sender in each STEP from BEGIN\nto END, the longest time "
	       "between two messages, and counters of btl exanest, sums of all ranks. BEGIN, END\n"
	       "and STEP are in seconds; BEGIN and END are times of CLOCK_MONOTONIC.\n",
	       BYTES_DEFAULT, WINDOW_DEFAULT);
}

int main(int argc, char **argv)
{
	struct counting counting = { 0 };
	struct settings settings = { 0 };
	struct receiver receiver;
	int ranks, status = 0;

	if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		usage();
		return 0;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &settings.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	settings.senders = ranks - 1;
	if (ranks < 2 || parse(&settings, argc, argv)) {
		if (settings.rank == 0)
			fprintf(stderr, "flow: needs mpirun -n 2 or more, and BEGIN END STEP in "
					"seconds: see --help\n");
		MPI_Finalize();
		return 1;
	}
	start_counters(&counting);
	if (settings.rank < settings.senders) {
		send_all(&settings);
	} else {
		receiver_create(&receiver, &settings);
		receive_all(&receiver);
		status = report(&receiver);
		receiver_destroy(&receiver);
	}
	print_counters(&counting, &settings);
	MPI_Finalize();
	return status;
}
