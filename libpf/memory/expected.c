/* SPDX-License-Identifier: BSD-3-Clause */
#include "expected.h"

#include "base/check.h"
#include "collapse.h"
#include "touch.h"

/* ms after which a transfer without a copy counts as ended. */
#define EXPECTED_LIFETIME 100
/*
 * Bytes made huge when a copy reaches the front: there, and at the end for the peer, which copies
 * while the process makes huge pages.
 */
#define FRONT_BYTES ((uint64_t)8 << 20)
#define BACK_BYTES ((uint64_t)16 << 20)

void expected_init(struct expected *expected, struct residency *residency, struct pagers *pagers,
		   uint64_t size)
{
	*expected = (struct expected){ .residency = residency, .pagers = pagers, .size = size };
	pthread_mutex_init(&expected->lock, NULL);
}

void expected_destroy(struct expected *expected)
{
	pthread_mutex_destroy(&expected->lock);
}

/* Does the setting leave huge pages to programs? Read once for a range, if pages are absent. */
static bool expected_permitted(struct expected *expected)
{
	assert_locked(&expected->lock, true);
	if (!expected->asked)
		expected->permitted = collapse_setting(expected->size) == COLLAPSE_MADVISE;
	expected->asked = true;
	return expected->permitted;
}

/*
 * Make one huge page at start, if possible. False: the setting or the kernel refuses, and would
 * refuse the rest as well.
 */
static bool expected_make(struct expected *expected, uint64_t start)
{
	struct mapping mapping;
	uint64_t cold, failed;

	assert_locked(&expected->lock, true);
	if (residency_look(expected->residency, start, expected->size, &cold) < expected->size ||
	    cold < expected->size)
		return true;
	if (!mappings_find(expected->residency->mappings, start, &mapping) || mapping.inode ||
	    pagers_own(expected->pagers, start, expected->size))
		return true;
	return expected_permitted(expected) && touch_range(start, 1, true, &failed) == PF_OK &&
	       collapse_pages(start, expected->size);
}

/*
 * Under the lock: make huge pages at the start of the range left, front_bytes but at least one
 * huge page, and at its end, back_bytes.
 */
static void expected_go_on(struct expected *expected, uint64_t front_bytes, uint64_t back_bytes)
{
	uint64_t front = front_bytes > expected->size ? front_bytes / expected->size : 1;
	uint64_t back = back_bytes / expected->size;

	assert_locked(&expected->lock, true);
	for (; front && expected->start < expected->end; front--) {
		if (!expected_make(expected, expected->start))
			expected->end = 0;
		expected->start += expected->size;
	}
	for (; back && expected->start < expected->end; back--) {
		if (!expected_make(expected, expected->end - expected->size))
			expected->end = 0;
		else
			expected->end -= expected->size;
	}
	expected->until = (uint16_t)(residency_now() + EXPECTED_LIFETIME);
}

void expected_begin(struct expected *expected, uint64_t address, uint64_t length)
{
	uint64_t size = expected->size;
	uint64_t start = (address + size - 1) & ~(size - 1);
	uint64_t end = (address + length) & ~(size - 1);

	if (!size || start >= end)
		return;
	/* If another thread holds the lock, its transfer has the huge pages. */
	if (pthread_mutex_trylock(&expected->lock))
		return;
	expected->start = start;
	expected->end = end;
	expected->asked = false;
	expected_go_on(expected, EXPECTED_AT_ONCE / 2, EXPECTED_AT_ONCE / 2);
	pthread_mutex_unlock(&expected->lock);
}

void expected_reach(struct expected *expected, uint64_t address)
{
	uint64_t start = address & ~(expected->size - 1);

	if (!expected->size || pthread_mutex_trylock(&expected->lock))
		return;
	if (start >= expected->start && start < expected->end &&
	    (uint16_t)(expected->until - residency_now() - 1) < EXPECTED_LIFETIME) {
		expected->start = start;
		expected_go_on(expected, FRONT_BYTES, BACK_BYTES);
	}
	pthread_mutex_unlock(&expected->lock);
}
