/* SPDX-License-Identifier: BSD-3-Clause */
/* How a transfer to a peer of this host advances: by its peer's route, from one end or from both. */
#ifndef PF_TRANSFER_ADVANCE_H
#define PF_TRANSFER_ADVANCE_H

#include "block.h"
#include "route.h"

/*
 * Any thread: move at once what can be moved at once, and post the rest. As pf_put and pf_get, with
 * a length that is not 0.
 */
int transfer_post(pf_peer *peer, enum operation_kind kind, char *local, uint64_t remote,
		  size_t length, pf_complete_fn complete, void *arg);
/* Progress: offer the peer the back of a long transfer, and take the front half, if not done yet. */
void transfer_offer(struct host_state *host, struct transfer *transfer);
/* Progress: do what can be done now. Of a peer that is gone it ends, complete or with an error. */
enum advanced transfer_advance(struct host_state *host, struct transfer *transfer);
/*
 * Progress: let the peer claim no more of a transfer that both ends move, which fails with that status.
 * Returns whether the peer has moved what it had claimed, or its process has ended: from then on it
 * accesses none of this process's memory for it.
 */
bool transfer_withdraw(struct transfer *transfer, int status);
/* Free what it holds besides itself. */
void transfer_release(struct transfer *transfer);

#endif
