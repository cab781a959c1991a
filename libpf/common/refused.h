/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls refused with PF_ERR_AGAIN, until the application was told of room: peers.refused, in
 * their order, with at most one entry of each kind for a peer. Under peers.lock any thread
 * appends, after finding no room; progress alone removes, after finding room for the entry. Hence
 * no refusal is lost. The flag peers.news tells of possible entries: a caller sets the flag under
 * the lock, with its entry; progress clears the flag before taking the lock. Either progress
 * finds the entry, or the store of progress comes before the caller's.
 */
#ifndef PF_REFUSED_H
#define PF_REFUSED_H

#include "context.h"

/* Kind of the refused call: bits of pf_peer.refused, while there is an entry. */
enum refused_kind {
	REFUSED_MESSAGE = 1,
	REFUSED_OPERATION = 2, /* by operations_max */
};

/*
 * Any thread: have progress tell of room. length: of a message, as for has_room of the transport.
 * Returns the result of the call: PF_ERR_AGAIN, or PF_ERR_MEMORY.
 */
int refused_add(pf_peer *peer, enum refused_kind kind, size_t length);
/*
 * Progress, with peers.news cleared before: tell of peers with room now. Returns the number told.
 */
int refused_tell(pf_context *context);
/* Progress: tell nothing of the peer any more, the pointer of which the application has lost. */
void refused_forget(pf_peer *peer);
/* Closing. */
void refused_destroy(pf_context *context);

#endif
