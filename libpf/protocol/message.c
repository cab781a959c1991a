/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include "base/check.h"

uint32_t message_window(const struct shared *shared)
{
	uint32_t window = MESSAGE_RING_MOST;

	while (window > MESSAGE_RING && (uint64_t)window * shared->busy > MESSAGE_RINGS)
		window /= 2;
	return window;
}

uint32_t message_room(const struct exchange *exchange)
{
	uint64_t room = MESSAGE_RING + exchange->in[STREAM_MESSAGE].taken - exchange->credit_from;
	uint32_t most = message_window(exchange->shared);

	return room < most ? (uint32_t)room : most;
}

uint64_t message_limit(const struct exchange *exchange)
{
	uint64_t limit = exchange->in[STREAM_MESSAGE].taken + message_room(exchange);

	return limit > exchange->credit_told ? limit : exchange->credit_told;
}

/*
 * Grow a full ring. The receiver may have no room yet: the application keeps what the ring does not take,
 * and may compute for long before it calls again; the service thread sends what the ring takes. TCP's
 * buffer of a sender grows to as much (net.ipv4.tcp_wmem). False: the ring is as long as it may be.
 */
static bool message_ring_grow(struct exchange *exchange)
{
	struct stream_out *out = &exchange->out[STREAM_MESSAGE];

	return out->size < message_window(exchange->shared) && stream_out_grow(out);
}

int message_reserve(struct exchange *exchange, uint32_t tag, size_t length, uint8_t **place)
{
	struct stream_out *out = &exchange->out[STREAM_MESSAGE];
	uint8_t *bytes;
	bool memory;

	assert_that(length <= NET_MESSAGE_MOST);
	bytes = stream_out_reserve(out, WIRE_MESSAGE_HEADER + wire_pad(length), &memory);
	if (!bytes && !memory && message_ring_grow(exchange))
		bytes = stream_out_reserve(out, WIRE_MESSAGE_HEADER + wire_pad(length), &memory);
	if (!bytes)
		return memory ? PF_ERR_MEMORY : PF_ERR_AGAIN;
	wire_put32(bytes, (uint32_t)length);
	wire_put32(bytes + 4, tag);
	/* Clear the padding. */
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

/* Tell the peer of new room once a quarter is new, before the peer has to ask. */
static void message_offer_credit(struct exchange *exchange)
{
	if (message_limit(exchange) - exchange->credit_told >= message_room(exchange) / 4)
		exchange->effects |= EFFECT_CREDIT;
}

/*
 * Measure a piece of the stream that begins with a message. *whole: bytes of whole
 * messages. *missing: bytes behind the piece of a last, incomplete message; 0: none.
 * False: the peer broke the rules.
 */
static bool message_measure(const uint8_t *bytes, uint32_t length, uint32_t *whole,
			    uint32_t *missing)
{
	assert_that(length % 8 == 0);
	*whole = *missing = 0;
	while (*whole < length) {
		uint32_t message = wire_get32(bytes + *whole), size;

		if (message > NET_MESSAGE_MOST)
			return false;
		size = WIRE_MESSAGE_HEADER + (uint32_t)wire_pad(message);
		if (size > length - *whole) {
			*missing = size - (length - *whole);
			return true;
		}
		*whole += size;
	}
	return true;
}

/* Append bytes of messages, in the memory of a packet, to the runs. */
static void add_run(struct exchange *exchange, uint8_t *bytes, uint32_t length)
{
	struct shared *shared = exchange->shared;

	assert_that(shared->runs_end < RUNS_MOST);
	if (length)
		shared->runs[shared->runs_end++] = (struct message_run){ exchange->association,
									 bytes, length };
}

/* Count the stream as taken up to position: the runs have whole messages up to there. */
static void advance_to(struct exchange *exchange, uint64_t position)
{
	struct stream_in *in = &exchange->in[STREAM_MESSAGE];

	/* Messages are in the runs only while the ring is empty. */
	assert_that(in->taken == in->next && !in->ahead.count && position > in->next);
	in->next = in->taken = position;
	message_offer_credit(exchange);
}

/* Remove the bytes of the open message from the runs. */
static void drop_open(struct shared *shared)
{
	struct open_message *open = &shared->open;

	assert_that(open->run < shared->runs_end);
	open->exchange = NULL;
	shared->runs[open->run].length = open->offset;
	shared->runs_end = open->run + (open->offset != 0);
}

void messages_settle(struct shared *shared)
{
	struct open_message *open = &shared->open;
	uint64_t position = open->position;
	uint32_t i;

	if (!open->exchange)
		return;
	for (i = open->run; i < shared->runs_end; i++) {
		const struct message_run *run = &shared->runs[i];
		uint32_t offset = i == open->run ? open->offset : 0;
		bool added;

		/*
		 * The bytes fit: may_open made the ring, and message_arrived
		 * left no bytes in a packet without room in the ring.
		 */
		added = stream_in_add(&open->exchange->in[STREAM_MESSAGE], position,
				      run->bytes + offset, run->length - offset);
		assert_that(added);
		(void)added; /* a release evaluates no assertion */
		position += run->length - offset;
	}
	assert_that(position == open->next);
	drop_open(shared);
}

void messages_forget(struct exchange *exchange)
{
	if (exchange->shared->open.exchange == exchange)
		drop_open(exchange->shared);
}

/* May the first length bytes of a message stay in the packet until the rest is here? */
static bool may_open(struct exchange *exchange, uint32_t length)
{
	return exchange->shared->lent == NET_LENT_PIECES &&
	       length >= WIRE_MESSAGE_HEADER + PF_PIECE_FIRST &&
	       stream_in_prepare(&exchange->in[STREAM_MESSAGE]);
}

/*
 * Leave bytes of the stream in the memory of the packet: bytes of whole messages, and
 * of a last message whose rest may come with the next packets. *left: number of bytes
 * left there, from the first byte on. False: the peer broke the rules.
 */
static bool message_leave(struct exchange *exchange, uint64_t position, uint8_t *bytes,
			  uint32_t length, uint32_t *left)
{
	struct shared *shared = exchange->shared;
	struct open_message *open = &shared->open;
	uint32_t before = 0, whole, missing, rest;

	assert_that(position == (open->exchange ? open->next : exchange->in[STREAM_MESSAGE].next));
	if (open->exchange) {
		*left = length;
		open->pieces++;
		if (open->missing > length) {
			open->missing -= length;
			open->next += length;
			add_run(exchange, bytes, length);
			return true;
		}
		before = open->missing;
	}
	if (!message_measure(bytes + before, length - before, &whole, &missing))
		return false;
	open->exchange = NULL;
	whole += before;
	rest = length - whole;
	if (rest && may_open(exchange, rest)) {
		*open = (struct open_message){ .exchange = exchange,
					       .position = position + whole,
					       .next = position + length,
					       .missing = missing,
					       .run = shared->runs_end,
					       .offset = whole,
					       .pieces = 1 };
		*left = length;
	} else {
		*left = whole;
	}
	add_run(exchange, bytes, *left);
	if (whole)
		advance_to(exchange, position + whole);
	return true;
}

void message_of_runs(struct shared *shared, struct message *message)
{
	struct message_run *run = &shared->runs[shared->runs_first];
	uint32_t missing, here;

	assert_that(shared->runs_first < shared->runs_end && run->length >= WIRE_MESSAGE_HEADER);
	message->length = wire_get32(run->bytes);
	message->whole = WIRE_MESSAGE_HEADER + (uint32_t)wire_pad(message->length);
	message->tag = wire_get32(run->bytes + 4);
	message->bytes = run->bytes + WIRE_MESSAGE_HEADER;
	message->pieces = 1;
	if (message->whole <= run->length) {
		run->bytes += message->whole;
		run->length -= message->whole;
		return;
	}
	message->piece[0] = (struct iovec){ message->bytes, run->length - WIRE_MESSAGE_HEADER };
	for (missing = message->whole - run->length; missing; missing -= here) {
		shared->runs_first++;
		run++;
		assert_that(shared->runs_first < shared->runs_end &&
			    message->pieces < PF_PIECES_MOST);
		here = missing < run->length ? missing : run->length;
		message->piece[message->pieces++] = (struct iovec){ run->bytes, here };
		run->bytes += here;
		run->length -= here;
	}
	/* The padding is shorter than any piece: pieces are multiples of 8 bytes. */
	message->piece[message->pieces - 1].iov_len -= message->whole - WIRE_MESSAGE_HEADER -
						       message->length;
}

/*
 * Measure the first message of the ring. True: the message is whole. *broken: the
 * message is longer than NET_MESSAGE_MOST.
 */
static bool message_peek(struct exchange *exchange, struct message *message, bool *broken)
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

	if (!message_peek(exchange, message, broken))
		return false;
	message->bytes = stream_in_peek(in, message->whole);
	message->pieces = 1;
	message->tag = wire_get32(message->bytes + 4);
	message->bytes += WIRE_MESSAGE_HEADER;
	in->taken += message->whole;
	message_offer_credit(exchange);
	return true;
}

bool message_open(struct exchange *exchange)
{
	const struct stream_in *in = &exchange->in[STREAM_MESSAGE];
	struct message message;
	bool broken;

	if (exchange->shared->open.exchange == exchange || in->ahead.count)
		return true;
	return in->next != in->taken && (!message_peek(exchange, &message, &broken) ||
					 message.whole != in->next - in->taken);
}

bool message_arrived(struct exchange *exchange, uint64_t position, uint8_t *bytes, uint32_t length,
		     bool *taken)
{
	struct stream_in *in = &exchange->in[STREAM_MESSAGE];
	struct shared *shared = exchange->shared;
	const struct open_message *open = &shared->open;
	struct message message;
	bool broken, fits;
	uint32_t left;

	if (position % 8 || length % 8)
		return false;
	fits = shared->runs_end < RUNS_MOST &&
	       stream_in_grow(in, position + length, MESSAGE_RING_MOST);
	if (open->exchange && (!fits || !shared->lent || open->exchange != exchange ||
			       position != open->next || open->pieces == PF_PIECES_MOST))
		messages_settle(shared);
	/* Bytes in order need no copy. */
	if (open->exchange || (shared->lent && fits && position == in->next &&
			       in->taken == in->next && !in->ahead.count)) {
		if (!message_leave(exchange, position, bytes, length, &left))
			return false;
		if (left == length)
			return true;
		bytes += left;
		position += left;
		length -= left;
	}
	*taken = stream_in_add(in, position, bytes, length);
	if (exchange->waiting)
		return true;
	if (message_peek(exchange, &message, &broken)) {
		exchange->waiting = true;
		STAILQ_INSERT_TAIL(&shared->waiting, exchange, next_waiting);
	}
	return !broken;
}
