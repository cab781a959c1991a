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

/* Slot i * window + k is receive k of sender i. */
struct receiver {
	const struct settings *settings;
	char *buffers;             /* by slot */
	MPI_Request *requests;     /* by slot */
	long long *numbers;        /* by slot: of the message that it receives */
	long long *posted;         /* by sender: number of receives */
	unsigned long long *bytes; /* by step, and in it by sender */
	unsigned long long wrong;  /* number of messages with wrong contents */
	double first;              /* time at which the first message arrived, s */
	double last;               /* ... and the last one */
	double pause;              /* longest time without a message in the span, s */
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

static char *buffer_of(const struct receiver *receiver, int slot)
{
	return receiver->buffers + (size_t)slot * (size_t)receiver->settings->bytes;
}

static void post(struct receiver *receiver, int slot)
{
	int sender = slot / receiver->settings->window;

	receiver->numbers[slot] = receiver->posted[sender]++;
	MPI_Irecv(buffer_of(receiver, slot), receiver->settings->bytes, MPI_CHAR, sender, TAG_DATA,
		  MPI_COMM_WORLD, &receiver->requests[slot]);
}

/* A receive is complete. An empty message matched a receive that was left. */
static void check(struct receiver *receiver, int slot, const MPI_Status *status)
{
	const struct settings *settings = receiver->settings;
	int count;

	MPI_Get_count(status, MPI_CHAR, &count);
	if (!count)
		return;
	receiver->wrong += count != settings->bytes ||
			   !is_stamped(buffer_of(receiver, slot), settings->bytes,
				       slot / settings->window, receiver->numbers[slot]);
}

static void note_pause(struct receiver *receiver, double now)
{
	const struct span *span = &receiver->settings->span;
	double start = receiver->last > span->begin ? receiver->last : span->begin;
	double end = now < span->end ? now : span->end;

	if (end - start > receiver->pause)
		receiver->pause = end - start;
	receiver->last = now;
}

/* Receive the rest of a sender's messages. */
static void drain(struct receiver *receiver, int sender)
{
	int i, window = receiver->settings->window, first = sender * window;
	MPI_Status status;
	long long total;

	MPI_Recv(&total, 1, MPI_LONG_LONG, sender, TAG_END, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (;;) {
		MPI_Waitany(window, receiver->requests + first, &i, &status);
		if (i == MPI_UNDEFINED)
			break;
		check(receiver, first + i, &status);
		if (receiver->posted[sender] < total)
			post(receiver, first + i);
	}
	/* Messages that are left when all requests are complete. */
	while (receiver->posted[sender] < total) {
		post(receiver, first);
		MPI_Wait(&receiver->requests[first], &status);
		check(receiver, first, &status);
	}
}

/* Count bytes by step and sender. */
static void receive_all(struct receiver *receiver)
{
	const struct settings *settings = receiver->settings;
	const struct span *span = &settings->span;
	int i, slot, slots = settings->senders * settings->window;
	MPI_Status status;
	double now;

	for (i = 0; i < slots; i++)
		post(receiver, i);
	for (;;) {
		MPI_Waitany(slots, receiver->requests, &slot, &status);
		now = sample_seconds();
		if (receiver->first == 0)
			receiver->first = now;
		check(receiver, slot, &status);
		if (now >= span->begin)
			note_pause(receiver, now);
		if (now >= span->end)
			break;
		if (span_contains(span, now))
			receiver->bytes[span_step(span, now) * settings->senders +
					slot / settings->window] +=
				(unsigned long long)settings->bytes;
		post(receiver, slot);
	}
	for (i = 0; i < settings->senders; i++)
		MPI_Send(&receiver->posted[i], 1, MPI_LONG_LONG, i, TAG_END, MPI_COMM_WORLD);
	for (i = 0; i < settings->senders; i++)
		drain(receiver, i);
}

static void receiver_create(struct receiver *receiver, const struct settings *settings)
{
	size_t senders = (size_t)settings->senders, slots = senders * (size_t)settings->window;

	*receiver = (struct receiver){ .settings = settings };
	receiver->buffers = allocate(slots, (size_t)settings->bytes);
	memset(receiver->buffers, 1, slots * (size_t)settings->bytes);
	receiver->requests = allocate(slots, sizeof(*receiver->requests));
	receiver->numbers = allocate(slots, sizeof(*receiver->numbers));
	receiver->posted = allocate(senders, sizeof(*receiver->posted));
	receiver->bytes = allocate(((size_t)settings->span.steps + 1) * senders,
				   sizeof(*receiver->bytes));
}

static void receiver_destroy(struct receiver *receiver)
{
	free(receiver->buffers);
	free(receiver->requests);
	free(receiver->numbers);
	free(receiver->posted);
	free(receiver->bytes);
}

static int report(const struct receiver *receiver)
{
	const struct span *span = &receiver->settings->span;
	int i, sender, senders = receiver->settings->senders;

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
		for (sender = 0; sender < senders; sender++)
			printf(" %llu", receiver->bytes[i * senders + sender]);
		printf("\n");
	}
	printf("# pause %.6f s: the longest without a message\n", receiver->pause);
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
	int rank, ranks, status = 0;

	if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		usage();
		return 0;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (parse(&settings, argc, argv) || ranks < 2) {
		if (rank == 0)
			fprintf(stderr, "flow: needs mpirun -n 2 or more, and BEGIN END STEP in "
					"seconds: see --help\n");
		MPI_Finalize();
		return 1;
	}
	settings.rank = rank;
	settings.senders = ranks - 1;
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
