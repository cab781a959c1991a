/* SPDX-License-Identifier: BSD-3-Clause */
#include "output.h"

#include "control.h"
#include "message.h"
#include "open.h"
#include "source.h"

#include "base/check.h"
#include "base/number.h"

#define COPIED_MOST 256 /* bytes: copying more costs more than a further vector */
/*
 * Bytes of messages that go before waiting data of puts and gets, about a batch; data takes longer
 * anyway. Then waiting data has a turn. Endless messages do not delay a put for ever, and short
 * messages beside much data wait for a single batch at most.
 */
#define AHEAD_MOST 65536u
/* Most bytes of data that fit into each packet together with due frames. */
#define SHORT_DATA 512u

/* A packet being written: in the slab of the batch, or, to be hashed or encrypted, in the room. */
struct draft {
	struct net_batch *batch;
	struct net_association *association;
	struct path *path;
	unsigned number;  /* of the path */
	uint8_t *packet;  /* start of the header */
	uint32_t control; /* bytes of the control section written up to now */
	uint32_t most;    /* room for the control section and the payload, bytes */
	struct sent *sent;
	bool asks;   /* the packet asks for an acknowledgement */
	bool prompt; /* the packet asks for an acknowledgement soon, not only with an answer */
};

static uint32_t packet_overhead(const struct shared *shared)
{
	switch (shared->options.auth) {
	case NET_AUTH_FULL:
		return WIRE_HEADER + WIRE_DIGEST;
	case NET_AUTH_ENCRYPT:
		return WIRE_HEADER + WIRE_MAC;
	default:
		return WIRE_HEADER;
	}
}

/*
 * Is the payload copied first? Yes, if hashed or encrypted: the application may change
 * or unmap the memory meanwhile.
 */
static bool payload_is_copied(const struct shared *shared)
{
	return shared->options.auth != NET_AUTH_HEADER;
}

/* May a packet be next in the batch? bytes: length. No packet is longer than the first. */
static bool batch_fits(const struct net_batch *batch, uint32_t bytes)
{
	return !batch->count || bytes <= batch->segment;
}

/* Is the last packet shorter than the first? Then no packet may follow (UDP_SEGMENT). */
static bool batch_complete(const struct net_batch *batch)
{
	return batch->count && batch->length != batch->count * batch->segment;
}

/* Begin a packet in the batch. False: no room in the batch. */
static bool draft_start(struct draft *draft, struct net_batch *batch,
			struct net_association *association, unsigned number)
{
	struct shared *shared = association->shared;
	bool copy = payload_is_copied(shared);

	assert_that(number < NET_PATHS_MOST && association->paths[number]);
	assert_that(!copy || batch->room);
	*draft = (struct draft){ .batch = batch,
				 .association = association,
				 .path = association->paths[number],
				 .number = number,
				 .packet = copy ? batch->room + batch->length :
						  batch->slab + batch->used };
	draft->most = path_packet(draft->path) - packet_overhead(shared);
	if (batch->count == NET_BATCH_MOST ||
	    batch->length + draft->path->mtu.size > NET_BATCH_BYTES ||
	    (!copy &&
	     batch->used + WIRE_HEADER + WIRE_CONTROL_MOST + WIRE_DIGEST > sizeof(batch->slab)))
		return batch->count == 0;
	return true;
}

static void draft_frame(struct draft *draft, const struct wire_frame *frame)
{
	draft->control += (uint32_t)wire_put_frame(draft->packet + WIRE_HEADER + draft->control,
						   frame);
	assert_that(draft->control <= WIRE_CONTROL_MOST);
}

static void draft_ping(struct draft *draft)
{
	draft_frame(draft, &(struct wire_frame){ .type = FRAME_PING });
}

/* Add the frame of a piece of a stream. bytes: NULL if the payload has the bytes. */
static void draft_stream(struct draft *draft, enum wire_frame_type type, uint64_t position,
			 uint8_t *bytes, uint32_t length)
{
	struct wire_frame frame;

	frame.type = (uint8_t)type;
	frame.stream.length = (uint16_t)length;
	frame.stream.offset = (uint32_t)position;
	frame.stream.bytes = bytes;
	draft_frame(draft, &frame);
}

/* Return the place of the payload in a contiguous packet. */
static uint8_t *draft_payload(const struct draft *draft)
{
	uint32_t digest = draft->association->shared->options.auth == NET_AUTH_FULL ? WIRE_DIGEST :
										      0;

	return draft->packet + WIRE_HEADER + draft->control + digest;
}

/*
 * Is the packet contiguous? Yes for a short message: the copy behind the frames takes less time
 * than a further vector. No for data of a transfer, unless source_fetch copied the data: a page may
 * be absent, and the thread must not wait for a page.
 */
static bool in_one_piece(const struct draft *draft, enum wire_type type, const struct iovec *pieces,
			 unsigned count)
{
	return payload_is_copied(draft->association->shared) ||
	       (type == WIRE_FRAMES && !draft->batch->count && count == 1 &&
		pieces[0].iov_len <= COPIED_MOST);
}

/* Seal the packet, with a payload in count pieces, and add the packet to the batch. */
static void draft_end(struct draft *draft, enum wire_type type, uint32_t transfer,
		      const struct iovec *pieces, unsigned count, uint64_t now)
{
	struct net_association *association = draft->association;
	struct shared *shared = association->shared;
	struct net_batch *batch = draft->batch;
	struct path *path = draft->path;
	uint64_t number = path->next;
	struct wire_header header = { .type = (uint8_t)type,
				      .path = (uint8_t)draft->number,
				      .index = association->peer_index,
				      .number = (uint32_t)number,
				      .transfer = transfer };
	bool whole = in_one_piece(draft, type, pieces, count);
	uint32_t length = 0, bytes;
	unsigned i;

	for (i = 0; i < count; i++) {
		uint8_t *place = draft_payload(draft) + length;

		if (whole && pieces[i].iov_base != place)
			memcpy(place, pieces[i].iov_base, pieces[i].iov_len);
		length += (uint32_t)pieces[i].iov_len;
	}
	if (shared->options.auth == NET_AUTH_FULL) {
		wire_put64(draft->packet + WIRE_HEADER + draft->control,
			   type == WIRE_PROBE ? 0 :
						auth_digest(&association->sending,
							    draft_payload(draft), length));
		draft->control += WIRE_DIGEST;
	}
	header.control = (uint16_t)draft->control;
	wire_put_header(draft->packet, &header);
	bytes = WIRE_HEADER + draft->control;
	if (whole) {
		bytes += length;
		if (shared->options.auth == NET_AUTH_ENCRYPT) {
			auth_encrypt(&association->sending, draft->packet, number,
				     draft->control + length);
			bytes += WIRE_MAC;
		}
		batch->vector[batch->vectors++] = (struct iovec){ draft->packet, bytes };
		batch->used += bytes;
	} else {
		batch->vector[batch->vectors++] = (struct iovec){ draft->packet, bytes };
		batch->used += bytes;
		for (i = 0; i < count; i++)
			batch->vector[batch->vectors++] = pieces[i];
		bytes += length;
	}
	auth_tag(draft->packet, draft->control, association->sending.hash, number);
	assert_that(bytes <= path->mtu.size || type == WIRE_PROBE);
	/* All packets but the last have the length of the first: UDP_SEGMENT. */
	assert_that(!batch_complete(batch) && batch_fits(batch, bytes));
	if (!batch->count++)
		batch->segment = bytes;
	batch->length += bytes;
	assert_that(batch->count <= NET_BATCH_MOST && batch->vectors <= NET_VECTORS_MOST);
	shared->statistics.packets_sent++;
	shared->statistics.bytes_sent += bytes;
	draft->sent->prompt = type != WIRE_FRAMES || draft->prompt;
	path_sent(path, draft->sent, now, bytes, draft->asks, shared->options.queue_target);
	if (draft->asks && !association_doubts(association, path))
		association_asked(association, now);
}

/* Acknowledge packets of a path on the path itself: only the peer knows if different paths work. */
static void put_acknowledgement(struct draft *draft, uint64_t now)
{
	struct net_association *association = draft->association;
	struct wire_frame frame;
	uint64_t room;

	if (draft->path->window.due == NET_NEVER)
		return;
	window_acknowledge(&draft->path->window, now, &frame, &draft->batch->owed);
	frame.ack.path = (uint8_t)draft->number;
	draft_frame(draft, &frame);
	/* Send credit also at rest: the peer may wait for credit that was lost. */
	room = association->rest.positions[STREAMS + STREAM_MESSAGE] + MESSAGE_RING;
	if (association->busy) {
		room = message_limit(&association->busy->exchange);
		association->busy->exchange.credit_told = room;
	}
	frame.type = FRAME_CREDIT;
	frame.credit.window = association_receive_credit(association);
	frame.credit.pauses = association->shared->senders.pauses;
	frame.credit.senders = senders_count(&association->shared->senders, now);
	frame.credit.messages = room;
	draft_frame(draft, &frame);
}

static void put_control(struct draft *draft)
{
	struct stream_out *out = &draft->association->busy->exchange.out[STREAM_CONTROL];
	uint32_t most = draft->most < WIRE_CONTROL_MOST - WIRE_DIGEST ?
				draft->most :
				WIRE_CONTROL_MOST - WIRE_DIGEST;
	struct iovec pieces[STREAM_PIECES_MOST]; /* a single piece: nothing is lent to the stream */
	uint64_t position;
	uint32_t length;

	/* Leave room for the frame of a message and a ping. */
	if (draft->control + 32 > most)
		return;
	length = stream_out_next(out, most - draft->control - 32, &position);
	if (!length)
		return;
	stream_out_pieces(out, position, length, pieces);
	draft_stream(draft, FRAME_CONTROL, position, pieces[0].iov_base, length);
	stream_out_sent(out, position, length);
	draft->sent->control = position;
	draft->sent->control_length = (uint16_t)length;
	draft->sent->streams = true;
	draft->asks = draft->prompt = true;
}

/* Add bytes of the message stream. Returns the number of pieces of the payload; 0: no bytes. */
static unsigned put_message(struct draft *draft, struct iovec pieces[STREAM_PIECES_MOST])
{
	struct stream_out *out = &draft->association->busy->exchange.out[STREAM_MESSAGE];
	uint64_t position;
	uint32_t length = stream_out_next(out, (draft->most - draft->control - 8) & ~7u, &position);

	if (!length)
		return 0;
	draft_stream(draft, FRAME_MESSAGE, position, NULL, length);
	stream_out_sent(out, position, length);
	draft->sent->message = position;
	draft->sent->message_length = (uint16_t)length;
	draft->sent->streams = true;
	draft->asks = true;
	return stream_out_pieces(out, position, length, pieces);
}

static bool stream_waits(const struct net_association *association, unsigned stream)
{
	uint64_t position;

	return association->busy &&
	       stream_out_next(&association->busy->exchange.out[stream], 8, &position);
}

/*
 * Is a short put next, with room for due frames in the packet? The answer to a put with a signal
 * goes with DONE and the acknowledgement in a single packet. Not if the payload is copied: a copy
 * may fail, and comes behind the frames.
 */
static bool short_put_waits(const struct net_association *association)
{
	const struct transfers *transfers = &association->busy->exchange.transfers;
	const struct operation_posted *operation = TAILQ_FIRST(&transfers->uncut[0]);

	return operation && operation->length <= SHORT_DATA &&
	       STAILQ_EMPTY(&transfers->sending[0]) && STAILQ_EMPTY(&transfers->sending[1]) &&
	       !association->ping && !payload_is_copied(association->shared);
}

static bool data_waits(const struct net_association *association)
{
	const struct transfers *transfers = &association->busy->exchange.transfers;

	return !STAILQ_EMPTY(&transfers->sending[0]) || !STAILQ_EMPTY(&transfers->sending[1]) ||
	       !TAILQ_EMPTY(&transfers->uncut[0]);
}

/* Do messages use half of the window, the credit, the ring, or the room of the peer? */
static bool half_used(const struct net_association *association, const struct path *path)
{
	const struct stream_out *out = &association->busy->exchange.out[STREAM_MESSAGE];
	uint64_t room = number_min(out->limit - out->base, out->size);

	return path_is_half_used(path, association->credit) || out->sent - out->base > room / 2;
}

static bool may_send(const struct net_association *association, struct path *path, uint64_t now,
		     uint32_t bytes)
{
	return path_open(path, now, bytes, association->credit,
			 association->shared->options.queue_target);
}

/* Write packets of frames. open: the window allows more than acknowledgements. */
static void output_frames(struct net_batch *batch, struct net_association *association,
			  unsigned number, uint64_t now, bool open)
{
	struct path *path = association->paths[number];
	struct path_events events = association_events(association);
	struct sent unrecorded = { 0 }; /* an acknowledgement alone needs no record */
	struct draft draft;
	bool probe;

	if (association->ping)
		association_use(association);
	probe = path->probe && association->busy;
	path->probe = false;
	/* The peer may wait for credit that was lost: send credit again with an acknowledgement. */
	if ((association->ping || probe) && path->window.next)
		window_demand(&path->window, now);
	do {
		struct iovec pieces[STREAM_PIECES_MOST];
		unsigned count = 0;

		if (!draft_start(&draft, batch, association, number))
			break;
		if (association->busy)
			path_make_room(path, now, &events);
		draft.sent = association->busy ? path_record(path) : &unrecorded;
		if (!draft.sent)
			break;
		draft.sent->kind = SENT_FRAMES;
		if (!batch->count)
			put_acknowledgement(&draft, now);
		if (association->busy && (association->ping || probe ||
					  (open && stream_waits(association, STREAM_MESSAGE) &&
					   half_used(association, path)))) {
			draft_ping(&draft);
			association->ping = probe = false;
			draft.asks = draft.prompt = true;
		}
		if (open && association->busy) {
			put_control(&draft);
			count = put_message(&draft, pieces);
		}
		if (!draft.control)
			break;
		association->shared->statistics.acks_sent += !draft.asks;
		draft_end(&draft, WIRE_FRAMES, 0, pieces, count, now);
		open = open && may_send(association, path, now, path_packet(path));
	} while (open && !batch_complete(batch) && batch->segment == path_packet(path) &&
		 stream_waits(association, STREAM_MESSAGE));
}

static void output_probe(struct net_batch *batch, struct net_association *association,
			 unsigned number, uint64_t now, uint32_t size)
{
	struct shared *shared = association->shared;
	struct path *path = association->paths[number];
	static uint8_t padding[NET_PACKET_MOST];
	struct iovec filling;
	struct draft draft;

	if (!draft_start(&draft, batch, association, number))
		return;
	draft.sent = path_record(path);
	if (!draft.sent)
		return;
	draft.sent->kind = SENT_PROBE;
	draft.asks = true;
	mtu_sent(&path->mtu, size);
	shared->statistics.probes++;
	batch->probe = true;
	draft_ping(&draft);
	assert_that(size >= packet_overhead(shared) + draft.control && size <= path->mtu.own);
	filling = (struct iovec){ padding, size - packet_overhead(shared) - draft.control };
	draft_end(&draft, WIRE_PROBE, 0, &filling, 1, now);
}

/* Write the signal of the put if the run has the last byte, and room bytes suffice for both. */
static void put_signal(struct draft *draft, struct run *run, uint32_t room)
{
	if (!source_carries_signal(run))
		return;
	if (run->length + WIRE_SIGNAL > room) {
		source_shorten(&draft->association->busy->exchange, run);
		return;
	}
	draft_frame(draft, &(struct wire_frame){ .type = FRAME_SIGNAL,
						 .signal = run->transfer->operation->signal });
}

/* Write due frames into a packet of short data, the first of the batch. */
static void put_due_frames(struct draft *draft, uint32_t data, uint64_t now)
{
	assert_that(!draft->batch->count && data <= SHORT_DATA && draft->most > 2 * SHORT_DATA);
	draft->most -= data;
	put_acknowledgement(draft, now);
	put_control(draft);
}

/* due: write due frames into the first packet if its data is short. */
static void output_data(struct net_batch *batch, struct net_association *association,
			unsigned number, uint64_t now, bool due)
{
	uint32_t granule = association->block_size / GRANULES, extra, bytes;
	struct path *path = association->paths[number];
	struct draft draft;
	struct run run;

	extra = packet_overhead(association->shared) + WIRE_DATA;
	assert_that(path_packet(path) >= extra + WIRE_SIGNAL + granule);
	while (!batch_complete(batch) && draft_start(&draft, batch, association, number) &&
	       source_next(&association->busy->exchange, (path_packet(path) - extra) / granule,
			   &run)) {
		struct iovec payload = { (void *)(uintptr_t)(run.transfer->local + run.offset),
					 run.length };
		unsigned count = 1;

		draft.control = WIRE_DATA;
		bytes = extra + run.length;
		if (__builtin_expect(run.transfer->signalling, 0)) {
			put_signal(&draft, &run, path_packet(path) - extra);
			bytes = extra - WIRE_DATA + draft.control + run.length;
			payload.iov_len = run.length;
			count = run.length != 0;
		}
		if (!batch_fits(batch, bytes) || !may_send(association, path, now, bytes))
			break;
		if (payload_is_copied(association->shared)) {
			payload.iov_base = draft_payload(&draft);
			if (!source_fetch(&association->busy->exchange, &run,
					  draft_payload(&draft)))
				continue;
		}
		draft.sent = path_record(path);
		if (!draft.sent)
			break;
		draft.sent->kind = run.transfer->get ? SENT_DATA_GET : SENT_DATA_PUT;
		draft.sent->transfer = run.transfer->id;
		draft.sent->granule = run.granule;
		draft.sent->granules = run.granules;
		draft.asks = true;
		if (__builtin_expect(due, 0)) {
			if (run.length <= SHORT_DATA)
				put_due_frames(&draft, run.length, now);
			due = false;
		}
		wire_put_data(draft.packet + WIRE_HEADER,
			      &(struct wire_data){
				      .offset = run.offset,
				      .length = run.transfer->length,
				      .address = run.transfer->get ? 0 : run.transfer->remote });
		source_sent(&association->busy->exchange, &run);
		draft_end(&draft, run.transfer->get ? WIRE_DATA_GET : WIRE_DATA_PUT,
			  run.transfer->id, &payload, count, now);
	}
}

static void output_path(struct net_batch *batch, struct net_association *association,
			unsigned number, uint64_t now)
{
	struct path *path = association->paths[number];
	bool busy = association->busy != NULL, doubted, open, due, messages;
	uint32_t *ahead = busy ? &association->busy->exchange.ahead : NULL, size;

	doubted = busy && association_doubts(association, path);
	/* An answer ends the doubt; after a time-out, path_advance asks again. */
	if (doubted && path->oldest == path->next)
		path->probe = true;
	open = busy && !doubted && may_send(association, path, now, path_packet(path));
	due = path->window.due <= now || association->ping || path->probe ||
	      (open && stream_waits(association, STREAM_CONTROL));
	messages = open && stream_waits(association, STREAM_MESSAGE);
	/* Due frames are short, and messages go into the packet, too. */
	if (messages && !due && *ahead >= AHEAD_MOST && data_waits(association)) {
		output_data(batch, association, number, now, false);
		*ahead -= batch->length < *ahead ? batch->length : *ahead;
		if (batch->count)
			return;
		/* Data waits for something else: save up no turns meanwhile. */
		*ahead = 0;
	}
	if (open && due && !messages && !path->probe && short_put_waits(association)) {
		output_data(batch, association, number, now, true);
		if (batch->count)
			return;
	}
	if (due || messages)
		output_frames(batch, association, number, now, open);
	if (messages && data_waits(association))
		*ahead += batch->length;
	if (batch->count || !open)
		return;
	size = mtu_wanted(&path->mtu, now);
	if (size && path->rtt && congestion_window(&path->congestion) >= size) {
		output_probe(batch, association, number, now, size);
		if (batch->count)
			return;
	}
	output_data(batch, association, number, now, false);
	*ahead -= batch->length < *ahead ? batch->length : *ahead;
}

static void output_single(struct net_batch *batch, struct net_association *association,
			  size_t length)
{
	assert_that(length <= sizeof(batch->slab));
	batch->vector[0] = (struct iovec){ batch->slab, length };
	batch->vectors = batch->count = 1;
	batch->segment = batch->length = (uint32_t)length;
	association->shared->statistics.packets_sent++;
	association->shared->statistics.bytes_sent += length;
}

static void output_goodbye(struct net_batch *batch, struct net_association *association,
			   unsigned number, uint64_t now)
{
	struct wire_frame frame = { .type = FRAME_GOODBYE };
	struct draft draft;
	struct sent sent = { 0 };

	if (!draft_start(&draft, batch, association, number))
		return;
	draft.sent = &sent;
	put_acknowledgement(&draft, now);
	/* An association given up before opening ends alike at both ends. */
	frame.goodbye.failed = !association->closing && association->status != PF_ERR_UNREACHABLE;
	draft_frame(&draft, &frame);
	draft_end(&draft, WIRE_FRAMES, 0, NULL, 0, now);
}

void output_batch(struct net_batch *batch, struct net_association *association, uint64_t now)
{
	unsigned number, tried = 0;

	batch->count = batch->length = batch->used = batch->vectors = 0;
	batch->probe = false;
	batch->owed.due = NET_NEVER;
	batch->association = association->index;
	if (association->state == GONE) {
		if (!association->goodbye)
			return;
		association->goodbye = false;
		number = association->goodbye_path;
		assert_that(number < NET_PATHS_MOST && association->paths[number]);
		batch->to = association->paths[number]->to;
		batch->path = number;
		batch->number = association->paths[number]->next;
		output_goodbye(batch, association, number, now);
		return;
	}
	if (association->welcome ||
	    (association->state == OPENING && now >= association->opening->hello_due)) {
		/* An accepter answers on the path of the HELLO; an opener tries all paths in turn. */
		number = association->welcome ?
				 association->opening->welcome_path :
				 association->opening->hellos % association->paths_count;
		assert_that(number < NET_PATHS_MOST && association->paths[number]);
		batch->to = association->paths[number]->to;
		batch->path = NET_PATHS_MOST;
		output_single(batch, association,
			      open_output(association, number, now, batch->slab));
		return;
	}
	if (association->state != OPEN)
		return;
	if (association->busy)
		control_output(&association->busy->exchange);
	while (!batch->count &&
	       (number = association_best_path(association, tried)) < NET_PATHS_MOST) {
		struct path *path = association->paths[number];

		tried |= 1u << number;
		batch->to = path->to;
		batch->path = number;
		batch->number = path->next;
		output_path(batch, association, number, now);
	}
}

bool output_owes(const struct net_association *association)
{
	const struct busy *busy = association->busy;
	unsigned i;

	if (association->state != OPEN || !busy || association->ping)
		return true;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		if (path && (path->probe || path->window.due <= association->shared->now))
			return true;
	}
	return data_waits(association) || !STAILQ_EMPTY(&busy->exchange.transfers.telling) ||
	       !TAILQ_EMPTY(&busy->exchange.transfers.uncut[1]) ||
	       !STAILQ_EMPTY(&busy->exchange.transfers.atomics_uncut) ||
	       busy->exchange.transfers.atomic_results ||
	       stream_waits(association, STREAM_CONTROL) ||
	       stream_waits(association, STREAM_MESSAGE);
}

bool output_blocked(const struct net_association *association)
{
	const struct busy *busy = association->busy;
	const struct stream_out *messages;

	if (!busy || association->state == GONE)
		return false;
	messages = &busy->exchange.out[STREAM_MESSAGE];
	/* Messages without room at the peer wait for a packet, too. */
	return messages->sent < messages->end || output_owes(association);
}
