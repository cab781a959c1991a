/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/probe.h"
#include "common/path.h"

/*
 * A process with more rings than this gets a smaller allowance for all of them. All rings of n
 * processes on a host then grow by at most so many times ring_memory, for any n, instead of n times.
 * A lower number costs time and saves little memory, because ob1 keeps in memory of its own what
 * rings refuse. 64 ranks that send 16 messages of 4 KiB to each other all at once use 0.83 GiB with
 * 16 and 0.86 with 32, but a round takes 1.4 times as long with 16 (medians of 7 runs in turns).
 */
#define RINGS_FULL 32
static const char path_opening[] =
	"messages through the ring; transfers wait for the peer's answer";
static const char path_single[] = "single copy, long transfers from both ends";
static const char path_exposed[] =
	"single copy by this process alone: expose is 1, and the peer goes through the ring";
static const char path_disabled[] = PF_PATH_RING ": single_copy is 0";
static const char path_device[] = "by the engine of /dev/exanest";
static const char path_device_copy[] =
	"by the engine of /dev/exanest, short transfers by single copy";
static const char path_no_device[] =
	"none: transport is device, and /dev/exanest does not reach the peer";

static const char path_no_descriptors[] =
	"none: out of file descriptors in this process: raise its limit (ulimit -n)";
static const char path_file_size[] =
	"none: a ring is longer than files may be in this process: raise the limit (ulimit -f), or "
	"lower ring_size";
static const char path_system[] = "none: a system call failed while connecting to the peer";

void host_peer_init(pf_peer *base)
{
	struct host_peer *peer = (struct host_peer *)base;

	peer->self = !memcmp(base->id, base->context->address.id, sizeof(base->id));
	if (base->address)
		peer->distance = location_distance(&base->context->address.location,
						   &base->address->location);
	peer->shares_free = CHANNEL_SHARES_ALL;
	TAILQ_INIT(&peer->atomics);
	TAILQ_INIT(&peer->transfers);
	pthread_mutex_init(&peer->lock, NULL);
}

/* Bytes by which so many rings of this process may grow together. */
static int64_t rings_memory(const pf_context *context, unsigned rings)
{
	return (int64_t)(context->options.ring_memory * RINGS_FULL / number_max(rings, RINGS_FULL));
}

/*
 * A ring more: its share comes from the allowance of all, which may become negative; a ring less
 * gives the share back.
 */
static void rings_count(pf_context *context, bool more)
{
	struct host_state *host = context->host;
	unsigned before = more ? atomic_fetch_add(&host->rings, 1) :
				 atomic_fetch_sub(&host->rings, 1);
	unsigned after = more ? before + 1 : before - 1;

	atomic_fetch_add_explicit(&host->ring_allowance,
				  rings_memory(context, after) - rings_memory(context, before),
				  memory_order_relaxed);
}

/* Under the peer's lock. */
static void channel_close(struct host_peer *peer)
{
	channel_destroy(&peer->out);
	rings_count(peer->peer.context, false);
}

void host_peer_unmap(struct host_peer *peer)
{
	struct residency *residency;
	const struct bell *bell;

	assert_progress(peer->peer.context);
	/* Threads that began before the peer was marked gone; see host_peer_enter. */
	while (atomic_load_explicit(&peer->posting, memory_order_seq_cst))
		sched_yield();
	residency = atomic_exchange(&peer->residency, NULL);
	if (peer->out.memory)
		channel_close(peer);
	bell = atomic_exchange(&peer->bell, NULL);
	if (bell)
		inbox_destroy(&(struct inbox){ .memory = bell->inbox, .fd = -1 });
	if (residency)
		residency_close(residency);
	free(residency);
	process_put(peer->process);
	peer->process = NULL;
}

void host_peer_destroy(pf_peer *base)
{
	struct host_peer *peer = (struct host_peer *)base;

	host_peer_unmap(peer);
	pthread_mutex_destroy(&peer->lock);
}

struct adopt_task {
	struct task task;
	struct host_peer *peer;
	struct call call;
};

/* Service thread. */
static void adopt_task_run(struct task *task, bool dropped)
{
	struct adopt_task *adopt = (struct adopt_task *)task;
	struct host_peer *peer = adopt->peer;

	assert_service(&peer->peer.context->service);
	if (dropped)
		close(adopt->call.socket);
	else
		connections_adopt(&peer->peer.context->host->connections, &peer->peer, &adopt->call,
				  &peer->connection);
	free(adopt);
}

/* Service thread. */
static void report_refused(struct task *task, bool dropped)
{
	struct host_peer *peer = ((struct adopt_task *)task)->peer;

	assert_service(&peer->peer.context->service);
	if (!dropped)
		connections_report_refused(&peer->peer.context->host->connections, &peer->peer);
	free(task);
}

/*
 * Call the peer, and have the service thread wait for the answer. If the peer's process is gone and
 * the peer is used, the service thread reports the end.
 */
static int call_peer(struct host_peer *peer, bool used)
{
	pf_context *context = peer->peer.context;
	struct adopt_task *work = calloc(1, sizeof(*work));
	int status;

	assert_locked(&peer->lock, peer->peer.context->threads);
	if (!work)
		return PF_ERR_MEMORY;
	status = connection_dial(&context->host->connections, peer->peer.address, peer->out.fd,
				 &work->call);
	peer->refused = status == PF_ERR_PEER && used;
	if (status != PF_OK && !peer->refused) {
		free(work);
		return status;
	}
	work->task.run = peer->refused ? report_refused : adopt_task_run;
	work->peer = peer;
	service_run(&context->service, &work->task);
	return status;
}

/* Say why in the path, for callers of pf_peer_path; returns the status, and keeps errno. */
static int report_failure(struct host_peer *peer, int status)
{
	if (status == PF_ERR_SYSTEM)
		path_set(&peer->peer, errno == EMFILE || errno == ENFILE ? path_no_descriptors :
				      errno == EFBIG                     ? path_file_size :
									   path_system);
	else if (status == PF_ERR_MEMORY)
		path_set(&peer->peer, "none: out of memory for a channel to the peer");
	return status;
}

int host_peer_connect(struct host_peer *peer, bool used)
{
	pf_context *context = peer->peer.context;
	int status, error;

	assert_locked(&peer->lock, peer->peer.context->threads);
	if (peer_is_gone(&peer->peer))
		return peer->peer.gone_status;
	if (peer->out.memory)
		return PF_OK;
	/* Progress is about to hear of the end, and ends the operations that wait for the peer. */
	if (peer->refused)
		return PF_ERR_PEER;
	/*
	 * The reader reads each line once, and polls; the writer's stores need not be waited for.
	 */
	status = channel_create(
		&peer->out, context->options.ring_size, &context->host->ring_allowance,
		peer->peer.address->location.node != context->address.location.node ?
			&peer->peer.address->location :
			NULL);
	if (status != PF_OK)
		return report_failure(peer, status);
	rings_count(context, true);
	if (context_is_sleepy(context))
		peer->out.ring.entries = 0;
	status = call_peer(peer, used);
	if (status != PF_OK) {
		error = errno;
		channel_close(peer);
		errno = error;
		return report_failure(peer, status);
	}
	statistic_add(&context->statistics, PF_STAT_PEERS, 1);
	atomic_store_explicit(&context->connect_until,
			      clock_nanoseconds(CLOCK_MONOTONIC) + HOST_CONNECT_NANOSECONDS,
			      memory_order_relaxed);
	path_set(&peer->peer, path_opening);
	peer_set_state(&peer->peer, PF_PEER_CONNECTING);
	return PF_OK;
}

int host_peer_contact(pf_peer *base, bool wait, const char **why)
{
	struct host_peer *peer = (struct host_peer *)base;

	/* Every process of this host is reached: no answer is needed to know. */
	(void)wait;
	(void)why;
	if (peer->self)
		return PF_OK;
	if (peer_is_gone(base))
		return base->gone_status;
	host_peer_lock(peer);
	(void)host_peer_connect(peer, false);
	host_peer_unlock(peer);
	return PF_OK;
}

/* A place reserved without a commit is reserved again by the next call. */
bool host_peer_has_room(pf_peer *base, size_t length)
{
	struct host_peer *peer = (struct host_peer *)base;
	uint8_t *place;
	int status;

	host_peer_lock(peer);
	place = host_peer_reserve(peer, length, &status);
	host_peer_unlock(peer);
	return place || status != PF_ERR_AGAIN;
}

/* Under the peer's lock, and perhaps the lock of another peer. */
static void ring_look_idle(struct host_peer *peer)
{
	const struct bell *bell = host_peer_bell(peer);

	/* No wake: the memory of a sleeper's ring is not worth a wake. */
	if (peer->out.memory && ring_shrink(&peer->out.ring) && bell)
		inbox_ring(bell->inbox, bell->slot);
}

void host_peers_shrink(pf_context *context, uint64_t now)
{
	uint64_t last = atomic_load_explicit(&context->host->rings_shrunk, memory_order_relaxed);
	pf_peer *peer;

	if ((int64_t)(now - last) < RING_IDLE_NANOSECONDS ||
	    !atomic_compare_exchange_strong_explicit(&context->host->rings_shrunk, &last, now,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	/* No thread with peers.lock waits for the lock of a peer. */
	peers_lock(&context->peers);
	for (peer = NULL; (peer = peers_next(&context->peers, peer));) {
		if (peer->transport == &transport_host &&
		    host_peer_trylock((struct host_peer *)peer)) {
			ring_look_idle((struct host_peer *)peer);
			host_peer_unlock((struct host_peer *)peer);
		}
	}
	peers_unlock(&context->peers);
}

void host_peer_lacks_room(struct host_peer *peer, size_t length)
{
	const struct bell *bell = host_peer_bell(peer);

	assert_locked(&peer->lock, peer->peer.context->threads);
	peer->refused_length = length;
	/* Room may lie behind an entry that only skips, for which the bell was not rung. */
	if (bell && bell->sleeper)
		bell_ring(bell);
	if (peer->out.ring.refused)
		host_peers_shrink(peer->peer.context, (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC));
}

static void set_route(struct host_peer *peer, const struct route *route, uint64_t at_once,
		      const char *path)
{
	atomic_store_explicit(&peer->route, route, memory_order_relaxed);
	atomic_store_explicit(&peer->at_once, at_once, memory_order_relaxed);
	path_set(&peer->peer, path);
}

static void choose_route(struct host_peer *peer)
{
	pf_context *context = peer->peer.context;
	const pf_options *options = &context->options;
	const char *why = atomic_load(&context->device.why);
	bool copies = options->single_copy && !peer->copy_error;

	if (peer->engine && device_address(&context->device)) {
		/* Less than a block is copied sooner than an engine is woken. */
		if (options->transport == PF_TRANSPORT_AUTO && copies)
			set_route(peer, &route_device, options->block_size, path_device_copy);
		else
			set_route(peer, &route_device, 0, path_device);
	} else if (options->transport == PF_TRANSPORT_DEVICE) {
		set_route(peer, &route_none, 0, why ? why : path_no_device);
	} else if (copies) {
		set_route(peer, &route_copy, context->share_min[peer->distance],
			  options->expose ? path_exposed : path_single);
	} else {
		set_route(peer, &route_stream, 0,
			  options->single_copy ? copy_refusal(peer->copy_error) : path_disabled);
	}
}

/* Ring for messages stored before the bell was known, with a fence whatever the reader is. */
static void ring_first(const struct bell *bell)
{
	inbox_ring(bell->inbox, bell->slot);
	inbox_wake(bell->inbox, INBOX_SLEEPS_AT_ONCE);
}

/*
 * A sender stores a message, then loads the bell; here the bell is stored, then the reader is rung
 * to load the message. Without a fence in the sender, which would cost every message, both may miss
 * each other while the message leaves the sender's processor. Therefore a reader looks once more
 * after a sleep before relying on this bell: polling_settle.
 *
 * Progress may find the peer gone at the same time: as in host_peer_enter, either the peer's state
 * is seen here, or host_peer_unmap waits.
 */
void host_peer_give_bell(pf_peer *base, struct inbox_memory *inbox, uint32_t slot)
{
	struct host_peer *peer = (struct host_peer *)base;

	assert_service(&base->context->service);
	atomic_fetch_add_explicit(&peer->posting, 1, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
	/* Not open yet, if the caller has not come back from host_peer_connect. */
	if (!peer_is_gone(&peer->peer)) {
		peer->known_bell = (struct bell){ inbox, slot, inbox_sleeper(inbox) };
		atomic_store_explicit(&peer->bell, &peer->known_bell, memory_order_release);
		ring_first(&peer->known_bell);
	} else {
		inbox_destroy(&(struct inbox){ .memory = inbox, .fd = -1 });
	}
	atomic_fetch_sub_explicit(&peer->posting, 1, memory_order_release);
}

void host_peer_link(struct host_peer *peer, struct process *process, int copy_error,
		    uint64_t engine)
{
	assert_progress(peer->peer.context);
	host_peer_lock(peer);
	if (peer_state(&peer->peer) != PF_PEER_CONNECTING) {
		host_peer_unlock(peer);
		process_put(process);
		return;
	}
	process_put(peer->process);
	peer->process = process;
	peer->engine = engine;
	peer->copy_error = copy_error;
	choose_route(peer);
	/* Only the route stream of either side needs the file, and the call before. */
	if (peer->peer.context->options.single_copy && !copy_error &&
	    !peer->peer.context->options.expose)
		channel_drop_file(&peer->out);
	peer_set_state(&peer->peer, PF_PEER_CONNECTED);
	host_peer_unlock(peer);
	host_peer_met(peer);
	/*
	 * Once more: a message stored by this thread, or by another under the lock, is not missed
	 * now.
	 */
	ring_first(&peer->known_bell);
}

void host_peer_met(struct host_peer *peer)
{
	assert_progress(peer->peer.context);
	if (peer->incoming && peer_state(&peer->peer) == PF_PEER_CONNECTED)
		atomic_store_explicit(&peer->peer.context->connect_until, 0, memory_order_relaxed);
}

void host_peer_unlink(struct host_peer *peer, int status, const char *why, bool farewell)
{
	assert_progress(peer->peer.context);
	host_peer_lock(peer);
	set_route(peer, &route_none, 0, why);
	peer_set_gone(&peer->peer.context->peers, &peer->peer, status, why, farewell);
	atomic_thread_fence(memory_order_seq_cst);
	host_peer_unlock(peer);
}

struct drop_task {
	struct task task;
	struct host_peer *peer;
};

/*
 * Service thread. Tasks run in order, and calls of the peer were posted before: behind the notice
 * the service thread does not know the peer any more.
 */
static void drop_task_run(struct task *task, bool dropped)
{
	struct host_peer *peer = ((struct drop_task *)task)->peer;
	struct host_state *host = peer->peer.context->host;

	assert_service(&peer->peer.context->service);
	if (!dropped) {
		connections_drop(&host->connections, peer->peer.id);
		notices_report(&host->notices, &(struct notice){ .kind = NOTICE_DISCONNECTED,
								 .peer = &peer->peer });
	}
	free(task);
}

bool host_peer_in_use(const pf_peer *base)
{
	const struct host_peer *peer = (const struct host_peer *)base;

	assert_progress(base->context);
	return peer->disconnecting || peer->atomics_parked;
}

/* No call of this peer is adopted after the task: no call is made once the peer is gone. */
void host_peer_disconnect(struct host_peer *peer)
{
	struct drop_task *work = allocate_or_wait(sizeof(*work));

	assert_progress(peer->peer.context);
	work->task.run = drop_task_run;
	work->peer = peer;
	peer->disconnecting++;
	service_run(&peer->peer.context->service, &work->task);
}

/*
 * Return the record, opened by the first thread. NULL without memory: then all pages count as
 * present.
 */
static struct residency *remote_residency(struct host_peer *peer)
{
	struct residency *residency = atomic_load_explicit(&peer->residency, memory_order_acquire);
	struct residency *expected = NULL;

	if (residency || peer->self)
		return peer->self ? &peer->peer.context->memory.residency : residency;
	residency = malloc(sizeof(*residency));
	if (!residency)
		return NULL;
	residency_open(residency, peer->process->pid, peer->peer.context->options.residency,
		       &peer->peer.context->service);
	if (atomic_compare_exchange_strong_explicit(&peer->residency, &expected, residency,
						    memory_order_acq_rel, memory_order_acquire))
		return residency;
	residency_close(residency);
	free(residency);
	return expected;
}

/*
 * The node of the process that touches a page first provides the page: the owner is to touch first.
 */
static bool owner_touches_first(const struct host_peer *peer, bool put)
{
	return put && peer->distance == DISTANCE_OTHER_NODE;
}

uint64_t host_peer_ready(struct host_peer *peer, bool put, const void *local, uint64_t remote,
			 uint64_t length, enum pf_side *side)
{
	pf_context *context = peer->peer.context;
	uint64_t ready = memory_ready(&context->memory, (uint64_t)(uintptr_t)local, length, !put);
	struct residency *residency;
	uint64_t cold;

	*side = PF_SIDE_LOCAL;
	if (!ready)
		return 0;
	*side = PF_SIDE_REMOTE;
	residency = remote_residency(peer);
	if (!residency)
		return ready;
	if (residency_may_skip(residency, remote, ready, !owner_touches_first(peer, put),
			       residency_now()))
		return ready;
	if (owner_touches_first(peer, put))
		return residency_look(residency, remote, ready, NULL);
	ready = residency_look(residency, remote, ready, &cold);
	if (cold) {
		statistic_fault(&context->statistics, PF_SIDE_REMOTE, FAULT_MINOR);
		probe_fault(context->trace, context, NULL, PF_SIDE_REMOTE, FAULT_MINOR, remote,
			    ready);
	}
	return ready;
}

static bool piece_is_trusted(struct residency *residency, const struct iovec *piece, bool cold,
			     uint16_t now)
{
	return !residency ||
	       residency_may_skip(residency, (uintptr_t)piece->iov_base, piece->iov_len, cold, now);
}

/* Look at the pages of a piece, and of pieces behind, unless the last look was there. */
static void piece_look_ahead(struct residency *residency, const struct iovec *piece, unsigned count,
			     uint64_t *looked)
{
	uint64_t number = (uintptr_t)piece->iov_base >> RESIDENCY_PIECE_SHIFT;

	if (!residency || *looked == number)
		return;
	residency_look_ahead(residency, piece, count);
	*looked = number;
}

/* Implement host_peer_list_ready for one piece. */
static bool piece_ready(struct host_peer *peer, bool put, struct copy_list *list, unsigned i,
			enum pf_side *side)
{
	struct iovec *local = &list->here[i], *remote = &list->there[i];
	uint64_t ready = host_peer_ready(peer, put, local->iov_base, (uintptr_t)remote->iov_base,
					 local->iov_len, side);

	if (ready == local->iov_len)
		return true;
	local->iov_len = remote->iov_len = ready;
	list->count = ready ? i + 1 : i;
	return false;
}

/* Implement host_peer_list_ready for several: look together at pieces without a trusted hint. */
static bool pieces_ready(struct host_peer *peer, bool put, struct copy_list *list,
			 enum pf_side *side)
{
	struct residency *here = &peer->peer.context->memory.residency;
	struct residency *there = remote_residency(peer);
	uint64_t looked_here = UINT64_MAX, looked_there = UINT64_MAX;
	const bool cold = !owner_touches_first(peer, put);
	uint16_t now = residency_now();
	unsigned i;

	for (i = 0; i < list->count; i++) {
		const struct iovec *local = &list->here[i], *remote = &list->there[i];
		const bool trusted_here = piece_is_trusted(here, local, put, now);
		const bool trusted_there = piece_is_trusted(there, remote, cold, now);

		if (trusted_here && trusted_there)
			continue;
		if (!trusted_here)
			piece_look_ahead(here, local, list->count - i, &looked_here);
		if (!trusted_there)
			piece_look_ahead(there, remote, list->count - i, &looked_there);
		if (!piece_ready(peer, put, list, i, side))
			return false;
	}
	return true;
}

bool host_peer_list_ready(struct host_peer *peer, bool put, struct copy_list *list,
			  enum pf_side *side)
{
	assert_that(list->count);
	return list->count == 1 ? piece_ready(peer, put, list, 0, side) :
				  pieces_ready(peer, put, list, side);
}

void host_peer_note_hole(struct host_peer *peer, uint64_t remote)
{
	struct residency *residency = atomic_load_explicit(&peer->residency, memory_order_acquire);

	assert_progress(peer->peer.context);
	if (residency)
		residency_note_hole(residency, remote);
}

void host_peer_refuse_copy(struct host_peer *peer, int error)
{
	assert_progress(peer->peer.context);
	peer->copy_error = error;
	choose_route(peer);
}

void host_peer_lose_device(struct host_peer *peer)
{
	assert_progress(peer->peer.context);
	peer->engine = 0;
	if (peer_state(&peer->peer) == PF_PEER_CONNECTED && host_peer_route(peer) == &route_device)
		choose_route(peer);
}
