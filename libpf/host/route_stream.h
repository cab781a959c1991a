/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks through the ring, for peers whose memory the kernel does not let this process copy:
 * slower, but with equal blocks, faults and errors. The initiator sends or asks for one block, the
 * peer answers and keeps no state between blocks.
 */
#ifndef PF_ROUTE_STREAM_H
#define PF_ROUTE_STREAM_H

#include "block.h"
#include "channel.h"
#include <libpf/pf.h>

/* Most blocks of one transfer under way through the ring at a time. */
#define STREAM_WINDOW 8
/* Likewise of a transfer of short pieces: two messages of MESSAGE_BLOCKS_MOST. */
#define STREAM_WINDOW_PIECES 128
/* Return the longest block that the rings of this process carry in an answer, bytes. */
uint64_t stream_answer_most(const pf_context *context);
/*
 * Copy a block that arrived in a ring to the block's address in this process. may_wait: the copy
 * may wait for an absent page. PF_OK, or PF_ERR_FAULT with *address.
 */
int stream_place(pf_context *context, struct channel *from, const uint8_t *data, void *local,
		 uint64_t length, bool may_wait, uint64_t *address);
/*
 * Copy several blocks that arrived in one message, without waiting for a page. *address is in the
 * first block that was not moved whole.
 */
int stream_place_all(pf_context *context, struct channel *from, const uint8_t *data,
		     const struct iovec *to, unsigned count, uint64_t *address);
/*
 * Progress: the answer to a message came, to block and all blocks along with block; data is the
 * payload in the ring of from (gets), or NULL.
 */
void stream_answered(struct host_state *host, struct block *block, int status, uint64_t address,
		     struct channel *from, const uint8_t *data);

#endif
