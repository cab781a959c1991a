/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which operations progress has to look at: those that are ready, in the order of posting, for
 * each peer; and the peers that have any, in the order of their turns. An operation that waits for
 * an event, such as an answer, a resolved page fault or a completion of the device, is not ready, and
 * costs a poll nothing; the handler of the event makes it ready again. Progress's own.
 */
#ifndef PF_TURNS_H
#define PF_TURNS_H

#include "peer.h"

/* A new operation, behind all others of its peer. */
void operation_enter(struct operation *operation);
/* Its event came: it is ready, before those that have not begun. One that is ready stays. */
void operation_wake(struct operation *operation);
/* It is not ready any more: it waits for an event, or has ended. */
void operation_leave(struct operation *operation);
/* The peer has had its turn: all others come before it. */
void turns_pass(struct host_peer *peer);

#endif
