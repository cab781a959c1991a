/* SPDX-License-Identifier: BSD-3-Clause */
#include "association.h"

#include <stdlib.h>

#include "core.h"

#define HELLO_FIRST 20000000ull
/*
 * Until contact_timeout HELLOs are frequent: 23 in 5 s. Of a network that loses 20 % in
 * each direction, all of these contacts fail with a probability of 0.36^23 = 6e-11.
 */
#define HELLO_CONTACT 250000000ull
#define HELLO_MOST 1000000000ull
#define CREDIT_PERIOD 100000000ull
#define WAITING_PERIOD 1000000000ull
#define TIMEOUTS_DOUBTFUL 3

/* At rest 1 KiB with what link.c has of a peer, README.md says; test_footprint.c counts it. */
_Static_assert(sizeof(struct net_association) + sizeof(struct path) <= 824, "each peer costs it");

/* By enum net_refusal: what comes back from a peer that has never answered. */
static const char *const refusals[] = {
	"\"port unreachable\" (ICMP) instead of an answer",
	"\"administratively prohibited\" (ICMP) instead of an answer",
	"no answer, because a packet filter of this host blocks what is sent to it,",
};

static bool make_busy(struct net_association *association)
{
	static const uint32_t size[STREAMS] = { CONTROL_RING, MESSAGE_RING };
	static const uint32_t spare[STREAMS] = { 2 * WIRE_ENTRY_MOST, MESSAGE_SPARE };
	struct busy *busy;
	unsigned i;

	association->core->active++;
	busy = malloc(sizeof(*busy));
	if (!busy) {
		association->core->active--;
		return false;
	}
	for (i = 0; i < STREAMS; i++) {
		stream_out_init(&busy->out[i], size[i], spare[i], association->positions[i]);
		stream_in_init(&busy->in[i], size[i], spare[i],
			       association->positions[STREAMS + i]);
	}
	busy->out[STREAM_CONTROL].limit = NET_NEVER;
	busy->out[STREAM_MESSAGE].limit = association->message_limit;
	transfers_init(&busy->transfers, &association->numbers);
	busy->credit_told = busy->in[STREAM_MESSAGE].taken + MESSAGE_RING;
	busy->credit_probe = NET_NEVER;
	busy->used = association->core->now;
	association->busy = busy;
	return true;
}

static void give_back(struct net_association *association)
{
	struct busy *busy = association->busy;
	unsigned i;

	association->message_limit = busy->out[STREAM_MESSAGE].limit;
	for (i = 0; i < STREAMS; i++) {
		association->positions[i] = busy->out[i].end;
		association->positions[STREAMS + i] = busy->in[i].taken;
		stream_out_destroy(&busy->out[i]);
		stream_in_destroy(&busy->in[i]);
	}
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i])
			path_rest(association->paths[i]);
	}
	free(busy);
	association->busy = NULL;
	association->core->active--;
}

struct net_association *association_new(struct net_core *core, const uint8_t id[NET_ID_BYTES],
					const void *info, size_t length)
{
	struct net_association *association = calloc(1, sizeof(*association));
	struct opening *opening = calloc(1, sizeof(*opening) + length);

	if (!association || !opening)
		goto fail;
	association->core = core;
	association->state = KNOWN;
	association->silent = NET_NEVER;
	association->heard = core->now;
	association->block_size = core->options.block_size;
	association->credit = 64u << 10;
	association->message_limit = MESSAGE_RING;
	association->deadline = NET_NEVER;
	memcpy(association->id, id, NET_ID_BYTES);
	association->opening = opening;
	core->callbacks.random(core->callbacks.user, opening->nonce, WIRE_NONCE);
	opening->info_length = (uint16_t)length;
	if (length)
		memcpy(opening->info, info, length);
	if (core_add(core, association))
		return association;
fail:
	free(opening);
	free(association);
	return NULL;
}

static void end_opening(struct net_association *association)
{
	struct opening *opening = association->opening;

	if (opening) {
		auth_forget(opening->key, sizeof(opening->key));
		auth_forget(opening->welcome_key, sizeof(opening->welcome_key));
	}
	free(opening);
	association->opening = NULL;
	association->welcome = false;
}

void association_opened(struct net_association *association)
{
	association->state = OPEN;
	end_opening(association);
}

void association_free(struct net_association *association)
{
	unsigned i;

	if (association->busy) {
		transfers_abandon(association, PF_ERR_PEER);
		give_back(association);
	}
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i])
			path_rest(association->paths[i]);
		free(association->paths[i]);
	}
	end_opening(association);
	core_remove(association->core, association);
	auth_forget(&association->sending, sizeof(association->sending));
	auth_forget(&association->receiving, sizeof(association->receiving));
	free(association);
}

struct path *association_path(struct net_association *association, unsigned number,
			      const struct net_endpoint *to)
{
	struct net_core *core = association->core;
	struct path *path = malloc(sizeof(*path));

	if (!path)
		return NULL;
	path_init(path, to, core->callbacks.packet_most(core->callbacks.user, to));
	association->paths[number] = path;
	association->paths_count++;
	return path;
}

int association_use(struct net_association *association)
{
	if (association->state == GONE)
		return PF_ERR_PEER;
	if (association->busy) {
		association->busy->used = association->core->now;
		return PF_OK;
	}
	if (!make_busy(association))
		return PF_ERR_MEMORY;
	if (association->state == KNOWN) {
		association->state = OPENING;
		association->opening->hello_due = association->core->now;
		association_wake(association);
	}
	/* Its opener may have died before its first packet. */
	if (association->state == ACCEPTED)
		association_asked(association, association->core->now);
	core_schedule(association->core, association);
	return PF_OK;
}

void association_wake(struct net_association *association)
{
	struct net_core *core = association->core;

	if (association->ready)
		return;
	association->ready = true;
	association->next_ready = NULL;
	*core->ready_last = association;
	core->ready_last = &association->next_ready;
}

void association_fail(struct net_association *association, int status, const char *why)
{
	struct net_core *core = association->core;

	if (association->state == GONE)
		return;
	association->state = GONE;
	if (association->busy) {
		transfers_abandon(association, status == PF_OK ? PF_ERR_PEER : status);
		/* The peer was told that its messages are here: they are handed out all the same. */
		if (!association->undelivered || association->closing)
			give_back(association);
	}
	end_opening(association);
	core_schedule(core, association);
	if (!association->closing)
		core->callbacks.gone(core->callbacks.user, association, status, why);
}

void association_delivered(struct net_association *association)
{
	if (association->state == GONE && association->busy && !association->undelivered)
		give_back(association);
}

void association_asked(struct net_association *association, uint64_t now)
{
	if (association->silent == NET_NEVER)
		association->silent = now;
}

void association_heard(struct net_association *association, uint64_t now)
{
	association->heard = now;
	association->silent = NET_NEVER;
	association->refused = 0;
	association->refusals = 0;
	if (association->busy)
		association->busy->used = now;
}

bool association_doubts(const struct net_association *association, const struct path *path)
{
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST && path->timeouts >= TIMEOUTS_DOUBTFUL; i++) {
		const struct path *other = association->paths[i];

		if (other && other->timeouts < TIMEOUTS_DOUBTFUL)
			return true;
	}
	return false;
}

unsigned association_best_path(const struct net_association *association, unsigned tried)
{
	unsigned i, best = NET_PATHS_MOST;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i], *other;

		if (!path || tried >> i & 1)
			continue;
		if (best == NET_PATHS_MOST) {
			best = i;
			continue;
		}
		other = association->paths[best];
		if (path->timeouts < other->timeouts ||
		    (path->timeouts == other->timeouts && path->in_flight < other->in_flight))
			best = i;
	}
	return best;
}

bool association_outgoing(const struct net_association *association)
{
	unsigned i;

	for (i = 0; i < STREAMS; i++) {
		if (!stream_out_empty(&association->busy->out[i]))
			return true;
	}
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		/* Probes of one that is down do not keep the others busy. */
		if (path && path->oldest != path->next && !association_doubts(association, path))
			return true;
	}
	return false;
}

static bool idle(const struct net_association *association)
{
	const struct busy *busy = association->busy;
	unsigned i;

	/* At rest, it would forget which path the ping is not to take. */
	if (!transfers_idle(&busy->transfers) || association->undelivered || association->ping)
		return false;
	for (i = 0; i < STREAMS; i++) {
		if (busy->in[i].taken != busy->in[i].next || busy->in[i].ahead.count)
			return false;
	}
	return !association_outgoing(association);
}

/*
 * How long a peer may be silent before it is probed. It may have acknowledged
 * all that an operation sent and died before it answered, or before it sent
 * the rest of a message: no packet of ours is under way then.
 */
static uint64_t keepalive(const struct net_association *association)
{
	const struct net_options *options = &association->core->options;
	uint64_t period = options->keepalive ? options->keepalive : options->peer_timeout / 4;

	if (association->busy && period > WAITING_PERIOD && !idle(association))
		return WAITING_PERIOD;
	return period;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t open_deadline(const struct net_association *association)
{
	const struct net_options *options = &association->core->options;
	uint64_t due = NET_NEVER;
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		if (!path)
			continue;
		due = earlier(due, path_deadline(path, options->timeout_min, options->ack_delay));
		if (association->ready)
			continue;
		due = earlier(due, path->window.due);
		if (path->paced > association->core->now)
			due = earlier(due, path->paced);
	}
	if (association->silent == NET_NEVER && !association->ready)
		due = earlier(due, association->heard + keepalive(association));
	if (association->busy) {
		due = earlier(due, association->busy->credit_probe);
		if (idle(association))
			due = earlier(due, association->busy->used + options->idle_release);
	}
	return due;
}

/* It was asked for the first time, and did not answer. */
static bool awaits_contact(const struct net_association *association)
{
	return association->state < OPEN && association->silent != NET_NEVER && !association->told;
}

uint64_t association_deadline(const struct net_association *association)
{
	const struct net_options *options = &association->core->options;
	uint64_t due = NET_NEVER;

	if (association->state == OPEN)
		due = open_deadline(association);
	else if (association->state == OPENING && !association->ready)
		due = association->opening->hello_due;
	if (association->state == GONE)
		return NET_NEVER;
	/* In between, to know that time has passed here as well: core_clock. */
	if (association->silent != NET_NEVER) {
		due = earlier(due, association->silent + options->peer_timeout);
		due = earlier(due, association->core->now + CORE_LOOK / 2);
	}
	if (awaits_contact(association))
		due = earlier(due, association->silent + options->contact_timeout);
	if (association->refused)
		due = earlier(due, association->refused + options->refused_timeout);
	return due;
}

const char *association_unanswered(const struct net_association *association)
{
	if (association->refusals >= 2)
		return refusals[association->refusal];
	return association->state == ACCEPTED ? "requests, but no answer to ours," : "no answer";
}

static void fail_unanswered(struct net_association *association)
{
	association_fail(association, PF_ERR_UNREACHABLE, association_unanswered(association));
}

/* True: it is. */
static bool check_dead(struct net_association *association, uint64_t now)
{
	const struct net_options *options = &association->core->options;

	if (association->silent != NET_NEVER &&
	    now >= association->silent + options->peer_timeout) {
		if (association->state == OPEN)
			association_fail(association, PF_ERR_TIMEOUT,
					 "no packet within peer_timeout");
		else
			fail_unanswered(association);
		return true;
	}
	if (!association->refused || now < association->refused + options->refused_timeout)
		return false;
	if (association->refusals >= 2) {
		if (association->state == OPEN)
			association_fail(association, PF_ERR_PEER,
					 "the peer's process is gone: \"port unreachable\" (ICMP)");
		else
			fail_unanswered(association);
		return true;
	}
	/* One word of it alone may have been about something else. */
	association->refused = 0;
	association->refusals = 0;
	return false;
}

static void taken(void *arg, struct path *path, const struct sent *sent)
{
	struct net_association *association = arg;
	struct busy *busy = association->busy;

	if (sent->kind != SENT_FRAMES)
		return;
	if (sent->control_length)
		stream_out_acknowledged(&busy->out[STREAM_CONTROL], sent->place,
					sent->control_length);
	if (sent->message_length)
		stream_out_acknowledged(&busy->out[STREAM_MESSAGE], sent->message,
					sent->message_length);
}

static void lost(void *arg, struct path *path, const struct sent *sent)
{
	struct net_association *association = arg;
	struct busy *busy = association->busy;

	association_wake(association);
	if (sent->kind == SENT_DATA_PUT || sent->kind == SENT_DATA_GET) {
		source_lost(association, sent);
		return;
	}
	if (sent->kind != SENT_FRAMES)
		return;
	if (sent->control_length)
		stream_out_lost(&busy->out[STREAM_CONTROL], sent->place, sent->control_length);
	if (sent->message_length)
		stream_out_lost(&busy->out[STREAM_MESSAGE], sent->message, sent->message_length);
}

static void spurious(void *arg, struct path *path, const struct sent *sent)
{
	if (sent->kind == SENT_DATA_PUT || sent->kind == SENT_DATA_GET)
		source_spurious(arg, sent);
	else
		taken(arg, path, sent);
}

struct path_events association_events(struct net_association *association)
{
	return (struct path_events){ taken, lost, spurious, association };
}

static void advance_open(struct net_association *association, uint64_t now)
{
	struct net_core *core = association->core;
	const struct net_options *options = &core->options;
	struct path_events events = association_events(association);
	struct busy *busy = association->busy;
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		struct path *path = association->paths[i];

		if (!path)
			continue;
		path_advance(path, now, options->timeout_min, options->ack_delay, &events,
			     &core->statistics);
		if (path->probe && association_doubts(association, path)) {
			path_forget(path, now, &events);
			/* What was asked here is asked on another one. */
			association->ping |= association->silent != NET_NEVER;
		}
		if (path->probe || path->window.due <= now || path->paced)
			association_wake(association);
		if (path->paced <= now)
			path->paced = 0;
	}
	if (association->silent == NET_NEVER &&
	    now >= association->heard + keepalive(association) && !association->ping) {
		association->ping = true;
		association_wake(association);
	}
	if (!busy)
		return;
	if (busy->credit_probe <= now) {
		busy->credit_probe = now + CREDIT_PERIOD;
		association->ping = true;
		association_wake(association);
	}
	if (now >= busy->used + options->idle_release && idle(association))
		give_back(association);
}

void association_advance(struct net_association *association, uint64_t now)
{
	struct net_core *core = association->core;

	if (association->state == GONE || check_dead(association, now))
		return;
	if (awaits_contact(association) &&
	    now >= association->silent + core->options.contact_timeout) {
		association->told = true;
		core->callbacks.unanswered(core->callbacks.user, association,
					   association_unanswered(association));
	}
	if (association->state == OPEN)
		advance_open(association, now);
	else if (association->state == OPENING && now >= association->opening->hello_due)
		association_wake(association);
}

/* The sender of messages waits for room: have the peer asked, should its word be lost. */
void association_credit(struct net_association *association, uint64_t now)
{
	struct busy *busy = association->busy;
	const struct stream_out *out = &busy->out[STREAM_MESSAGE];
	bool waits = out->sent >= out->limit && out->end > out->sent;

	if (!waits)
		busy->credit_probe = NET_NEVER;
	else if (busy->credit_probe == NET_NEVER)
		busy->credit_probe = now + CREDIT_PERIOD;
}

uint64_t association_hello_delay(const struct net_association *association)
{
	uint64_t most = association->told ? HELLO_MOST : HELLO_CONTACT;
	uint64_t delay = HELLO_FIRST
			 << (association->opening->hellos < 6 ? association->opening->hellos : 6);

	return delay < most ? delay : most;
}
