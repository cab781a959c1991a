/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routes that blocks take between here and a linked peer of this host: one
 * for each, chosen when the peer is linked, changed when it is lost.
 */
#ifndef PF_ROUTE_H
#define PF_ROUTE_H

#include <stdbool.h>

#include "pf.h"

struct transfer;
struct atomic_operation;

struct route {
	/* Progress: move a READY block, or the next of the run in hand; OPERATION_*. */
	int (*move)(pf_context *context, struct transfer *transfer);
	/* Progress: the same for an atomic; NULL: a message asks the peer to execute it. */
	int (*atomic)(pf_context *context, struct atomic_operation *atomic);
	bool shares; /* long ones can be moved by both processes, each from its end */
};

extern const struct route route_copy;   /* process_vm_readv, process_vm_writev */
extern const struct route route_stream; /* messages through the ring */
extern const struct route route_device; /* /dev/exanest */
extern const struct route route_none;   /* transfers end with PF_ERR_UNREACHABLE */

#endif
