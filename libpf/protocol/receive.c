/* SPDX-License-Identifier: BSD-3-Clause */
/* Received packets: each packet goes to an association, or opens an association. */
#include "core.h"
#include "destination.h"
#include "input.h"
#include "message.h"
#include "open.h"

#include "base/check.h"

static void receive_hello(struct net_core *core, struct net_packet *packet,
			  const struct wire_header *header)
{
	const struct net_callbacks *callbacks = &core->shared.callbacks;
	struct net_association *association;
	struct wire_hello hello;
	void *user = NULL;

	if (!open_read(&core->shared, packet->header, packet->header_length, header, &hello))
		return;
	association = core_find(core, hello.id);
	if (association) {
		open_again(association, &hello, header->path, packet->from);
		core_settle(core, association);
		return;
	}
	association = core_add(core, hello.id, NULL, 0);
	if (!association) {
		drop_packet(&core->shared, NET_DROP_REFUSED);
		return;
	}
	open_accept(association, &hello, header->path, packet->from);
	if (association->state != ACCEPTED ||
	    !callbacks->accept(callbacks->user, association, hello.id, hello.info,
			       hello.info_length, &user)) {
		drop_packet(&core->shared, NET_DROP_DIFFERENT);
		core_remove(core, association);
		return;
	}
	association->user = user;
	core_settle(core, association);
}

/* Write the waiting pieces, and settle the associations of the pieces. */
static void receive_flush(struct net_core *core)
{
	const struct pieces *pieces = &core->shared.pieces;
	unsigned count = pieces->count, i;

	assert_that(count <= NET_PIECES_MOST);
	destination_flush(&core->shared);
	for (i = 0; i < count; i++) {
		if (!i || pieces->of[i].exchange != pieces->of[i - 1].exchange)
			core_settle(core, pieces->of[i].exchange->association);
	}
}

/*
 * Gather a scattered packet into the buffer that the next scattered packet uses, too. Hence write
 * waiting bytes of earlier packets first, and leave no message in the buffer.
 */
static bool receive_gather(struct net_core *core, struct net_packet *packet)
{
	receive_flush(core);
	core->shared.lent = NET_NOT_LENT;
	return foresee_gather(&core->foresight, packet);
}

static void receive_packet(struct net_core *core, struct net_packet *packet)
{
	struct net_association *association;
	struct wire_header header;

	core->shared.statistics.packets_received++;
	core->shared.from = packet->from;
	if (packet->payload_length && packet->header_length < WIRE_HEADER &&
	    !receive_gather(core, packet)) {
		drop_packet(&core->shared, NET_DROP_REFUSED);
		return;
	}
	if (!wire_get_header(packet->header, packet->header_length + (size_t)packet->payload_length,
			     &header)) {
		drop_packet(&core->shared, NET_DROP_MALFORMED);
		return;
	}
	/*
	 * Gather a packet scattered elsewhere than between control section and payload.
	 * Gather also a packet to be hashed or decrypted: the bytes placed must be the bytes
	 * that were hashed.
	 */
	if (packet->payload_length &&
	    (packet->header_length != WIRE_HEADER + (uint32_t)header.control ||
	     core->shared.options.auth != NET_AUTH_HEADER ||
	     (header.type != WIRE_DATA_PUT && header.type != WIRE_DATA_GET)) &&
	    !receive_gather(core, packet)) {
		drop_packet(&core->shared, NET_DROP_REFUSED);
		return;
	}
	if (header.type == WIRE_HELLO) {
		receive_hello(core, packet, &header);
		return;
	}
	association = core_index(core, header.index);
	if (!association) {
		drop_packet(&core->shared, NET_DROP_UNKNOWN);
		return;
	}
	if (header.type == WIRE_WELCOME)
		open_welcome(association, packet->header, packet->header_length, &header);
	else
		input_packet(association, &core->foresight, packet, &header);
	core_settle(core, association);
}

void net_input(struct net_core *core, uint64_t now, struct net_packet *packets, unsigned count,
	       enum net_lent lent)
{
	unsigned i;

	core_clock(core, now);
	foresee_begin(&core->foresight, packets, count);
	for (i = 0; i < count; i++) {
		core->shared.lent = lent;
		assert_that((uintptr_t)packets[i].header % 8 == 0);
		if (packets[i].header_length)
			receive_packet(core, &packets[i]);
		foresee_step(&core->foresight);
		/* Most packets add two pieces at most. */
		if (core->shared.pieces.count > NET_PIECES_MOST - 2)
			receive_flush(core);
	}
	messages_settle(&core->shared);
	receive_flush(core);
	foresee_end(&core->foresight);
	/* The memory of the packets may be reused once the user has taken the messages. */
	assert_that(!core->shared.open.exchange && !core->shared.pieces.count);
}

bool net_foresees(const struct net_core *core)
{
	return foresee_possible(&core->foresight);
}

unsigned net_predict(struct net_core *core, uint64_t now, struct net_place *places, unsigned most,
		     uint32_t *header)
{
	return foresee_places(&core->foresight, now, places, most, header);
}

void net_misplaced(struct net_core *core)
{
	foresee_misplaced(&core->foresight);
}
