/* SPDX-License-Identifier: BSD-3-Clause */
/* Advances the posted operations of the host transport: transfers and atomics. Progress's own. */
#ifndef PF_ADVANCE_H
#define PF_ADVANCE_H

#include <stdbool.h>

#include "peer.h"

/* Advance every active operation. Returns how many things happened. */
int operations_advance(struct host_state *host);
/* Fail everything that waits for this peer. */
void operations_fail(struct host_state *host, struct host_peer *peer, int status);
/* Is there an operation in flight, and do all of them wait for /dev/exanest? */
bool operations_on_device(struct host_state *host);
/* Closing: free all operations without a completion. */
void operations_release(struct host_state *host);

#endif
