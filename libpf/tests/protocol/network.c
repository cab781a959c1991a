/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

#include "net/carrier.h"
#include "protocol/wire.h"

#define POOLED 2048 /* longest packet whose memory is reused, bytes */

struct packet *packet_new(struct world *world, size_t length)
{
	struct packet *packet = world->free_packets;

	if (length > POOLED)
		packet = malloc(sizeof(*packet) + length);
	else if (packet)
		world->free_packets = packet->next;
	else
		packet = malloc(sizeof(*packet) + POOLED);
	if (!packet)
		abort();
	packet->length = (uint32_t)length;
	packet->path = packet->ecn = 0;
	packet->corrupt = false;
	packet->next = NULL;
	return packet;
}

void packet_free(struct world *world, struct packet *packet)
{
	if (packet->length > POOLED) {
		free(packet);
		return;
	}
	packet->next = world->free_packets;
	world->free_packets = packet;
}

/* Bytes of a packet that a hash covers. */
static size_t covered(enum net_auth auth, const struct packet *packet)
{
	size_t header;

	if (packet->length < WIRE_HEADER)
		return 0;
	header = WIRE_HEADER + (size_t)wire_get16(packet->bytes + 18);
	if (header > packet->length)
		return 0;
	/* With NET_AUTH_HEADER only UDP's checksum covers the payload, and always the padding. */
	if (auth == NET_AUTH_HEADER ||
	    (auth == NET_AUTH_FULL && (packet->bytes[16] & 15) == WIRE_PROBE))
		return header;
	return packet->length;
}

/* Change a packet like a forger, who can compute UDP's checksum. */
static void corrupt(struct world *world, struct packet *packet)
{
	size_t length = covered(world->settings.options.auth, packet), i;

	if (!length)
		return;
	packet->bytes[world_below(world, length)] ^= (uint8_t)(1u << world_below(world, 8));
	packet->corrupt = true;
	/* It must be refused; if its payload were used, these wrong bytes would show. */
	for (i = length; i < packet->length && i < length + 64; i++)
		packet->bytes[i] = (uint8_t)~packet->bytes[i];
}

struct report {
	struct host *host;
	struct net_endpoint to;
	uint32_t life;
	uint32_t most;
};

static void deliver_report(struct world *world, void *arg)
{
	struct report *report = arg;
	struct host *host = report->host;

	if (host->core && host->life == report->life) {
		host_report(host,
			    &(struct carrier_report){ .to = report->to, .most = report->most });
	}
	free(report);
}

/* A router reports the longest packet that it forwards. */
static void too_big(struct world *world, const struct packet *packet)
{
	struct report *report = malloc(sizeof(*report));
	struct host *host = &world->hosts[packet->from];

	if (!report)
		abort();
	*report = (struct report){ host, world_endpoint(packet->to, packet->path), host->life,
				   world->settings.mtu };
	world_call(world, world->now + world->settings.delay, deliver_report, report);
}

static void packet_push(struct world *world, uint64_t time, struct packet *packet)
{
	events_push(&world->events,
		    (struct event){ .time = time, .kind = EVENT_PACKET, .packet = packet });
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Time that a packet takes on a link. */
static uint64_t takes(const struct world *world, uint32_t length)
{
	return (length + world->settings.framing) * SECOND / world->settings.rate;
}

bool port_queue(struct world *world, struct port *port, uint32_t length, uint64_t *time,
		bool *marked)
{
	const struct settings *settings = &world->settings;
	uint64_t start = later(port->busy, world->now);
	uint64_t waiting = (start - world->now) * settings->rate / SECOND;

	if (waiting > settings->queue) {
		port->dropped++;
		return false;
	}
	/* As switches do: from there to twice as much all the more likely. */
	*marked = settings->mark_above && waiting > settings->mark_above &&
		  world_below(world, settings->mark_above) < waiting - settings->mark_above;
	port->marked += *marked;
	port->packets++;
	port->bytes += length;
	port->longest = later(port->longest, waiting);
	*time = port->busy = start + takes(world, length);
	return true;
}

void packet_transmit(struct world *world, struct packet *packet)
{
	const struct settings *settings = &world->settings;

	world->packets++;
	if (world->tap)
		world->tap(world, packet->from, packet->to, packet->bytes, packet->length);
	if (packet->length > settings->mtu && world_chance(world, settings->too_big))
		too_big(world, packet);
	if (packet->length > settings->mtu || world_chance(world, settings->loss) ||
	    settings->paths_down >> packet->path & 1 ||
	    (packet->to < 32 && settings->unreached >> packet->to & 1))
		goto drop;
	if (settings->rate && settings->uplinks) {
		struct host *from = &world->hosts[packet->from];

		from->uplink = later(from->uplink, world->now) + takes(world, packet->length);
		events_push(&world->events, (struct event){ .time = from->uplink + settings->delay,
							    .kind = EVENT_SWITCH,
							    .packet = packet });
		return;
	}
	packet_switch(world, packet, world->now + settings->delay);
	return;
drop:
	world->dropped++;
	packet_free(world, packet);
}

void packet_switch(struct world *world, struct packet *packet, uint64_t time)
{
	const struct settings *settings = &world->settings;
	uint64_t left = world->now;
	bool marked = false;

	if (settings->rate &&
	    !port_queue(world, world->hosts[packet->to].port, packet->length, &left, &marked)) {
		world->dropped++;
		packet_free(world, packet);
		return;
	}
	time += left - world->now;
	if (marked && packet->ecn)
		packet->ecn = 3;
	if (world_chance(world, settings->reorder))
		time += world_below(world, settings->jitter);
	if (world_chance(world, settings->mark))
		packet->ecn = 3;
	if (world_chance(world, settings->duplicate)) {
		struct packet *copy = packet_new(world, packet->length);

		memcpy(copy, packet, sizeof(*packet) + packet->length);
		packet_push(world, time + world_below(world, settings->jitter + 1), copy);
	}
	if (world_chance(world, settings->corrupt))
		corrupt(world, packet);
	packet_push(world, time, packet);
}

void world_inject(struct world *world, unsigned from, unsigned to, const void *bytes, size_t length)
{
	struct packet *packet = packet_new(world, length);

	memcpy(packet->bytes, bytes, length);
	packet->from = from;
	packet->to = to;
	packet_push(world, world->now, packet);
}

void packets_destroy(struct world *world)
{
	struct packet *packet;

	while ((packet = world->free_packets)) {
		world->free_packets = packet->next;
		free(packet);
	}
}
