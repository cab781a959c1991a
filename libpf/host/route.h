/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routes by which blocks move between this process and a linked peer of
 * this host: one for each peer, chosen when it is linked, changed when it is
 * lost.
 */
#ifndef PF_ROUTE_H
#define PF_ROUTE_H

#include <stdbool.h>

struct host_state;
struct transfer;
struct atomic_operation;

/* What advancing an operation did; up to ADVANCED_SHARED: nothing. */
enum advanced {
	ADVANCED_BLOCKED, /* no room towards the peer, for this operation and those behind it */
	ADVANCED_WAITS,   /* an event will make it ready again (turns.h) */
	ADVANCED_SHARED,  /* its peer moves the rest, and tells so in the share only */
	ADVANCED_LITTLE,  /* something small */
	ADVANCED_COPY,    /* copied a run */
	ADVANCED_TO_END,  /* the operation is finished */
};

struct route {
	/* Progress: move a READY block, or the next of the run in hand. */
	enum advanced (*move)(struct host_state *host, struct transfer *transfer);
	/* Progress: the same for an atomic; NULL: a message asks the peer to execute it. */
	enum advanced (*atomic)(struct host_state *host, struct atomic_operation *atomic);
	bool shares; /* long ones can be moved by both processes, each from its end */
};

extern const struct route route_copy;   /* process_vm_readv, process_vm_writev */
extern const struct route route_stream; /* messages through the ring */
extern const struct route route_device; /* /dev/exanest */
extern const struct route route_none;   /* transfers end with PF_ERR_UNREACHABLE */

#endif
