/* SPDX-License-Identifier: BSD-3-Clause */
#include "path.h"

#include <stdlib.h>

#include "base/check.h"

#define CAPACITY_FIRST 64          /* records of a new ring */
#define OVERTAKERS 3               /* RFC 8985's DupThresh: a loss, where nothing reorders */
#define REORDER_MEMORY 4096        /* packets after which the allowance for reordering is halved */
#define RECORDS_ANSWERS 64         /* records left for acknowledgements and probes */
#define TIMEOUT_FIRST 50000000ull  /* ns, before a round trip is known */
#define TIMEOUT_MOST 1000000000ull /* ns */
#define TAIL_PROBES_MOST 15
#define TIMEOUTS_MOST 127
#define TIMEOUTS_SILENT 9          /* in a row, about a second: the route may have changed */
#define PATIENCE_MOST 100000000ull /* ns */
#define FIRST_PAUSE_SENDERS 16     /* beside as many senders or more, a path begins with a pause */
#define PAUSE_TURNS 7 /* turns by which a flow continues earlier or later after the next pause */
#define ANSWER_UNIT 65536u /* ns */
/*
 * ns without a packet after which a path starts anew, because more flows may have begun (RFC 7661).
 * The least time-out of Linux's TCP: with 10 ms, a program that computes for longer began with
 * 64 KiB each time.
 */
#define IDLE 200000000u

void path_init(struct path *path, const struct net_endpoint *to, size_t packet_most)
{
	*path = (struct path){ .to = *to, .loss_time = NET_NEVER };
	window_init(&path->window);
	mtu_init(&path->mtu, (uint32_t)packet_most);
	congestion_init(&path->congestion, path->mtu.size, 1);
}

void path_move(struct path *path, const struct net_endpoint *to, size_t packet_most)
{
	path->to = *to;
	mtu_init(&path->mtu, (uint32_t)packet_most);
}

void path_rest(struct path *path)
{
	free(path->sent);
	path->sent = NULL;
	path->capacity = 0;
	path->oldest = path->next;
	path->in_flight = path->charged = 0;
	path->loss_time = NET_NEVER;
	if (path->timeouts > TIMEOUTS_DOUBTFUL)
		path->timeouts = TIMEOUTS_DOUBTFUL;
	path->tail_probes = 0;
	path->waited = path->probe = path->prompt = false;
	mtu_unsent(&path->mtu);
}

static struct sent *path_slot(const struct path *path, uint64_t number)
{
	/* The ring is found by a mask. */
	assert_that(path->sent && path->capacity && !(path->capacity & (path->capacity - 1)));
	return &path->sent[number & (path->capacity - 1)];
}

static bool path_grow(struct path *path)
{
	uint32_t capacity = path->capacity ? 2 * path->capacity : CAPACITY_FIRST;
	struct sent *sent;
	uint64_t number;

	if (capacity > SENT_MOST)
		return false;
	sent = calloc(capacity, sizeof(*sent));
	if (!sent)
		return false;
	for (number = path->oldest; number < path->next; number++)
		sent[number & (capacity - 1)] = *path_slot(path, number);
	free(path->sent);
	path->sent = sent;
	path->capacity = capacity;
	return true;
}

struct sent *path_record(struct path *path)
{
	struct sent *sent;

	assert_that(path->oldest <= path->next && path->next - path->oldest <= path->capacity);
	if (path->next - path->oldest >= path->capacity && !path_grow(path))
		return NULL;
	sent = path_slot(path, path->next);
	*sent = (struct sent){ .number = (uint32_t)path->next };
	return sent;
}

/* Return the pacing time of a packet, ns. bytes: length of the packet. */
static uint64_t path_pause(const struct path *path, uint32_t bytes, uint64_t target)
{
	return congestion_pause(&path->congestion, target, bytes, path->mtu.size);
}

/* Return the part of time for a turn. By the golden ratio, any number of turns divides evenly. */
static uint64_t time_divide(uint64_t time, uint32_t turn)
{
	return time * (uint16_t)(turn * 40503u) >> 16;
}

void path_begin(struct path *path, uint64_t now, uint16_t senders, uint32_t turn, uint64_t target)
{
	uint64_t wait;

	congestion_init(&path->congestion, path->mtu.size, senders);
	wait = path_pause(path, path_packet(path), target);
	path->paid = now - wait + time_divide(wait, turn);
}

void path_told(struct path *path, uint64_t now, uint16_t senders, uint8_t pauses, uint32_t turn)
{
	uint32_t time;

	congestion_senders(&path->congestion, senders);
	/* The round trip of WELCOME was without a queue, unless many senders begin. */
	if (path->answered && path->congestion.senders < FIRST_PAUSE_SENDERS)
		path->pauses = pauses;
	path->answered = false;
	if (path->pauses == pauses)
		return;
	path->pauses = pauses;
	time = congestion_paused(&path->congestion, now, path->next, path->mtu.size);
	/* After each pause, a different flow continues first. */
	if (time)
		path->paid = (path->paid > now ? path->paid : now) + time +
			     time_divide(time, turn + pauses * PAUSE_TURNS);
}

uint32_t path_packet(const struct path *path)
{
	return congestion_packet(&path->congestion, path->mtu.size);
}

void path_sent(struct path *path, struct sent *sent, uint64_t now, uint32_t bytes, bool asks,
	       uint64_t target)
{
	uint64_t wait, window;

	/* Only a packet that asks for no acknowledgement needs no record. */
	assert_that(!asks || sent == path_slot(path, path->next));
	sent->time = now;
	sent->bytes = bytes;
	path->next++;
	if (!asks) {
		sent->state = SENT_NOTHING;
		if (path->oldest == path->next - 1)
			path->oldest++;
		return;
	}
	sent->state = SENT_UNDER_WAY;
	if (!path->in_flight && path->rtt && now > path->paid + IDLE)
		congestion_restart(&path->congestion, path->mtu.size);
	path->in_flight += bytes;
	path->charged += wire_charge(bytes);
	path->prompt |= sent->prompt;
	path->asked = now;
	wait = path_pause(path, bytes, target);
	path->paid += wait;
	/* Idle time pays for a single packet, and a late timer for the packets held up. */
	if (path->paid + wait < now)
		path->paid = now - wait;
	window = congestion_window(&path->congestion);
	if (path->in_flight + bytes > window)
		path->congestion.limited = true;
	if (path->in_flight + bytes > window / 2)
		path->congestion.half_used = true;
}

/* Move oldest to the first packet under way. */
static void skip_settled(struct path *path)
{
	while (path->oldest < path->next && path_slot(path, path->oldest)->state != SENT_UNDER_WAY)
		path->oldest++;
	if (path->oldest == path->next)
		path->prompt = false;
}

/* The packet is no longer under way. */
static void leave_flight(struct path *path, const struct sent *sent)
{
	assert_that(path->in_flight >= sent->bytes && path->charged >= wire_charge(sent->bytes));
	path->in_flight -= sent->bytes;
	path->charged -= wire_charge(sent->bytes);
}

static void path_lose(struct path *path, struct sent *sent, const struct path_events *events)
{
	uint64_t number;

	assert_that(sent->state == SENT_UNDER_WAY);
	sent->state = SENT_LOST;
	leave_flight(path, sent);
	number = wire_widen(path->next, sent->number);
	if (path->given_up <= number)
		path->given_up = number + 1;
	events->lost(events->association, path, sent);
}

void path_unsent(struct path *path, uint64_t number, uint32_t count, uint64_t target,
		 const struct path_events *events)
{
	bool asked = false;
	uint64_t wait;

	for (; count && number < path->next; number++, count--) {
		struct sent *sent = path_slot(path, number);

		if (sent->number == (uint32_t)number && sent->state == SENT_UNDER_WAY) {
			sent->state = SENT_NOTHING;
			leave_flight(path, sent);
			wait = path_pause(path, sent->bytes, target);
			path->paid -= wait < path->paid ? wait : path->paid;
			events->lost(events->association, path, sent);
			asked = true;
		}
	}
	skip_settled(path);
	/* If the packet was a lone ping, no time-out would ask again. */
	if (asked && path->oldest == path->next)
		path->probe = true;
}

void path_answered(struct path *path, uint64_t time)
{
	path_sample(path, time);
	path->answered = true;
	path->congestion.rtt_min = path->congestion.rtt_min_next = trip_time(time);
	if (path->congestion.senders >= FIRST_PAUSE_SENDERS)
		return;
	path->congestion.trip = trip_time(time);
	path->paid = 0;
}

void path_sample(struct path *path, uint64_t time)
{
	uint32_t rtt = trip_time(time), apart;

	if (!path->rtt) {
		path->rtt = rtt;
		path->variation = rtt / 2;
		return;
	}
	apart = rtt > path->rtt ? rtt - path->rtt : path->rtt - rtt;
	path->variation = path->variation - path->variation / 4 + apart / 4;
	path->rtt = path->rtt - path->rtt / 8 + rtt / 8;
	if (!path->rtt)
		path->rtt = 1;
}

/* Did OVERTAKERS packets with larger numbers arrive, as far as known? */
static bool packet_overtaken(const struct path *path, uint64_t number)
{
	unsigned count = 0;
	uint64_t other;

	for (other = path->newest - 1; other > number && count < OVERTAKERS; other--)
		count += path_slot(path, other)->state == SENT_TAKEN;
	return count == OVERTAKERS;
}

/* Return for how long later packets may overtake a packet, ns (RFC 8985, 6.2, step 4). */
static uint64_t reordering_window(const struct path *path, uint64_t number)
{
	uint32_t least = path->congestion.rtt_min < path->trip ? path->congestion.rtt_min :
								 path->trip;

	if (!path->reorders && packet_overtaken(path, number))
		return 0;
	return least / 4 > path->patience ? least / 4 : path->patience;
}

/* Declare packets lost by time, and set the time of the next loss. */
static void declare_lost(struct path *path, uint64_t now, const struct path_events *events,
			 struct net_statistics *statistics)
{
	uint32_t count = 0;
	uint64_t number;

	path->loss_time = NET_NEVER;
	for (number = path->oldest; number + 1 < path->newest; number++) {
		struct sent *sent = path_slot(path, number);
		uint64_t due;

		if (sent->state != SENT_UNDER_WAY)
			continue;
		due = sent->time + path->trip + reordering_window(path, number);
		if (due > now) {
			path->loss_time = due;
			break;
		}
		statistics->lost++;
		if (sent->kind == SENT_PROBE) {
			mtu_lost(&path->mtu, now);
		} else {
			count++;
			if (mtu_passed(&path->mtu, sent->bytes, false))
				statistics->black_holes++;
		}
		path_lose(path, sent, events);
	}
	skip_settled(path);
	if (count)
		congestion_lost(&path->congestion, count);
	if (path->reorders && (uint32_t)path->next - path->spurious > REORDER_MEMORY) {
		path->spurious = (uint32_t)path->next;
		path->patience /= 2;
		path->reorders = path->patience > path->trip / 8;
		if (!path->reorders)
			path->patience = 0;
	}
}

/* A packet declared lost arrived late: allow for as much delay from now on. */
static void arrived_late(struct path *path, struct sent *sent, uint64_t now,
			 const struct path_events *events, struct net_statistics *statistics)
{
	uint64_t late = now - sent->time;

	late = late > path->trip ? late - path->trip : 0;
	statistics->spurious++;
	congestion_spurious(&path->congestion);
	path->spurious = (uint32_t)path->next;
	path->reorders = true;
	if (late > 4 * (uint64_t)path->rtt)
		late = 4 * (uint64_t)path->rtt;
	if (late > PATIENCE_MOST)
		late = PATIENCE_MOST;
	if (path->patience < late)
		path->patience = (uint32_t)late;
	events->spurious(events->association, path, sent);
}

/* Return the first number for which the acknowledgement may have news. */
static uint64_t path_unsettled(const struct path *path, const struct wire_frame *frame,
			       uint64_t largest)
{
	uint64_t first = path->next > path->capacity ? path->next - path->capacity : 0;
	uint64_t named = 64 * (uint64_t)frame->ack.words;

	/* If no packet among the named numbers was given up, all packets below oldest are settled. */
	if (path->given_up + named <= largest + 1 || !path->given_up)
		first = path->oldest;
	return first;
}

/* Return the time from then to now, at least 1 ns. */
static uint64_t time_after(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 1;
}

/* The peer delayed the acknowledgement of a few packets by time ns, for an answer. */
static void note_answer(struct path *path, uint64_t time)
{
	uint32_t wait = (uint32_t)(time / ANSWER_UNIT), before = path->answer_wait;

	path->answer_wait = (uint8_t)(wait > before ? wait : before - (before - wait + 7) / 8);
}

/* The peer held an acknowledgement back for an answer that never came: expect longer waits. */
static void allow_more(struct path *path, const struct net_options *options)
{
	uint64_t most = options->answer_delay / ANSWER_UNIT, wait = 2 * (path->answer_wait + 1ull);

	path->answer_wait = (uint8_t)(wait < most ? wait : most);
}

bool path_acknowledge(struct path *path, const struct wire_frame *frame, uint64_t now,
		      uint64_t arrived, const struct net_options *options,
		      const struct path_events *events, struct net_statistics *statistics)
{
	uint64_t largest = wire_widen(path->next, frame->ack.largest), held = frame->ack.delay,
		 waited = held < options->answer_delay ? held : options->answer_delay, first;
	struct congestion_news news = { .largest = largest, .next = path->next };
	uint64_t seen = 0; /* news.waited, and the time until the process read the packet, ns */
	unsigned w;

	assert_that(frame->ack.words && frame->ack.words <= WIRE_ACK_WORDS);
	if (largest >= path->next)
		return false;
	if (!path->sent)
		return true;
	first = path_unsettled(path, frame, largest);
	for (w = 0; w < frame->ack.words && largest >= 64 * (uint64_t)w; w++) {
		uint64_t bits = frame->ack.bits[w], top = largest - 64 * (uint64_t)w;

		for (; bits; bits &= bits - 1) {
			unsigned i = (unsigned)__builtin_ctzll(bits);
			struct sent *sent;

			if (i > top || top - i < first)
				break;
			sent = path_slot(path, top - i);
			if (sent->number != (uint32_t)(top - i))
				continue;
			if (sent->state == SENT_LOST) {
				sent->state = SENT_TAKEN;
				arrived_late(path, sent, now, events, statistics);
			} else if (sent->state == SENT_FORGOTTEN) {
				sent->state = SENT_TAKEN;
				path->timeouts = 0;
				events->spurious(events->association, path, sent);
			}
			if (sent->state != SENT_UNDER_WAY)
				continue;
			sent->state = SENT_TAKEN;
			leave_flight(path, sent);
			news.packets++;
			news.bytes += sent->bytes;
			if (sent->kind == SENT_PROBE) {
				mtu_acknowledged(&path->mtu, now);
				congestion_packet_grew(&path->congestion, path->mtu.size);
			} else {
				mtu_passed(&path->mtu, sent->bytes, true);
			}
			if (top - i == largest) {
				news.rtt = time_after(arrived, sent->time + held);
				news.waited = time_after(arrived, sent->time + waited);
				seen = time_after(now, sent->time + waited);
			}
			if (top - i >= path->newest) {
				path->newest = top - i + 1;
				path->trip = trip_time(now - sent->time);
			}
			events->taken(events->association, path, sent);
		}
		if (top < first)
			break;
	}
	/* Time-outs allow for the time by which either end was late. */
	if (news.rtt)
		path_sample(path, seen);
	if (news.packets <= WINDOW_ANSWERED && news.rtt && !path->prompt)
		note_answer(path, waited);
	if ((int32_t)(frame->ack.marks - path->marks) > 0) {
		news.marks = frame->ack.marks - path->marks;
		path->marks = frame->ack.marks;
		statistics->ecn_marks += news.marks;
	}
	if (!news.packets)
		return true;
	assert_that(path->newest <= path->next);
	path->timeouts = 0;
	path->tail_probes = 0;
	skip_settled(path);
	/* The acknowledgement covers the probe and all packets that the probe asked for. */
	if (path->waited && news.packets > 1 && path->oldest == path->next)
		allow_more(path, options);
	path->waited = false;
	/*
	 * A packet sent together with packets that arrived is missing: the peer has a part of
	 * a message, and gives no answer.
	 */
	if (path->oldest < path->next &&
	    path_slot(path, path->oldest)->time <= path_slot(path, largest)->time)
		path->prompt = true;
	/* A wait of the peer for an answer says nothing of the next packets. */
	if (news.packets <= WINDOW_ANSWERED && news.rtt && path->oldest == path->next)
		path->trip = trip_time(seen);
	declare_lost(path, now, events, statistics);
	congestion_acknowledged(&path->congestion, now, &news, options->queue_target,
				path->mtu.size);
	return true;
}

/* May the peer acknowledge the packets under way together with an answer? */
static bool is_answered(const struct path *path)
{
	return !path->prompt && path->next - path->oldest <= WINDOW_ANSWERED;
}

/* Return for how long the peer may delay an acknowledgement before a probe asks, ns. */
static uint64_t path_ack_allowance(const struct path *path, const struct net_options *options,
				   bool may_wait)
{
	uint64_t wait = (uint64_t)path->answer_wait * (ANSWER_UNIT + ANSWER_UNIT / 4);

	if (!may_wait || !is_answered(path) || path->tail_probes || path->timeouts ||
	    wait < options->ack_delay)
		return options->ack_delay;
	return wait;
}

static uint64_t path_timeout(const struct path *path, const struct net_options *options,
			     bool may_wait)
{
	uint64_t time = TIMEOUT_FIRST;

	if (path->rtt) {
		time = path->rtt + 4 * (uint64_t)path->variation + path->patience;
		if (time < options->timeout_min)
			time = options->timeout_min;
		time += path_ack_allowance(path, options, may_wait);
	}
	time <<= path->timeouts < 10 ? path->timeouts : 10;
	return time < TIMEOUT_MOST ? time : TIMEOUT_MOST;
}

/*
 * Return the time until a probe asks for the last packets, ns (RFC 8985, 7.2). No later packet
 * arrives after the last packets and tells of a loss. Nor does a packet follow the probe: the
 * time doubles with each probe.
 */
static uint64_t tail_timeout(const struct path *path, const struct net_options *options,
			     bool may_wait)
{
	if (!path->rtt || path->timeouts)
		return NET_NEVER;
	return (2 * (uint64_t)path->rtt + path_ack_allowance(path, options, may_wait))
	       << path->tail_probes;
}

uint64_t path_deadline(const struct path *path, const struct net_options *options, bool may_wait)
{
	uint64_t wait, tail;

	if (path->oldest == path->next)
		return NET_NEVER;
	wait = path_timeout(path, options, may_wait);
	tail = tail_timeout(path, options, may_wait);
	if (tail < wait)
		wait = tail;
	return path->loss_time < path->asked + wait ? path->loss_time : path->asked + wait;
}

/* Give up the record of the oldest packet under way; the contents are retransmitted. */
static void forget_oldest(struct path *path, uint64_t now, const struct path_events *events)
{
	struct sent *sent = path_slot(path, path->oldest);

	if (sent->kind == SENT_PROBE)
		mtu_lost(&path->mtu, now);
	path_lose(path, sent, events);
	sent->state = SENT_FORGOTTEN;
	skip_settled(path);
}

void path_make_room(struct path *path, uint64_t now, const struct path_events *events)
{
	while (path->next - path->oldest >= SENT_MOST)
		forget_oldest(path, now, events);
}

void path_forget(struct path *path, uint64_t now, const struct path_events *events)
{
	while (path->oldest < path->next)
		forget_oldest(path, now, events);
	assert_that(!path->in_flight && !path->charged);
	path->loss_time = NET_NEVER;
}

void path_advance(struct path *path, uint64_t now, const struct net_options *options, bool may_wait,
		  const struct path_events *events, struct net_statistics *statistics)
{
	assert_that(path->oldest <= path->next);
	if (path->oldest == path->next)
		return;
	if (path->loss_time <= now) {
		declare_lost(path, now, events, statistics);
		return;
	}
	if (now - path->asked >= tail_timeout(path, options, may_wait) &&
	    (!path->tail_probes || now < path->asked + path_timeout(path, options, may_wait))) {
		if (!path->tail_probes)
			path->waited = may_wait && is_answered(path);
		statistics->tail_probes++;
		path->tail_probes += path->tail_probes < TAIL_PROBES_MOST;
		path->probe = true;
		return;
	}
	if (now < path->asked + path_timeout(path, options, may_wait))
		return;
	statistics->timeouts++;
	path->timeouts += path->timeouts < TIMEOUTS_MOST;
	path->asked = now;
	path->probe = true;
	if (path->timeouts == TIMEOUTS_SILENT)
		congestion_restart(&path->congestion, path->mtu.size);
}

bool path_open(struct path *path, uint64_t now, uint32_t bytes, uint32_t credit, uint64_t target)
{
	uint64_t window = congestion_window(&path->congestion),
		 wait = path_pause(path, bytes, target);

	path->paced = 0;
	if (now < path->paid + wait) {
		path->paced = path->paid + wait;
		return false;
	}
	if (wait)
		window += bytes - 1;
	/* Without records for acknowledgements, both ends would wait for time-outs. */
	if (path->next - path->oldest > SENT_MOST - RECORDS_ANSWERS)
		return false;
	if (!path->in_flight)
		return true;
	return path->in_flight + bytes <= window && path->charged + wire_charge(bytes) <= credit;
}

bool path_is_half_used(const struct path *path, uint32_t credit)
{
	uint64_t window = congestion_window(&path->congestion), packet = path_packet(path);
	uint64_t charge = wire_charge((uint32_t)packet);

	return path->in_flight > window / 2 || path->in_flight + 2 * packet > window ||
	       path->charged > credit / 2 || path->charged + 2 * charge > credit;
}
