/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks at the initiator: section 8 of engine.md. */
#ifndef SECOND_INITIATOR_H
#define SECOND_INITIATOR_H

#include "state.h"

/* Whether packets can be sent to the peer. */
bool is_known(const struct peer *peer);
/* Open a transfer, whose submission was checked. */
void open_transfer(struct engine *e, const struct submission *s, struct peer *peer);
/* End the transfer with ABORTED. */
void abort_transfer(struct engine *e, struct transfer *t);
/* Section 8.3: the block accesses no local memory any more. */
void abort_block(struct engine *e, struct block *b, u32 status, u32 side, u64 address);
/* End the blocks and transfers to a peer. */
void forget_blocks(struct engine *e, struct peer *peer, enum status status);
/* Send what is in the mask of the block, or is asked for. */
void start_sending(struct engine *e, struct block *b);
/* The peer is known now: its blocks begin. */
void start_blocks(struct engine *e, struct peer *peer);
/* Cut blocks while there are slots, one of each transfer in turn. Returns whether one was cut. */
bool cut_blocks(struct engine *e);
/* Handle the time-outs that are due; when the next one is. */
void expire_blocks(struct engine *e);
u64 next_deadline(const struct engine *e);
/* The next packet of a block; 0: there is none. */
size_t make_block_packet(struct engine *e, struct block *b, struct packet *p);
/* Returns false if the packet is dropped. */
bool receive_response(struct engine *e, struct peer *peer, const struct packet *p);

#endif
