// SPDX-License-Identifier: GPL-2.0
/* The formats of packets. */
#include <string.h>

#include "granule.h"
#include "packet.h"

size_t set_header(struct engine *e, struct packet *p, const struct peer *peer, u8 type, u32 slot,
		  u64 sequence, u32 length)
{
	p->version = PACKET_VERSION;
	p->type = type;
	p->length = length;
	p->source = e->node;
	p->destination = peer->node;
	p->incarnation = e->incarnation;
	p->peer_incarnation = peer->incarnation;
	p->sequence = sequence;
	p->slot = slot;
	return length;
}

/* Check that a range is within a block and, at its end, of whole granules. */
static bool is_payload_valid(const struct payload *payload, u32 block_length)
{
	u64 end = (u64)payload->offset + payload->length;

	return payload->offset % GRANULE == 0 && end <= block_length &&
	       (end % GRANULE == 0 || end == block_length);
}

/* Check the length of the type, and that reserved fields are 0. */
bool is_length_valid(const struct packet *p, size_t length)
{
	static const u8 zeros[7];

	switch (p->type) {
	case PACKET_HELLO:
	case PACKET_CANCEL:
	case PACKET_NACK:
		return length == LENGTH_HEADER;
	case PACKET_PUT:
		return length >= LENGTH_PUT && length - LENGTH_PUT == p->put.length;
	case PACKET_GET:
		return length == LENGTH_GET;
	case PACKET_ATOMIC:
		return length == LENGTH_ATOMIC && !memcmp(p->atomic.reserved, zeros, sizeof(zeros));
	case PACKET_DATA:
		return length >= LENGTH_DATA && length - LENGTH_DATA == p->data.length;
	case PACKET_ACK:
		return length == LENGTH_ACK && !p->ack.reserved;
	case PACKET_AGAIN:
		return length == LENGTH_AGAIN;
	default:
		return false;
	}
}

/* Check the fields of the type; those of a response that depend on the block are checked later. */
bool is_body_valid(const struct packet *p)
{
	const struct request *q = &p->request;

	if (p->type == PACKET_PUT || p->type == PACKET_GET) {
		if (q->length < 1 || q->length > BLOCK_SIZE)
			return false;
	} else if (p->type == PACKET_ATOMIC) {
		if ((q->length != 4 && q->length != 8) || q->address % q->length ||
		    p->atomic.operation > ATOMIC_COMPARE)
			return false;
	}
	if (p->type == PACKET_PUT || p->type == PACKET_GET || p->type == PACKET_ATOMIC)
		if (q->address > LINK_ADDRESS_LIMIT || q->length > LINK_ADDRESS_LIMIT - q->address)
			return false;

	switch (p->type) {
	case PACKET_PUT:
		if (p->put.length == 0)
			return p->put.offset == 0;
		return is_payload_valid(&p->put, q->length);
	case PACKET_GET:
		return p->get_mask && !(p->get_mask & ~granules(0, q->length));
	case PACKET_DATA:
		return p->data.length && p->data.length <= PACKET_PAYLOAD &&
		       p->data.offset % GRANULE == 0 && p->data.offset < BLOCK_SIZE;
	case PACKET_AGAIN:
		return p->again_mask;
	default:
		return true;
	}
}
