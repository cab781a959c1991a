/* SPDX-License-Identifier: BSD-3-Clause */
#include "ranges.h"

#include <stdlib.h>

int ranges_register(struct ranges *ranges, pf_context *context, const struct range *range)
{
	int status;

	if (!ranges->registrations)
		ranges->registrations = calloc(RANGES_MAX, sizeof(*ranges->registrations));
	if (!ranges->registrations)
		return PF_ERR_MEMORY;
	if (range->number >= RANGES_MAX || ranges->registrations[range->number])
		return PF_ERR_ARGUMENT;
	status = pf_register(context, (void *)(uintptr_t)range->address, range->length,
			     range->write != 0, &ranges->registrations[range->number]);
	return status < 0 ? status : PF_OK;
}

void ranges_deregister(struct ranges *ranges, pf_context *context, const struct range *range)
{
	if (!ranges->registrations || range->number >= RANGES_MAX)
		return;
	pf_deregister(context, ranges->registrations[range->number]);
	ranges->registrations[range->number] = NULL;
}

void ranges_free(struct ranges *ranges)
{
	free(ranges->registrations);
}
