/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's half of a transfer moved from both ends: offers taken from a
 * channel, served run by run while this process polls. Progress's own.
 */
#ifndef PF_SERVE_H
#define PF_SERVE_H

#include <stdbool.h>

#include "incoming.h"
#include "peer.h"

/*
 * Handle an offer that arrived. False: the offer is malformed, and the channel not to be trusted.
 */
bool serve_offer(struct host_state *host, struct incoming *incoming, const void *payload,
		 size_t length);
/* Handle a request for a huge page. False: malformed. */
bool serve_collapse(struct host_state *host, const void *payload, size_t length);
/* Move one run for the oldest offer. Returns 1 if something moved. */
int serve_advance(struct host_state *host, struct incoming *incoming);

#endif
