/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a transfer to a peer of this host advances: by the peer's route, from one end or from both.
 */
#ifndef PF_TRANSFER_ADVANCE_H
#define PF_TRANSFER_ADVANCE_H

#include "block.h"
#include "route.h"

/*
 * Any thread: move at once as much as possible, and post the rest. Arguments and result as of
 * transport.transfer.
 */
int transfer_post(pf_peer *peer, enum operation_kind kind, const pf_piece *pieces, unsigned count,
		  uint64_t length, pf_complete_fn complete, void *arg);
/* Any thread: post a put with a signal. Arguments and result as of transport.put_signal. */
int transfer_post_signal(pf_peer *peer, const pf_piece *piece, const pf_signal *signal,
			 pf_complete_fn complete, void *arg);
/*
 * Progress, or without threads the program's thread: tell peers, in the inbox, whether this process copies
 * own transfers. Not where processes share a core: no process offers transfers there.
 */
void host_say_moving(struct host_state *host, bool moving);
/* Progress: offer the peer the back of a long transfer, and take the front half, if not done yet. */
void transfer_offer(struct host_state *host, struct transfer *transfer);
/*
 * Progress: take the steps that are possible now. With a peer that is gone the transfer ends,
 * complete or with an error.
 */
enum advanced transfer_advance(struct host_state *host, struct transfer *transfer);
/*
 * Progress: let the peer claim no more of a transfer that both ends move; the transfer fails with
 * the status. Returns whether the peer has moved every claimed run, or the peer's process has
 * ended: from then on the peer accesses no memory of this process for the transfer.
 */
bool transfer_withdraw(struct transfer *transfer, int status);
/* Free the transfer, and everything that the transfer holds. */
void transfer_release(struct transfer *transfer);

#endif
