/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdarg.h>

#include "protocol/core.h"
#include "protocol/wire.h"
#include "carrier.h"
#include "net/traffic.h"
#include "network.h"
#include "pattern.h"

/* The address sanitizer reports accesses to the arena of a world that has ended. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define ARENA_ENDED(memory, size) ASAN_POISON_MEMORY_REGION(memory, size)
#define ARENA_REACHABLE(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
#define ARENA_ENDED(memory, size) ((void)0)
#define ARENA_REACHABLE(memory, size) ((void)0)
#endif

void settings_init(struct settings *settings)
{
	*settings = (struct settings){ .hosts = 2,
				       .seed = 1,
				       .delay = 5 * MICROSECOND,
				       .mtu = 8952,
				       .interface_mtu = 8952,
				       .resolve = 50 * MICROSECOND,
				       .paths = 1,
				       .reports = UINT32_MAX,
				       .predict = UINT32_MAX,
				       .away_time = 20 * MICROSECOND,
				       .arena = (size_t)1 << 20 };
	net_options_init(&settings->options);
}

uint64_t world_random(struct world *world)
{
	return pattern_mix(world->random += PATTERN_STEP);
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

void world_call(struct world *world, uint64_t time, void (*call)(struct world *, void *), void *arg)
{
	events_push(&world->events,
		    (struct event){ .time = time, .kind = EVENT_CALL, .call = { call, arg } });
}

/* ---- packets arrive ---- */

static void visit_later(struct host *host)
{
	struct world *world = host->world;

	host->away = true;
	events_push(&world->events,
		    (struct event){ .time = world->now +
					    world_below(world, 2 * world->settings.away_time),
				    .kind = EVENT_VISIT,
				    .host = host });
}

/* Send what may be sent. False: there was no room for all of it. */
static bool transmit(struct host *host)
{
	struct world *world = host->world;

	world->acting = host;
	traffic_transmit(world->traffic, host->core, world->now);
	return !world->traffic->held;
}

/* The same, and come back if there was no room. */
static bool transmit_again(struct host *host)
{
	bool room = transmit(host);

	if (!room && !host->away)
		visit_later(host);
	return room;
}

/* Receive packets that wait, as many as one round of the carrier does. */
static void receive(struct host *host)
{
	struct world *world = host->world;
	uint64_t dropped;
	uint32_t waited;
	unsigned count;

	world->acting = host;
	world->carrier->operations->look(world->carrier, true);
	do {
		/* Callbacks of events may have other hosts send. */
		world->acting = host;
		world->corrupt = 0;
		world->carrier->places = !world->settings.memory &&
					 world_chance(world, world->settings.predict);
		dropped = host_statistics(host)->dropped;
		count = traffic_receive(world->traffic, host->core,
					host->closed ? NET_NOT_LENT : host->lent, &waited);
		if (!count)
			break;
		host_take(host);
		if (host_statistics(host)->dropped - dropped < world->corrupt)
			world_fail(world, "host %u accepted a corrupt packet", host->number);
	} while (host->queue);
}

void host_report(struct host *host, const struct carrier_report *report)
{
	struct world *world = host->world;

	world->acting = host;
	world->report = report;
	traffic_take_reports(world->traffic, host->core, false);
	host_pump(host);
}

/* Packets sent, without those that find out the path's size: these go when output is asked for. */
static uint64_t packets_due(const struct host *host)
{
	const struct net_statistics *statistics = net_statistics(host->core);

	return statistics->packets_sent - statistics->probes;
}

/*
 * An association that waits has nothing that may be sent now, and knows when it will have. So, asked
 * for output once more, it has none, and its deadline stays. One that is due before now waits for a
 * nanosecond (schedule_again): not for that.
 */
static void check_waiting(struct host *host)
{
	struct world *world = host->world;
	unsigned i;

	for (i = 0; i < world->settings.hosts && net_blocked(host->core); i++) {
		struct net_association *association = host->peers[i];
		uint64_t deadline, before;

		if (!association || !association->blocked ||
		    association->deadline <= world->now + 1)
			continue;
		deadline = association->deadline;
		before = packets_due(host);
		schedule_ready(&host->core->schedule, association);
		if (!transmit_again(host))
			return;
		if (packets_due(host) != before || association->deadline < deadline)
			world_fail(world,
				   "host %u waits until %.9f s, and may send to host %u at %.9f s",
				   host->number, (double)deadline / 1e9, i,
				   (double)association->deadline / 1e9);
	}
}

void host_pump(struct host *host)
{
	struct world *world = host->world;
	uint64_t deadline;
	bool room;

	if (!host->core || host->stopped)
		return;
	host_take(host);
	room = transmit_again(host);
	/* Like network_deadline() in network.c. */
	deadline = net_exact_deadline(host->core);
	if (room && STAILQ_EMPTY(&host->core->schedule.ready))
		check_waiting(host);
	if (deadline <= world->now)
		deadline = world->now + 1;
	if (deadline < host->timer) {
		host->timer = deadline;
		events_push(&world->events,
			    (struct event){ .time = deadline, .kind = EVENT_TIMER, .host = host });
	}
}

/* Handle packets and timers of a host. */
static void visit(struct host *host)
{
	host->away = false;
	if (!host->core || host->stopped)
		return;
	while (host->queue) {
		receive(host);
		if (host->queue)
			transmit(host);
	}
	if (net_deadline(host->core) <= host->world->now)
		net_advance(host->core, host->world->now);
	host_pump(host);
}

/* Now, or later, if the host is away. */
static void visit_soon(struct host *host)
{
	if (world_chance(host->world, host->world->settings.away))
		visit_later(host);
	else
		visit(host);
}

static void arrive(struct world *world, struct packet *packet)
{
	struct host *host = &world->hosts[packet->to];

	if (world->reached)
		world->reached(world, packet->from, packet->to, packet->bytes, packet->length);
	if (!host->core && !host->stopped) {
		struct host *from = &world->hosts[packet->from];

		/* Its system reports that no socket listens, unless that report is lost. */
		if (from->core && !from->stopped && world->settings.reports &&
		    world_chance(world, ~world->settings.loss)) {
			struct carrier_report report = {
				.to = world_endpoint(host->number, packet->path),
				.refused = true,
				.refusal = NET_REFUSED_PORT,
			};

			world->settings.reports--;
			host_report(from, &report);
		}
		packet_free(world, packet);
		return;
	}
	if (host->waiting + wire_charge(packet->length) > world->settings.options.receive_buffer) {
		packet_free(world, packet);
		return;
	}
	host->waiting += wire_charge(packet->length);
	packet->next = NULL;
	packet->arrived = world->now;
	*host->queue_last = packet;
	host->queue_last = &packet->next;
	if (!host->stopped && !host->away)
		visit_soon(host);
}

/* ---- a host ---- */

static bool inside(const struct host *host, uint64_t address, uint64_t length)
{
	uint64_t start = (uint64_t)(uintptr_t)host->arena, size = host->world->settings.arena;

	return address >= start && length <= size && address - start <= size - length;
}

/* The first address of a range that is not inside. */
static uint64_t outside(const struct host *host, uint64_t address)
{
	uint64_t start = (uint64_t)(uintptr_t)host->arena;
	uint64_t end = start + host->world->settings.arena;

	return address < start || address > end ? address : end;
}

/* Is the range in memory that is found missing only by a system call? */
static bool beyond(const struct host *host, uint64_t address, uint64_t length)
{
	const struct settings *settings = &host->world->settings;
	uint64_t start = (uint64_t)(uintptr_t)host->arena;

	return settings->beyond && address >= start &&
	       address - start + length <= settings->arena + settings->beyond;
}

/* Are these pages present? If not, schedule their resolution for the range of wait. */
static int look(struct host *host, const struct net_wait *wait, uint64_t address, uint64_t length)
{
	struct world *world = host->world;
	uint64_t start = (uint64_t)(uintptr_t)host->arena;
	struct event event = { .kind = EVENT_RESOLVE, .host = host };
	size_t page, end;

	end = (address - start + length - 1) / WORLD_PAGE + 1;
	if (end > world->settings.arena / WORLD_PAGE)
		end = world->settings.arena / WORLD_PAGE;
	for (page = (address - start) / WORLD_PAGE; page < end; page++) {
		if (!host->present[page])
			break;
	}
	if (page >= end)
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
	size_t pages = world->settings.arena / WORLD_PAGE;
	int status = last > pages ? PF_ERR_FAULT : PF_OK;

	for (page = event->resolve->first; page < last && page < pages; page++)
		host->present[page] = 1;
	if (host->core && host->life == event->resolve->life) {
		net_resolved(host->core, event->resolve->token, status,
			     status == PF_OK ?
				     0 :
				     (uint64_t)(uintptr_t)host->arena + world->settings.arena);
		host_pump(host);
	}
	free(event->resolve);
}

static int reach(struct host *host, const struct net_wait *wait, uint64_t address, uint64_t length,
		 bool also_beyond, uint64_t *bad)
{
	if (inside(host, address, length) || (also_beyond && beyond(host, address, length)))
		return look(host, wait, address, length);
	*bad = outside(host, address);
	return PF_ERR_FAULT;
}

/* Like memory.c: that memory is not mapped is found by using it. */
static int on_source(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		     uint64_t *bad)
{
	struct host *host = user;

	if (wait->foreign && host->sources_most && ++host->sources > host->sources_most) {
		*bad = address;
		return PF_ERR_REFUSED;
	}
	return reach(host, wait, address, length, !wait->suspect, bad);
}

static int on_destination(void *user, const struct net_wait *wait, uint64_t address,
			  uint32_t length, uint64_t *bad)
{
	return reach(user, wait, address, length, true, bad);
}

static int on_place(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		    uint32_t length, uint64_t *bad)
{
	struct host *host = user;
	int status;

	if (host->memory_errors) {
		host->memory_errors--;
		return PF_ERR_MEMORY;
	}
	host->places++;
	if (world_chance(host->world, host->world->settings.no_memory))
		return PF_ERR_MEMORY;
	status = reach(user, wait, address, length, false, bad);
	if (status == PF_OK)
		memcpy((void *)(uintptr_t)address, data, length);
	host->absent_writes += status == PF_ERR_AGAIN;
	return status;
}

static unsigned on_place_many(void *user, const struct net_piece *pieces, unsigned count)
{
	struct host *host = user;

	host->places_many++;
	return host_place(host, pieces, count);
}

static int on_fetch(void *user, const struct net_wait *wait, uint64_t address, void *to,
		    uint32_t length, uint64_t *bad)
{
	int status = reach(user, wait, address, length, false, bad);

	if (status == PF_OK)
		memcpy(to, (const void *)(uintptr_t)address, length);
	return status;
}

static bool on_gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	struct host *host = user;

	host->gathers++;
	return host_gather(host, from, count, to);
}

static int on_atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		     uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad)
{
	uint64_t *target = (uint64_t *)(uintptr_t)wait->address;
	int status = reach(user, wait, wait->address, width, false, bad);

	if (status != PF_OK)
		return status;
	if ((op != PF_ATOMIC_ADD && op != PF_ATOMIC_SWAP) || width != 8)
		return PF_ERR_FAULT;
	*value = *target;
	*target = op == PF_ATOMIC_ADD ? *target + operand : operand;
	return PF_OK;
}

static void on_message(struct host *host, const struct net_event *event)
{
	static uint8_t whole[NET_MESSAGE_MOST];
	size_t length = 0;
	unsigned i;

	if ((uintptr_t)event->data % 8)
		world_fail(host->world, "a message is not aligned");
	for (i = 0; event->pieces > 1 && i < event->pieces; i++) {
		const struct iovec *piece = &event->piece[i];

		if ((uintptr_t)piece->iov_base % 8 || !piece->iov_len ||
		    (i + 1 < event->pieces && piece->iov_len % 8) ||
		    (!i && piece->iov_len < PF_PIECE_FIRST) ||
		    length + piece->iov_len > event->length) {
			world_fail(host->world, "piece %u of a message is not allowed", i);
			return;
		}
		memcpy(whole + length, piece->iov_base, piece->iov_len);
		length += piece->iov_len;
	}
	host->in_pieces += event->pieces > 1;
	if (event->pieces > 1 && length != event->length)
		world_fail(host->world, "the pieces of a message are not as long as it is");
	if (host->deliver)
		host->deliver(host, net_association_user(event->association), event->tag,
			      event->pieces > 1 ? whole : event->data, event->length);
}

static void on_gone(struct host *host, struct net_association *association)
{
	struct host *peer = net_association_user(association);
	const char *why;
	int status = net_association_status(association, &why);

	if (!why)
		world_fail(host->world, "a peer is gone for no reason");
	if (host->peers[peer->number] == association)
		host->peers[peer->number] = NULL;
	if (host->gone)
		host->gone(host, peer, status, why);
}

static void on_unanswered(struct host *host, struct net_association *association)
{
	if (host->unanswered)
		host->unanswered(host, net_association_user(association), net_silence(association));
}

static void on_notice(struct host *host, const struct net_event *event)
{
	if (host->notice)
		host->notice(host, net_association_user(event->association), event);
	net_resolved(host->core, event->token, PF_OK, 0);
}

void host_take(struct host *host)
{
	struct net_event event;

	while (host->core && !host->closed && net_take(host->core, &event)) {
		if (event.kind == NET_MESSAGE)
			on_message(host, &event);
		else if (event.kind == NET_NOTICE)
			on_notice(host, &event);
		else if (event.kind == NET_GONE)
			on_gone(host, event.association);
		else if (event.kind == NET_UNANSWERED)
			on_unanswered(host, event.association);
		else if (host->complete)
			host->complete(host, event.arg, &event.completion);
	}
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
		return true; /* a late packet of a dead process */
	host->peers[who[0]] = association;
	host->peer_life[who[0]] = who[1];
	return true;
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
	struct net_memory_operations memory = { .source = on_source,
						.destination = on_destination,
						.place = on_place,
						.place_many = on_place_many,
						.fetch = on_fetch,
						.gather = on_gather,
						.atomic = on_atomic,
						.asks_again = world->settings.asks_again,
						.user = host };
	struct net_callbacks callbacks = { .accept = on_accept,
					   .packet_most = on_packet_most,
					   .random = on_random,
					   .user = host };

	host->life++;
	on_random(host, host->id, sizeof(host->id));
	on_random(host, host->key, sizeof(host->key));
	memcpy(options.id, host->id, sizeof(options.id));
	memcpy(options.key, host->key, sizeof(options.key));
	host->core = net_create(&options, &memory, &callbacks);
	if (!host->core)
		abort();
	host->timer = NET_NEVER;
}

static void forget_packets(struct host *host)
{
	struct packet *packet;

	while ((packet = host->queue)) {
		host->queue = packet->next;
		packet_free(host->world, packet);
	}
	host->queue_last = &host->queue;
	host->waiting = 0;
}

void host_crash(struct host *host)
{
	struct net_core *core = host->core;
	struct net_event event;

	host->life++;
	host->core = NULL;
	memset(host->peers, 0, host->world->settings.hosts * sizeof(struct net_association *));
	/* Its operations end here, for the test. */
	net_close_all(core);
	while (net_take(core, &event)) {
		if (event.kind == NET_COMPLETION && host->complete)
			host->complete(host, event.arg, &event.completion);
	}
	net_destroy(core);
	forget_packets(host);
}

void host_stop(struct host *host)
{
	host->stopped = true;
}

void host_continue(struct host *host)
{
	host->stopped = false;
	visit(host);
}

struct net_association *host_peer(struct host *host, unsigned peer)
{
	struct host *other = &host->world->hosts[peer];
	struct net_endpoint endpoint = world_endpoint(peer, 0);
	uint32_t who[2] = { host->number, host->life };
	unsigned path;

	if (host->peers[peer])
		return host->peers[peer];
	if (!other->core)
		return NULL;
	host->peers[peer] = net_open(host->core, other->id, other->key, &endpoint, who, sizeof(who),
				     other);
	for (path = 1; host->peers[peer] && path < host->world->settings.paths; path++) {
		endpoint = world_endpoint(peer, path);
		net_path_add(host->peers[peer], &endpoint);
	}
	host->peer_life[peer] = other->life;
	return host->peers[peer];
}

uint64_t host_address(const struct host *host, size_t offset)
{
	return (uint64_t)(uintptr_t)(host->arena + offset);
}

static void accepted(struct host *host, int status)
{
	if (status != PF_PENDING)
		world_fail(host->world, "a transfer was refused: %d", status);
	host_pump(host);
}

void host_put(struct host *host, size_t offset, unsigned peer, size_t peer_offset, size_t length,
	      void *arg)
{
	const pf_piece piece = world_piece(host_address(host, offset),
					   host_address(&host->world->hosts[peer], peer_offset),
					   length);

	accepted(host, net_put(host_peer(host, peer), &piece, 1, arg));
}

void host_put_signal(struct host *host, size_t offset, unsigned peer, size_t peer_offset,
		     size_t length, const pf_signal *signal, void *arg)
{
	const pf_piece piece = world_piece(host_address(host, offset),
					   host_address(&host->world->hosts[peer], peer_offset),
					   length);

	accepted(host, net_put_signal(host_peer(host, peer), &piece, signal, arg));
}

void host_get(struct host *host, size_t offset, unsigned peer, size_t peer_offset, size_t length,
	      void *arg)
{
	const pf_piece piece = world_piece(host_address(host, offset),
					   host_address(&host->world->hosts[peer], peer_offset),
					   length);

	accepted(host, net_get(host_peer(host, peer), &piece, 1, arg));
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

static uint64_t world_clock(void *user)
{
	return ((const struct world *)user)->now;
}

/*
 * Arenas of worlds that have ended, without what was moved there: fresh memory costs a page fault for
 * each page.
 */
enum { SPARES = 4 };
static struct {
	uint8_t *memory;
	size_t size;
} spares[SPARES];

static uint8_t *arena_take(size_t size)
{
	uint8_t *memory;
	unsigned i;

	for (i = 0; i < SPARES; i++) {
		memory = spares[i].memory;
		if (!memory || spares[i].size != size)
			continue;
		spares[i].memory = NULL;
		ARENA_REACHABLE(memory, size);
		return memory;
	}
	return aligned_alloc(WORLD_PAGE, size);
}

static void arena_give(uint8_t *memory, size_t size)
{
	static unsigned oldest;
	unsigned i = oldest++ % SPARES;

	if (spares[i].memory) {
		ARENA_REACHABLE(spares[i].memory, spares[i].size);
		free(spares[i].memory);
	}
	memset(memory, 0xa5, size);
	ARENA_ENDED(memory, size);
	spares[i].memory = memory;
	spares[i].size = size;
}

struct world *world_create(const struct settings *settings)
{
	struct world *world = calloc(1, sizeof(*world));
	unsigned i;

	if (!world)
		abort();
	world->settings = *settings;
	world->random = settings->seed * PATTERN_STEP + 1;
	world->now = SECOND;
	world->hosts = calloc(settings->hosts, sizeof(*world->hosts));
	world->ports = calloc(settings->hosts, sizeof(*world->ports));
	world->carrier = settings->memory ? carrier_in_memory(world) : carrier_of_sockets(world);
	pthread_mutex_init(&world->lock, NULL);
	pthread_mutex_lock(&world->lock);
	world->traffic = calloc(1, sizeof(*world->traffic));
	if (!world->traffic)
		abort();
	world->traffic->carrier = world->carrier;
	world->traffic->lock = &world->lock;
	world->traffic->now = world_clock;
	world->traffic->user = world;
	if (traffic_create(world->traffic, settings->options.auth) != PF_OK)
		abort();
	for (i = 0; i < settings->hosts; i++) {
		struct host *host = &world->hosts[i];

		host->world = world;
		host->number = i;
		host->port = &world->ports[i < settings->together ? 0 : i];
		host->arena_size = settings->arena + settings->beyond;
		host->arena = arena_take(host->arena_size);
		host->present = malloc(settings->arena / WORLD_PAGE);
		memset(host->present, 1, settings->arena / WORLD_PAGE);
		host->peers = calloc(settings->hosts, sizeof(struct net_association *));
		host->peer_life = calloc(settings->hosts, sizeof(uint32_t));
		host->queue_last = &host->queue;
		host->lent = i % 3 == 2 ? NET_LENT : NET_LENT_PIECES;
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
		case EVENT_SWITCH:
			packet_switch(world, event.packet, world->now);
			break;
		case EVENT_TIMER:
			if (host->timer != event.time)
				break;
			host->timer = NET_NEVER;
			/* A host that is away for its packets comes back for both. */
			if (!host->away)
				visit_soon(host);
			break;
		case EVENT_VISIT:
			if (host->away)
				visit(host);
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

void world_pass(struct world *world, uint64_t time)
{
	world_run(world, world->now + time, NULL);
}

void world_destroy(struct world *world)
{
	unsigned i;

	while (world->events.count) {
		struct event event = events_pop(&world->events);

		if (event.kind == EVENT_PACKET || event.kind == EVENT_SWITCH)
			packet_free(world, event.packet);
		else if (event.kind == EVENT_RESOLVE)
			free(event.resolve);
	}
	for (i = 0; i < world->settings.hosts; i++) {
		struct host *host = &world->hosts[i];

		host->complete = NULL;
		forget_packets(host);
		if (host->core)
			net_destroy(host->core);
		arena_give(host->arena, host->arena_size);
		free(host->present);
		free(host->peers);
		free(host->peer_life);
	}
	world->carrier->operations->close(world->carrier);
	packets_destroy(world);
	traffic_destroy(world->traffic);
	free(world->traffic);
	pthread_mutex_unlock(&world->lock);
	pthread_mutex_destroy(&world->lock);
	free(world->hosts);
	free(world->ports);
	free(world->events.heap);
	free(world);
}
