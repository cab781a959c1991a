/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocation of pf_open. */
#ifndef PF_CONTENTS_H
#define PF_CONTENTS_H

#include "common/context.h"
#include "host/host.h"
#include "waiter.h"

struct network_watch;

/* A single mapping: the data of every poll lies in few pages. */
struct contents {
	pf_context context;
	struct host host;
	struct network_watch *watch; /* of the network; NULL without one */
	struct waiter waiter;
};

static inline struct host *host_of(pf_context *context)
{
	return &((struct contents *)context)->host;
}

static inline struct waiter *waiter_of(pf_context *context)
{
	return &((struct contents *)context)->waiter;
}

#endif
