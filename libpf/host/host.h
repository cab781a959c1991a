/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport to processes of this host, for the context. */
#ifndef PF_HOST_H
#define PF_HOST_H

#include "answer.h"
#include "polling.h"
#include "state.h"

struct host {
	struct polling polling; /* first: the fields that every poll looks at */
	struct answers answers;
	struct host_state state;
};

/* For host_poll and host_advance: the parts that an empty poll does not need. */
int host_handle_notices(struct host *host);
int host_advance_operations(struct host *host);

/* Progress: read messages, handle notices. Returns how many things happened. */
static inline int host_poll(struct host *host)
{
	int count = polling_poll(&host->polling);

	if (__builtin_expect(notices_waiting(&host->state.notices), 0))
		count += host_handle_notices(host);
	return count;
}

/* Progress, after operations_collect: advance the operations. Returns how many things happened. */
static inline int host_advance(struct host *host)
{
	int count = 0;

	if (operations_active(&host->state.context->operations))
		count = host_advance_operations(host);
	if (__builtin_expect(host->answers.first != NULL, 0))
		count += answers_advance(&host->answers);
	return count;
}

#endif
