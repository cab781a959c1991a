/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that progress has to look at: ready operations, in the order of posting, for each
 * peer; and the peers with ready operations, in the order of their turns. An operation that waits
 * for an event, such as an answer, a resolved page fault or a completion of the device, is not
 * ready, and costs a poll nothing; the handler of the event makes the operation ready again.
 * Progress's own.
 */
#ifndef PF_TURNS_H
#define PF_TURNS_H

#include "peer.h"

/* Add a new operation, behind all others of the peer. */
void operation_enter(struct operation *operation);
/*
 * The event came: the operation is ready, before operations that have not begun. A ready operation
 * stays.
 */
void operation_wake(struct operation *operation);
/* The operation is no more ready: waits for an event, or has ended. */
void operation_leave(struct operation *operation);
/* The peer has had a turn: all other peers come before. */
void turns_pass(struct host_peer *peer);

#endif
