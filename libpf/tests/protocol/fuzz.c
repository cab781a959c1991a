/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include <malloc.h>
#include <stdlib.h>

static uint8_t arena[FUZZ_ARENA];

/* A smaller quarantine makes the sanitized fuzzers four times as fast. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4:thread_local_quarantine_size_kb=256:"
	       "malloc_context_size=4:max_malloc_fill_size=0";
}

/* For the C library's allocator: do not map rings anew for each execution. */
int LLVMFuzzerInitialize(int *count, char ***arguments)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	return 0;
}

uint64_t fuzz_address(uint64_t offset)
{
	return (uint64_t)(uintptr_t)arena + offset % FUZZ_ARENA;
}

static int look(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		uint64_t *bad)
{
	uint64_t start = (uint64_t)(uintptr_t)arena;
	struct fuzz *fuzz = user;

	if (address < start || length > FUZZ_ARENA || address - start > FUZZ_ARENA - length) {
		*bad = address;
		return PF_ERR_FAULT;
	}
	fuzz->answers = (uint8_t)(fuzz->answers * 5 + 3);
	if (fuzz->answers % 8 || fuzz->waits_count == FUZZ_WAITS)
		return PF_OK;
	fuzz->waits[fuzz->waits_count++] = wait->token;
	return PF_ERR_AGAIN;
}

static int place(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		 uint32_t length, uint64_t *bad)
{
	int status = look(user, wait, address, length, bad);

	if (status == PF_OK)
		memmove((void *)(uintptr_t)address, data, length);
	return status;
}

static unsigned place_many(void *user, const struct net_piece *pieces, unsigned count)
{
	struct fuzz *fuzz = user;
	unsigned i;

	for (i = 0; i < count; i++) {
		fuzz->answers = (uint8_t)(fuzz->answers * 5 + 3);
		if (fuzz->answers % 8 == 0)
			break;
		memmove((void *)(uintptr_t)pieces[i].address, pieces[i].bytes, pieces[i].length);
	}
	return i;
}

static int fetch(void *user, const struct net_wait *wait, uint64_t address, void *to,
		 uint32_t length, uint64_t *bad)
{
	int status = look(user, wait, address, length, bad);

	if (status == PF_OK)
		memcpy(to, (const void *)(uintptr_t)address, length);
	return status;
}

static bool gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	struct fuzz *fuzz = user;
	uint8_t *bytes = to;

	fuzz->answers = (uint8_t)(fuzz->answers * 5 + 3);
	for (; fuzz->answers % 8 && count; bytes += from->iov_len, from++, count--)
		memcpy(bytes, from->iov_base, from->iov_len);
	return !count;
}

static int atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		  uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad)
{
	*value = operand;
	return look(user, wait, wait->address, width, bad);
}

static bool accept_one(void *user, struct net_association *association,
		       const uint8_t id[NET_ID_BYTES], const void *info, size_t length, void **peer)
{
	return ((struct fuzz *)user)->accepts;
}

static size_t packet_most(void *user, const struct net_endpoint *endpoint)
{
	return 1472;
}

static void not_random(void *user, void *bytes, size_t length)
{
	memset(bytes, 3, length);
}

void fuzz_open(struct fuzz *fuzz, uint8_t choices)
{
	struct net_memory_operations memory = {
		.source = look,
		.destination = look,
		.place = place,
		.place_many = place_many,
		.fetch = fetch,
		.gather = gather,
		.atomic = atomic,
		.user = fuzz,
	};
	struct net_callbacks callbacks = {
		.accept = accept_one,
		.packet_most = packet_most,
		.random = not_random,
		.user = fuzz,
	};
	static const struct net_endpoint endpoint;
	struct net_options options;
	uint8_t id[NET_ID_BYTES] = { 9 };
	static struct net_batch batch;
	static _Alignas(8) uint8_t room[NET_BATCH_BYTES + 2048];

	*fuzz = (struct fuzz){ .now = 1000000000, .answers = choices, .batch = &batch };
	batch.room = room;
	net_options_init(&options);
	options.block_size = 4096;
	options.auth = choices & 8 ? NET_AUTH_ENCRYPT :
		       choices & 4 ? NET_AUTH_FULL :
				     NET_AUTH_HEADER;
	options.fault_mode = choices & 1 ? NET_FAULT_BACKUP : NET_FAULT_NACK;
	options.backup_ring = 4096;
	fuzz->accepts = choices & 2;
	fuzz->core = net_create(&options, &memory, &callbacks);
	if (!fuzz->core)
		abort();
	fuzz->core->shared.now = fuzz->now;
	fuzz->association = core_add(fuzz->core, id, NULL, 0);
	if (!fuzz->association || !association_path(fuzz->association, 0, &endpoint))
		abort();
	fuzz->association->state = ACCEPTED;
	fuzz->association->accepter = true;
	fuzz->association->peer_index = 1;
	association_opened(fuzz->association);
	fuzz->association->heard = fuzz->now;
	memset(&fuzz->association->receiving, 1, sizeof(fuzz->association->receiving));
	memset(&fuzz->association->sending, 2, sizeof(fuzz->association->sending));
}

void fuzz_close(struct fuzz *fuzz)
{
	fuzz_hand_in(fuzz);
	net_destroy(fuzz->core);
}

static void seal(struct fuzz *fuzz, enum fuzz_kind kind, uint8_t *bytes, size_t *length)
{
	enum net_auth auth = fuzz->core->shared.options.auth;
	size_t control = wire_get16(bytes + 18) & ~7u;
	const struct auth_keys *keys = &fuzz->association->receiving;

	if (control > WIRE_CONTROL_MOST)
		control = WIRE_CONTROL_MOST;
	if (control > *length - WIRE_HEADER)
		control = (*length - WIRE_HEADER) & ~(size_t)7;
	wire_put16(bytes + 18, (uint16_t)control);
	bytes[16] = (uint8_t)(WIRE_VERSION << 4 | (bytes[16] & 7));
	bytes[17] &= 3;
	if (kind == FUZZ_HELLO) {
		bytes[16] = WIRE_OPENING << 4 | WIRE_HELLO;
		wire_put64(bytes + 20, 0);
		auth_tag(bytes, control, fuzz->core->shared.hello_key, 0);
		return;
	}
	if ((bytes[16] & 15) < WIRE_FRAMES)
		bytes[16] += 2;
	wire_put32(bytes + 20, fuzz->association->index);
	/* The next number, unless a byte of the input gives another one. */
	fuzz->number += bytes[24] & 0x80 ? bytes[24] & 0x7f : 1;
	wire_put32(bytes + 24, (uint32_t)fuzz->number);
	if (auth == NET_AUTH_FULL && control >= WIRE_DIGEST)
		wire_put64(bytes + WIRE_HEADER + control - WIRE_DIGEST,
			   auth_digest(keys, bytes + WIRE_HEADER + control,
				       *length - WIRE_HEADER - control));
	if (auth == NET_AUTH_ENCRYPT) {
		auth_encrypt(keys, bytes, fuzz->number, *length - WIRE_HEADER);
		*length += WIRE_MAC;
	}
	auth_tag(bytes, control, keys->hash, fuzz->number);
}

void fuzz_packet(struct fuzz *fuzz, enum fuzz_kind kind, const uint8_t *bytes, size_t length)
{
	static const struct net_endpoint endpoint = { { 1 } };
	struct net_packet packet = { .from = &endpoint };
	uint8_t *header, *payload = NULL;
	size_t cut = length;

	if (fuzz->held_count == FUZZ_HELD)
		fuzz_hand_in(fuzz);
	fuzz->lent = length % 3;
	if (length > FUZZ_PACKET_MOST)
		length = FUZZ_PACKET_MOST;
	/* Exactly as long as the packet: a sanitizer notices a read behind its end. */
	header = malloc(length + WIRE_MAC + 1);
	if (!header)
		abort();
	if (length)
		memcpy(header, bytes, length);
	if (kind != FUZZ_RAW && length >= WIRE_HEADER)
		seal(fuzz, kind, header, &length);
	if (kind == FUZZ_SCATTERED && length > 48) {
		cut = length % 5 ? 48 : length % 48;
		payload = malloc(length - cut);
		memcpy(payload, header + cut, length - cut);
		packet.payload = payload;
		packet.payload_length = (uint32_t)(length - cut);
	} else {
		cut = length;
	}
	packet.header = realloc(header, cut + 1);
	packet.header_length = (uint32_t)cut;
	fuzz->held[fuzz->held_count++] = packet;
}

void fuzz_hand_in(struct fuzz *fuzz)
{
	struct net_packet packets[FUZZ_HELD];

	if (!fuzz->held_count)
		return;
	/* The core changes what it is given. */
	memcpy(packets, fuzz->held, sizeof(packets));
	net_input(fuzz->core, fuzz->now, packets, fuzz->held_count, fuzz->lent);
	if (fuzz->lent)
		fuzz_take(fuzz);
	while (fuzz->held_count) {
		struct net_packet *packet = &fuzz->held[--fuzz->held_count];

		free(packet->header);
		free(packet->payload);
	}
}

void fuzz_take(struct fuzz *fuzz)
{
	struct net_event event;
	volatile uint8_t sum = 0;
	unsigned p;
	size_t i;

	while (net_take(fuzz->core, &event)) {
		if (event.kind == NET_NOTICE)
			net_resolved(fuzz->core, event.token, PF_OK, 0);
		if (event.kind != NET_MESSAGE)
			continue;
		if (event.pieces == 1)
			event.piece[0] = (struct iovec){ event.data, event.length };
		for (p = 0; p < event.pieces; p++) {
			const uint8_t *bytes = event.piece[p].iov_base;

			for (i = 0; i < event.piece[p].iov_len; i += 64)
				sum = (uint8_t)(sum + bytes[i]);
		}
	}
}

void fuzz_output(struct fuzz *fuzz)
{
	volatile uint8_t sum = 0;
	unsigned i;

	while (net_output(fuzz->core, fuzz->now, fuzz->batch)) {
		for (i = 0; i < fuzz->batch->vectors; i++) {
			const struct iovec *vector = &fuzz->batch->vector[i];
			const uint8_t *bytes = vector->iov_base;

			if (vector->iov_len)
				sum = (uint8_t)(sum + bytes[0] + bytes[vector->iov_len - 1]);
		}
	}
}
