/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: pieces of the message stream with a header each. */
#include "core.h"

static int reserve(struct net_association *association, uint8_t tag, size_t length, uint8_t **place)
{
	struct stream_out *out;
	uint8_t *bytes;
	bool memory;
	int status;

	if (length > NET_MESSAGE_MOST)
		return PF_ERR_TOO_LONG;
	status = association_use(association);
	if (status != PF_OK)
		return status;
	out = &association->busy->out[STREAM_MESSAGE];
	bytes = stream_out_reserve(out, WIRE_MESSAGE_HEADER + wire_pad(length), &memory);
	if (!bytes)
		return memory ? PF_ERR_MEMORY : PF_ERR_AGAIN;
	wire_put32(bytes, (uint32_t)length);
	wire_put32(bytes + 4, tag);
	/* The last eight, where they are not all used. */
	if (length % 8)
		wire_put64(bytes + WIRE_MESSAGE_HEADER + (length & ~(size_t)7), 0);
	*place = bytes + WIRE_MESSAGE_HEADER;
	return PF_OK;
}

static int commit(struct net_association *association, size_t length)
{
	stream_out_commit(&association->busy->out[STREAM_MESSAGE],
			  WIRE_MESSAGE_HEADER + wire_pad(length));
	association_wake(association);
	return PF_DONE;
}

int net_send(struct net_association *association, uint8_t tag, const void *header,
	     size_t header_length, const void *payload, size_t payload_length)
{
	uint8_t *place;
	int status;

	if (header_length > NET_MESSAGE_MOST || payload_length > NET_MESSAGE_MOST)
		return PF_ERR_TOO_LONG;
	status = reserve(association, tag, header_length + payload_length, &place);
	if (status != PF_OK)
		return status;
	if (header_length)
		memcpy(place, header, header_length);
	if (payload_length)
		memcpy(place + header_length, payload, payload_length);
	return commit(association, header_length + payload_length);
}

int net_send_pack(struct net_association *association, uint8_t tag, const void *header,
		  size_t header_length, size_t length, pf_pack_fn pack, void *arg)
{
	uint8_t *place;
	int status;

	if (header_length > NET_MESSAGE_MOST || length > NET_MESSAGE_MOST)
		return PF_ERR_TOO_LONG;
	status = reserve(association, tag, header_length + length, &place);
	if (status != PF_OK)
		return status;
	if (header_length)
		memcpy(place, header, header_length);
	pack(place + header_length, length, arg);
	return commit(association, header_length + length);
}

static bool hand_out(struct net_association *association, uint8_t *message, uint32_t length)
{
	struct net_core *core = association->core;

	return core->callbacks.deliver(core->callbacks.user, association, message[4],
				       message + WIRE_MESSAGE_HEADER, length);
}

/* Try again when the user asks for it. */
static void turned_away(struct net_association *association)
{
	struct net_core *core = association->core;

	if (association->undelivered)
		return;
	association->undelivered = true;
	association->next_undelivered = core->undelivered;
	core->undelivered = association;
}

/* Tell the peer of the room that there is now, before it has to ask. */
static void offer_credit(struct net_association *association)
{
	struct busy *busy = association->busy;
	const struct stream_in *in = &busy->in[STREAM_MESSAGE];
	struct path *path;

	if (in->taken + in->size - busy->credit_told < in->size / 4)
		return;
	path = association->paths[association_best_path(association, 0)];
	if (!path->window.next)
		return;
	path->window.due = association->core->now;
	association_wake(association);
}

bool message_deliver(struct net_association *association)
{
	struct stream_in *in = &association->busy->in[STREAM_MESSAGE];

	while (in->next - in->taken >= WIRE_MESSAGE_HEADER) {
		uint8_t *message = stream_in_peek(in, WIRE_MESSAGE_HEADER);
		uint32_t length = wire_get32(message);
		size_t whole = WIRE_MESSAGE_HEADER + wire_pad(length);

		if (length > NET_MESSAGE_MOST)
			return false;
		if (in->next - in->taken < whole)
			break;
		if (!hand_out(association, stream_in_peek(in, whole), length)) {
			turned_away(association);
			break;
		}
		in->taken += whole;
	}
	offer_credit(association);
	return true;
}

bool message_arrived(struct net_association *association, uint64_t position, uint8_t *bytes,
		     uint32_t length, bool *taken)
{
	struct stream_in *in = &association->busy->in[STREAM_MESSAGE];

	if (position % 8 || length % 8)
		return false;
	/* What comes whole and in order needs no copy. */
	while (position == in->next && in->taken == in->next && !in->ahead.count &&
	       length >= WIRE_MESSAGE_HEADER && !association->undelivered) {
		uint32_t message = wire_get32(bytes);
		size_t whole = WIRE_MESSAGE_HEADER + wire_pad(message);

		if (message > NET_MESSAGE_MOST)
			return false;
		if (whole > length || !hand_out(association, bytes, message))
			break;
		in->taken += whole;
		in->next = in->taken;
		bytes += whole;
		position += whole;
		length -= (uint32_t)whole;
	}
	if (!length) {
		offer_credit(association);
		return true;
	}
	*taken = stream_in_add(in, position, bytes, length);
	return association->undelivered || message_deliver(association);
}

unsigned net_deliver(struct net_core *core)
{
	struct net_association *association, *list = core->undelivered;
	unsigned count = 0;

	core->undelivered = NULL;
	while ((association = list)) {
		uint64_t before;

		list = association->next_undelivered;
		association->undelivered = false;
		if (!association->busy)
			continue;
		before = association->busy->in[STREAM_MESSAGE].taken;
		if (!message_deliver(association))
			association_fail(association, PF_ERR_PROTOCOL, "malformed message stream");
		else if (association->busy->in[STREAM_MESSAGE].taken != before)
			count++;
		association_delivered(association);
		core_schedule(core, association);
	}
	return count;
}
