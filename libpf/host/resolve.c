/* SPDX-License-Identifier: BSD-3-Clause */
#include "resolve.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "message.h"

/* A range that this process resolves, and the asker. */
struct asked {
	struct resolution resolution;
	struct host_state *host;
	uint64_t connection; /* number of the asker's; 0: this process */
	uint64_t token;
};

struct answer_task {
	struct task task;
	struct connections *connections;
	uint64_t connection;
	struct resolve result;
};

/* Service thread. */
static void answer_task_run(struct task *task, bool dropped)
{
	const struct answer_task *answer = (struct answer_task *)task;

	if (!dropped)
		connections_answer(answer->connections, answer->connection, &answer->result);
	free(task);
}

/* Any thread. The asker's connection may have ended meanwhile, and is therefore found by number. */
static void answer_peer(struct host_state *host, uint64_t connection, const struct resolve *result)
{
	struct answer_task *work;

	if (connections_answer_now(&host->connections, connection, result))
		return;
	work = allocate_or_wait(sizeof(*work));
	work->task.run = answer_task_run;
	work->connections = &host->connections;
	work->connection = connection;
	work->result = *result;
	service_run(&host->context->service, &work->task);
}

/* Any thread. A peer of a context that closes gets no answer, but the farewell. */
static void asked_resolved(struct resolution *resolution)
{
	struct asked *asked = (struct asked *)resolution;
	struct host_state *host = asked->host;

	if (!asked->connection) {
		notices_report(&host->notices, &(struct notice){ .kind = NOTICE_RESOLVED,
								 .token = asked->token,
								 .status = resolution->status,
								 .fault = resolution->kind,
								 .address = resolution->failed });
	} else if (!resolution->dropped) {
		answer_peer(host, asked->connection,
			    &(struct resolve){ .token = asked->token,
					       .address = resolution->failed,
					       .status = resolution->status,
					       .kind = resolution->kind });
	}
	free(asked);
}

/* Service thread: the peer may not access the range. */
static void resolve_refuse(struct host_state *host, uint64_t connection, uint64_t token,
			   uint64_t bad)
{
	const struct resolve result = {
		.token = token, .address = bad, .status = PF_ERR_REFUSED, .kind = FAULT_PERMISSION
	};

	assert_service(&host->context->service);
	answer_peer(host, connection, &result);
}

void resolve_for_peer(void *arg, uint64_t connection, const struct resolve *request)
{
	struct host_state *host = arg;
	struct asked *asked;
	uint64_t bad;

	if (connection &&
	    !exposure_permits(&host->context->memory.exposure, request->address, request->length,
			      request->write ? PF_EXPOSE_WRITE : PF_EXPOSE_READ, &bad)) {
		resolve_refuse(host, connection, request->token, bad);
		return;
	}
	asked = allocate_or_wait(sizeof(*asked));
	*asked = (struct asked){ .resolution = { .asker = connection,
						 .address = request->address,
						 .length = request->length,
						 .write = request->write,
						 .done = asked_resolved },
				 .host = host,
				 .connection = connection,
				 .token = request->token };
	memory_resolve(&host->context->memory, &asked->resolution);
}

struct ask_task {
	struct task task;
	struct host_peer *peer;
	struct resolve request;
};

/* Service thread. */
static void ask_task_run(struct task *task, bool dropped)
{
	const struct ask_task *ask = (struct ask_task *)task;

	/* A connection that has ended is reported to progress separately. */
	if (!dropped && ask->peer->connection)
		connection_ask(ask->peer->connection, &ask->request);
	free(task);
}

/* PF_OK or PF_ERR_MEMORY. */
static int ask_socket(struct host_state *host, struct host_peer *owner,
		      const struct resolve *request)
{
	struct ask_task *work;

	if (connections_ask_now(&host->connections, &owner->connection, request))
		return PF_OK;
	work = calloc(1, sizeof(*work));
	if (!work)
		return PF_ERR_MEMORY;
	work->task.run = ask_task_run;
	work->peer = owner;
	work->request = *request;
	service_run(&host->context->service, &work->task);
	return PF_OK;
}

/* ---- through the ring ---- */

/* Nanoseconds until the socket gets a request too: an owner that polls answers in 8 to 20 us. */
#define ASK_NANOSECONDS 50000
/* Most requests that go to the socket at once after one that the owner did not answer so. */
#define UNASKED_MAX 256

/*
 * Publish a message about a range. False: there is no room, or no ring, because this process has
 * sent nothing to the peer.
 */
static bool ring_send(struct host_peer *peer, uint8_t kind, const struct resolve *resolve)
{
	struct resolve *message;
	int status;

	host_peer_lock(peer);
	message = peer->out.memory ?
			  (struct resolve *)host_peer_reserve(peer, sizeof(*message), &status) :
			  NULL;
	if (message) {
		*message = *resolve;
		host_peer_commit(peer, sizeof(*message), kind, 0);
	}
	host_peer_unlock(peer);
	return message;
}

/* A peer that polls has read almost all: few requests that came too late lie in the ring. */
static bool ring_is_read(struct host_peer *peer)
{
	struct ring *ring = &peer->out.ring;
	bool read;

	host_peer_lock(peer);
	read = peer->out.memory && ring->position - ring_load_tail(ring) < 2 * RING_PUBLISH_EMPTY;
	host_peer_unlock(peer);
	return read;
}

/* Does the owner seem to poll, and to answer such requests? */
static bool may_answer(struct host_peer *owner)
{
	const struct bell *bell = host_peer_bell(owner);

	if (owner->unasked) {
		owner->unasked--;
		return false;
	}
	return bell && !bell_sleeps(bell) && owner->incoming && ring_is_read(owner);
}

/* False: not sent. */
static bool ask_ring(struct host_state *host, struct host_peer *owner,
		     const struct resolve *request)
{
	if (request->write || host->asks_count == HOST_ASKS_MOST || !may_answer(owner) ||
	    !ring_send(owner, MESSAGE_RESOLVE, request))
		return false;
	host->asks[host->asks_count++] = (struct ask){
		owner, *request, (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC) + ASK_NANOSECONDS
	};
	return true;
}

static void ask_remove(struct host_state *host, unsigned number)
{
	host->asks[number] = host->asks[--host->asks_count];
}

/* The socket was quicker, or would have been. Once for all requests that were late together. */
static void owner_was_late(struct host_peer *owner)
{
	if (owner->unasked)
		return;
	owner->unasked_next = (unsigned)number_min(2 * owner->unasked_next + 1, UNASKED_MAX);
	owner->unasked = owner->unasked_next;
}

void resolve_expire(struct host_state *host, bool all)
{
	uint64_t now = clock_nanoseconds(CLOCK_MONOTONIC);
	unsigned i = 0;

	assert_progress(host->context);
	while (i < host->asks_count) {
		const struct ask *ask = &host->asks[i];
		bool late = now >= ask->due;

		/* Without memory for the task: later. */
		if ((!late && !all) || ask_socket(host, ask->owner, &ask->request)) {
			i++;
			continue;
		}
		if (late)
			owner_was_late(ask->owner);
		ask_remove(host, i);
	}
}

void resolve_forget(struct host_state *host, const struct host_peer *owner)
{
	unsigned i = 0;

	assert_progress(host->context);
	while (i < host->asks_count) {
		if (host->asks[i].owner == owner)
			ask_remove(host, i);
		else
			i++;
	}
}

/* The resolution is complete when memory_map returns. */
static void do_nothing(struct resolution *resolution)
{
	(void)resolution;
}

bool resolve_asked(struct host_state *host, struct host_peer *asker, const void *payload,
		   size_t length)
{
	struct memory *memory = &host->context->memory;
	struct resolve request, answer;
	struct resolution resolution;
	uint64_t bad;

	assert_progress(host->context);
	if (length != sizeof(request))
		return false;
	memcpy(&request, payload, sizeof(request));
	resolution = (struct resolution){ .address = request.address,
					  .length = request.length,
					  .done = do_nothing };
	answer = (struct resolve){ .token = request.token, .status = PF_ERR_AGAIN };
	/* The socket's answer tells what the peer may not access, or what cannot be resolved. */
	if (exposure_permits(&memory->exposure, request.address, request.length, PF_EXPOSE_READ,
			     &bad) &&
	    memory_map(memory, &resolution) && resolution.status == PF_OK) {
		answer.status = PF_OK;
		answer.kind = resolution.kind;
	}
	/* Without room for the answer, the peer asks on the socket. */
	(void)ring_send(asker, MESSAGE_RESOLVED, &answer);
	return true;
}

bool resolve_answered(struct host_state *host, struct host_peer *owner,
		      const struct resolve *answer, bool *late)
{
	unsigned i = 0;

	assert_progress(host->context);
	while (i < host->asks_count &&
	       (host->asks[i].owner != owner || host->asks[i].request.token != answer->token))
		i++;
	if (answer->status == PF_ERR_AGAIN) {
		if (i < host->asks_count)
			host->asks[i].due = 0;
		return false;
	}
	/* Otherwise the socket has the request as well; the first answer spends the token. */
	*late = i < host->asks_count &&
		(uint64_t)clock_nanoseconds(CLOCK_MONOTONIC) >= host->asks[i].due;
	if (i < host->asks_count)
		ask_remove(host, i);
	return true;
}

void resolve_judge(struct host_peer *owner, bool quick)
{
	if (quick)
		owner->unasked_next /= 2;
	else
		owner_was_late(owner);
}

int resolve_request(struct host_state *host, struct host_peer *owner, uint64_t token,
		    uint64_t address, uint64_t length, bool write)
{
	const struct resolve request = {
		.token = token, .address = address, .length = length, .write = write
	};

	assert_progress(host->context);
	if (!owner) {
		resolve_for_peer(host, 0, &request);
		return PF_OK;
	}
	return ask_ring(host, owner, &request) ? PF_OK : ask_socket(host, owner, &request);
}
