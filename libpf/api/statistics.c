/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics: pf.h documents every function here. */
#include "base/statistics.h"

#include "context/transports.h"

uint64_t pf_stat(const pf_context *context, enum pf_stat stat)
{
	pf_context *counted = (pf_context *)(uintptr_t)context;

	transports_count(counted);
	return (unsigned)stat < PF_STAT_COUNT ? statistic_read(&context->statistics.page, stat) : 0;
}

uint64_t pf_stat_resolve_time(const pf_context *context, unsigned bucket)
{
	return bucket < PF_RESOLVE_BUCKETS ?
		       statistic_read_bucket(&context->statistics.page, bucket) :
		       0;
}
