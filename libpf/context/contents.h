/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocation of pf_open. */
#ifndef PF_CONTENTS_H
#define PF_CONTENTS_H

#include "common/context.h"
#include "host/host.h"
#include "waiter.h"

#define CONTENTS_ALIGNMENT 64 /* of the state of each transport, bytes */

/* A single mapping: the data of every poll lies in few pages. */
struct contents {
	pf_context context;
	struct waiter waiter;
	/* The states of the transports, in the order of the table in transports.c. */
	_Alignas(CONTENTS_ALIGNMENT) uint8_t states[];
};

/* The state of the first transport, for transports_poll and tests. */
static inline struct host *host_of(pf_context *context)
{
	return (struct host *)(void *)((struct contents *)context)->states;
}

static inline struct waiter *waiter_of(pf_context *context)
{
	return &((struct contents *)context)->waiter;
}

#endif
