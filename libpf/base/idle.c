/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include "check.h"

void idle_init(struct idle *idle)
{
	*idle = (struct idle){ .work = IDLE_WORK_NANOSECONDS, .least = IDLE_SLEEP_LEAST };
}

/* Return the step at the end of a round without a sleep. */
static enum idle_step round_end(const struct idle *idle, bool works)
{
	return idle->polls >= IDLE_YIELD_FIRST && (works || idle->polls % IDLE_YIELD_POLLS == 0) ?
		       IDLE_YIELD :
		       IDLE_POLL;
}

enum idle_step idle_next(struct idle *idle, uint64_t now, uint64_t polls, uint64_t ahead)
{
	bool works;

	assert_that(idle->polls);
	if (idle->polls == 1)
		idle->since = now;
	if (idle->polls % IDLE_ROUND == 1) {
		idle->start = now;
		return IDLE_POLL;
	}
	works = now - idle->start >= (IDLE_ROUND - 1) * idle->work;
	if (works || idle->polls + ahead < polls)
		return round_end(idle, works);
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
