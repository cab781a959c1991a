/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include "check.h"

void idle_init(struct idle *idle)
{
	*idle = (struct idle){ .work = IDLE_WORK_NANOSECONDS, .least = IDLE_SLEEP_LEAST };
}

enum idle_step idle_next(struct idle *idle, uint64_t now, uint64_t polls, uint64_t ahead,
			 bool early)
{
	bool slow;

	assert_that(idle->polls);
	if (!idle->since)
		idle->since = now;
	if (idle->polls % IDLE_ROUND == 1) {
		idle->start = now;
		return IDLE_POLL;
	}
	/* The caller works between its polls, or lost its processor. */
	slow = now - idle->start >= (IDLE_ROUND - 1) * idle->work;
	if (slow || idle->polls + ahead < polls)
		return idle->polls >= IDLE_YIELD_FIRST || (early && !slow) ? IDLE_YIELD : IDLE_POLL;
	if (!idle->announced) {
		idle->announced = idle->polls;
		return IDLE_ANNOUNCE;
	}
	return idle->polls >= idle->announced + ahead ? IDLE_SLEEP : IDLE_POLL;
}

uint64_t idle_length(const struct idle *idle, uint64_t now, uint64_t longest)
{
	uint64_t length = (now - idle->since) / IDLE_SHARE;

	/* Waking together shares a timer interrupt and warm caches: a fifth less time each. */
	if (length >= longest)
		length = longest - now % longest;
	if (length < idle->least)
		length = idle->least;
	return length < longest ? length : longest;
}
