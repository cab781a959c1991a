/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measure the cost of the protocol without sockets: two cores in one process exchange packets by
 * pointer. The payload of a transfer stays in place, as if the socket had put it there. Prints ns
 * of processor time for each packet and each message, both ends together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/net.h"

#define ARENA ((size_t)16 << 20)
#define QUEUE 256

struct end {
	struct net_core *core;
	struct net_association *peer;
	struct net_batch batch;
	uint64_t completed, delivered;
	size_t packet;
};

static uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int look(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		uint64_t *bad)
{
	return PF_OK;
}

static int place(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		 uint32_t length, uint64_t *bad)
{
	return PF_OK;
}

static int fetch(void *user, const struct net_wait *wait, uint64_t address, void *to,
		 uint32_t length, uint64_t *bad)
{
	memcpy(to, (const void *)(uintptr_t)address, length);
	return PF_OK;
}

static bool gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	uint8_t *bytes = to;

	for (; count; bytes += from->iov_len, from++, count--)
		memcpy(bytes, from->iov_base, from->iov_len);
	return true;
}

static int no_atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		     uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad)
{
	return PF_ERR_FAULT;
}

static bool deliver(void *user, struct net_association *from, uint8_t tag, void *data,
		    size_t length)
{
	((struct end *)user)->delivered++;
	return true;
}

static void complete(void *user, struct net_association *association, void *arg,
		     const struct net_completion *completion)
{
	((struct end *)user)->completed++;
}

static bool accept_all(void *user, struct net_association *association,
		       const uint8_t id[NET_ID_BYTES], const void *info, size_t length, void **peer)
{
	return true;
}

static void gone(void *user, struct net_association *association, int status, const char *why)
{
	fprintf(stderr, "gone: %s\n", why);
	exit(1);
}

static size_t packet_most(void *user, const struct net_endpoint *endpoint)
{
	return ((struct end *)user)->packet;
}

static void not_random(void *user, void *bytes, size_t length)
{
	memset(bytes, 5, length);
}

static void start(struct end *end, uint8_t number, enum net_auth auth)
{
	struct net_options options;
	struct net_callbacks callbacks = {
		look,     look,       place, fetch,       gather,     no_atomic, deliver,
		complete, accept_all, gone,  packet_most, not_random, end,
	};

	net_options_init(&options);
	options.auth = auth;
	memset(options.id, number, sizeof(options.id));
	memset(options.key, number, sizeof(options.key));
	end->core = net_create(&options, &callbacks);
	end->batch.room = auth == NET_AUTH_HEADER ? NULL : malloc(NET_BATCH_BYTES + 2048);
	if (!end->core || (auth != NET_AUTH_HEADER && !end->batch.room))
		exit(1);
}

/* Hand over all packets of one end to the other, and return their number. */
static unsigned hand_over(struct end *from, struct end *to, uint64_t now)
{
	static const struct net_endpoint endpoint;
	static uint8_t gathered[NET_BATCH_MOST][256 + 9000];
	struct net_packet packets[NET_BATCH_MOST];
	struct net_place places[NET_BATCH_MOST];
	uint32_t header;
	struct net_batch *batch = &from->batch;
	unsigned total = 0, i, v;

	while (net_output(from->core, now, batch)) {
		for (i = v = 0; i < batch->count; i++) {
			uint32_t length = i + 1 < batch->count ? batch->segment :
								 batch->length - i * batch->segment;
			struct iovec *first = &batch->vector[v++];

			packets[i] = (struct net_packet){ .header = first->iov_base,
							  .header_length = (uint32_t)first->iov_len,
							  .from = &endpoint };
			if (first->iov_len == length)
				continue;
			packets[i].payload = batch->vector[v].iov_base;
			packets[i].payload_length = (uint32_t)batch->vector[v++].iov_len;
			if (length > 9000 || first->iov_len == 48)
				continue;
			/* As received from a socket: in one piece. */
			memcpy(gathered[i], first->iov_base, first->iov_len);
			memcpy(gathered[i] + first->iov_len, packets[i].payload,
			       packets[i].payload_length);
			packets[i].header = gathered[i];
			packets[i].header_length = length;
			packets[i].payload_length = 0;
		}
		/* The engine does this before it receives. */
		net_predict(to->core, now, places, NET_BATCH_MOST, &header);
		net_input(to->core, now, packets, batch->count);
		total += batch->count;
	}
	return total;
}

static uint64_t run(struct end *ends, uint64_t *now, uint64_t until_completed,
		    uint64_t until_delivered)
{
	uint64_t packets = 0;

	while (ends[0].completed < until_completed || ends[1].delivered < until_delivered) {
		unsigned moved = hand_over(&ends[0], &ends[1], *now);

		*now += 5000;
		moved += hand_over(&ends[1], &ends[0], *now);
		*now += 5000;
		packets += moved;
		if (!moved) {
			net_advance(ends[0].core, *now);
			net_advance(ends[1].core, *now);
		}
	}
	return packets;
}

static void measure(size_t packet, enum net_auth auth, const char *name)
{
	static struct end ends[2];
	static const struct net_endpoint endpoint;
	uint8_t id[NET_ID_BYTES], key[NET_KEY_BYTES];
	char *memory = calloc(1, ARENA);
	uint64_t now = 1000000000, begin, packets, took, i, sent = 0;
	char byte = 1;

	memset(ends, 0, sizeof(ends));
	ends[0].packet = ends[1].packet = packet;
	start(&ends[0], 1, auth);
	start(&ends[1], 2, auth);
	memset(id, 2, sizeof(id));
	memset(key, 2, sizeof(key));
	ends[0].peer = net_open(ends[0].core, id, key, &endpoint, NULL, 0, NULL);
	for (i = 0; i < 16; i++)
		net_put(ends[0].peer, (uint64_t)(uintptr_t)memory, (uint64_t)(uintptr_t)memory,
			ARENA, NULL);
	run(ends, &now, ends[0].completed + 16, 0);
	for (i = 0; i < 64; i++)
		net_put(ends[0].peer, (uint64_t)(uintptr_t)memory, (uint64_t)(uintptr_t)memory,
			ARENA, NULL);
	begin = clock_now();
	packets = run(ends, &now, ends[0].completed + 64, 0);
	took = clock_now() - begin;
	printf("%-8s %5zu bytes: %6.1f ns a packet, %.1f GB/s", name, packet,
	       (double)took / (double)packets, 64.0 * (double)ARENA / (double)took);
	begin = clock_now();
	while (sent < 1000000) {
		if (net_send(ends[0].peer, 1, NULL, 0, &byte, 1) == PF_DONE)
			sent++;
		else
			run(ends, &now, 0, ends[1].delivered + 1);
	}
	run(ends, &now, 0, sent);
	took = clock_now() - begin;
	printf(", one-byte message %.1f ns\n", (double)took / (double)sent);
	net_destroy(ends[0].core);
	net_destroy(ends[1].core);
	free(ends[0].batch.room);
	free(ends[1].batch.room);
	free(memory);
}

int main(void)
{
	measure(8952, NET_AUTH_HEADER, "header");
	measure(1472, NET_AUTH_HEADER, "header");
	measure(8952, NET_AUTH_FULL, "full");
	return 0;
}
