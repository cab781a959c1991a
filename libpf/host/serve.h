/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's half of a transfer moved from both ends: offers taken from a
 * channel, served run by run while this process polls.
 */
#ifndef PF_SERVE_H
#define PF_SERVE_H

#include <stdbool.h>

#include "channel.h"
#include "message.h"
#include "pf.h"

struct incoming;

struct serves {
	unsigned first, count;
	/* CHANNEL_SHARES, a ring by order of arrival; NULL before the first. */
	struct message_offer *offers;
};

/* An offer arrived; false if it makes no sense, and then the channel is not to be trusted. */
bool serve_offer(pf_context *context, struct incoming *incoming, const void *payload,
		 size_t length);
void serves_destroy(struct serves *serves);
/* Move one run for the oldest offer. Returns 1 if something moved. */
int serve_advance(pf_context *context, struct incoming *incoming);

#endif
