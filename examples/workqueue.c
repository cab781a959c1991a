/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker processes count the primes below a limit. They take ranges from a counter in the first
 * process, by pf_atomic, and send it what they found, by pf_send. It adds that up, and counts the
 * ranges itself that workers had taken when they died.
 */
#include <err.h>
#include <libpf/pf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANGES 1000u

/* What a worker has to know. */
struct contact {
	uint64_t counter; /* its address in the first process */
	uint64_t limit;
	size_t length;
	unsigned char address[PF_ADDRESS_MAX];
};

struct result {
	uint64_t range, primes;
};

static void check(const char *what, int status)
{
	if (status < 0)
		errx(1, "%s: %s", what, pf_strerror(status));
}

/* In one of so many equal ranges of the numbers below the limit. */
static uint64_t count_primes(uint64_t limit, uint64_t range, uint64_t ranges)
{
	uint64_t n = limit * range / ranges, divisor, count = 0;

	for (; n < limit * (range + 1) / ranges; n++) {
		for (divisor = 2; divisor * divisor <= n && n % divisor; divisor++)
			;
		count += n > 1 && divisor * divisor > n;
	}
	return count;
}

static void on_complete(pf_context *context, const pf_completion *completion)
{
	check("pf_atomic", completion->status);
	*(uint64_t *)completion->arg = completion->value;
}

static void work(const struct contact *contact)
{
	struct result result;
	pf_context *context;
	pf_peer *first;
	int status;

	check("pf_open", pf_open(NULL, NULL, &context));
	status = pf_peer_open(context, contact->address, contact->length, NULL, &first);
	check("pf_peer_open", status);
	for (;;) {
		status = pf_atomic(first, PF_ATOMIC_ADD, 8, contact->counter, 1, 0, on_complete,
				   &result.range);
		check("pf_atomic", status);
		check("pf_flush", pf_flush(context, first, PF_FOREVER));
		if (result.range >= RANGES)
			break;
		result.primes = count_primes(contact->limit, result.range, RANGES);
		do { /* Without room for the message, progress and the first process make some. */
			pf_progress(context);
			status = pf_send(first, 0, &result, sizeof(result), NULL, 0);
		} while (status == PF_ERR_AGAIN);
		check("pf_send", status);
	}
	pf_close(context); /* messages that pf_send took still arrive */
}

/* ---- the first process ---- */

static uint64_t counter, total;
static char is_known[RANGES];

static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	const struct result *result = data;

	if (length != sizeof(*result) || result->range >= RANGES || is_known[result->range])
		errx(1, "a wrong message");
	is_known[result->range] = 1;
	total += result->primes;
}

static void on_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	if (reason != PF_PEER_LEFT)
		warnx("lost a worker: %s", text);
}

int main(int argc, char **argv)
{
	unsigned long workers = argc == 3 ? strtoul(argv[1], NULL, 10) : 0, living, range;
	struct contact contact = { .counter = (uintptr_t)&counter, .length = PF_ADDRESS_MAX };
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_message,
					 .peer_event = on_end };
	pf_context *context;
	int ends[2];
	pid_t child;

	contact.limit = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	if (!workers || !contact.limit || pipe(ends)) {
		printf("Usage: workqueue WORKERS LIMIT\nCounts the primes below LIMIT.\n");
		return argc != 2 || strcmp(argv[1], "--help");
	}
	setenv("LIBPF_WAKE", "1", 0); /* there may be more processes than cores */
	/* Before pf_open: a child must not use its parent's context. */
	for (living = 0; living < workers; living++) {
		child = fork();
		if (child < 0)
			err(1, "fork");
		if (!child) {
			close(ends[1]);
			if (read(ends[0], &contact, sizeof(contact)) == sizeof(contact))
				work(&contact);
			return 0;
		}
	}
	check("pf_open", pf_open(NULL, &callbacks, &context));
	check("pf_address", pf_address(context, contact.address, &contact.length));
	for (; workers; workers--) {
		if (write(ends[1], &contact, sizeof(contact)) != sizeof(contact))
			err(1, "cannot tell the workers");
	}
	/* Progress executes the atomics and takes the messages. */
	while (pf_wait(context, 10000) || living)
		living -= waitpid(-1, NULL, WNOHANG) > 0;
	for (range = 0; range < RANGES; range++) {
		if (!is_known[range])
			total += count_primes(contact.limit, range, RANGES);
	}
	printf("%lu primes below %lu\n", (unsigned long)total, (unsigned long)contact.limit);
	pf_close(context);
	if (total != count_primes(contact.limit, 0, 1))
		errx(1, "that is wrong");
	return 0;
}
