/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels from other processes, and how they are polled: those that carried
 * something lately at every progress, those whose writer rang the bell at
 * once, and of all the others one a progress in rotation, which finds
 * whatever a bell missed. So an idle poll costs the same with two peers as
 * with a thousand.
 *
 * Where processes share a core, whoever polls next finds its caches and its
 * address translations used up by the others, so a poll is one look at the bell
 * alone, once every writer has rung it for the first time. That is enough there:
 * a writer to a reader that sleeps at times has to use a fence anyway, and with
 * it no bell is missed.
 */
#ifndef PF_INCOMING_H
#define PF_INCOMING_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/address.h"
#include "channel.h"
#include "inbox.h"
#include "pf.h"
#include "serve.h"

#define POLLED_MOST 8

struct incoming {
	struct channel channel;
	pf_peer *peer;
	bool polled, broken;
	bool heard;    /* it calls, and we rely on it */
	uint32_t slot; /* its mark in our inbox */
	struct serves serves;
	uint64_t fetched; /* of a long message that is still being written */
	/* From the handshake. */
	struct address from;
	pid_t pid;
	int copy_error; /* 0: we may copy from and to its memory */
};

struct polling {
	struct incoming *polled[POLLED_MOST];
	unsigned polled_count;
	unsigned victim; /* next to be dropped when another becomes active */
	struct incoming **all;
	unsigned all_count, all_room, rotation;
	struct incoming **by_slot;
	unsigned slots;   /* entries of by_slot */
	unsigned unheard; /* of all */
};

/* All of these are progress's own. */
int incoming_add(pf_context *context, struct incoming *incoming);
/* The writer is gone: hand out what it had sent, then forget the channel. */
void incoming_drop(pf_context *context, struct incoming *incoming);
void incoming_destroy(struct incoming *incoming);
/* Is there a message in the channel of somebody who cannot call yet? */
bool incoming_any(pf_context *context);
/* Returns the number of messages handled. */
int incoming_poll(pf_context *context);
void polling_destroy(struct polling *polling);

#endif
