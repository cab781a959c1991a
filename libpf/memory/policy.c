/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <stdbool.h>

static bool resolves_ahead(enum pf_policy policy)
{
	return policy == PF_POLICY_AHEAD || policy == PF_POLICY_ADAPTIVE;
}

uint64_t policy_window_most(enum pf_policy policy, uint64_t block)
{
	return resolves_ahead(policy) ? POLICY_WINDOW_MAX : block;
}

uint64_t policy_window(enum pf_policy policy, struct resolve_window *window, uint64_t offset,
		       uint64_t block, uint64_t length)
{
	uint64_t size = block;

	if (resolves_ahead(policy)) {
		if (offset == window->next && window->size)
			size = 2 * window->size;
		if (size > POLICY_WINDOW_MAX)
			size = POLICY_WINDOW_MAX;
		window->size = size;
		window->next = offset + size;
	}
	return size < length - offset ? size : length - offset;
}
