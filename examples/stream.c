/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A producer reads a file and puts it piece by piece into the slots of a consumer, each put with a
 * signal that sets the slot's word to the number of the piece. A count would not do: the put of a
 * piece may overtake the put before. The consumer writes the pieces to standard output, and counts
 * them in the producer by signals without data.
 */
#include <err.h>
#include <libpf/pf.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOTS 8u
#define PIECE (64u << 10)
#define SLEEP 1000 /* us; a signal from another host ends no sleep */

struct slot {
	uint64_t length; /* 0: the end of the file */
	unsigned char bytes[PIECE];
};

/* What the producer has to know. */
struct contact {
	uint64_t slots, numbers; /* addresses in the consumer */
	size_t length;
	unsigned char address[PF_ADDRESS_MAX];
};

static void check(const char *what, int status)
{
	if (status < 0)
		errx(1, "%s: %s", what, pf_strerror(status));
}

/* Load a word that signals change. Acquire: then what was put before the signal is seen. */
static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void on_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	if (reason != PF_PEER_LEFT)
		errx(1, "lost the peer: %s", text);
}

/* ---- the producer ---- */

static void produce(const struct contact *contact, FILE *file)
{
	static struct slot slots[SLOTS];
	static uint64_t taken; /* the consumer adds to it */
	const pf_callbacks callbacks = { .size = sizeof(callbacks), .peer_event = on_end };
	pf_signal signal = { .op = PF_SIGNAL_SET };
	const uint64_t where = (uintptr_t)&taken;
	uint64_t next = 0, marks[SLOTS] = { 0 };
	pf_context *context;
	pf_peer *consumer;
	struct slot *slot;
	int status = pf_open(NULL, &callbacks, &context);

	check("pf_open", status);
	status = pf_peer_open(context, contact->address, contact->length, NULL, &consumer);
	check("pf_peer_open", status);
	check("pf_send", pf_send(consumer, 0, &where, sizeof(where), NULL, 0));
	do {
		slot = &slots[next % SLOTS];
		/* Until the slot is free there, and here, where its last put must be complete. */
		while (next - load(&taken) >= SLOTS ||
		       (status = pf_flush_test(context, consumer, marks[next % SLOTS])) > 0)
			pf_wait(context, SLEEP);
		check("pf_put_signal", status);
		slot->length = fread(slot->bytes, 1, PIECE, file);
		signal.remote = contact->numbers + next % SLOTS * sizeof(next);
		signal.value = next + 1;
		status = pf_put_signal(consumer, slot,
				       contact->slots + next % SLOTS * sizeof(*slot),
				       sizeof(slot->length) + slot->length, &signal, 0, NULL, NULL);
		check("pf_put_signal", status);
		marks[next++ % SLOTS] = pf_posted(context, consumer);
	} while (slot->length);
	while (load(&taken) < next)
		pf_wait(context, SLEEP);
	pf_close(context);
}

/* ---- the consumer ---- */

static struct slot slots[SLOTS];
static uint64_t numbers[SLOTS]; /* the producer sets them */
static uint64_t taken_there;    /* address of the producer's word */
static pf_peer *producer;

static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	if (length != sizeof(taken_there))
		errx(1, "a wrong message");
	taken_there = *(uint64_t *)data;
	producer = from;
}

static void consume(pf_context *context)
{
	pf_signal signal = { PF_SIGNAL_ADD, 0, 1 };
	uint64_t next = 0;
	struct slot *slot;

	do {
		/* On one host this process executes the signals itself, in pf_wait. */
		while (!producer || load(&numbers[next % SLOTS]) != next + 1)
			pf_wait(context, SLEEP);
		slot = &slots[next++ % SLOTS];
		if (slot->length > PIECE ||
		    fwrite(slot->bytes, 1, slot->length, stdout) < slot->length)
			err(1, "cannot write");
		signal.remote = taken_there;
		check("pf_put_signal", pf_put_signal(producer, NULL, 0, 0, &signal, 0, NULL, NULL));
	} while (slot->length);
	check("pf_flush", pf_flush(context, producer, PF_FOREVER));
}

int main(int argc, char **argv)
{
	struct contact contact = { (uintptr_t)slots, (uintptr_t)numbers, PF_ADDRESS_MAX, { 0 } };
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_message,
					 .peer_event = on_end };
	FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
	pf_context *context;
	int ends[2];
	pid_t child;

	if (!file || pipe(ends))
		err(1, "Usage: stream FILE");
	setenv("LIBPF_WAKE", "1", 0); /* there may be more processes than cores */
	child = fork();               /* before pf_open */
	if (!child) {
		close(ends[1]);
		if (read(ends[0], &contact, sizeof(contact)) == sizeof(contact))
			produce(&contact, file);
		return 0;
	}
	check("pf_open", pf_open(NULL, &callbacks, &context));
	check("pf_address", pf_address(context, contact.address, &contact.length));
	if (child < 0 || write(ends[1], &contact, sizeof(contact)) != sizeof(contact))
		err(1, "cannot tell the producer");
	consume(context);
	pf_close(context);
	return fflush(stdout) != 0;
}
