// SPDX-License-Identifier: GPL-2.0
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "priority.h"

#define CREDIT_MAX (4 * (s64)NSEC_PER_MSEC)
#define SHARE_MAX 90U

static uint engine_share = 75;
module_param(engine_share, uint, 0644);
MODULE_PARM_DESC(engine_share,
		 "Percent of the time, at most 90, for which an engine thread goes before others");

static s64 share(void)
{
	return min(READ_ONCE(engine_share), SHARE_MAX);
}

/* Changing class takes the run queue's lock, so it is done as credit runs out, not for each turn. */
static void priority_set(struct exanest_priority *priority, bool high)
{
	if (priority->high == high)
		return;
	priority->high = high;
	if (high)
		sched_set_fifo_low(current);
	else
		sched_set_normal(current, 0);
}

/* Returns the time that passed since it was called last, which has been earned a share of. */
static s64 priority_earn(struct exanest_priority *priority)
{
	u64 now = ktime_get_ns();
	s64 passed = now - priority->counted;

	priority->counted = now;
	priority->credit = min(priority->credit + passed * share() / 100, CREDIT_MAX);
	return passed;
}

void exanest_priority_start(struct exanest_priority *priority)
{
	priority->high = false;
	priority->credit = 0;
	priority->counted = ktime_get_ns();
}

void exanest_priority_spend(struct exanest_priority *priority)
{
	s64 passed = priority_earn(priority);

	if (priority->high)
		priority->credit -= passed;
	if (priority->credit <= 0)
		priority_set(priority, false);
	else if (priority->credit >= CREDIT_MAX / 2)
		priority_set(priority, true);
}

void exanest_priority_sleep(struct exanest_priority *priority)
{
	priority_set(priority, share() > 0);
}

void exanest_priority_wake(struct exanest_priority *priority)
{
	priority_earn(priority);
	if (priority->credit <= 0)
		priority_set(priority, false);
}
