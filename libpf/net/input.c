/* SPDX-License-Identifier: BSD-3-Clause */
/* The packet door: nothing behind it sees a byte that was not checked here. */
#include <stdlib.h>

#include "control.h"
#include "core.h"

#define AHEAD_MOST (1u << 24)  /* of the packet numbers seen, for a number to be believed */
#define FORESEEN_MOST 10000000 /* ns since a peer was heard, for more of its data to be foreseen */

/* A packet in hand: authentic, decrypted. */
struct view {
	const struct wire_header *header;
	uint8_t *control, *payload;
	uint32_t control_length, payload_length;
	uint64_t received_at; /* where the payload was received to */
};

bool core_stash(struct net_core *core)
{
	unsigned i, count = core->later_count, elsewhere = 0, listed = 0;
	struct net_packet *later = core->later;
	struct iovec *vectors;
	bool in_hand, there;
	size_t length = 0;
	uint8_t *bytes;

	core->later_count = 0;
	for (i = 0; i < count; i++) {
		length += later[i].payload_length;
		elsewhere += later[i].payload_length != 0;
	}
	if (!elsewhere)
		return true;
	in_hand = later[0].payload_length != 0;
	core->stash = vectors = malloc(elsewhere * sizeof(*vectors) + length);
	bytes = vectors ? (uint8_t *)(vectors + elsewhere) : NULL;
	for (i = 0; vectors && i < count; i++) {
		if (later[i].payload_length)
			vectors[listed++] = (struct iovec){ later[i].payload,
							    later[i].payload_length };
	}
	there = vectors && core->callbacks.gather(core->callbacks.user, vectors, listed, bytes);
	if (!there)
		net_misplaced(core);
	for (i = 0; i < count; i++) {
		if (!later[i].payload_length)
			continue;
		if (!there) {
			/* As if it had been lost. */
			later[i].header_length = later[i].payload_length = 0;
			continue;
		}
		later[i].payload = bytes;
		bytes += later[i].payload_length;
	}
	if (!in_hand)
		return true;
	core->payload = there ? later[0].payload : NULL;
	return there;
}

static bool take_frame(struct net_association *association, struct wire_frame *frame,
		       struct view *view, uint64_t now, bool *asks)
{
	struct net_core *core = association->core;
	struct path_events events = association_events(association);
	struct busy *busy = association->busy;
	struct path *path;
	uint64_t position;
	bool taken = true;

	switch (frame->type) {
	case FRAME_ACK:
		path = association->paths[frame->ack.path];
		if (path && busy)
			path_acknowledge(path, frame, now, core->options.queue_target, &events,
					 &core->statistics);
		association_wake(association);
		return true;
	case FRAME_CREDIT:
		association->credit = frame->credit.window;
		if (busy &&
		    (int64_t)(frame->credit.messages - busy->out[STREAM_MESSAGE].limit) > 0) {
			busy->out[STREAM_MESSAGE].limit = frame->credit.messages;
			association_credit(association, now);
			association_wake(association);
		}
		return true;
	case FRAME_CONTROL:
		*asks = true;
		if (association_use(association) != PF_OK)
			return false;
		busy = association->busy;
		position = wire_widen(busy->in[STREAM_CONTROL].next, frame->stream.offset);
		if (!stream_in_add(&busy->in[STREAM_CONTROL], position, frame->stream.bytes,
				   frame->stream.length))
			return false;
		if (!control_arrived(association))
			association_fail(association, PF_ERR_PROTOCOL, "malformed control stream");
		return true;
	case FRAME_MESSAGE:
		*asks = true;
		if (frame->stream.length != view->payload_length ||
		    association_use(association) != PF_OK)
			return false;
		busy = association->busy;
		position = wire_widen(busy->in[STREAM_MESSAGE].next, frame->stream.offset);
		if (!message_arrived(association, position, view->payload, frame->stream.length,
				     &taken))
			association_fail(association, PF_ERR_PROTOCOL, "malformed message stream");
		view->payload_length = 0;
		return taken;
	case FRAME_PING:
		*asks = true;
		return true;
	default:
		association_fail(association, PF_OK, "gone: the peer closed its context");
		return true;
	}
}

/* False: not taken, as if it had been lost. */
static bool take(struct net_association *association, struct view *view, uint64_t now, bool *asks)
{
	struct net_core *core = association->core;
	uint32_t at = 0, length = view->control_length;
	enum wire_type type = (enum wire_type)view->header->type;
	struct wire_frame frame;
	struct wire_data data;

	*asks = type != WIRE_FRAMES;
	if (type == WIRE_DATA_PUT || type == WIRE_DATA_GET) {
		if (length < WIRE_DATA || association_use(association) != PF_OK)
			return false;
		wire_get_data(view->control, &data);
		core->payload = view->payload;
		core->received_at = view->received_at;
		if (destination_data(association, type == WIRE_DATA_GET, view->header->transfer,
				     &data, view->payload_length) != DESTINATION_TAKEN)
			return false;
		at = WIRE_DATA;
	}
	while (at < length) {
		size_t took = wire_get_frame(view->control + at, length - at, &frame);

		if (!took)
			return false;
		if (frame.type == FRAME_MESSAGE && type != WIRE_FRAMES)
			return false;
		if (!take_frame(association, &frame, view, now, asks))
			return false;
		if (association->state == GONE)
			return true;
		at += (uint32_t)took;
	}
	return true;
}

/* A payload that lies elsewhere, to the core's own memory; false: it is lost. */
static bool fetch_payload(struct net_core *core, struct net_packet *packet, size_t at)
{
	const struct iovec from = { packet->payload, packet->payload_length };

	if (!core->gathered)
		core->gathered = malloc(NET_PACKET_MOST + 64);
	if (!core->gathered || at + from.iov_len > NET_PACKET_MOST + 64)
		return false;
	if (!core->callbacks.gather(core->callbacks.user, &from, 1, core->gathered + at)) {
		net_misplaced(core);
		return false;
	}
	packet->payload = core->gathered + at;
	packet->payload_length = 0;
	return true;
}

/* Header and payload in one piece. */
static bool gather(struct net_core *core, struct net_packet *packet)
{
	uint32_t length = packet->payload_length;

	if (!fetch_payload(core, packet, packet->header_length))
		return false;
	memcpy(core->gathered, packet->header, packet->header_length);
	packet->header = core->gathered;
	packet->header_length += length;
	return true;
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

static void session(struct net_core *core, uint64_t now, struct net_packet *packet,
		    struct wire_header *header)
{
	struct net_association *association = core_index(core, header->index);
	struct net_statistics *statistics = &core->statistics;
	uint32_t own = packet->header_length - WIRE_HEADER - header->control;
	uint8_t *bytes = packet->header;
	struct view view = { .header = header,
			     .control = bytes + WIRE_HEADER,
			     .control_length = header->control };
	uint64_t next, number;
	struct path *path;
	bool asks;

	if (!association || (association->state != ACCEPTED && association->state != OPEN)) {
		statistics->refused++;
		return;
	}
	path = association->paths[header->path];
	/* Paths are the opener's affair. */
	if (!path && !association->accepter) {
		statistics->refused++;
		return;
	}
	next = path ? path->window.next : 0;
	number = wire_widen(next, header->number);
	if (number > next + AHEAD_MOST) {
		statistics->refused++;
		return;
	}
	if (path && window_seen(&path->window, number)) {
		statistics->replayed++;
		return;
	}
	if (!auth_check(bytes, header->control, association->receiving.hash, number)) {
		statistics->forged++;
		return;
	}
	/* The payload is what follows, or lies elsewhere, all of it. */
	view.payload = packet->payload_length ? packet->payload : view.control + header->control;
	view.payload_length = packet->payload_length ? packet->payload_length : own;
	view.received_at = (uint64_t)(uintptr_t)view.payload;
	if (core->options.auth == NET_AUTH_ENCRYPT) {
		if (!auth_decrypt(&association->receiving, bytes, number,
				  packet->header_length - WIRE_HEADER)) {
			statistics->forged++;
			return;
		}
		if (view.payload_length < WIRE_MAC)
			return;
		view.payload_length -= WIRE_MAC;
	} else if (core->options.auth == NET_AUTH_FULL) {
		/* The bytes that are hashed are those that are placed, if they are: not read twice. */
		if (packet->payload_length) {
			if (!fetch_payload(core, packet, 0))
				return;
			view.payload = packet->payload;
		}
		if (!payload_authentic(association, &view)) {
			statistics->forged++;
			return;
		}
	}
	if (!path)
		path = association_path(association, header->path, packet->from);
	if (!path)
		return;
	if (association->state == ACCEPTED) {
		association_opened(association);
		association_wake(association);
	}
	association_heard(association, now);
	if (!take(association, &view, now, &asks) || association->state == GONE)
		return;
	window_take(&path->window, number, now, asks, (packet->ecn & 3) == 3,
		    core->options.ack_delay);
	if (path->window.due <= now)
		association_wake(association);
	/* net_output does it for one that is ready. */
	if (!association->ready)
		core_schedule(core, association);
}

static void receive(struct net_core *core, uint64_t now, struct net_packet *packet)
{
	struct net_statistics *statistics = &core->statistics;
	struct wire_header header;

	statistics->packets_received++;
	if (packet->payload_length && packet->header_length < WIRE_HEADER && !gather(core, packet))
		return;
	if (!wire_get_header(packet->header, packet->header_length + (size_t)packet->payload_length,
			     &header)) {
		statistics->refused++;
		return;
	}
	/* Scattered in another way than it is made of. */
	if (packet->payload_length &&
	    (packet->header_length != WIRE_HEADER + (uint32_t)header.control ||
	     core->options.auth == NET_AUTH_ENCRYPT ||
	     (header.type != WIRE_DATA_PUT && header.type != WIRE_DATA_GET)) &&
	    !gather(core, packet))
		return;
	switch (header.type) {
	case WIRE_HELLO:
		open_hello(core, now, packet->header, packet->header_length, &header, packet->from);
		break;
	case WIRE_WELCOME:
		open_welcome(core, now, packet->header, packet->header_length, &header);
		break;
	default:
		session(core, now, packet, &header);
		break;
	}
}

void net_input(struct net_core *core, uint64_t now, struct net_packet *packets, unsigned count)
{
	unsigned i;

	core_clock(core, now);
	for (i = 0; i < count; i++) {
		core->later = packets + i;
		core->later_count = core->stash ? 0 : count - i;
		core->payload = NULL;
		if (packets[i].header_length)
			receive(core, core->now, &packets[i]);
	}
	core->later_count = 0;
	free(core->stash);
	core->stash = NULL;
}

void net_misplaced(struct net_core *core)
{
	struct busy *busy = core->latest ? core->latest->busy : NULL;

	if (!busy || !busy->transfers.latest)
		return;
	busy->transfers.latest->unforeseen = true;
	busy->transfers.latest->predicted = 0;
}

bool net_foresees(const struct net_core *core)
{
	return core->options.auth != NET_AUTH_ENCRYPT && core->latest && core->latest->busy &&
	       core->latest->busy->transfers.latest;
}

unsigned net_predict(struct net_core *core, uint64_t now, struct net_place *places, unsigned most,
		     uint32_t *header)
{
	*header = WIRE_HEADER + WIRE_DATA;
	if (core->options.auth == NET_AUTH_FULL)
		*header += WIRE_DIGEST;
	if (!net_foresees(core))
		return 0;
	/*
	 * What it began to write it may never finish: the packets of others are not
	 * to go there until it is known to be dead. That memory may have another use.
	 */
	if (now - core->latest->heard > FORESEEN_MOST)
		return 0;
	return destination_predict(core->latest, places, most, *header);
}
