/* SPDX-License-Identifier: BSD-3-Clause */
#include "load.h"

#include "pattern.h"

#define SLOTS 8
#define GUARD 64
#define SOURCE (128u << 10)
#define COUNTERS WORLD_PAGE
#define MESSAGE_LONGEST 20000u
#define SETTLED (2 * SECOND) /* time after which no packet of a dead host arrives */
#define SEEN_MOST (1u << 16)
#define PIECES_MOST 16

enum kind { PUT, GET, ATOMIC };

struct operation {
	struct load *load;
	enum kind kind;
	unsigned from, to, slot;
	uint32_t peer_life, life;
	uint32_t length;
	uint64_t source; /* offset */
	bool bad_local, bad_remote;
	uint64_t bad; /* the first bad address, in the order of the pieces */
	bool signalled;
	pf_signal signal;
	unsigned signals; /* notices seen */
	bool used;
};

struct pair {
	uint32_t sent, sent_life, sent_peer_life;
	uint32_t got, got_life, got_own_life;
};

struct load {
	struct world *world;
	struct load_settings settings;
	struct load_result result;
	size_t slot;
	uint64_t outstanding;
	bool (*slots)[SLOTS];      /* by host: in use */
	uint32_t (*filled)[SLOTS]; /* by host: guard bytes in a free slot */
	struct operation *operations;
	struct pair *pairs; /* from * hosts + to */
	uint64_t *added, *doubtful;
	uint64_t *signals, *signals_doubtful; /* that add to signals_of, by host */
	uint8_t *seen;
	uint32_t paths_down, mtu; /* at the start */
	bool ending;
};

static struct load *the_load; /* for callbacks */

static size_t source_length(const struct load_settings *settings)
{
	return settings->longest > SOURCE ? settings->longest : SOURCE;
}

static size_t slot_length(const struct load_settings *settings)
{
	return (settings->longest + GUARD + WORLD_PAGE - 1) & ~(size_t)(WORLD_PAGE - 1);
}

size_t load_arena(const struct load_settings *settings)
{
	/* The last slot is for operations that cross the end of the arena. */
	return source_length(settings) + COUNTERS + SLOTS * slot_length(settings) +
	       slot_length(settings);
}

size_t load_beyond(const struct load_settings *settings)
{
	return slot_length(settings);
}

static uint8_t *slot_of(const struct load *load, unsigned host, unsigned slot)
{
	return load->world->hosts[host].arena + source_length(&load->settings) + COUNTERS +
	       slot * load->slot;
}

static uint64_t *counter_of(const struct load *load, unsigned host)
{
	return (uint64_t *)(void *)(load->world->hosts[host].arena +
				    source_length(&load->settings));
}

/* The counter of signals of a host, or a word that signals set. */
static uint64_t *signals_of(const struct load *load, unsigned host, bool set)
{
	return counter_of(load, host) + (set ? 2 : 1);
}

static uint64_t arena_end(const struct world *world, unsigned host)
{
	return host_address(&world->hosts[host], world->settings.arena);
}

static bool all(const uint8_t *bytes, size_t length, uint8_t value)
{
	return !length || (bytes[0] == value && !memcmp(bytes, bytes + 1, length - 1));
}

static void free_slot(struct load *load, unsigned host, unsigned slot, uint32_t length)
{
	/* A write to it from now on is an error. */
	memset(slot_of(load, host, slot), 0x5a, length + GUARD);
	load->filled[host][slot] = length + GUARD;
	load->slots[host][slot] = false;
}

struct late {
	struct load *load;
	unsigned host, slot;
	uint32_t length;
};

static void free_late(struct world *world, void *arg)
{
	struct late *late = arg;

	free_slot(late->load, late->host, late->slot, late->length);
	free(late);
}

static void free_slot_later(struct load *load, unsigned host, unsigned slot, uint32_t length)
{
	struct late *late = malloc(sizeof(*late));

	if (!late)
		abort();
	*late = (struct late){ load, host, slot, length };
	world_call(load->world, load->world->now + SETTLED, free_late, late);
}

static int find_slot(struct load *load, unsigned host)
{
	unsigned slot = (unsigned)world_below(load->world, SLOTS), i;

	for (i = 0; i < SLOTS; i++, slot = (slot + 1) % SLOTS) {
		if (load->slots[host][slot])
			continue;
		if (!all(slot_of(load, host, slot), load->filled[host][slot], 0x5a))
			world_fail(load->world, "host %u slot %u was written after its end", host,
				   slot);
		load->slots[host][slot] = true;
		return (int)slot;
	}
	return -1;
}

static unsigned partner(struct load *load, unsigned from)
{
	struct world *world = load->world;
	unsigned hosts = world->settings.hosts, to;

	do {
		if (world_below(world, 10))
			to = (unsigned)(from + hosts + world_below(world, 5) - 2) % hosts;
		else
			to = (unsigned)world_below(world, hosts);
	} while (to == from);
	return to;
}

static uint32_t random_length(struct load *load, size_t longest)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(longest);
	uint64_t most = 1ull << world_below(load->world, bits + 1);

	if (most > longest)
		most = longest;
	return (uint32_t)world_below(load->world, most) + 1;
}

static void send_message(struct load *load, unsigned from, unsigned to)
{
	static uint8_t payload[MESSAGE_LONGEST];
	struct world *world = load->world;
	struct host *host = &world->hosts[from];
	struct net_association *peer = host_peer(host, to);
	struct pair *pair = &load->pairs[from * world->settings.hosts + to];
	uint32_t length = random_length(load, world_below(world, 8) ? 100 : MESSAGE_LONGEST);
	uint32_t header[4] = { from, host->life, 0, length };

	if (!peer)
		return;
	if (pair->sent_life != host->life || pair->sent_peer_life != host->peer_life[to]) {
		pair->sent = 0;
		pair->sent_life = host->life;
		pair->sent_peer_life = host->peer_life[to];
	}
	header[2] = pair->sent;
	pattern_fill(payload, length, pair->sent);
	if (net_send(peer, 7, header, sizeof(header), payload, length) == PF_OK)
		pair->sent++;
}

static void deliver(struct host *host, struct host *peer, uint32_t tag, const void *data,
		    size_t length)
{
	struct load *load = the_load;
	struct world *world = host->world;
	const uint8_t *bytes = data;
	uint32_t header[4];
	struct pair *pair;

	if (length < sizeof(header)) {
		world_fail(world, "a message of %zu bytes arrived, which no host sent", length);
		return;
	}
	memcpy(header, data, sizeof(header));
	if (tag != 7 || header[0] >= world->settings.hosts || peer->number != header[0] ||
	    length != sizeof(header) + header[3]) {
		world_fail(world, "tag, sender or length of a message is wrong");
		return;
	}
	pair = &load->pairs[header[0] * world->settings.hosts + host->number];
	/* A late message of a dead process. */
	if (pair->got_own_life == host->life && header[1] < pair->got_life)
		return;
	if (pair->got_life != header[1] || pair->got_own_life != host->life) {
		pair->got = 0;
		pair->got_life = header[1];
		pair->got_own_life = host->life;
	}
	if (header[2] != pair->got)
		world_fail(world, "message %u from %u to %u arrived, expected was %u", header[2],
			   header[0], host->number, pair->got);
	pair->got++;
	bytes += sizeof(header);
	if (pattern_differs(bytes, header[3], header[2]) != header[3])
		world_fail(world, "message %u from %u has wrong contents", header[2], header[0]);
	load->result.messages++;
}

static struct operation *unused(struct load *load, unsigned from)
{
	struct operation *operation = &load->operations[from * load->settings.depth];
	unsigned i;

	for (i = 0; i < load->settings.depth; i++) {
		if (!operation[i].used)
			return &operation[i];
	}
	return NULL;
}

static void post(struct load *load, unsigned from);

static void retry(struct world *world, void *arg)
{
	struct host *host = arg;

	if (!host->core || host->stopped) {
		world_call(world, world->now + MILLISECOND, retry, arg);
		return;
	}
	post(the_load, host->number);
	host_pump(host);
}

/*
 * Cut a transfer into pieces at random places, in random order. A piece may be empty, and one may be
 * there twice. Returns how many.
 */
static unsigned cut_pieces(struct world *world, uint64_t local, uint64_t remote, uint32_t length,
			   pf_piece *pieces)
{
	unsigned count = (unsigned)world_below(world, PIECES_MOST - 1) + 1, i;
	uint32_t start = 0, end;

	for (i = 0; i < count; i++) {
		unsigned place = (unsigned)world_below(world, i + 1);

		end = i + 1 < count ? start + (uint32_t)world_below(world, length - start + 1) :
				      length;
		pieces[i] = pieces[place];
		pieces[place] = world_piece(local + start, remote + start, end - start);
		start = end;
	}
	if (world_below(world, 4))
		return count;
	pieces[count] = pieces[world_below(world, count)];
	return count + 1;
}

/* Return the first address, in the order of the pieces, from end on. */
static uint64_t first_bad(const pf_piece *pieces, bool local, uint64_t end)
{
	for (;; pieces++) {
		uint64_t start = local ? (uintptr_t)pieces->local : pieces->remote;

		if (pieces->length && start + pieces->length > end)
			return start > end ? start : end;
	}
}

/* Choose a signal for a put of a single piece. */
static void choose_signal(struct load *load, struct operation *operation)
{
	pf_signal *signal = &operation->signal;

	operation->signalled = true;
	signal->op = (enum pf_signal_op)world_below(load->world, 3);
	signal->value = signal->op == PF_SIGNAL_ADD ?
				1 :
				(uint64_t)operation->life << 32 |
					(uint64_t)(operation - load->operations);
	signal->remote = (uint64_t)(uintptr_t)signals_of(load, operation->to,
							 signal->op == PF_SIGNAL_SET);
	if (signal->op == PF_SIGNAL_ADD)
		load->signals_doubtful[operation->to]++;
}

/* The data of a put with a signal is in place, and the put is not complete. */
static void on_notice(struct host *host, struct host *from, const struct net_event *event)
{
	struct load *load = the_load;
	struct operation *operation = &load->operations[(uint32_t)event->value];
	struct world *world = host->world;

	/* Of a put that ended with the death of a process. */
	if (!operation->used || operation->from != from->number || operation->to != host->number ||
	    operation->peer_life != host->life || operation->life != event->value >> 32 ||
	    !operation->signalled)
		return;
	if (operation->signals++ || operation->bad_local || operation->bad_remote)
		world_fail(world, "a notice came twice, or of a put with a bad address");
	else if (event->remote !=
			 (uint64_t)(uintptr_t)slot_of(load, host->number, operation->slot) ||
		 event->length != operation->length)
		world_fail(world, "a notice has a wrong address or length");
	else if (memcmp(slot_of(load, host->number, operation->slot),
			from->arena + operation->source, operation->length))
		world_fail(world, "a notice came before the data");
}

static void post(struct load *load, unsigned from)
{
	struct world *world = load->world;
	struct host *host = &world->hosts[from];
	struct operation *operation = unused(load, from);
	struct net_association *peer;
	pf_piece pieces[PIECES_MOST];
	uint64_t remote, local;
	unsigned owner, count = 1;
	int status, slot = -1;

	if (load->ending || !operation)
		return;
	*operation = (struct operation){ .load = load, .from = from, .to = partner(load, from) };
	operation->kind = (enum kind)world_below(world, 8);
	operation->kind = operation->kind < 4 ? PUT : operation->kind < 7 ? GET : ATOMIC;
	peer = host_peer(host, operation->to);
	owner = operation->kind == PUT ? operation->to : from;
	if (peer && operation->kind != ATOMIC)
		slot = find_slot(load, owner);
	if (!peer || (operation->kind != ATOMIC && slot < 0)) {
		world_call(world, world->now + world_below(world, MILLISECOND), retry, host);
		return;
	}
	if (world_below(world, 2))
		send_message(load, from, operation->to);
	operation->used = true;
	operation->peer_life = host->peer_life[operation->to];
	operation->life = host->life;
	load->outstanding++;
	if (operation->kind == ATOMIC) {
		load->doubtful[operation->to]++;
		status = net_atomic(peer, PF_ATOMIC_ADD, 8,
				    (uint64_t)(uintptr_t)counter_of(load, operation->to), 1, 0,
				    operation);
	} else {
		operation->slot = (unsigned)slot;
		operation->length = random_length(load, load->settings.longest);
		operation->source =
			world_below(world, source_length(&load->settings) - operation->length + 1);
		memset(slot_of(load, owner, operation->slot), 0x5a, operation->length + GUARD);
		local = host_address(host, operation->source);
		remote = (uint64_t)(uintptr_t)slot_of(load, operation->to, operation->slot);
		if (operation->kind == GET) {
			remote = host_address(&world->hosts[operation->to], operation->source);
			local = (uint64_t)(uintptr_t)slot_of(load, from, operation->slot);
		}
		if (world_chance(world, load->settings.bad)) {
			/* At least the last byte is behind the arena. */
			uint64_t before = world_below(world, operation->length);

			operation->bad_remote = world_below(world, 2);
			operation->bad_local = !operation->bad_remote;
			if (operation->bad_remote)
				remote = arena_end(world, operation->to) - before;
			else
				local = arena_end(world, from) - before;
		}
		if (world_below(world, 2))
			count = cut_pieces(world, local, remote, operation->length, pieces);
		else
			pieces[0] = world_piece(local, remote, operation->length);
		if (operation->bad_local || operation->bad_remote)
			operation->bad = first_bad(
				pieces, operation->bad_local,
				arena_end(world, operation->bad_local ? from : operation->to));
		if (operation->kind == PUT && count == 1 && world_below(world, 2)) {
			choose_signal(load, operation);
			if (!operation->bad_local && !operation->bad_remote &&
			    !world_below(world, 8))
				operation->length = 0;
			pieces[0].length = operation->length;
			status = net_put_signal(peer, pieces, &operation->signal, operation);
		} else {
			status = operation->kind == PUT ? net_put(peer, pieces, count, operation) :
							  net_get(peer, pieces, count, operation);
		}
	}
	if (status != PF_PENDING)
		world_fail(world, "posting failed: %d", status);
}

static void check_transfer(struct load *load, struct operation *operation, unsigned owner,
			   const struct net_completion *completion)
{
	struct world *world = load->world;
	unsigned other = operation->kind == PUT ? operation->from : operation->to;
	const uint8_t *slot = slot_of(load, owner, operation->slot);
	bool bad = operation->bad_local || operation->bad_remote;

	if (bad) {
		load->result.faults++;
		/* The first bad byte, in whatever order packets arrived. */
		if (completion->status != PF_ERR_FAULT || completion->address != operation->bad ||
		    completion->side != (operation->bad_local ? PF_SIDE_LOCAL : PF_SIDE_REMOTE))
			world_fail(world,
				   "a %s with a bad address ended with %d, side %d, %lld bytes off",
				   operation->kind == PUT ? "put" : "get", completion->status,
				   completion->side,
				   (long long)(completion->address - operation->bad));
		return;
	}
	if (completion->status != PF_OK) {
		world_fail(world, "a transfer ended with %d", completion->status);
		return;
	}
	if (memcmp(slot, world->hosts[other].arena + operation->source, operation->length))
		world_fail(world, "%s of %u bytes from %u with %u has wrong contents",
			   operation->kind == PUT ? "put" : "get", operation->length,
			   operation->from, operation->to);
	if (!all(slot + operation->length, GUARD, 0x5a))
		world_fail(world, "bytes behind a transfer were written");
}

/* Of an operation whose peer lives. */
static void check_signal(struct load *load, const struct operation *operation,
			 const struct net_completion *completion)
{
	if (operation->signal.op == PF_SIGNAL_ADD) {
		load->signals_doubtful[operation->to]--;
		load->signals[operation->to] += completion->status == PF_OK;
	} else if (operation->signal.op == PF_SIGNAL_NOTICE &&
		   operation->signals != (completion->status == PF_OK)) {
		world_fail(load->world, "%u notices of a put that ended with %d",
			   operation->signals, completion->status);
	}
}

static void check_atomic(struct load *load, struct operation *operation,
			 const struct net_completion *completion)
{
	struct world *world = load->world;
	uint8_t *seen = load->seen + (size_t)operation->to * (SEEN_MOST / 8);

	if (completion->status != PF_OK) {
		world_fail(world, "an atomic ended with %d", completion->status);
		return;
	}
	load->result.atomics++;
	load->doubtful[operation->to]--;
	load->added[operation->to]++;
	if (completion->value >= SEEN_MOST)
		return;
	if (seen[completion->value / 8] >> completion->value % 8 & 1)
		world_fail(world, "two atomics returned the same old value");
	seen[completion->value / 8] |= (uint8_t)(1u << completion->value % 8);
}

/* Before a put completes, its target holds what was there before, and bytes of the put. */
static void check_unfinished(struct load *load, const struct operation *operation)
{
	struct world *world = load->world;
	const uint8_t *slot, *source;
	uint32_t i;

	if (!operation->used || operation->kind != PUT || operation->bad_local ||
	    operation->bad_remote)
		return;
	slot = slot_of(load, operation->to, operation->slot);
	source = world->hosts[operation->from].arena + operation->source;
	for (i = 0; i < operation->length; i++) {
		if (slot[i] == 0x5a || slot[i] == source[i])
			continue;
		world_fail(world, "byte %u of an unfinished put of %u from %u to %u is not its own",
			   i, operation->length, operation->from, operation->to);
		return;
	}
}

static void complete(struct host *host, void *arg, const struct net_completion *completion)
{
	struct operation *operation = arg;
	struct load *load = operation->load;
	struct world *world = load->world;
	unsigned owner = operation->kind == PUT ? operation->to : operation->from;

	if (!operation->used) {
		world_fail(world, "an operation completed twice");
		return;
	}
	operation->used = false;
	load->outstanding--;
	load->result.operations++;
	if (completion->status == PF_ERR_PEER || completion->status == PF_ERR_TIMEOUT ||
	    completion->status == PF_ERR_UNREACHABLE) {
		load->result.lost_peers++;
		if (host->core && world->hosts[operation->to].life == operation->peer_life)
			world_fail(world, "host %u counts as dead for %u and is alive",
				   operation->to, operation->from);
		/* Late packets may still write to the peer's memory, not to the initiator's. */
		if (operation->kind == PUT)
			free_slot_later(load, owner, operation->slot, operation->length);
		else if (operation->kind == GET)
			free_slot(load, owner, operation->slot, operation->length);
	} else if (operation->kind == ATOMIC) {
		check_atomic(load, operation, completion);
	} else {
		check_transfer(load, operation, owner, completion);
		if (operation->signalled)
			check_signal(load, operation, completion);
		free_slot(load, owner, operation->slot, operation->length);
	}
	if (world->packets >= load->settings.packets)
		load->ending = true;
	if (world_chance(world, world->settings.absent)) {
		size_t offset = world_below(world, world->settings.arena);

		host_evict(host, offset,
			   world_below(world, world->settings.arena - offset) / 4 + 1);
	}
	check_unfinished(load,
			 &load->operations[world_below(world, (uint64_t)world->settings.hosts *
								      load->settings.depth)]);
	/* Not in this function: completions of short operations would nest. */
	world_call(world, world->now, retry, host);
}

/* ---- events that disturb ---- */

static uint64_t soon(struct world *world, uint64_t mean)
{
	return world->now + world_below(world, 2 * mean) + 1;
}

static void restart(struct world *world, void *arg)
{
	struct host *host = arg;
	unsigned i;

	host_start(host);
	for (i = 0; i < the_load->settings.depth; i++)
		post(the_load, host->number);
	host_pump(host);
}

static void crash(struct world *world, void *arg)
{
	struct load *load = arg;
	struct host *host = &world->hosts[world_below(world, world->settings.hosts)];

	if (load->ending)
		return;
	if (host->core && !host->stopped) {
		host_crash(host);
		world_call(world, soon(world, 20 * MILLISECOND), restart, host);
	}
	world_call(world, soon(world, load->settings.crash), crash, load);
}

static void go_on(struct world *world, void *arg)
{
	host_continue(arg);
}

static void stop(struct world *world, void *arg)
{
	struct load *load = arg;
	struct host *host = &world->hosts[world_below(world, world->settings.hosts)];

	if (load->ending)
		return;
	if (host->core && !host->stopped) {
		host_stop(host);
		world_call(world, soon(world, 50 * MILLISECOND), go_on, host);
	}
	world_call(world, soon(world, load->settings.stop), stop, load);
}

static void accept_messages(struct world *world, void *arg)
{
	struct host *host = arg;

	if (host->stopped) {
		world_call(world, world->now + MILLISECOND, accept_messages, arg);
		return;
	}
	host->closed = false;
	if (!host->core)
		return;
	host_pump(host);
}

static void refuse_messages(struct world *world, void *arg)
{
	struct load *load = arg;
	struct host *host = &world->hosts[world_below(world, world->settings.hosts)];

	if (load->ending)
		return;
	if (!host->closed) {
		host->closed = true;
		world_call(world, soon(world, 10 * MILLISECOND), accept_messages, host);
	}
	world_call(world, soon(world, load->settings.close), refuse_messages, load);
}

static void restore_paths(struct world *world, void *arg)
{
	world->settings.paths_down = the_load->paths_down;
}

/* Some or all paths are down for a while. */
static void cut_paths(struct world *world, void *arg)
{
	struct load *load = arg;

	if (load->ending)
		return;
	world->settings.paths_down |= (uint32_t)world_below(world, 1ull << NET_PATHS_MOST);
	world_call(world, soon(world, 50 * MILLISECOND), restore_paths, load);
	world_call(world, soon(world, load->settings.cut), cut_paths, load);
}

/* Packets take another route, or the interface's MTU is changed. */
static void change_mtu(struct world *world, void *arg)
{
	static const uint32_t sizes[] = { NET_PACKET_LEAST, 1300, 1472 };
	uint64_t size = world_below(world, 4);
	struct load *load = arg;

	if (load->ending)
		return;
	world->settings.mtu = size < 3 && sizes[size] < load->mtu ? sizes[size] : load->mtu;
	world->settings.interface_mtu = world_below(world, 2) ? load->mtu : world->settings.mtu;
	world_call(world, soon(world, load->settings.mtu), change_mtu, load);
}

static bool finished(struct world *world)
{
	return the_load->ending && !the_load->outstanding;
}

static void check_end(struct load *load)
{
	struct world *world = load->world;
	unsigned hosts = world->settings.hosts, from, to;
	size_t idle = 1024 + (world->settings.paths - 1) * 512;

	for (to = 0; to < hosts; to++) {
		uint64_t counted = *counter_of(load, to);

		if (counted < load->added[to] || counted > load->added[to] + load->doubtful[to])
			world_fail(world, "host %u counted %llu of %llu atomics", to,
				   (unsigned long long)counted,
				   (unsigned long long)load->added[to]);
		counted = *signals_of(load, to, false);
		if (counted < load->signals[to] ||
		    counted > load->signals[to] + load->signals_doubtful[to])
			world_fail(world, "host %u counted %llu of %llu signals", to,
				   (unsigned long long)counted,
				   (unsigned long long)load->signals[to]);
		for (from = 0; from < hosts; from++) {
			struct pair *pair = &load->pairs[from * hosts + to];
			struct host *host = &world->hosts[from];
			struct net_association *peer = host->peers ? host->peers[to] : NULL;

			if (peer && pair->sent_life == host->life &&
			    pair->sent_peer_life == world->hosts[to].life &&
			    (pair->got_own_life != world->hosts[to].life ||
			     pair->got_life != host->life || pair->got != pair->sent) &&
			    pair->sent)
				world_fail(world, "%u of %u messages from %u to %u arrived",
					   pair->got, pair->sent, from, to);
			if (peer && net_association_memory(peer) > idle)
				world_fail(world, "an idle association holds %zu bytes",
					   net_association_memory(peer));
		}
	}
}

bool load_run(struct world *world, const struct load_settings *settings, struct load_result *result)
{
	unsigned hosts = world->settings.hosts, i, j;
	struct load load = { .world = world, .settings = *settings };

	the_load = &load;
	load.slot = slot_length(settings);
	load.paths_down = world->settings.paths_down;
	load.mtu = world->settings.interface_mtu;
	load.slots = calloc(hosts, sizeof(*load.slots));
	load.filled = calloc(hosts, sizeof(*load.filled));
	load.operations = calloc((size_t)hosts * settings->depth, sizeof(*load.operations));
	load.pairs = calloc((size_t)hosts * hosts, sizeof(*load.pairs));
	load.added = calloc(hosts, sizeof(*load.added));
	load.doubtful = calloc(hosts, sizeof(*load.doubtful));
	load.signals = calloc(hosts, sizeof(*load.signals));
	load.signals_doubtful = calloc(hosts, sizeof(*load.signals_doubtful));
	load.seen = calloc(hosts, SEEN_MOST / 8);
	for (i = 0; i < hosts; i++) {
		struct host *host = &world->hosts[i];
		uint64_t *words = (uint64_t *)(void *)host->arena;

		for (j = 0; j < source_length(settings) / 8; j++)
			words[j] = world_random(world);
		*counter_of(&load, i) = 0;
		*signals_of(&load, i, false) = *signals_of(&load, i, true) = 0;
		host->notice = on_notice;
		host->deliver = deliver;
		host->complete = complete;
	}
	for (i = 0; i < hosts; i++) {
		for (j = 0; j < settings->depth; j++)
			post(&load, i);
		host_pump(&world->hosts[i]);
	}
	if (settings->crash)
		world_call(world, soon(world, settings->crash), crash, &load);
	if (settings->stop)
		world_call(world, soon(world, settings->stop), stop, &load);
	if (settings->close)
		world_call(world, soon(world, settings->close), refuse_messages, &load);
	if (settings->cut)
		world_call(world, soon(world, settings->cut), cut_paths, &load);
	if (settings->mtu)
		world_call(world, soon(world, settings->mtu), change_mtu, &load);
	while (!load.ending && !world->failed) {
		uint64_t before = load.result.operations;

		if (world_run(world, world->now + 100 * SECOND, finished))
			break;
		if (before == load.result.operations && !world->failed)
			world_fail(world, "no operation completes");
	}
	if (!world->failed && !finished(world) &&
	    !world_run(world, world->now + 100 * SECOND, finished) && !world->failed)
		world_fail(world, "%llu operations never complete",
			   (unsigned long long)load.outstanding);
	/* Until late packets have arrived, dead peers are noticed and idle memory is freed. */
	world_run(world, world->now + world->settings.options.peer_timeout + 10 * SECOND, NULL);
	if (!world->failed)
		check_end(&load);
	*result = load.result;
	for (i = 0; i < hosts; i++) {
		world->hosts[i].complete = NULL;
		world->hosts[i].deliver = NULL;
		world->hosts[i].notice = NULL;
	}
	free(load.slots);
	free(load.filled);
	free(load.operations);
	free(load.pairs);
	free(load.added);
	free(load.doubtful);
	free(load.signals);
	free(load.signals_doubtful);
	free(load.seen);
	return !world->failed;
}
