/* SPDX-License-Identifier: BSD-3-Clause */
#include "transports.h"

#include <errno.h>

/*
 * All transports, in the order in which they are opened, asked and polled. Progress sleeps in the first,
 * whose polls are inline in transports_poll. The last reaches other hosts.
 */
static const struct transport *const table[] = {
	&transport_host,
	&transport_net,
};

#define TRANSPORTS (sizeof(table) / sizeof(table[0]))
_Static_assert(TRANSPORTS <= TRANSPORTS_MOST, "each transport has a slot");

/* Bytes of the state of a transport, rounded up to the alignment of the next. */
static size_t transport_room(const struct transport *transport)
{
	return (transport->state_size + CONTENTS_ALIGNMENT - 1) & ~(size_t)(CONTENTS_ALIGNMENT - 1);
}

size_t transports_contents_size(void)
{
	size_t size = sizeof(struct contents), i;

	for (i = 0; i < TRANSPORTS; i++)
		size += transport_room(table[i]);
	return size;
}

/* For each transport of the context with the function, from a slot on. */
#define SLOTS_FOREACH(slot, first, function)                                                       \
	for (const struct transport_slot *slot = (first); slot->transport; slot++)                 \
		if (slot->state && slot->transport->function)

int transports_open(pf_context *context)
{
	uint8_t *state = ((struct contents *)context)->states;
	struct transport_slot *slot = context->transports;
	int status, error;
	size_t i;

	for (i = 0; i < TRANSPORTS; i++, slot++) {
		*slot = (struct transport_slot){ .transport = table[i], .why = "" };
		status = table[i]->open(context, state, &slot->why);
		if (status == PF_OK)
			slot->state = state;
		state += transport_room(table[i]);
		if (status == PF_OK || status == PF_ERR_UNREACHABLE)
			continue;
		error = errno;
		transports_disconnect(context);
		transports_close(context);
		errno = error;
		return status;
	}
	return PF_OK;
}

void transports_linger(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, linger)
		slot->transport->linger(slot->state);
}

/* Transports end in the reverse order, because a later one may use what an earlier one opened. */
void transports_disconnect(pf_context *context)
{
	size_t i = TRANSPORTS;

	while (i--) {
		const struct transport_slot *slot = &context->transports[i];

		if (slot->state && slot->transport->disconnect)
			slot->transport->disconnect(slot->state);
	}
}

void transports_close(pf_context *context)
{
	size_t i = TRANSPORTS;

	while (i--) {
		const struct transport_slot *slot = &context->transports[i];

		if (slot->state && slot->transport->close)
			slot->transport->close(slot->state);
	}
}

void transports_count(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, count)
		slot->transport->count(slot->state);
}

/* ---- choice ---- */

/* The best of the transports below a limit. *why: of the best; without one, of the last that has a reason. */
static const struct transport *transport_choose(const pf_context *context,
						const struct address *address,
						enum transport_reach limit,
						enum transport_reach *best, const char **why)
{
	const struct transport *chosen = NULL;
	const struct transport_slot *slot;

	*best = TRANSPORT_UNREACHED;
	for (slot = context->transports; slot->transport; slot++) {
		enum transport_reach reach = TRANSPORT_UNREACHED;
		const char *reason = slot->why;

		if (slot->state)
			reach = slot->transport->reach(slot->state, address, &reason);
		if (reach >= limit || (chosen && reach <= *best))
			continue;
		if (reach != TRANSPORT_UNREACHED || *reason)
			*why = reason;
		if (reach == TRANSPORT_UNREACHED)
			continue;
		*best = reach;
		chosen = slot->transport;
	}
	return chosen;
}

const struct transport *transports_choose(const pf_context *context, const struct address *address,
					  const char **why)
{
	enum transport_reach best;
	const struct transport *transport = transport_choose(context, address,
							     TRANSPORT_EXCLUDED + 1, &best, why);

	return best == TRANSPORT_EXCLUDED ? NULL : transport;
}

const struct transport *transports_back(const pf_context *context, const struct address *address)
{
	enum transport_reach best;
	const char *why;
	const struct transport *transport = transport_choose(context, address, TRANSPORT_EXCLUDED,
							     &best, &why);

	return transport ? transport : table[TRANSPORTS - 1];
}

/* ---- progress ---- */

int transports_poll_others(pf_context *context)
{
	int count = 0;

	SLOTS_FOREACH(slot, context->transports + 1, poll)
		count += slot->transport->poll(slot->state);
	return count;
}

bool transports_may_sleep(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, may_sleep) {
		if (!slot->transport->may_sleep(slot->state))
			return false;
	}
	return true;
}

bool transports_have_news(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, has_news) {
		if (slot->transport->has_news(slot->state))
			return true;
	}
	return false;
}

void transports_prepare_sleep(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, prepare_sleep)
		slot->transport->prepare_sleep(slot->state);
}

void transports_prepare_yield(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, prepare_yield)
		slot->transport->prepare_yield(slot->state);
}

void transports_set_sleeping(pf_context *context, bool sleeps)
{
	SLOTS_FOREACH(slot, context->transports, sleeps)
		slot->transport->sleeps(slot->state, sleeps);
}

bool transports_all_ring(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, all_ring) {
		if (!slot->transport->all_ring(slot->state))
			return false;
	}
	return true;
}

bool transports_allow_waiter(pf_context *context)
{
	SLOTS_FOREACH(slot, context->transports, allow_waiter) {
		if (!slot->transport->allow_waiter(slot->state))
			return false;
	}
	return true;
}

/* ---- the sleep itself ---- */

uint64_t transports_sleep_ahead(const pf_context *context)
{
	const struct transport_slot *slot = &context->transports[0];

	return slot->transport->sleep_ahead(slot->state);
}

void transports_announce_sleep(pf_context *context)
{
	const struct transport_slot *slot = &context->transports[0];

	slot->transport->sleep_announce(slot->state);
}

enum slept transports_sleep(pf_context *context, uint64_t microseconds)
{
	const struct transport_slot *slot = &context->transports[0];

	return slot->transport->sleep(slot->state, microseconds);
}

void transports_leave_sleep(pf_context *context)
{
	const struct transport_slot *slot = &context->transports[0];

	slot->transport->sleep_leave(slot->state);
}
