/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks through the ring, for peers that the kernel does not let us copy
 * from: slower, but the same blocks, faults and errors.
 */
#ifndef PF_STREAM_H
#define PF_STREAM_H

#include "channel.h"
#include "pf.h"

/* Longest block that one message can carry, to this peer and back. */
uint64_t stream_block_most(const pf_peer *peer, uint64_t block_size);
/* Longest that our own rings can carry in an answer. */
uint64_t stream_answer_most(const pf_context *context);
/*
 * Send a block, or ask for one. PF_OK: an answer with this token will come.
 * PF_ERR_AGAIN: no room. patient: an absent page that can be waited for is no
 * fault, on either side. PF_ERR_FAULT: *address, here, could not be read.
 */
int stream_put(pf_peer *peer, uint64_t token, const void *local, uint64_t remote, uint64_t length,
	       bool patient, uint64_t *address);
int stream_get(pf_peer *peer, uint64_t token, uint64_t remote, uint64_t length, bool patient);
/* Copy a block that arrived in a ring to where it belongs. PF_OK or PF_ERR_FAULT with *address. */
int stream_place(pf_context *context, const struct channel *from, const uint8_t *data, void *local,
		 uint64_t length, bool patient, uint64_t *address);

#endif
