/* SPDX-License-Identifier: BSD-3-Clause */
/* Advances the posted operations of the host transport: transfers and atomics. Progress's own. */
#ifndef PF_ADVANCE_H
#define PF_ADVANCE_H

#include <stdbool.h>

#include "peer.h"

/* A claimed run is copied in microseconds, unless its peer waits for a page or is stopped. */
#define OPERATIONS_LINGER_NANOSECONDS 10000000000ull

/* Advance every active operation. Returns how many things happened. */
int operations_advance(struct host_state *host);
/* Return whether there is a transfer to copy. A transfer that waits for pages does not count. */
bool operations_moving(const struct host_state *host);
/*
 * Let the peer (NULL: each peer) claim no more of transfers; transfers that both ends move fail
 * with the status. Returns whether no living peer moves a run that the peer has claimed.
 */
bool operations_withdraw(struct host_state *host, const struct host_peer *peer, int status);
/*
 * The peer is gone: end every operation to the peer, with an error if the peer did not complete the
 * operation.
 */
void operations_fail(struct host_state *host, struct host_peer *peer, int status);
/*
 * Does each operation, after a poll without an advance, wait for an event that wakes progress: a
 * message, a notice or the device?
 */
bool operations_wait(struct host_state *host);
/*
 * Closing, while the service thread runs: wait until no peer moves its end of a transfer. Give up
 * after OPERATIONS_LINGER_NANOSECONDS: a peer may be stopped (SIGSTOP) between claim and copy.
 */
void operations_linger(struct host_state *host);
/* Closing: free all operations without a completion. */
void operations_release(struct host_state *host);

#endif
