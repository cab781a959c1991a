/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel from another process, read by this one. Progress's own once it is added to polling. */
#ifndef PF_INCOMING_H
#define PF_INCOMING_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/address.h"
#include "channel.h"
#include "message.h"
#include "process.h"

struct host_peer;

/* Transfers that the peer offers to move from both ends (serve.h). */
struct serves {
	unsigned first, count;
	/* CHANNEL_SHARES, a ring by order of arrival; NULL before the first. */
	struct message_offer *offers;
};

struct incoming {
	struct channel channel;
	struct host_peer *peer; /* the writer; NULL before it is added to polling */
	bool polled, broken;
	bool rang;         /* its writer has rung the bell */
	uint64_t settling; /* time since when polling_settle knows that, ns; 0: it does not */
	bool rings;    /* its writer rings the bell for every message, so it need not be polled */
	uint32_t slot; /* its mark in this process's inbox */
	/*
	 * The record of that slot in struct connections; NULL: it has none. A slot belongs to the
	 * channel, not to the socket: a writer that is gone has it until progress has read its last
	 * messages, and a new one must not have the same slot before.
	 */
	_Atomic bool *slot_taken;
	struct serves serves;
	/* From the handshake. */
	struct address from;
	struct process *process; /* the writer; a reference */
	int copy_error;          /* 0: this process may copy from and to the writer's memory */
};

/* Unmap and free it; it must not be in polling any more. */
void incoming_destroy(struct incoming *incoming);

#endif
