/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations and pagers: pf.h documents every function here. */
#include "memory/memory.h"

#include "base/tag.h"
#include "common/context.h"

int pf_register(pf_context *context, void *address, size_t length, int write,
		pf_registration **registration)
{
	return registration_add(&context->memory.registrations, tag_remove_pointer(address), length,
				write, registration);
}

void pf_deregister(pf_context *context, pf_registration *registration)
{
	if (registration)
		registration_remove(&context->memory.registrations, registration);
}

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
