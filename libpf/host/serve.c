/* SPDX-License-Identifier: BSD-3-Clause */
#include "serve.h"

#include <errno.h>
#include <stdlib.h>

#include "advance.h"
#include "base/check.h"
#include "copy.h"

bool serve_offer(struct host_state *host, struct incoming *incoming, const void *payload,
		 size_t length)
{
	struct serves *serves = &incoming->serves;
	struct message_offer offer;

	assert_progress(host->context);
	if (length != sizeof(offer))
		return false;
	memcpy(&offer, payload, sizeof(offer));
	if (offer.slot >= CHANNEL_SHARES || offer.shift < SHARE_GRANULE_SHIFT || offer.shift > 40 ||
	    !offer.length || (offer.length - 1) >> offer.shift >= SHARE_GRANULES_MAX ||
	    offer.initiator + offer.length < offer.length ||
	    offer.target + offer.length < offer.length)
		return false;
	/*
	 * Taking part is optional: without permission to copy, or with too many offers, ignore the
	 * offer.
	 */
	if (incoming->copy_error || serves->count == CHANNEL_SHARES)
		return true;
	if (!serves->offers)
		serves->offers = malloc(CHANNEL_SHARES * sizeof(*serves->offers));
	if (!serves->offers)
		return true;
	if (offer.put)
		memory_expect(&host->context->memory, offer.target, offer.length);
	serves->offers[(serves->first + serves->count++) % CHANNEL_SHARES] = offer;
	return true;
}

bool serve_collapse(struct host_state *host, const void *payload, size_t length)
{
	struct memory *memory = &host->context->memory;
	struct message_collapse message;

	assert_progress(host->context);
	if (length != sizeof(message))
		return false;
	memcpy(&message, payload, sizeof(message));
	/* With the option expose no peer copies from this memory. */
	if (!host->context->options.expose)
		(void)collapse_request(&memory->collapse, message.number << memory->collapse.shift);
	return true;
}

static void done_with_offer(struct serves *serves)
{
	serves->first = (serves->first + 1) % CHANNEL_SHARES;
	serves->count--;
}

/* Return the run: the initiator resolves and reports page faults. */
static void hand_back(struct serves *serves, struct share *share, struct granules run)
{
	share_return(share, run);
	done_with_offer(serves);
}

int serve_advance(struct host_state *host, struct incoming *incoming)
{
	pf_context *context = host->context;
	struct serves *serves = &incoming->serves;
	const struct message_offer *offer = &serves->offers[serves->first];
	struct share *share = &incoming->channel.memory->shares[offer->slot];
	uint32_t least = SHARE_BACK_LEAST >> offer->shift;
	uint32_t most = (uint32_t)(context->options.run_max >> offer->shift);
	uint64_t start, end;
	struct copy_list list;
	struct granules run;
	enum pf_side side;
	size_t moved;
	bool last;
	int error;

	assert_progress(host->context);
	/* Transfers of this process come first. */
	if (operations_moving(host))
		return 0;
	if (!share_claim_back(share, offer->generation, least ? least : 1, most ? most : 1, &run,
			      &last)) {
		done_with_offer(serves);
		return 0;
	}
	start = (uint64_t)run.start << offer->shift;
	end = (uint64_t)run.end << offer->shift;
	/* The initiator can write anything to the claim word: stay inside the offer. */
	if (start >= offer->length || end <= start) {
		incoming->broken = true;
		return 0;
	}
	if (end > offer->length)
		end = offer->length;
	if (host_peer_ready(incoming->peer, !offer->put, (void *)(uintptr_t)(offer->target + start),
			    offer->initiator + start, end - start, &side) < end - start) {
		hand_back(serves, share, run);
		return 1;
	}
	/*
	 * Seen from this side a get is written to the initiator, and a put is read from the
	 * initiator.
	 */
	copy_list_open(&list, 1);
	copy_list_add(&list, offer->target + start, offer->initiator + start, end - start);
	error = copy_and_trace(context->trace, NULL, incoming->process, incoming->from.id,
			       !offer->put, &list, &moved);
	activity_moved(&context->activity);
	statistic_add(&context->statistics, PF_STAT_SHARED_BYTES, moved);
	if (!error) {
		share_add_moved(share, granules_count(run));
		if (last)
			done_with_offer(serves);
		return 1;
	}
	hand_back(serves, share, run);
	if (error != EFAULT)
		incoming->copy_error = error;
	return 1;
}
