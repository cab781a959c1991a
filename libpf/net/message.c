/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

int message_reserve(struct exchange *exchange, uint8_t tag, size_t length, uint8_t **place)
{
	struct stream_out *out = &exchange->out[STREAM_MESSAGE];
	uint8_t *bytes;
	bool memory;

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

void message_commit(struct exchange *exchange, size_t length)
{
	stream_out_commit(&exchange->out[STREAM_MESSAGE], WIRE_MESSAGE_HEADER + wire_pad(length));
	exchange->effects |= EFFECT_OUTPUT;
}

/* Tell the peer of the room that there is now, before it has to ask. */
static void offer_credit(struct exchange *exchange)
{
	const struct stream_in *in = &exchange->in[STREAM_MESSAGE];

	if (in->taken + in->size - exchange->credit_told >= in->size / 4)
		exchange->effects |= EFFECT_CREDIT;
}

/*
 * Bytes of the whole messages at the beginning of a piece of the stream. False: the
 * peer broke the rules.
 */
static bool measure(const uint8_t *bytes, uint32_t length, uint32_t *whole)
{
	*whole = 0;
	while (length - *whole >= WIRE_MESSAGE_HEADER) {
		uint32_t message = wire_get32(bytes + *whole);
		size_t size = WIRE_MESSAGE_HEADER + wire_pad(message);

		if (message > NET_MESSAGE_MOST)
			return false;
		if (size > length - *whole)
			break;
		*whole += (uint32_t)size;
	}
	return true;
}

/* Leave messages where they came. */
static void add_run(struct exchange *exchange, uint8_t *bytes, uint32_t length)
{
	struct shared *shared = exchange->shared;

	shared->runs[shared->runs_end++] = (struct message_run){ exchange->association, bytes,
								 length };
}

void message_of_run(struct message_run *run, struct message *message)
{
	message->length = wire_get32(run->bytes);
	message->whole = WIRE_MESSAGE_HEADER + (uint32_t)wire_pad(message->length);
	message->tag = run->bytes[4];
	message->bytes = run->bytes + WIRE_MESSAGE_HEADER;
	run->bytes += message->whole;
	run->length -= message->whole;
}

/* Of the ring: the first message, if it is whole. */
static bool peek(struct exchange *exchange, struct message *message, bool *broken)
{
	struct stream_in *in = &exchange->in[STREAM_MESSAGE];

	*broken = false;
	if (in->next - in->taken < WIRE_MESSAGE_HEADER)
		return false;
	message->length = wire_get32(stream_in_peek(in, WIRE_MESSAGE_HEADER));
	*broken = message->length > NET_MESSAGE_MOST;
	message->whole = WIRE_MESSAGE_HEADER + (uint32_t)wire_pad(message->length);
	return !*broken && in->next - in->taken >= message->whole;
}

bool message_next(struct exchange *exchange, struct message *message, bool *broken)
{
	struct stream_in *in = &exchange->in[STREAM_MESSAGE];

	if (!peek(exchange, message, broken))
		return false;
	message->bytes = stream_in_peek(in, message->whole);
	message->tag = message->bytes[4];
	message->bytes += WIRE_MESSAGE_HEADER;
	in->taken += message->whole;
	offer_credit(exchange);
	return true;
}

bool message_arrived(struct exchange *exchange, uint64_t position, uint8_t *bytes, uint32_t length,
		     bool *taken)
{
	struct stream_in *in = &exchange->in[STREAM_MESSAGE];
	struct shared *shared = exchange->shared;
	struct message message;
	uint32_t whole;
	bool broken;

	if (position % 8 || length % 8)
		return false;
	/* What comes whole and in order needs no copy. */
	if (shared->lent && shared->runs_end < RUNS_MOST && position == in->next &&
	    in->taken == in->next && !in->ahead.count) {
		if (!measure(bytes, length, &whole))
			return false;
		if (whole) {
			add_run(exchange, bytes, whole);
			in->next = in->taken += whole;
			offer_credit(exchange);
			bytes += whole;
			position += whole;
			length -= whole;
		}
		if (!length)
			return true;
	}
	*taken = stream_in_add(in, position, bytes, length);
	if (exchange->waiting)
		return true;
	if (peek(exchange, &message, &broken)) {
		exchange->waiting = true;
		STAILQ_INSERT_TAIL(&shared->waiting, exchange, next_waiting);
	}
	return !broken;
}
