/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that were refused with PF_ERR_AGAIN, until the application was told that there is
 * room again: peers.refused, in their order, with at most one entry of each kind for a peer.
 * Under peers.lock any thread appends, after it found no room; progress alone removes, after
 * it found room for the entry. So no refusal is lost. The flag peers.news says that there may
 * be any: a caller sets it under the lock, with its entry; progress clears it before it takes
 * the lock. So either progress finds the entry, or its own store comes before the caller's.
 */
#ifndef PF_REFUSED_H
#define PF_REFUSED_H

#include "context.h"

/* What was refused: bits of pf_peer.refused, while there is an entry. */
enum refused_kind {
	REFUSED_MESSAGE = 1,
	REFUSED_OPERATION = 2, /* by operations_max */
};

/*
 * Any thread: progress is to tell of room. length: of a message, as has_room of the
 * transport takes it. Returns what the call does: PF_ERR_AGAIN, or PF_ERR_MEMORY.
 */
int refused_add(pf_peer *peer, enum refused_kind kind, size_t length);
/* Progress, after it cleared peers.news: tell of those with room now. Returns how many. */
int refused_tell(pf_context *context);
/* Closing. */
void refused_destroy(pf_context *context);

#endif
