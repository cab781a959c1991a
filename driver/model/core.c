// SPDX-License-Identifier: GPL-2.0
#include "core.h"

#include <stdlib.h>

#include "../registers.h"

/* Packets of the node to itself that are handled before others have a chance. */
#define OWN_PACKETS 16

bool core_peer_add(struct peer *peer, uint32_t node)
{
	peer->records = calloc(BLOCK_SLOTS, sizeof(*peer->records));
	if (!peer->records)
		return false;
	peer->node = node;
	peer->incarnation = 0;
	peer->hello = false;
	return true;
}

void core_peer_remove(struct core *core, struct peer *peer)
{
	initiator_forget(&core->initiator, peer, EXANEST_STATUS_UNREACHABLE);
	target_forget(&core->target, peer);
	free(peer->records);
	peer->records = NULL;
	peer->node = 0;
}

bool core_start(struct core *core, const struct memory *memory,
		const struct core_configuration *configuration)
{
	core->node = configuration->node;
	core->incarnation = configuration->incarnation;
	core->translation.memory = memory;
	TAILQ_INIT(&core->faults.unreported);
	core->target.translation = &core->translation;
	core->target.spaces = core->spaces;
	core->target.spaces_count = SPACES;
	core->target.faults = &core->faults;
	core->target.peers = &core->peers;
	core->target.payload = configuration->payload;
	TAILQ_INIT(&core->target.sending);
	core->initiator.translation = &core->translation;
	core->initiator.spaces = core->spaces;
	core->initiator.faults = &core->faults;
	core->initiator.node = configuration->node;
	core->initiator.payload = configuration->payload;
	core->initiator.timeout = configuration->timeout;
	core->initiator.retries = configuration->retries;
	initiator_start(&core->initiator);
	if (!core_peer_add(&core->peers.peer[0], core->node))
		return false;
	core->peers.peer[0].incarnation = core->incarnation;
	return true;
}

void core_stop(struct core *core)
{
	unsigned int i;

	for (i = 0; i <= PEERS; i++)
		free(core->peers.peer[i].records);
}

/* A peer was reset: nothing of what it had here, or what was under way to it, counts any more. */
static void receive_incarnation(struct core *core, struct peer *peer, uint64_t incarnation)
{
	if (peer->incarnation) {
		initiator_forget(&core->initiator, peer, EXANEST_STATUS_PEER_RESET);
		target_forget(&core->target, peer);
	}
	peer->incarnation = incarnation;
	initiator_hello(&core->initiator, peer);
}

static bool receive_hello(struct core *core, struct peer *peer, const struct packet *packet)
{
	if (packet->incarnation < peer->incarnation)
		return false;
	if (packet->incarnation > peer->incarnation)
		receive_incarnation(core, peer, packet->incarnation);
	if (packet->peer_incarnation != core->incarnation)
		peer->hello = true;
	return true;
}

static bool receive_block(struct core *core, struct peer *peer, const struct packet *packet,
			  uint64_t now)
{
	switch (packet->type) {
	case PACKET_PUT:
	case PACKET_GET:
	case PACKET_ATOMIC:
	case PACKET_CANCEL:
		return target_receive(&core->target, peer, packet);
	default:
		return initiator_receive(&core->initiator, peer, packet, now);
	}
}

/* false: the packet is dropped. */
static bool receive_packet(struct core *core, const uint8_t *bytes, size_t length, uint64_t now)
{
	struct packet packet;
	struct peer *peer;

	if (!packet_parse(bytes, length, &packet) || packet.destination != core->node ||
	    packet.source == core->node || !packet.source)
		return false;
	peer = peer_find(&core->peers, packet.source);
	if (!peer)
		return false;
	if (packet.type == PACKET_HELLO)
		return receive_hello(core, peer, &packet);
	if (packet.peer_incarnation != core->incarnation || packet.incarnation > peer->incarnation)
		peer->hello = true;
	if (packet.peer_incarnation != core->incarnation || packet.incarnation != peer->incarnation)
		return false;
	return receive_block(core, peer, &packet, now);
}

void core_receive(struct core *core, const uint8_t *bytes, size_t length, uint64_t now)
{
	core->packets_received++;
	if (!receive_packet(core, bytes, length, now))
		core->packets_dropped++;
}

static struct peer *hello_due(struct core *core)
{
	unsigned int i;

	for (i = 1; i <= PEERS; i++)
		if (core->peers.peer[i].node && core->peers.peer[i].hello)
			return &core->peers.peer[i];
	return NULL;
}

static bool transmit_hello(struct core *core, struct packet *packet, struct peer **peer)
{
	*peer = hello_due(core);
	if (!*peer)
		return false;
	(*peer)->hello = false;
	*packet = (struct packet){ .type = PACKET_HELLO };
	return true;
}

/* Answers and blocks in turn. */
static bool next_packet(struct core *core, struct packet *packet, uint8_t *bytes,
			struct peer **peer, uint64_t now)
{
	unsigned int tries;

	if (transmit_hello(core, packet, peer))
		return true;
	for (tries = 0; tries < 2; tries++) {
		core->turn = !core->turn;
		if (core->turn ? target_transmit(&core->target, packet, bytes, peer) :
				 initiator_transmit(&core->initiator, packet, bytes, peer, now))
			return true;
	}
	return false;
}

size_t core_transmit(struct core *core, uint8_t bytes[PACKET_MAX], uint64_t now)
{
	struct packet packet, parsed;
	unsigned int own = 0;
	struct peer *peer;
	size_t length;

	while (own < OWN_PACKETS && next_packet(core, &packet, bytes, &peer, now)) {
		packet.source = core->node;
		packet.destination = peer->node;
		packet.incarnation = core->incarnation;
		packet.peer_incarnation = peer->incarnation;
		length = packet_build(&packet, bytes);
		if (peer->node != core->node) {
			core->packets_sent++;
			return length;
		}
		own++;
		if (packet_parse(bytes, length, &parsed))
			receive_block(core, peer, &parsed, now);
	}
	return 0;
}

bool core_busy(const struct core *core)
{
	const struct block *block;
	unsigned int i;

	for (i = 1; i <= PEERS; i++)
		if (core->peers.peer[i].node && core->peers.peer[i].hello)
			return true;
	if (!TAILQ_EMPTY(&core->target.sending))
		return true;
	TAILQ_FOREACH(block, &core->initiator.sending, link)
		if (block->transfer->peer->incarnation)
			return true;
	return false;
}
