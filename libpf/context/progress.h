/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: the work of a call of pf_progress, and the sleeps. */
#ifndef PF_PROGRESS_H
#define PF_PROGRESS_H

#include "common/context.h"

/*
 * The longest sleep while a peer may write without ringing, and of a descriptor's waiter while a
 * ring is full, microseconds.
 */
#define PROGRESS_SLEEP_UNRUNG 1000

/* The functions of pf_progress, pf_flush_test and pf_flush. */
int context_progress(pf_context *context);
int context_flush_test(pf_context *context, const pf_peer *peer, uint64_t mark);
int context_flush(pf_context *context, const pf_peer *peer);
/* The functions of pf_descriptor, pf_arm, pf_wake and pf_allow_threads. */
int context_descriptor(pf_context *context, int *fd);
int context_arm(pf_context *context);
void context_wake(pf_context *context);
void context_allow_threads(pf_context *context);

#endif
