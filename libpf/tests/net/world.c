/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdarg.h>

struct packet {
	struct packet *next;
	struct net_endpoint from;
	unsigned to;
	uint32_t length;
	uint8_t ecn;
	_Alignas(8) uint8_t bytes[];
};

#define POOLED 2048 /* bytes of packets that are kept for the next ones */

void settings_init(struct settings *settings)
{
	*settings = (struct settings){ .hosts = 2,
				       .seed = 1,
				       .delay = 5 * MICROSECOND,
				       .mtu = 8952,
				       .interface_mtu = 8952,
				       .resolve = 50 * MICROSECOND,
				       .paths = 1,
				       .arena = (size_t)1 << 20 };
	net_options_init(&settings->options);
}

/* splitmix64: Steele, Lea, Flood, OOPSLA 2014 */
uint64_t world_random(struct world *world)
{
	uint64_t x = world->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

bool world_chance(struct world *world, uint32_t probability)
{
	return probability && (uint32_t)world_random(world) < probability;
}

uint64_t world_below(struct world *world, uint64_t limit)
{
	return limit ? (uint64_t)(((unsigned __int128)world_random(world) * limit) >> 64) : 0;
}

void world_fail(struct world *world, const char *format, ...)
{
	va_list args;

	if (!world->failed) {
		printf("# seed %llu, %.9f s: ", (unsigned long long)world->settings.seed,
		       (double)world->now / 1e9);
		va_start(args, format);
		vprintf(format, args);
		va_end(args);
		printf("\n");
		fflush(stdout);
	}
	world->failed = true;
}

/* ---- events ---- */

void world_call(struct world *world, uint64_t time, void (*call)(struct world *, void *), void *arg)
{
	events_push(&world->events,
		    (struct event){ .time = time, .kind = EVENT_CALL, .call = { call, arg } });
}

/* ---- the network ---- */

static struct packet *packet_new(struct world *world, size_t length)
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
	packet->next = NULL;
	return packet;
}

static void packet_free(struct world *world, struct packet *packet)
{
	if (packet->length > POOLED) {
		free(packet);
		return;
	}
	packet->next = world->free_packets;
	world->free_packets = packet;
}

static struct net_endpoint endpoint_of(unsigned number, unsigned path)
{
	struct net_endpoint endpoint = { { 0 } };

	memcpy(endpoint.bytes, &number, sizeof(number));
	endpoint.bytes[sizeof(number)] = (uint8_t)path;
	return endpoint;
}

static unsigned number_of(const struct net_endpoint *endpoint)
{
	unsigned number;

	memcpy(&number, endpoint->bytes, sizeof(number));
	return number;
}

/* False: UDP's checksum finds it. */
static bool corrupt(struct world *world, struct packet *packet)
{
	size_t at = world_below(world, packet->length);

	/* The hash covers the header only: behind it lies what only the checksum protects. */
	if (world->settings.options.auth == NET_AUTH_HEADER) {
		if (packet->length < 32)
			return false;
		at = world_below(world, 32);
	}
	packet->bytes[at] ^= (uint8_t)(1u << world_below(world, 8));
	return true;
}

static void transmit(struct world *world, struct host *from, struct packet *packet)
{
	const struct settings *settings = &world->settings;
	uint64_t time = world->now + settings->delay;

	world->packets++;
	if (world->tap)
		world->tap(world, from->number, packet->to, packet->bytes, packet->length);
	if (packet->length > settings->mtu || world_chance(world, settings->loss) ||
	    settings->paths_down >> packet->from.bytes[sizeof(unsigned)] & 1)
		goto drop;
	if (settings->rate) {
		struct host *to = &world->hosts[packet->to];
		uint64_t takes = packet->length * SECOND / settings->rate;
		uint64_t start = to->link > world->now ? to->link : world->now;

		if ((start - world->now) * settings->rate / SECOND > settings->queue)
			goto drop;
		to->link = start + takes;
		time += to->link - world->now;
	}
	if (world_chance(world, settings->reorder))
		time += world_below(world, settings->jitter);
	if (world_chance(world, settings->mark))
		packet->ecn = 3;
	if (world_chance(world, settings->duplicate)) {
		struct packet *copy = packet_new(world, packet->length);

		memcpy(copy->bytes, packet->bytes, packet->length);
		copy->from = packet->from;
		copy->to = packet->to;
		copy->ecn = packet->ecn;
		events_push(&world->events,
			    (struct event){ .time = time + world_below(world, settings->jitter + 1),
					    .kind = EVENT_PACKET,
					    .packet = copy });
	}
	if (world_chance(world, settings->corrupt) && !corrupt(world, packet))
		goto drop;
	events_push(&world->events,
		    (struct event){ .time = time, .kind = EVENT_PACKET, .packet = packet });
	return;
drop:
	world->dropped++;
	packet_free(world, packet);
}

void world_inject(struct world *world, unsigned from, unsigned to, const void *bytes, size_t length)
{
	struct packet *packet = packet_new(world, length);

	memcpy(packet->bytes, bytes, length);
	packet->from = endpoint_of(from, 0);
	packet->to = to;
	packet->ecn = 0;
	events_push(&world->events,
		    (struct event){ .time = world->now, .kind = EVENT_PACKET, .packet = packet });
}

static size_t copy_out(uint8_t *to, const struct iovec *vector, unsigned count)
{
	size_t length = 0;
	unsigned i;

	for (i = 0; i < count; i++) {
		memcpy(to + length, vector[i].iov_base, vector[i].iov_len);
		length += vector[i].iov_len;
	}
	return length;
}

static void send_batch(struct host *host, const struct net_batch *batch)
{
	struct world *world = host->world;
	unsigned v = 0, i;

	for (i = 0; i < batch->count; i++) {
		uint32_t length = i + 1 < batch->count ? batch->segment :
							 batch->length - i * batch->segment;
		struct packet *packet = packet_new(world, length);
		uint32_t got = 0;
		unsigned first = v;

		while (got < length)
			got += (uint32_t)batch->vector[v++].iov_len;
		if (got != length)
			world_fail(world, "a batch's packets are not of one size");
		copy_out(packet->bytes, &batch->vector[first], v - first);
		packet->from = endpoint_of(host->number, batch->to.bytes[sizeof(unsigned)]);
		packet->to = number_of(&batch->to);
		packet->ecn = 2;
		transmit(world, host, packet);
	}
}

void host_pump(struct host *host)
{
	struct world *world = host->world;
	uint64_t deadline;

	if (!host->core || host->stopped)
		return;
	while (net_output(host->core, world->now, world->batch))
		send_batch(host, world->batch);
	deadline = net_deadline(host->core);
	if (deadline <= world->now)
		deadline = world->now + 1;
	if (deadline < host->timer) {
		host->timer = deadline;
		events_push(&world->events,
			    (struct event){ .time = deadline, .kind = EVENT_TIMER, .host = host });
	}
}

static void receive(struct host *host, struct packet *packet)
{
	struct net_packet in = { .header = packet->bytes,
				 .header_length = packet->length,
				 .from = &packet->from,
				 .ecn = packet->ecn };

	net_input(host->core, host->world->now, &in, 1);
}

static void arrive(struct world *world, struct packet *packet)
{
	struct host *host = &world->hosts[packet->to];

	if (host->stopped) {
		if (host->waiting + packet->length > world->settings.options.receive_buffer) {
			packet_free(world, packet);
			return;
		}
		host->waiting += packet->length;
		packet->next = NULL;
		*host->queue_last = packet;
		host->queue_last = &packet->next;
		return;
	}
	if (host->core) {
		receive(host, packet);
		host_pump(host);
	} else {
		struct host *from = &world->hosts[number_of(&packet->from)];

		/* Its system says that nobody listens, if that gets through. */
		if (from->core && !from->stopped && world_chance(world, ~world->settings.loss)) {
			struct net_endpoint endpoint = endpoint_of(host->number, 0);

			net_refused(from->core, &endpoint);
			host_pump(from);
		}
	}
	packet_free(world, packet);
}

/* ---- a host ---- */

static bool inside(const struct host *host, uint64_t address, uint64_t length)
{
	uint64_t start = (uint64_t)(uintptr_t)host->arena, size = host->world->settings.arena;

	return address >= start && length <= size && address - start <= size - length;
}

/* Is it there? If not, it will be: the range of wait. */
static int look(struct host *host, const struct net_wait *wait, uint64_t address, uint64_t length,
		uint64_t *bad)
{
	struct world *world = host->world;
	uint64_t start = (uint64_t)(uintptr_t)host->arena;
	struct event event = { .kind = EVENT_RESOLVE, .host = host };
	size_t page, last;

	if (!inside(host, address, length)) {
		*bad = address < start ? address : start + world->settings.arena;
		if (*bad < address)
			*bad = address;
		return PF_ERR_FAULT;
	}
	last = (address - start + length - 1) / WORLD_PAGE;
	for (page = (address - start) / WORLD_PAGE; page <= last; page++) {
		if (!host->present[page])
			break;
	}
	if (page > last)
		return PF_OK;
	event.resolve = malloc(sizeof(*event.resolve));
	if (!event.resolve)
		abort();
	event.time = world->now + world_below(world, 2 * world->settings.resolve);
	event.resolve->token = wait->token;
	event.resolve->first = (wait->address - start) / WORLD_PAGE;
	event.resolve->count = (wait->address - start + wait->length - 1) / WORLD_PAGE + 1 -
			       event.resolve->first;
	event.resolve->life = host->life;
	events_push(&world->events, event);
	return PF_ERR_AGAIN;
}

static void resolved(struct world *world, struct event *event)
{
	struct host *host = event->host;
	size_t page, last = event->resolve->first + event->resolve->count;

	for (page = event->resolve->first; page < last; page++) {
		if (page < world->settings.arena / WORLD_PAGE)
			host->present[page] = 1;
	}
	if (host->core && host->life == event->resolve->life) {
		net_resolved(host->core, event->resolve->token, PF_OK, 0);
		host_pump(host);
	}
	free(event->resolve);
}

static int on_look(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		   uint64_t *bad)
{
	return look(user, wait, address, length, bad);
}

static int on_place(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		    uint32_t length, uint64_t *bad)
{
	int status = look(user, wait, address, length, bad);

	if (status == PF_OK)
		memcpy((void *)(uintptr_t)address, data, length);
	return status;
}

static int on_fetch(void *user, const struct net_wait *wait, uint64_t address, void *to,
		    uint32_t length, uint64_t *bad)
{
	int status = look(user, wait, address, length, bad);

	if (status == PF_OK)
		memcpy(to, (const void *)(uintptr_t)address, length);
	return status;
}

static int on_atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		     uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad)
{
	uint64_t *target = (uint64_t *)(uintptr_t)wait->address;
	int status = look(user, wait, wait->address, width, bad);

	if (status != PF_OK)
		return status;
	if (op != PF_ADD || width != 8)
		return PF_ERR_FAULT;
	*value = *target;
	*target += operand;
	return PF_OK;
}

static bool on_deliver(void *user, struct net_association *from, uint8_t tag, void *data,
		       size_t length)
{
	struct host *host = user;

	if ((uintptr_t)data % 8)
		world_fail(host->world, "a message is not aligned");
	if (host->closed)
		return false;
	return !host->deliver || host->deliver(host, net_association_user(from), tag, data, length);
}

static void on_complete(void *user, struct net_association *association, void *arg,
			const struct net_completion *completion)
{
	struct host *host = user;

	if (host->complete)
		host->complete(host, arg, completion);
}

static bool on_accept(void *user, struct net_association *association,
		      const uint8_t id[NET_ID_BYTES], const void *info, size_t length, void **peer)
{
	struct host *host = user;
	uint32_t who[2];

	if (length != sizeof(who))
		return false;
	memcpy(who, info, sizeof(who));
	if (who[0] >= host->world->settings.hosts)
		return false;
	*peer = &host->world->hosts[who[0]];
	if (memcmp(id, host->world->hosts[who[0]].id, NET_ID_BYTES))
		return true; /* late: it is dead already */
	host->peers[who[0]] = association;
	host->peer_life[who[0]] = who[1];
	return true;
}

static void on_gone(void *user, struct net_association *association, int status, const char *why)
{
	struct host *host = user, *peer = net_association_user(association);

	if (host->peers[peer->number] == association)
		host->peers[peer->number] = NULL;
	if (host->gone)
		host->gone(host, peer, status);
}

static size_t on_packet_most(void *user, const struct net_endpoint *endpoint)
{
	return ((struct host *)user)->world->settings.interface_mtu;
}

static void on_random(void *user, void *bytes, size_t length)
{
	struct host *host = user;
	uint8_t *p = bytes;

	while (length--)
		*p++ = (uint8_t)world_random(host->world);
}

void host_start(struct host *host)
{
	struct world *world = host->world;
	struct net_options options = world->settings.options;
	struct net_callbacks callbacks = { .source = on_look,
					   .destination = on_look,
					   .place = on_place,
					   .fetch = on_fetch,
					   .atomic = on_atomic,
					   .deliver = on_deliver,
					   .complete = on_complete,
					   .accept = on_accept,
					   .gone = on_gone,
					   .packet_most = on_packet_most,
					   .random = on_random,
					   .user = host };

	host->life++;
	if (host->life == 1 || !world->settings.same_id)
		on_random(host, host->id, sizeof(host->id));
	on_random(host, host->key, sizeof(host->key));
	memcpy(options.id, host->id, sizeof(options.id));
	memcpy(options.key, host->key, sizeof(options.key));
	options.incarnation = host->life;
	host->core = net_create(&options, &callbacks);
	if (!host->core)
		abort();
	host->timer = NET_NEVER;
}

void host_crash(struct host *host)
{
	struct net_core *core = host->core;

	host->life++;
	host->core = NULL;
	memset(host->peers, 0, host->world->settings.hosts * sizeof(struct net_association *));
	net_destroy(core);
}

void host_stop(struct host *host)
{
	host->stopped = true;
}

void host_continue(struct host *host)
{
	struct packet *packet;

	host->stopped = false;
	host->waiting = 0;
	while ((packet = host->queue)) {
		host->queue = packet->next;
		if (host->core)
			receive(host, packet);
		packet_free(host->world, packet);
	}
	host->queue_last = &host->queue;
	if (host->core)
		net_advance(host->core, host->world->now);
	host_pump(host);
}

struct net_association *host_peer(struct host *host, unsigned peer)
{
	struct host *other = &host->world->hosts[peer];
	struct net_endpoint endpoint = endpoint_of(peer, 0);
	uint32_t who[2] = { host->number, host->life };
	unsigned path;

	if (host->peers[peer])
		return host->peers[peer];
	if (!other->core)
		return NULL;
	host->peers[peer] = net_open(host->core, other->id, other->key, &endpoint, who, sizeof(who),
				     other);
	for (path = 1; host->peers[peer] && path < host->world->settings.paths; path++) {
		endpoint = endpoint_of(peer, path);
		net_path_add(host->peers[peer], &endpoint);
	}
	host->peer_life[peer] = other->life;
	return host->peers[peer];
}

void host_evict(struct host *host, size_t offset, size_t length)
{
	memset(host->present + offset / WORLD_PAGE, 0,
	       (offset + length - 1) / WORLD_PAGE + 1 - offset / WORLD_PAGE);
}

const struct net_statistics *host_statistics(const struct host *host)
{
	return net_statistics(host->core);
}

uint64_t world_sum(const struct world *world, size_t offset)
{
	uint64_t sum = 0, value;
	unsigned i;

	for (i = 0; i < world->settings.hosts; i++) {
		if (!world->hosts[i].core)
			continue;
		memcpy(&value, (const char *)net_statistics(world->hosts[i].core) + offset,
		       sizeof(value));
		sum += value;
	}
	return sum;
}

/* ---- the world ---- */

struct world *world_create(const struct settings *settings)
{
	struct world *world = calloc(1, sizeof(*world));
	unsigned i;

	if (!world)
		abort();
	world->settings = *settings;
	world->random = settings->seed * 0x9e3779b97f4a7c15ull + 1;
	world->now = SECOND;
	world->hosts = calloc(settings->hosts, sizeof(*world->hosts));
	world->batch = calloc(1, sizeof(*world->batch));
	world->batch->room = aligned_alloc(64, (NET_BATCH_BYTES + 2048 + 63) & ~63u);
	for (i = 0; i < settings->hosts; i++) {
		struct host *host = &world->hosts[i];

		host->world = world;
		host->number = i;
		host->arena = aligned_alloc(WORLD_PAGE, settings->arena);
		host->present = malloc(settings->arena / WORLD_PAGE);
		memset(host->present, 1, settings->arena / WORLD_PAGE);
		host->peers = calloc(settings->hosts, sizeof(struct net_association *));
		host->peer_life = calloc(settings->hosts, sizeof(uint32_t));
		host->queue_last = &host->queue;
		host_start(host);
	}
	return world;
}

bool world_run(struct world *world, uint64_t until, bool (*done)(struct world *))
{
	while (world->events.count && world->events.heap[1].time <= until && !world->failed) {
		struct event event = events_pop(&world->events);
		struct host *host = event.host;

		world->now = event.time;
		switch (event.kind) {
		case EVENT_PACKET:
			arrive(world, event.packet);
			break;
		case EVENT_TIMER:
			if (host->timer != event.time)
				break;
			host->timer = NET_NEVER;
			if (!host->core || host->stopped)
				break;
			net_advance(host->core, world->now);
			host_pump(host);
			break;
		case EVENT_RESOLVE:
			resolved(world, &event);
			break;
		case EVENT_CALL:
			event.call.call(world, event.call.arg);
			break;
		}
		if (done && done(world))
			return true;
	}
	if (world->now < until && until != NET_NEVER)
		world->now = until;
	return false;
}

void world_destroy(struct world *world)
{
	struct packet *packet;
	unsigned i;

	while (world->events.count) {
		struct event event = events_pop(&world->events);

		if (event.kind == EVENT_PACKET)
			packet_free(world, event.packet);
		else if (event.kind == EVENT_RESOLVE)
			free(event.resolve);
	}
	for (i = 0; i < world->settings.hosts; i++) {
		struct host *host = &world->hosts[i];

		host->complete = NULL;
		while ((packet = host->queue)) {
			host->queue = packet->next;
			packet_free(world, packet);
		}
		if (host->core)
			net_destroy(host->core);
		free(host->arena);
		free(host->present);
		free(host->peers);
		free(host->peer_life);
	}
	while ((packet = world->free_packets)) {
		world->free_packets = packet->next;
		free(packet);
	}
	free(world->batch->room);
	free(world->batch);
	free(world->hosts);
	free(world->events.heap);
	free(world);
}
