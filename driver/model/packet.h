/* SPDX-License-Identifier: GPL-2.0 */
/* The packets of the link: engine.md, sections 9.1 and 9.2. */
#ifndef MODEL_PACKET_H
#define MODEL_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_SIZE 16384u
#define BLOCK_SLOTS 256u
#define GRANULE 256u
#define PACKET_PAYLOAD 4096u
#define PACKET_MAX (96u + PACKET_PAYLOAD)

enum packet_type {
	PACKET_HELLO = 1,
	PACKET_PUT = 2,
	PACKET_GET = 3,
	PACKET_ATOMIC = 4,
	PACKET_CANCEL = 5,
	PACKET_DATA = 6,
	PACKET_ACK = 7,
	PACKET_NACK = 8,
	PACKET_AGAIN = 9,
};

/* What says which memory of the target a block is for. */
struct request {
	uint64_t key[2];
	uint32_t space, generation;
	uint64_t address;
	uint32_t length;
};

struct packet {
	uint8_t type;
	uint32_t source, destination;
	uint64_t incarnation, peer_incarnation;
	uint64_t sequence;
	uint32_t slot;
	struct request request; /* PUT, GET, ATOMIC, as is: */
	uint32_t ahead;
	uint64_t mask;   /* GET, AGAIN */
	uint32_t offset; /* PUT, DATA, as are: */
	uint32_t payload_length;
	const uint8_t *payload; /* in the packet's bytes */
	uint8_t atomic;         /* ATOMIC, as are: */
	uint64_t operand, compare;
	uint32_t status; /* ACK, as are: */
	uint64_t value, address;
};

/* The granules of a block, and those that a part of it covers: masks. */
static inline uint64_t granules_of(uint32_t length)
{
	uint32_t count = (length + GRANULE - 1) / GRANULE;

	return count >= 64 ? UINT64_MAX : (1ull << count) - 1;
}

static inline uint64_t granules_in(uint32_t offset, uint32_t length)
{
	return granules_of(length) << (offset / GRANULE);
}

/* The longest part of a block that begins with the first granule of the mask and holds only such. */
void granules_first(uint64_t mask, uint32_t block_length, uint32_t most, uint32_t *offset,
		    uint32_t *length);

/* Check what can be checked without a state, and decode. false: malformed. */
bool packet_parse(const uint8_t *bytes, size_t length, struct packet *packet);

/* Where the payload of a PUT or DATA goes in the bytes of the packet. */
size_t packet_payload_offset(uint8_t type);

/* Encode all but the payload. Returns the length of the packet. */
size_t packet_build(const struct packet *packet, uint8_t bytes[PACKET_MAX]);

#endif
