/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include "base/check.h"

enum {
	POLICY_RESOLVES_AHEAD = 1, /* a window behind the block that met a page fault */
	POLICY_MAKES_HUGE = 2,     /* huge pages where a transfer covers them whole */
	POLICY_FILLS = 4,          /* absent pages of a destination, before the copy */
};

/* Traits of each policy. A policy without an entry resolves the block alone, as PF_POLICY_TOUCH. */
static const uint8_t policy_traits[] = {
	[PF_POLICY_TOUCH] = 0,
	[PF_POLICY_AHEAD] = POLICY_RESOLVES_AHEAD | POLICY_FILLS,
	[PF_POLICY_HUGE] = POLICY_MAKES_HUGE | POLICY_FILLS,
	[PF_POLICY_ADAPTIVE] = POLICY_RESOLVES_AHEAD | POLICY_MAKES_HUGE | POLICY_FILLS,
};

static bool policy_has(enum pf_policy policy, unsigned trait)
{
	return (size_t)policy < sizeof(policy_traits) && (policy_traits[policy] & trait);
}

bool policy_fills_destination(enum pf_policy policy)
{
	return policy_has(policy, POLICY_FILLS);
}

bool policy_makes_huge(enum pf_policy policy)
{
	return policy_has(policy, POLICY_MAKES_HUGE);
}

uint64_t policy_window_most(enum pf_policy policy, uint64_t block)
{
	return policy_has(policy, POLICY_RESOLVES_AHEAD) ? POLICY_WINDOW_MAX : block;
}

uint64_t policy_window(enum pf_policy policy, struct resolve_window *window, uint64_t offset,
		       uint64_t block, uint64_t end)
{
	uint64_t size = block;

	assert_that(offset < end && block);
	if (policy_has(policy, POLICY_RESOLVES_AHEAD)) {
		if (offset == window->next && window->size)
			size = 2 * window->size;
		if (size > POLICY_WINDOW_MAX)
			size = POLICY_WINDOW_MAX;
		window->size = size;
		window->next = offset + size;
	}
	return size < end - offset ? size : end - offset;
}
