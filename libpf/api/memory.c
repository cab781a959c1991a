/* SPDX-License-Identifier: BSD-3-Clause */
/* Pagers and exposed ranges: pf.h documents every function here. */
#include "memory/memory.h"

#include "base/tag.h"
#include "common/context.h"

int pf_pager_register(pf_context *context, void *address, size_t length, pf_supply_fn supply,
		      void *arg, pf_pager **pager)
{
	return pager_register(&context->memory.pagers, tag_remove_pointer(address), length, supply,
			      arg, pager);
}

int pf_pager_set_unit(pf_pager *pager, size_t unit)
{
	return pager_set_unit(pager, unit);
}

int pf_pager_set_ahead(pf_pager *pager, size_t most)
{
	return pager_set_ahead(pager, most);
}

int pf_pager_evict(pf_pager *pager, void *address, size_t length)
{
	return pager_evict(pager, tag_remove_pointer(address), length);
}

void pf_pager_unregister(pf_pager *pager)
{
	pager_unregister(pager);
}

int pf_expose(pf_context *context, const void *base, size_t length, unsigned rights)
{
	if (!rights || rights & ~(PF_EXPOSE_READ | PF_EXPOSE_WRITE))
		return PF_ERR_ARGUMENT;
	return exposure_set(&context->memory.exposure, tag_remove((uintptr_t)base), length, rights);
}

int pf_unexpose(pf_context *context, const void *base, size_t length)
{
	return exposure_set(&context->memory.exposure, tag_remove((uintptr_t)base), length, 0);
}
