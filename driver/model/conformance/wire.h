/* SPDX-License-Identifier: GPL-2.0 */
/* Packets of the link as bytes, at the offsets of engine.md, section 9. */
#ifndef CONFORMANCE_WIRE_H
#define CONFORMANCE_WIRE_H

#include <stdint.h>
#include <string.h>

#include "guest.h"

enum wire_type {
	WIRE_HELLO = 1,
	WIRE_PUT,
	WIRE_GET,
	WIRE_ATOMIC,
	WIRE_CANCEL,
	WIRE_DATA,
	WIRE_ACK,
	WIRE_NACK,
	WIRE_AGAIN,
};

struct wire {
	uint8_t bytes[GUEST_PACKET];
	size_t length;
};

static inline void wire_set32(struct wire *wire, unsigned int offset, uint32_t value)
{
	memcpy(wire->bytes + offset, &value, 4);
}

static inline void wire_set64(struct wire *wire, unsigned int offset, uint64_t value)
{
	memcpy(wire->bytes + offset, &value, 8);
}

static inline uint32_t wire_get32(const struct wire *wire, unsigned int offset)
{
	uint32_t value;

	memcpy(&value, wire->bytes + offset, 4);
	return value;
}

static inline uint64_t wire_get64(const struct wire *wire, unsigned int offset)
{
	uint64_t value;

	memcpy(&value, wire->bytes + offset, 8);
	return value;
}

/* A packet of node `peer`, of incarnation 1000 + peer as guest_open gives it, to a guest. */
static inline void wire_begin(struct wire *wire, uint8_t type, size_t length, uint32_t peer,
			      uint32_t node, uint64_t sequence, uint32_t slot)
{
	memset(wire, 0, sizeof(*wire));
	wire->length = length;
	wire->bytes[0] = 1;
	wire->bytes[1] = type;
	wire_set32(wire, 4, (uint32_t)length);
	wire_set32(wire, 8, peer);
	wire_set32(wire, 12, node);
	wire_set64(wire, 16, 1000 + peer);
	wire_set64(wire, 24, 1000 + node);
	wire_set64(wire, 32, sequence);
	wire_set32(wire, 40, slot);
}

/* The request of a PUT, GET or ATOMIC. */
static inline void wire_request(struct wire *wire, const struct tables *tables, uint64_t address,
				uint32_t length)
{
	wire_set64(wire, 48, tables->key[0]);
	wire_set64(wire, 56, tables->key[1]);
	wire_set32(wire, 64, tables->space);
	wire_set32(wire, 68, tables->generation);
	wire_set64(wire, 72, address);
	wire_set32(wire, 80, length);
}

#endif
