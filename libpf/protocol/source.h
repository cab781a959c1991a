/* SPDX-License-Identifier: BSD-3-Clause */
/* The source of the data of a transfer: granules to send, and to retransmit. */
#ifndef PF_NET_SOURCE_H
#define PF_NET_SOURCE_H

#include "exchange.h"

/* Contiguous granules of a transfer, of a single block or of several. */
struct run {
	struct net_transfer *transfer;
	uint16_t granule, granules; /* first granule in the transfer, and number */
	uint32_t offset, length;    /* bytes in the transfer */
};

/* Find the run to send next, at most most granules. False: nothing to send now. */
bool source_next(struct exchange *exchange, unsigned most, struct run *run);
/* Does the packet with the run carry the signal of the put, too? */
bool source_carries_signal(const struct run *run);
/* There is no room for the signal in the packet: leave the last granule to the next packet. */
void source_shorten(const struct exchange *exchange, struct run *run);
/*
 * A transfer of the operation has ended: send the block held back for the signal if it was the last
 * but one, or cancel the last transfer if the operation has failed.
 */
void source_release(struct exchange *exchange, struct operation_posted *operation);
/* The run is in a packet: the granules count as sent. */
void source_sent(struct exchange *exchange, const struct run *run);
/* Begin to send a new transfer. */
void source_start(struct exchange *exchange, struct net_transfer *transfer);
/* A packet was lost, or not sent. unreadable: the system could not read memory of the packet. */
void source_lost(struct exchange *exchange, const struct sent *sent, bool unreadable);
/* A packet declared lost arrived: do not send the granules again. */
void source_spurious(struct exchange *exchange, const struct sent *sent);
/* A parked block was resolved (net_resolved). */
void source_resolved(struct exchange *exchange, struct net_token token, int status, uint64_t bad);
/* The destination waits for the page of a block: hold the block back. */
void source_nack(struct exchange *exchange, const struct wire_entry *entry);
/* The destination has the page, and asks for granules of the block. */
void source_again(struct exchange *exchange, const struct wire_entry *entry);
/* Copy the bytes of the run. False: bytes are absent or bad; do not send the run. */
bool source_fetch(struct exchange *exchange, const struct run *run, void *to);

#endif
