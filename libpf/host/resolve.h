/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to resolve a range: of this process to the side that owns the range, and of peers to
 * this process. A peer that polls is asked through a ring first, and maps pages that the kernel
 * has: no thread has to wake. All other requests go to the service thread of the peer, which
 * resolves whether or not the peer is inside pf_progress.
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
 * Progress, while asks_count is not 0: send requests without an answer in time, or all, to the
 * socket.
 */
void resolve_expire(struct host_state *host, bool all);
/* Progress: the peer is gone, and answers nothing. */
void resolve_forget(struct host_state *host, const struct host_peer *owner);
/* Progress: handle MESSAGE_RESOLVE of the peer. False: malformed. */
bool resolve_asked(struct host_state *host, struct host_peer *asker, const void *payload,
		   size_t length);
/*
 * Progress: the peer answered a request through the ring. False: the request goes to the socket
 * next, or went there already. *late: perhaps only because this process yielded the processor.
 */
bool resolve_answered(struct host_state *host, struct host_peer *owner,
		      const struct resolve *answer, bool *late);
/* Progress: was the answer through the ring quicker than one of the socket? */
void resolve_judge(struct host_peer *owner, bool quick);
/*
 * Service thread: a peer asks on the connection; arg: struct host_state (connections_resolve_fn).
 * Progress, with connection 0: for this process.
 */
void resolve_for_peer(void *arg, uint64_t connection, const struct resolve *request);

#endif
