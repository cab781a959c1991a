// SPDX-License-Identifier: GPL-2.0
#include "packet.h"

#include <endian.h>
#include <string.h>

#include "../registers.h"
#include "../uapi/exanest.h"

#define HEADER 48u
#define REQUEST 88u
#define VERSION 1
#define ADDRESS_LIMIT (1ull << 57)

static uint32_t get32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return le64toh(value);
}

static void put32(uint8_t *bytes, uint32_t value)
{
	value = htole32(value);
	memcpy(bytes, &value, sizeof(value));
}

static void put64(uint8_t *bytes, uint64_t value)
{
	value = htole64(value);
	memcpy(bytes, &value, sizeof(value));
}

void granules_first(uint64_t mask, uint32_t block_length, uint32_t most, uint32_t *offset,
		    uint32_t *length)
{
	unsigned int first = (unsigned int)__builtin_ctzll(mask), count = 0;

	while (count < most / GRANULE && first + count < 64 && mask >> (first + count) & 1)
		count++;
	*offset = first * GRANULE;
	*length = count * GRANULE;
	if (*length > block_length - *offset)
		*length = block_length - *offset;
}

/* Length without payload of each type; 0: there is no such type. */
static size_t fixed_length(uint8_t type)
{
	switch (type) {
	case PACKET_HELLO:
	case PACKET_CANCEL:
	case PACKET_NACK:
		return HEADER;
	case PACKET_PUT:
	case PACKET_GET:
		return REQUEST + 8;
	case PACKET_ATOMIC:
		return REQUEST + 24;
	case PACKET_DATA:
	case PACKET_AGAIN:
		return HEADER + 8;
	case PACKET_ACK:
		return HEADER + 24;
	default:
		return 0;
	}
}

size_t packet_payload_offset(uint8_t type)
{
	return fixed_length(type);
}

static bool parse_request(const uint8_t *bytes, struct packet *packet)
{
	struct request *request = &packet->request;

	request->key[0] = get64(bytes + 48);
	request->key[1] = get64(bytes + 56);
	request->space = get32(bytes + 64);
	request->generation = get32(bytes + 68);
	request->address = get64(bytes + 72);
	request->length = get32(bytes + 80);
	packet->ahead = get32(bytes + 84);
	return request->length && request->length <= BLOCK_SIZE &&
	       request->address <= ADDRESS_LIMIT - request->length;
}

/* That of a DATA is checked against the length of its block by the initiator. */
static bool parse_payload(const uint8_t *bytes, struct packet *packet, size_t at)
{
	packet->offset = get32(bytes + at - 8);
	packet->payload_length = get32(bytes + at - 4);
	packet->payload = bytes + at;
	return packet->payload_length <= PACKET_PAYLOAD && !(packet->offset % GRANULE) &&
	       packet->offset <= BLOCK_SIZE - packet->payload_length;
}

static bool ends_granule(const struct packet *packet, uint32_t block_length)
{
	uint32_t end = packet->offset + packet->payload_length;

	return end <= block_length && (!(end % GRANULE) || end == block_length);
}

static bool parse_put(const uint8_t *bytes, struct packet *packet)
{
	return parse_request(bytes, packet) && parse_payload(bytes, packet, REQUEST + 8) &&
	       ends_granule(packet, packet->request.length) &&
	       (packet->payload_length || !packet->offset);
}

static bool parse_get(const uint8_t *bytes, struct packet *packet)
{
	packet->mask = get64(bytes + REQUEST);
	return parse_request(bytes, packet) && packet->mask &&
	       !(packet->mask & ~granules_of(packet->request.length));
}

static bool parse_atomic(const uint8_t *bytes, struct packet *packet)
{
	static const uint8_t zeros[7];

	packet->atomic = bytes[REQUEST];
	packet->operand = get64(bytes + REQUEST + 8);
	packet->compare = get64(bytes + REQUEST + 16);
	return parse_request(bytes, packet) && !memcmp(bytes + REQUEST + 1, zeros, sizeof(zeros)) &&
	       packet->atomic <= EXANEST_ATOMIC_COMPARE_SWAP &&
	       (packet->request.length == 4 || packet->request.length == 8) &&
	       !(packet->request.address % packet->request.length);
}

static bool parse_ack(const uint8_t *bytes, struct packet *packet)
{
	packet->status = get32(bytes + HEADER);
	packet->value = get64(bytes + HEADER + 8);
	packet->address = get64(bytes + HEADER + 16);
	return !get32(bytes + HEADER + 4);
}

static bool parse_body(const uint8_t *bytes, struct packet *packet)
{
	switch (packet->type) {
	case PACKET_PUT:
		return parse_put(bytes, packet);
	case PACKET_GET:
		return parse_get(bytes, packet);
	case PACKET_ATOMIC:
		return parse_atomic(bytes, packet);
	case PACKET_DATA:
		return parse_payload(bytes, packet, HEADER + 8) && packet->payload_length;
	case PACKET_ACK:
		return parse_ack(bytes, packet);
	case PACKET_AGAIN:
		packet->mask = get64(bytes + HEADER);
		return packet->mask;
	default:
		return true;
	}
}

bool packet_parse(const uint8_t *bytes, size_t length, struct packet *packet)
{
	size_t fixed;

	memset(packet, 0, sizeof(*packet));
	if (length < HEADER || bytes[0] != VERSION)
		return false;
	packet->type = bytes[1];
	fixed = fixed_length(packet->type);
	if (!fixed || length < fixed || get32(bytes + 4) != length)
		return false;
	if (bytes[2] || bytes[3] || get32(bytes + 44))
		return false;
	packet->source = get32(bytes + 8);
	packet->destination = get32(bytes + 12);
	packet->incarnation = get64(bytes + 16);
	packet->peer_incarnation = get64(bytes + 24);
	packet->sequence = get64(bytes + 32);
	packet->slot = get32(bytes + 40);
	if (!packet->incarnation || packet->slot >= BLOCK_SLOTS)
		return false;
	if (packet->type == PACKET_HELLO ? packet->sequence || packet->slot : !packet->sequence)
		return false;
	return parse_body(bytes, packet) && length == fixed + packet->payload_length;
}

static void build_request(const struct packet *packet, uint8_t *bytes)
{
	const struct request *request = &packet->request;

	put64(bytes + 48, request->key[0]);
	put64(bytes + 56, request->key[1]);
	put32(bytes + 64, request->space);
	put32(bytes + 68, request->generation);
	put64(bytes + 72, request->address);
	put32(bytes + 80, request->length);
	put32(bytes + 84, packet->ahead);
}

size_t packet_build(const struct packet *packet, uint8_t bytes[PACKET_MAX])
{
	size_t fixed = fixed_length(packet->type), length = fixed + packet->payload_length;

	memset(bytes, 0, fixed);
	bytes[0] = VERSION;
	bytes[1] = packet->type;
	put32(bytes + 4, (uint32_t)length);
	put32(bytes + 8, packet->source);
	put32(bytes + 12, packet->destination);
	put64(bytes + 16, packet->incarnation);
	put64(bytes + 24, packet->peer_incarnation);
	put64(bytes + 32, packet->sequence);
	put32(bytes + 40, packet->slot);
	switch (packet->type) {
	case PACKET_PUT:
	case PACKET_DATA:
		put32(bytes + fixed - 8, packet->offset);
		put32(bytes + fixed - 4, packet->payload_length);
		break;
	case PACKET_GET:
		put64(bytes + REQUEST, packet->mask);
		break;
	case PACKET_ATOMIC:
		bytes[REQUEST] = packet->atomic;
		put64(bytes + REQUEST + 8, packet->operand);
		put64(bytes + REQUEST + 16, packet->compare);
		break;
	case PACKET_ACK:
		put32(bytes + HEADER, packet->status);
		put64(bytes + HEADER + 8, packet->value);
		put64(bytes + HEADER + 16, packet->address);
		break;
	case PACKET_AGAIN:
		put64(bytes + HEADER, packet->mask);
		break;
	default:
		break;
	}
	if (packet->type == PACKET_PUT || packet->type == PACKET_GET ||
	    packet->type == PACKET_ATOMIC)
		build_request(packet, bytes);
	return length;
}
