/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the partner's buffer, registered on request. */
#ifndef TOOLS_RANGES_H
#define TOOLS_RANGES_H

#include "pf.h"
#include "protocol.h"

struct ranges {
	pf_registration **registrations; /* RANGES_MAX of them; NULL before the first request */
};

/* Register a range under a free number. Returns PF_OK or PF_ERR_*. */
int ranges_register(struct ranges *ranges, pf_context *context, const struct range *range);
void ranges_deregister(struct ranges *ranges, pf_context *context, const struct range *range);
/* Free the table; pf_close has undone the registrations. */
void ranges_free(struct ranges *ranges);

#endif
