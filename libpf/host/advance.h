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
/* Return whether there is a transfer to copy. One that waits for its pages does not count. */
bool operations_moving(const struct host_state *host);
/*
 * Let the peer (NULL: each one) claim no more of transfers, which fail with that status if both ends
 * move them. Returns whether no peer that lives moves a run that it has claimed.
 */
bool operations_withdraw(struct host_state *host, const struct host_peer *peer, int status);
/* The peer is gone: end every operation to it, with an error if the peer did not complete it. */
void operations_fail(struct host_state *host, struct host_peer *peer, int status);
/*
 * Does each operation, after a poll that could not advance it, wait for something that wakes
 * progress: a message, a notice or the device?
 */
bool operations_wait(struct host_state *host);
/*
 * Closing, while the service thread runs: wait until no peer moves its end of a transfer. It gives
 * up after OPERATIONS_LINGER_NANOSECONDS: a peer may be stopped (SIGSTOP) between claim and copy.
 */
void operations_linger(struct host_state *host);
/* Closing: free all operations without a completion. */
void operations_release(struct host_state *host);

#endif
