/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to resolve a range: of this process to the side that owns the range, and of peers to
 * this process. Requests go by way of the service threads: a peer resolves whether or not the peer
 * is inside pf_progress.
 */
#ifndef PF_HOST_RESOLVE_H
#define PF_HOST_RESOLVE_H

#include "connection_message.h"
#include "peer.h"

/*
 * Progress: have [address, address + length) resolved by owner, or, if owner is NULL, by this
 * process. NOTICE_RESOLVED with the token follows, unless the owner goes. PF_OK or PF_ERR_MEMORY.
 */
int resolve_request(struct host_state *host, struct host_peer *owner, uint64_t token,
		    uint64_t address, uint64_t length, bool write);
/*
 * Service thread: a peer asks on the connection; arg: struct host_state (connections_resolve_fn).
 * Progress, with connection 0: for this process.
 */
void resolve_for_peer(void *arg, uint64_t connection, const struct resolve *request);

#endif
