/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: the work of a call of pf_progress, and the sleeps. */
#ifndef PF_PROGRESS_H
#define PF_PROGRESS_H

#include "common/context.h"

/*
 * The longest sleep at a time, microseconds: a writer whose store leaves the processor later than
 * INBOX_ANNOUNCED_NANOSECONDS, after the look at the announcement, ends no sleep (host/inbox.h).
 */
#define PROGRESS_SLEEP_LONGEST 100000
/*
 * The longest sleep while a peer may write without ringing, and of a descriptor's waiter while a
 * ring is full, microseconds.
 */
#define PROGRESS_SLEEP_UNRUNG 1000

/*
 * Enter progress once no other thread is inside, to change data of progress. False: called by a
 * callback, inside already. *outer: for progress_release, after true.
 */
bool progress_hold(pf_context *context, const void **outer);
void progress_release(pf_context *context, const void *outer);

/* The functions of pf_progress, pf_wait, pf_flush_test and pf_flush. */
int context_progress(pf_context *context);
int context_wait(pf_context *context, int64_t timeout);
int context_flush_test(pf_context *context, pf_peer *peer, uint64_t mark);
int context_flush(pf_context *context, pf_peer *peer, int64_t timeout);
/* The functions of pf_descriptor, pf_arm, pf_wake and pf_allow_threads. */
int context_descriptor(pf_context *context, int *fd);
int context_arm(pf_context *context);
void context_wake(pf_context *context);
void context_allow_threads(pf_context *context);

#endif
