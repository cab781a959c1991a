/* SPDX-License-Identifier: BSD-3-Clause */
#include "association.h"

#include <stdlib.h>

#include "lifetime.h"
#include "message.h"
#include "source.h"

#include "base/check.h"

#define HELLO_FIRST 20000000ull
/*
 * HELLOs are frequent until contact_timeout: 23 in 5 s. On a network that loses 20 % in each
 * direction, the probability that all 23 contacts fail is 0.36^23 = 6e-11.
 */
#define HELLO_CONTACT 250000000ull
#define HELLO_MOST 1000000000ull
#define WAITING_PERIOD 1000000000ull
/* Firewalls forget a flow 30 s after its last packet (nf_conntrack_udp_timeout of Linux). */
#define KEEPALIVE_MOST 25000000000ull
#define CREDIT_LEAST 4096u
#define CREDIT_FIRST (64u << 10)
/* ns after which a wait for an answer is checked: core_clock must see the time pass in steps. */
#define WAITING_LOOK 1000000000ull

/* 1 KiB at rest, with the peer of link.c: README.md names the sum, test_footprint.c counts. */
_Static_assert(sizeof(struct net_association) + sizeof(struct path) <= 840, "each peer costs it");

/* Reasons for the user, by enum net_refusal, of a peer that has never answered. */
static const char *const refusals[] = {
	"\"port unreachable\" (ICMP) instead of an answer",
	"\"administratively prohibited\" (ICMP) instead of an answer",
	"no answer, because a packet filter of this host blocks what is sent to it,",
};

static bool make_busy(struct net_association *association)
{
	struct busy *busy = malloc(sizeof(*busy));

	assert_that(!association->busy && association->state != GONE);
	if (!busy)
		return false;
	association->shared->busy++;
	exchange_init(&busy->exchange, association->shared, association, association->index,
		      association->block_size, &association->rest);
	busy->used = association->shared->now;
	association->busy = busy;
	return true;
}

static void give_back(struct net_association *association)
{
	unsigned i;

	assert_that(association->busy && association->shared->busy);
	exchange_destroy(&association->busy->exchange);
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i])
			path_rest(association->paths[i]);
	}
	free(association->busy);
	association->busy = NULL;
	association->shared->busy--;
}

struct net_association *association_new(struct shared *shared, const uint8_t id[NET_ID_BYTES],
					const void *info, size_t length)
{
	struct net_association *association = calloc(1, sizeof(*association));
	struct opening *opening = calloc(1, sizeof(*opening) + length);

	assert_that(length <= NET_INFO_MOST);
	if (!association || !opening) {
		free(opening);
		free(association);
		return NULL;
	}
	association->shared = shared;
	association->state = KNOWN;
	association->silent = NET_NEVER;
	association->heard = shared->now;
	association->block_size = shared->options.block_size;
	association->credit = CREDIT_FIRST;
	association->rest.message_limit = MESSAGE_RING;
	association->deadline = NET_NEVER;
	memcpy(association->id, id, NET_ID_BYTES);
	association->opening = opening;
	shared->callbacks.random(shared->callbacks.user, opening->nonce, WIRE_NONCE);
	opening->info_length = (uint16_t)length;
	if (length)
		memcpy(opening->info, info, length);
	return association;
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
	assert_that(association->state == OPENING || association->state == ACCEPTED);
	assert_that(association->opening && association->peer_index && association->paths_count);
	association->state = OPEN;
	end_opening(association);
}

void association_free(struct net_association *association)
{
	unsigned i;

	/* The core has forgotten the association: no turn, no deadline. */
	assert_that(!association->ready && !association->place);
	if (association->busy) {
		exchange_abandon(&association->busy->exchange, PF_ERR_PEER);
		give_back(association);
	}
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i])
			path_rest(association->paths[i]);
		free(association->paths[i]);
	}
	end_opening(association);
	if (association->news)
		STAILQ_REMOVE(&association->shared->news, association, net_association, next_news);
	auth_forget(&association->sending, sizeof(association->sending));
	auth_forget(&association->receiving, sizeof(association->receiving));
	free(association);
}

struct path *association_path(struct net_association *association, unsigned number,
			      const struct net_endpoint *to)
{
	struct net_callbacks *callbacks = &association->shared->callbacks;
	struct path *path = malloc(sizeof(*path));

	assert_that(number < NET_PATHS_MOST && !association->paths[number]);
	if (!path)
		return NULL;
	path_init(path, to, callbacks->packet_most(callbacks->user, to));
	association->paths[number] = path;
	association->paths_count++;
	return path;
}

int association_use(struct net_association *association)
{
	if (association->state == GONE)
		return association->status == PF_OK ? PF_ERR_PEER : association->status;
	if (association->busy) {
		association->busy->used = association->shared->now;
		return PF_OK;
	}
	if (!make_busy(association))
		return PF_ERR_MEMORY;
	if (association->state == KNOWN) {
		association->state = OPENING;
		association->opening->hello_due = association->shared->now;
		association->wants_output = true;
	}
	/* The opener may have died before its first packet. */
	if (association->state == ACCEPTED)
		association_asked(association, association->shared->now);
	return PF_OK;
}

/* Best of the paths with received packets: there is something to acknowledge. */
static struct path *path_back(const struct net_association *association)
{
	unsigned number, tried = 0;

	while ((number = association_best_path(association, tried)) < NET_PATHS_MOST) {
		if (association->paths[number]->window.next)
			return association->paths[number];
		tried |= 1u << number;
	}
	return NULL;
}

/*
 * Tell the peer of the room for messages now. A peer without credit sends nothing more
 * whose acknowledgement would repeat the credit. A probe therefore asks the peer for an
 * answer, again after each time-out, and every probe carries the credit (output.c).
 */
static void association_offer_credit(struct net_association *association)
{
	const struct exchange *exchange = &association->busy->exchange;
	const struct stream_in *in = &exchange->in[STREAM_MESSAGE];
	struct path *path = path_back(association);

	if (!path)
		return;
	if (exchange->credit_told <= in->next + message_room(exchange) / 2)
		path->probe = true;
	window_demand(&path->window, association->shared->now);
	association->wants_output = true;
}

uint8_t association_settle(struct net_association *association)
{
	struct busy *busy = association->busy;
	uint8_t effects;

	if (!busy || !busy->exchange.effects)
		return 0;
	effects = busy->exchange.effects;
	busy->exchange.effects = 0;
	if (effects & EFFECT_OUTPUT)
		association->wants_output = true;
	if (effects & EFFECT_CREDIT)
		association_offer_credit(association);
	return effects;
}

static void add_news(struct net_association *association, enum association_news news)
{
	if (!association->news)
		STAILQ_INSERT_TAIL(&association->shared->news, association, next_news);
	association->news |= news;
}

void association_fail(struct net_association *association, int status, const char *why)
{
	struct busy *busy = association->busy;

	assert_that(why);
	if (association->state == GONE)
		return;
	association->state = GONE;
	association_set_blocked(association, false);
	if (busy) {
		exchange_abandon(&busy->exchange, status == PF_OK ? PF_ERR_PEER : status);
		/* The peer has acknowledgements of messages in the ring: deliver them in any case. */
		if (!busy->exchange.waiting || association->closing)
			give_back(association);
	}
	end_opening(association);
	association->status = status;
	association->why = why;
	if (association->closing)
		return;
	add_news(association, NEWS_GONE);
}

void association_say_goodbye(struct net_association *association, unsigned path)
{
	assert_that(path < NET_PATHS_MOST && association->paths[path]);
	assert_that(association->peer_index);
	association->goodbye = association->wants_output = true;
	association->goodbye_path = (uint8_t)path;
}

bool association_is_over(const struct net_association *association)
{
	return association->state == GONE && association->closing && !association->goodbye;
}

/* A peer with an index may have session keys. The sender of a GOODBYE (PF_OK) is not OPEN. */
bool association_is_half_open(const struct net_association *association)
{
	return association->state == GONE && association->peer_index &&
	       association->status != PF_OK;
}

void association_delivered(struct net_association *association)
{
	if (association->state == GONE && association->busy && !association->busy->exchange.waiting)
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
	bool late = path->timeouts >= TIMEOUTS_DOUBTFUL;
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST && (late || !path->rtt); i++) {
		const struct path *other = association->paths[i];

		if (other && other->timeouts < TIMEOUTS_DOUBTFUL && (late || other->rtt))
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

	assert_that(association->busy);
	if (exchange_has_unacknowledged(&association->busy->exchange))
		return true;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		/* Probes of a path that is down do not keep the association busy. */
		if (path && path->oldest != path->next && !association_doubts(association, path))
			return true;
	}
	return false;
}

static bool association_idle(const struct net_association *association)
{
	/* Sending the ping would make the association busy again. */
	return exchange_is_idle(&association->busy->exchange) && !association->ping &&
	       !association_outgoing(association);
}

static uint64_t time_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Time of silence before a probe, ns. A peer may have acknowledged all packets of an
 * operation, and died before its answer or before the rest of a message: then no packet
 * of this process is under way.
 */
static uint64_t association_keepalive(const struct net_association *association)
{
	const struct net_options *options = &association->shared->options;
	uint64_t period = options->keepalive ?
				  options->keepalive :
				  time_earlier(options->peer_timeout / 4, KEEPALIVE_MOST);

	if (association->busy && period > WAITING_PERIOD && !association_idle(association))
		return WAITING_PERIOD;
	return period;
}

static uint64_t open_deadline(const struct net_association *association)
{
	const struct net_options *options = &association->shared->options;
	uint64_t due = NET_NEVER;
	unsigned i;

	assert_that(association->state == OPEN);
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		if (!path)
			continue;
		due = time_earlier(due, path_deadline(path, options, !association->blocked));
		if (association->ready)
			continue;
		due = time_earlier(due, path->window.due);
		if (path->paced)
			due = time_earlier(due, path->paced);
	}
	if (association->silent == NET_NEVER && !association->ready)
		due = time_earlier(due, association->heard + association_keepalive(association));
	if (association->busy) {
		if (association_idle(association))
			due = time_earlier(due, association->busy->used + options->idle_release);
	}
	return due;
}

/* Was the peer asked for the first time, without an answer yet? */
static bool awaits_contact(const struct net_association *association)
{
	return association->state < OPEN && association->silent != NET_NEVER && !association->told;
}

/*
 * Has the opener sent a HELLO alone, and does the user not use the association? The opener may have
 * ended, or another host may have repeated an old HELLO.
 */
static bool is_unconfirmed(const struct net_association *association)
{
	return association->state == ACCEPTED && association->silent == NET_NEVER;
}

uint64_t association_deadline(const struct net_association *association)
{
	const struct net_options *options = &association->shared->options;
	uint64_t due = NET_NEVER;

	if (association->state == OPEN)
		due = open_deadline(association);
	else if (association->state == OPENING && !association->ready)
		due = association->opening->hello_due;
	if (association->state == GONE)
		return association_is_over(association) ? association->shared->now : NET_NEVER;
	if (is_unconfirmed(association))
		due = time_earlier(due, association->heard + options->peer_timeout);
	if (association->silent != NET_NEVER) {
		due = time_earlier(due, association->silent + options->peer_timeout);
		due = time_earlier(due, association->shared->now + WAITING_LOOK);
	}
	if (awaits_contact(association))
		due = time_earlier(due, association->silent + options->contact_timeout);
	if (association->refused)
		due = time_earlier(due, association->refused + options->refused_timeout);
	return due;
}

const char *association_unanswered(const struct net_association *association)
{
	assert_that(association->refusal < sizeof(refusals) / sizeof(refusals[0]));
	if (association->refusals >= 2)
		return refusals[association->refusal];
	return association->state == ACCEPTED ? "requests, but no answer to ours," : "no answer";
}

static void fail_unanswered(struct net_association *association)
{
	association_fail(association, PF_ERR_UNREACHABLE, association_unanswered(association));
}

/* Return true if the association ended. */
static bool check_dead(struct net_association *association, uint64_t now)
{
	const struct net_options *options = &association->shared->options;

	if (is_unconfirmed(association) && now >= association->heard + options->peer_timeout) {
		fail_unanswered(association);
		return true;
	}
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
	/*
	 * Any host can forge a refusal. An OPEN peer was asked with a PING, again after each
	 * time-out, and did not answer: a single refusal is enough. The peer's host may
	 * send no second refusal, because its kernel limits the rate of ICMP for each
	 * destination host, over all processes there.
	 */
	if (association->state == OPEN || association->refusals >= 2) {
		if (association->state == OPEN)
			association_fail(association, PF_ERR_PEER,
					 "the peer's process is gone: \"port unreachable\" (ICMP)");
		else
			fail_unanswered(association);
		return true;
	}
	/* A single refusal may have been about another process. */
	association->refused = 0;
	association->refusals = 0;
	return false;
}

static void packet_acknowledged(struct net_association *association, const struct sent *sent)
{
	struct exchange *exchange = association_exchange(association);

	if (!sent->streams)
		return;
	if (sent->control_length)
		stream_out_acknowledged(&exchange->out[STREAM_CONTROL], sent->control,
					sent->control_length);
	if (sent->message_length)
		stream_out_acknowledged(&exchange->out[STREAM_MESSAGE], sent->message,
					sent->message_length);
}

static void on_acknowledged(void *arg, struct path *path, const struct sent *sent)
{
	struct net_association *association = arg;

	if (sent->kind == SENT_PROBE)
		mtu_note(&path->mtu, &association->shared->sizes);
	packet_acknowledged(association, sent);
}

static void packet_lost(struct net_association *association, const struct sent *sent,
			bool unreadable)
{
	struct exchange *exchange = association_exchange(association);

	association->wants_output = true;
	if (sent->kind == SENT_DATA_PUT || sent->kind == SENT_DATA_GET)
		source_lost(exchange, sent, unreadable);
	if (sent->control_length)
		stream_out_lost(&exchange->out[STREAM_CONTROL], sent->control,
				sent->control_length);
	if (sent->message_length)
		stream_out_lost(&exchange->out[STREAM_MESSAGE], sent->message,
				sent->message_length);
}

static void on_lost(void *arg, struct path *path, const struct sent *sent)
{
	struct net_association *association = arg;

	/* A black hole: the size fell. */
	if (sent->kind != SENT_PROBE && sent->bytes > path->mtu.size)
		mtu_note(&path->mtu, &association->shared->sizes);
	packet_lost(association, sent, false);
}

static void on_unreadable(void *association, struct path *path, const struct sent *sent)
{
	packet_lost(association, sent, true);
}

static void on_spurious(void *arg, struct path *path, const struct sent *sent)
{
	if (sent->kind == SENT_DATA_PUT || sent->kind == SENT_DATA_GET)
		source_spurious(association_exchange(arg), sent);
	packet_acknowledged(arg, sent);
}

struct path_events association_events(struct net_association *association)
{
	return (struct path_events){ on_acknowledged, on_lost, on_spurious, association };
}

void association_unsent(struct net_association *association, const struct net_batch *batch,
			bool was_unreadable)
{
	uint64_t target = association->shared->options.queue_target;
	struct path_events events = association_events(association);
	struct path *path = association->paths[batch->path];

	assert_that(path);
	/* At rest nothing is under way, but an acknowledgement may be due. */
	if (batch->owed.due != NET_NEVER)
		window_unsent(&path->window, &batch->owed);
	if (association->state != OPEN || !association->busy)
		return;
	if (batch->probe)
		mtu_unsent(&path->mtu);
	if (was_unreadable)
		events.lost = on_unreadable;
	path_unsent(path, batch->number, batch->count, target, &events);
}

bool association_owes(const struct net_association *association, uint64_t time)
{
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i] && association->paths[i]->window.due <= time)
			return true;
	}
	return false;
}

void association_acknowledge(struct net_association *association, uint64_t time)
{
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		struct path *path = association->paths[i];

		if (!path || path->window.due > time)
			continue;
		window_demand(&path->window, association->shared->now);
		association->wants_output = true;
	}
}

void association_linger(struct net_association *association)
{
	unsigned i;

	association_acknowledge(association, NET_NEVER - 1);
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (association->paths[i])
			association->paths[i]->answer_wait = 0;
	}
}

static void advance_open(struct net_association *association, uint64_t now)
{
	struct shared *shared = association->shared;
	const struct net_options *options = &shared->options;
	struct path_events events = association_events(association);
	struct busy *busy = association->busy;
	unsigned i;

	assert_that(association->state == OPEN);
	for (i = 0; i < NET_PATHS_MOST; i++) {
		struct path *path = association->paths[i];

		if (!path)
			continue;
		path_advance(path, now, options, !association->blocked, &events,
			     &shared->statistics);
		if (path->probe && association_doubts(association, path)) {
			path_forget(path, now, &events);
			/* Ask again on another path. */
			association->ping |= association->silent != NET_NEVER;
		}
		if (path->probe || path->window.due <= now || path->paced)
			association->wants_output = true;
		if (path->paced <= now)
			path->paced = 0;
	}
	if (association->silent == NET_NEVER &&
	    now >= association->heard + association_keepalive(association) && !association->ping) {
		association->ping = true;
		association->wants_output = true;
	}
	if (!busy)
		return;
	if (now >= busy->used + options->idle_release && association_idle(association))
		give_back(association);
}

void association_advance(struct net_association *association, uint64_t now)
{
	if (association->state == GONE || check_dead(association, now))
		return;
	if (awaits_contact(association) &&
	    now >= association->silent + association->shared->options.contact_timeout) {
		association->told = true;
		add_news(association, NEWS_UNANSWERED);
	}
	if (association->state == OPEN)
		advance_open(association, now);
	else if (association->state == OPENING && now >= association->opening->hello_due)
		association->wants_output = true;
}

uint64_t association_hello_delay(const struct net_association *association)
{
	uint64_t most = association->told ? HELLO_MOST : HELLO_CONTACT;
	uint64_t delay = HELLO_FIRST
			 << (association->opening->hellos < 6 ? association->opening->hellos : 6);

	return delay < most ? delay : most;
}

uint32_t association_receive_credit(const struct net_association *association)
{
	const struct shared *shared = association->shared;
	uint32_t buffer = shared->options.receive_buffer, part;
	uint32_t share = buffer / (shared->busy ? shared->busy : 1);
	uint32_t senders = senders_count(&shared->senders, shared->now);

	/* Most busy peers send nothing: allow the first credit of a new peer, if it fits. */
	part = buffer / (senders > shared->arriving ? senders : shared->arriving);
	if (part > CREDIT_FIRST)
		part = CREDIT_FIRST;
	if (share < part)
		share = part;
	return share > CREDIT_LEAST ? share : CREDIT_LEAST;
}

void association_refused(struct net_association *association, enum net_refusal refusal)
{
	uint64_t now = association->shared->now;

	assert_that(association->state != GONE);
	if (!association->refused)
		association->refused = now ? now : 1;
	association->refusals += association->refusals < 255;
	association->refusal = (uint8_t)refusal;
	if (association->state == OPEN && association->refusals == 1)
		association->ping = association->wants_output = true;
}

size_t association_memory(const struct net_association *association)
{
	size_t bytes = sizeof(*association);
	unsigned i;

	if (association->opening)
		bytes += sizeof(*association->opening) + association->opening->info_length;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		const struct path *path = association->paths[i];

		if (path)
			bytes += sizeof(*path) + path->capacity * sizeof(*path->sent);
	}
	if (association->busy)
		bytes += sizeof(*association->busy) + exchange_memory(&association->busy->exchange);
	return bytes;
}
