/* SPDX-License-Identifier: GPL-2.0 */
/* The formats of packets: sections 9.1 to 9.3 of engine.md. */
#ifndef SECOND_PACKET_H
#define SECOND_PACKET_H

#include "state.h"

/* Fill the header in; returns the length. */
size_t set_header(struct engine *e, struct packet *p, const struct peer *peer, u8 type, u32 slot,
		  u64 sequence, u32 length);
/* Check the length of the type, and that reserved fields are 0. */
bool is_length_valid(const struct packet *p, size_t length);
/* Check the fields of the type; those of a response that depend on the block are checked later. */
bool is_body_valid(const struct packet *p);

#endif
