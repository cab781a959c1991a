/* SPDX-License-Identifier: GPL-2.0 */
/* Records at the target: sections 9.6 and 10 of engine.md. */
#ifndef SECOND_TARGET_H
#define SECOND_TARGET_H

#include "state.h"

/* Make the records of a peer, whose memory is zeros, ready for use; forget what they have. */
void init_records(struct peer *peer);
void forget_records(struct engine *e, struct peer *peer);
void end_record(struct engine *e, struct record *r, u32 status, u64 address);
/* End the records of a space with UNREACHABLE. */
void end_records(struct engine *e, u32 space);
/* Do what a record in RECEIVING can do without a payload. */
void serve_record(struct engine *e, struct record *r);
/* Returns false if the packet is dropped. */
bool receive_request(struct engine *e, struct peer *peer, const struct packet *p);
/* The next packet of a record, of its state as it is now; 0: there is none. */
size_t make_record_packet(struct engine *e, struct record *r, struct packet *p);

#endif
