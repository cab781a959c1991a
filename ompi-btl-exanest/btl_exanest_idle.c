/* SPDX-License-Identifier: BSD-3-Clause */
#include "btl_exanest_idle.h"

void mca_btl_exanest_idle_init(struct mca_btl_exanest_idle *idle)
{
	*idle = (struct mca_btl_exanest_idle){ .work = IDLE_WORK_NANOSECONDS,
					       .least = IDLE_SLEEP_LEAST,
					       .patience = IDLE_PATIENCE };
}

/* A round ends that no sleep follows: yield or poll on. */
static enum idle_step idle_wait(struct mca_btl_exanest_idle *idle)
{
	if (idle->polls == IDLE_YIELD_FIRST && idle->patience)
		idle->patience--;
	return idle->polls >= IDLE_YIELD_FIRST || !idle_is_patient(idle) ? IDLE_YIELD : IDLE_POLL;
}

enum idle_step mca_btl_exanest_idle_next(struct mca_btl_exanest_idle *idle, uint64_t now,
					 uint64_t polls)
{
	if (!idle->since)
		idle->since = now;
	if (idle->polls % IDLE_ROUND == 1) {
		idle->start = now;
		return IDLE_POLL;
	}
	if (idle->polls < polls)
		return idle_wait(idle);
	if (now - idle->start >= (IDLE_ROUND - 1) * idle->work) {
		/* After a sleep the caches may still be cold. */
		if (!idle->rested)
			return idle_wait(idle);
		idle->rested = false;
		return IDLE_POLL;
	}
	idle->rested = true;
	return IDLE_SLEEP;
}

uint64_t mca_btl_exanest_idle_length(const struct mca_btl_exanest_idle *idle, uint64_t now,
				     uint64_t longest)
{
	uint64_t length = (now - idle->since) / IDLE_SHARE;

	/* Waking together shares a timer interrupt and warm caches: a fifth less time each. */
	if (length >= longest)
		length = longest - now % longest;
	if (length < idle->least)
		length = idle->least;
	return length < longest ? length : longest;
}
