/* SPDX-License-Identifier: GPL-2.0 */
/* Peers, and packets that are sent and received: section 9 of engine.md. */
#ifndef SECOND_LINK_H
#define SECOND_LINK_H

#include "state.h"

/* The peer with a number, or NULL if it is not set. */
struct peer *find_peer(struct engine *e, u32 node);
/* Make a peer, whose memory is zeros, ready for use. */
void init_peer(struct peer *peer);
/* End the blocks and transfers to a peer, and forget its records. */
void forget_peer(struct engine *e, struct peer *peer, enum status status);
/* Move the block or the record of a fault again. */
void resume(struct engine *e, struct fault *fault);
/* End the block or the record of a fault. */
void reject(struct engine *e, struct fault *fault, u32 status, u64 address);
/* Do all that waits neither for packets nor for time. */
void progress(struct engine *e);
/* Handle a packet of the link. */
void receive_packet(struct engine *e, const void *datagram, size_t length);
/* Make the next packet for the link; returns its length, 0: there is none. */
size_t make_packet(struct engine *e, struct packet *p);
/* Handle the time-outs that are due; returns when the next one is. */
u64 run_timers(struct engine *e);

#endif
