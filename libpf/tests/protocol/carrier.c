/* SPDX-License-Identifier: BSD-3-Clause */
#include "carrier.h"

#include <errno.h>

#include "net/endpoint.h"
#include "network.h"
#include "protocol/wire.h"

#define SLOTS 16

struct memory_carrier {
	struct carrier carrier;
	struct world *world;
	struct packet *slots[SLOTS];
	struct net_packet packets[SLOTS];
	struct net_endpoint from[SLOTS];
	unsigned count; /* slots in use */
};

/* ---- the memory of a host ---- */

enum memory host_memory(struct host *host, const void *bytes, size_t length)
{
	const struct settings *settings = &host->world->settings;
	size_t offset = (uintptr_t)bytes - (uintptr_t)host->arena, page;

	if (offset >= settings->arena + settings->beyond)
		return MEMORY_OTHER;
	if (length > settings->arena || offset > settings->arena - length)
		return MEMORY_ABSENT;
	if (world_chance(host->world, settings->fault))
		return MEMORY_ABSENT;
	for (page = offset / WORLD_PAGE; page <= (offset + length - 1) / WORLD_PAGE; page++) {
		/* The system resolves some faults, and reports others. */
		if (!host->present[page] && world_random(host->world) % 2)
			return MEMORY_ABSENT;
		host->present[page] = 1;
	}
	return MEMORY_PRESENT;
}

bool host_gather(struct host *host, const struct iovec *from, unsigned count, void *to)
{
	uint8_t *bytes = to;

	for (; count; bytes += from->iov_len, from++, count--) {
		if (host_memory(host, from->iov_base, from->iov_len) == MEMORY_ABSENT) {
			/* The corrupt packets may be among those that are lost. */
			host->world->corrupt = 0;
			return false;
		}
		memcpy(bytes, from->iov_base, from->iov_len);
	}
	return true;
}

unsigned host_place(struct host *host, const struct net_piece *pieces, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		void *at = (void *)(uintptr_t)pieces[i].address;

		if (host_memory(host, at, pieces[i].length) != MEMORY_PRESENT)
			break;
		memcpy(at, pieces[i].bytes, pieces[i].length);
	}
	return i;
}

/* ---- packets ---- */

struct net_endpoint world_endpoint(unsigned number, unsigned path)
{
	union interface_address address = { .in.sin_family = AF_INET };
	struct net_endpoint endpoint;

	address.in.sin_port = WORLD_PORT;
	address.in.sin_addr.s_addr = number;
	endpoint_make(&endpoint, (uint8_t)path, &address);
	return endpoint;
}

struct packet *host_next(struct host *host)
{
	struct packet *packet = host->queue;

	host->queue = packet->next;
	if (!host->queue)
		host->queue_last = &host->queue;
	host->waiting -= wire_charge(packet->length);
	return packet;
}

static struct packet *packet_cut(struct host *host, const struct iovec **vector, size_t *used,
				 uint32_t size)
{
	struct packet *packet = packet_new(host->world, size);
	uint32_t done = 0;

	while (done < size) {
		size_t piece = (*vector)->iov_len - *used;

		if (piece > size - done)
			piece = size - done;
		memcpy(packet->bytes + done, (uint8_t *)(*vector)->iov_base + *used, piece);
		done += (uint32_t)piece;
		*used += piece;
		if (*used < (*vector)->iov_len)
			continue;
		(*vector)++;
		*used = 0;
	}
	return packet;
}

int host_send(struct host *host, unsigned to, unsigned path, const struct iovec *vectors,
	      size_t count, uint32_t segment)
{
	const struct settings *settings = &host->world->settings;
	uint32_t length = 0, size;
	bool present = true;
	size_t i, used = 0;

	for (i = 0; i < count; i++) {
		length += (uint32_t)vectors[i].iov_len;
		present = present && host_memory(host, vectors[i].iov_base, vectors[i].iov_len) !=
					     MEMORY_ABSENT;
	}
	if (!segment)
		segment = length;
	if (world_chance(host->world, settings->full))
		return world_random(host->world) % 2 ? EAGAIN : ENOBUFS;
	if (segment > settings->interface_mtu)
		return segment < length ? EINVAL : EMSGSIZE;
	if (!present)
		return EFAULT;
	for (; length; length -= size) {
		struct packet *packet;

		size = length < segment ? length : segment;
		packet = packet_cut(host, &vectors, &used, size);
		packet->from = host->number;
		packet->to = to;
		packet->path = (uint8_t)path;
		packet->ecn = 2;
		packet_transmit(host->world, packet);
	}
	return 0;
}

/* ---- the carrier in memory ---- */

static struct memory_carrier *memory_carrier(struct carrier *carrier)
{
	return (struct memory_carrier *)carrier;
}

static void memory_release(struct memory_carrier *memory)
{
	while (memory->count)
		packet_free(memory->world, memory->slots[--memory->count]);
}

static void memory_close(struct carrier *carrier)
{
	memory_release(memory_carrier(carrier));
	free(carrier);
}

static size_t memory_packet_most(const struct carrier *carrier, const struct net_endpoint *to)
{
	return ((const struct memory_carrier *)carrier)->world->settings.interface_mtu;
}

static void memory_look(struct carrier *carrier, bool thorough)
{
}

static int memory_receive(struct carrier *carrier, const struct net_place *places, unsigned count,
			  uint32_t header, struct net_packet **packets)
{
	struct memory_carrier *memory = memory_carrier(carrier);
	struct world *world = memory->world;
	unsigned i;

	if (count)
		world_fail(world, "places are predicted for a carrier that places nothing");
	memory_release(memory);
	for (i = 0; i < SLOTS && world->acting->queue; i++) {
		struct packet *packet = host_next(world->acting);

		memory->slots[memory->count++] = packet;
		memory->from[i] = world_endpoint(packet->from, packet->path);
		memory->packets[i] = (struct net_packet){
			.header = packet->bytes,
			.header_length = packet->length,
			.from = &memory->from[i],
			.waited = (uint32_t)(world->now - packet->arrived),
			.ecn = packet->ecn,
		};
		world->corrupt += packet->corrupt;
	}
	*packets = memory->packets;
	return (int)memory->count;
}

static unsigned memory_send(struct carrier *carrier, const struct net_batch *batches,
			    unsigned count, enum carrier_stop *stop)
{
	struct host *host = memory_carrier(carrier)->world->acting;
	struct endpoint to;
	uint32_t number;
	unsigned i;
	int error;

	for (i = 0; i < count; i++) {
		memcpy(&to, &batches[i].to, sizeof(to));
		memcpy(&number, to.address, sizeof(number));
		error = host_send(host, number, to.socket, batches[i].vector, batches[i].vectors,
				  batches[i].segment);
		if (!error)
			continue;
		*stop = CARRIER_FULL;
		if (error == EFAULT)
			*stop = CARRIER_FAULT;
		else if (error == EMSGSIZE || error == EINVAL)
			*stop = CARRIER_TOO_LONG;
		break;
	}
	return i;
}

bool world_take_report(struct world *world, struct carrier_report *report)
{
	bool waits = world->report;

	if (waits)
		*report = *world->report;
	world->report = NULL;
	return waits;
}

static bool memory_report(struct carrier *carrier, bool woken, struct carrier_report *report)
{
	return world_take_report(memory_carrier(carrier)->world, report);
}

static const struct carrier_operations memory_operations = {
	.close = memory_close,
	.packet_most = memory_packet_most,
	.look = memory_look,
	.receive = memory_receive,
	.send = memory_send,
	.report = memory_report,
};

struct carrier *carrier_in_memory(struct world *world)
{
	struct memory_carrier *memory = calloc(1, sizeof(*memory));

	if (!memory)
		abort();
	memory->carrier.operations = &memory_operations;
	memory->world = world;
	return &memory->carrier;
}
