/* SPDX-License-Identifier: BSD-3-Clause */
#include "input.h"

#include "control.h"
#include "destination.h"
#include "message.h"

#include "base/check.h"

#define AHEAD_MOST (1u << 24)      /* largest jump of packet numbers: above, a number is forged */
#define GOODBYE_PERIOD 10000000ull /* ns between GOODBYEs that answer packets when GONE */

/* A packet in hand: authentic, decrypted. */
struct view {
	const struct wire_header *header;
	struct net_packet *packet;
	uint8_t *control, *payload;
	uint32_t control_length, payload_length;
	uint64_t received_at; /* address where the payload was received */
	uint64_t arrived;     /* time when the packet reached the system */
};

/* Contents of a packet. */
struct contents {
	bool asks;   /* the packet asks for an acknowledgement */
	bool sends;  /* data, or a message */
	bool prompt; /* not only messages: the application will not answer everything */
	bool part;   /* an incomplete message: the application cannot answer yet */
};

static bool take_frame(struct net_association *association, struct wire_frame *frame,
		       struct view *view, uint64_t now, struct contents *contents)
{
	struct shared *shared = association->shared;
	struct path_events events = association_events(association);
	struct exchange *exchange = association->busy ? &association->busy->exchange : NULL;
	uint64_t position, *limit;
	struct path *path;
	bool taken = true;
	int status;

	switch (frame->type) {
	case FRAME_ACK:
		assert_that(frame->ack.path < NET_PATHS_MOST);
		path = association->paths[frame->ack.path];
		if (path && exchange)
			path_acknowledge(path, frame, now, view->arrived, &shared->options, &events,
					 &shared->statistics);
		association->wants_output = true;
		return true;
	case FRAME_CREDIT:
		association->credit = frame->credit.window;
		path_told(association->paths[view->header->path], now, frame->credit.senders,
			  frame->credit.pauses, association->peer_index);
		limit = exchange ? &exchange->out[STREAM_MESSAGE].limit :
				   &association->rest.message_limit;
		if ((int64_t)(frame->credit.messages - *limit) > 0) {
			*limit = frame->credit.messages;
			association->wants_output = true;
		}
		return true;
	case FRAME_CONTROL:
		contents->asks = contents->prompt = true;
		if (association_use(association) != PF_OK)
			return false;
		exchange = &association->busy->exchange;
		position = wire_widen(exchange->in[STREAM_CONTROL].next, frame->stream.offset);
		if (!stream_in_grow(&exchange->in[STREAM_CONTROL], position + frame->stream.length,
				    CONTROL_RING_MOST) ||
		    !stream_in_add(&exchange->in[STREAM_CONTROL], position, frame->stream.bytes,
				   frame->stream.length))
			return false;
		status = control_arrived(exchange);
		if (status == PF_ERR_REFUSED)
			association_fail(association, PF_ERR_PROTOCOL, "malformed control stream");
		/* Out of memory: do not acknowledge. The rest is read when the packet comes again. */
		return status != PF_ERR_MEMORY;
	case FRAME_MESSAGE:
		contents->asks = contents->sends = true;
		if (frame->stream.length != view->payload_length ||
		    association_use(association) != PF_OK)
			return false;
		exchange = &association->busy->exchange;
		position = wire_widen(exchange->in[STREAM_MESSAGE].next, frame->stream.offset);
		if (!message_arrived(exchange, position, view->payload, frame->stream.length,
				     &taken))
			association_fail(association, PF_ERR_PROTOCOL, "malformed message stream");
		else
			contents->part |= message_open(exchange);
		view->payload_length = 0;
		return taken;
	case FRAME_PING:
		contents->asks = contents->prompt = true;
		return true;
	default:
		if (frame->goodbye.failed)
			association_fail(association, PF_ERR_PEER,
					 "a packet that gives this process up, after silence or an "
					 "error,");
		else
			association_fail(association, PF_OK, "gone: the peer closed its context");
		return true;
	}
}

/* Find the signal behind the data. False: malformed. *took: bytes of the frame, 0 without one. */
static bool find_signal(const struct view *view, struct wire_frame *frame, uint32_t *took)
{
	*took = 0;
	if (view->control_length == WIRE_DATA || view->control[WIRE_DATA] != FRAME_SIGNAL)
		return true;
	*took = (uint32_t)wire_get_frame(view->control + WIRE_DATA,
					 view->control_length - WIRE_DATA, frame);
	return *took != 0;
}

/* *taken: bytes of the control section. */
static bool take_data(struct net_association *association, struct foresight *foresight,
		      const struct view *view, uint32_t *taken)
{
	struct payload payload = { .bytes = view->payload,
				   .length = view->payload_length,
				   .received_at = view->received_at,
				   .apart = foresee_apart(foresight) };
	bool get = view->header->type == WIRE_DATA_GET;
	enum destination_result result;
	struct exchange *exchange;
	struct wire_frame frame;
	struct wire_data data;
	uint32_t signal;
	bool alone;

	if (view->control_length < WIRE_DATA || !find_signal(view, &frame, &signal) ||
	    association_use(association) != PF_OK)
		return false;
	*taken = WIRE_DATA + signal;
	association->shared->statistics.wanted++;
	exchange = association_exchange(association);
	wire_get_data(view->control, &data);
	if (__builtin_expect(signal != 0, 0)) {
		if (get || !destination_signal(exchange, view->header->transfer, &data,
					       view->payload_length, &frame.signal, &alone))
			return false;
		if (alone)
			return true;
	}
	foresee_judge(foresight, association, get, view->header->transfer, data.offset);
	result = destination_data(exchange, get, view->header->transfer, &data, &payload);
	if (result == DESTINATION_NEEDS_BYTES) {
		if (!foresee_settle(foresight))
			return false;
		if (view->packet->payload_length)
			payload.bytes = view->packet->payload;
		payload.apart = true;
		result = destination_data(exchange, get, view->header->transfer, &data, &payload);
	}
	return result == DESTINATION_TAKEN;
}

/* Handle all frames. False: refuse the packet, like a lost packet. */
static bool input_frames(struct net_association *association, struct foresight *foresight,
			 struct view *view, uint64_t now, struct contents *contents)
{
	uint32_t at = 0, length = view->control_length;
	enum wire_type type = (enum wire_type)view->header->type;
	struct wire_frame frame;

	*contents = (struct contents){ .asks = type != WIRE_FRAMES, .prompt = type != WIRE_FRAMES };
	if (type == WIRE_DATA_PUT || type == WIRE_DATA_GET) {
		contents->sends = true;
		if (!take_data(association, foresight, view, &at))
			return false;
	}
	while (at < length) {
		assert_that(at % 8 == 0);
		size_t took = wire_get_frame(view->control + at, length - at, &frame);

		if (!took)
			return false;
		if ((frame.type == FRAME_MESSAGE && type != WIRE_FRAMES) ||
		    frame.type == FRAME_SIGNAL)
			return false;
		if (!take_frame(association, &frame, view, now, contents))
			return false;
		if (association->state == GONE)
			return true;
		at += (uint32_t)took;
	}
	return true;
}

static bool says_goodbye(const struct view *view)
{
	uint32_t at = 0;
	struct wire_frame frame;
	size_t took;

	if (view->header->type != WIRE_FRAMES)
		return false;
	while ((took = wire_get_frame(view->control + at, view->control_length - at, &frame))) {
		if (frame.type == FRAME_GOODBYE)
			return true;
		at += (uint32_t)took;
	}
	return false;
}

/*
 * The association is GONE, and the peer does not know: tell the peer. Both ends may be GONE, and
 * a GOODBYE therefore has no answer.
 */
static void answer_gone(struct net_association *association, const struct view *view, uint64_t now)
{
	drop_packet(association->shared, NET_DROP_UNEXPECTED);
	if (says_goodbye(view) || now < association->heard + GOODBYE_PERIOD)
		return;
	association->heard = now;
	association_say_goodbye(association, view->header->path);
}

static bool payload_authentic(const struct net_association *association, struct view *view)
{
	uint64_t digest;

	if (view->control_length < WIRE_DIGEST)
		return false;
	view->control_length -= WIRE_DIGEST;
	digest = wire_get64(view->control + view->control_length);
	if (view->header->type == WIRE_PROBE)
		return true;
	return digest == auth_digest(&association->receiving, view->payload, view->payload_length);
}

/*
 * The accepter sends to the source of the newest packet of a path. A HELLO that another host
 * replays moves the path (open.c); the opener's next packet moves it back. An opener has
 * the address from the user, and keeps it.
 */
static bool follow_path(struct net_association *association, unsigned number, bool newest,
			const struct net_endpoint *from)
{
	const struct net_callbacks *callbacks = &association->shared->callbacks;
	struct path *path = association->paths[number];

	if (!path) {
		/* Data that waits for room on a path may go here. */
		association->wants_output = true;
		return association_path(association, number, from) != NULL;
	}
	if (association->accepter && newest && memcmp(&path->to, from, sizeof(*from)) != 0)
		path_move(path, from, callbacks->packet_most(callbacks->user, from));
	return true;
}

static enum window_ask contents_ask(const struct contents *contents)
{
	if (!contents->asks)
		return WINDOW_NOTHING;
	if (contents->prompt)
		return WINDOW_PROMPT;
	return contents->part ? WINDOW_PART : WINDOW_WHOLE;
}

void input_packet(struct net_association *association, struct foresight *foresight,
		  struct net_packet *packet, const struct wire_header *header)
{
	struct shared *shared = association->shared;
	uint32_t own = packet->header_length - WIRE_HEADER - header->control;
	uint8_t *bytes = packet->header;
	struct view view = { .header = header,
			     .packet = packet,
			     .control = bytes + WIRE_HEADER,
			     .control_length = header->control,
			     .arrived = shared->now - packet->waited };
	uint64_t next, number;
	struct path *path;
	struct contents contents;

	/* receive.c checked the lengths: a separate payload is the whole payload of DATA. */
	assert_that(header->path < NET_PATHS_MOST);
	assert_that(packet->header_length >= WIRE_HEADER + (uint32_t)header->control);
	assert_that(!packet->payload_length ||
		    (own == 0 && shared->options.auth == NET_AUTH_HEADER &&
		     (header->type == WIRE_DATA_PUT || header->type == WIRE_DATA_GET)));
	if (association->state != ACCEPTED && association->state != OPEN &&
	    !association_is_half_open(association)) {
		drop_packet(shared, NET_DROP_UNEXPECTED);
		return;
	}
	path = association->paths[header->path];
	/* Only the opener makes paths. */
	if (!path && !association->accepter) {
		drop_packet(shared, NET_DROP_UNEXPECTED);
		return;
	}
	next = path ? path->window.next : 0;
	number = wire_widen(next, header->number);
	if (number > next + AHEAD_MOST) {
		drop_packet(shared, NET_DROP_FORGED);
		return;
	}
	if (path && window_seen(&path->window, number)) {
		drop_packet(shared, NET_DROP_REPLAYED);
		return;
	}
	if (!auth_check(bytes, header->control, association->receiving.hash, number)) {
		drop_packet(shared, NET_DROP_FORGED);
		return;
	}
	/* The payload follows the control section, or is separate. */
	view.payload = packet->payload_length ? packet->payload : view.control + header->control;
	view.payload_length = packet->payload_length ? packet->payload_length : own;
	view.received_at = (uint64_t)(uintptr_t)view.payload;
	if (shared->options.auth == NET_AUTH_ENCRYPT) {
		if (!auth_decrypt(&association->receiving, bytes, number,
				  packet->header_length - WIRE_HEADER)) {
			drop_packet(shared, NET_DROP_FORGED);
			return;
		}
		if (view.payload_length < WIRE_MAC) {
			drop_packet(shared, NET_DROP_MALFORMED);
			return;
		}
		view.payload_length -= WIRE_MAC;
	} else if (shared->options.auth == NET_AUTH_FULL &&
		   !payload_authentic(association, &view)) {
		drop_packet(shared, NET_DROP_FORGED);
		return;
	}
	if (!follow_path(association, header->path, number >= next, packet->from)) {
		drop_packet(shared, NET_DROP_REFUSED);
		return;
	}
	if (association->state == GONE) {
		answer_gone(association, &view, shared->now);
		return;
	}
	path = association->paths[header->path];
	assert_that(path);
	if (association->state == ACCEPTED) {
		association_opened(association);
		association->wants_output = true;
	}
	association_heard(association, shared->now);
	if (!input_frames(association, foresight, &view, shared->now, &contents)) {
		drop_packet(shared, NET_DROP_REFUSED);
		return;
	}
	if (association->state == GONE)
		return;
	if (contents.sends)
		senders_heard(&shared->senders, shared->now, &association->heard_in);
	window_take(&path->window, number, shared->now, view.arrived, contents_ask(&contents),
		    (packet->ecn & 3) == 3,
		    contents.prompt || contents.part ? shared->options.ack_delay :
						       shared->options.answer_delay);
	if (path->window.due <= shared->now)
		association->wants_output = true;
}
