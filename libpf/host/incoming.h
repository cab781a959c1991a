/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel from another process, read here. Progress's own after polling_add. */
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
	bool refused;      /* if broken: owners_receive refused a message */
	bool rang;         /* the writer has rung the bell */
	uint64_t settling; /* time since when polling_settle knows of rang, ns; 0: unknown */
	bool rings;        /* the writer rings the bell for every message: no need to poll */
	uint32_t slot;     /* number of the mark in the inbox of this process */
	/*
	 * The record of the slot in struct connections; NULL: no slot. A slot belongs to the
	 * channel, not to the socket: a writer that is gone has the slot until progress has read
	 * the last messages, and a new writer must not have the slot before.
	 */
	_Atomic bool *slot_taken;
	struct serves serves;
	/* From the handshake. */
	struct address from;
	uint8_t data[PF_DATA_MOST]; /* of the caller */
	struct process *process;    /* the writer; a reference */
	int copy_error;             /* 0: this process may copy from and to the writer's memory */
};

/* Unmap and free the channel, after polling_drop. */
void incoming_destroy(struct incoming *incoming);

#endif
