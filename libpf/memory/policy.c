/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

uint64_t policy_window(enum pf_policy policy, struct resolve_window *window, uint64_t offset,
		       uint64_t block, uint64_t length)
{
	uint64_t size = block;

	if (policy == PF_POLICY_AHEAD || policy == PF_POLICY_ADAPTIVE) {
		if (offset == window->next && window->size)
			size = 2 * window->size;
		if (size > POLICY_WINDOW_MAX)
			size = POLICY_WINDOW_MAX;
		window->size = size;
		window->next = offset + size;
	}
	return size < length - offset ? size : length - offset;
}
