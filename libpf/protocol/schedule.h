/* SPDX-License-Identifier: BSD-3-Clause */
/* Which associations have something to send, in turns, and which are due next. */
#ifndef PF_NET_SCHEDULE_H
#define PF_NET_SCHEDULE_H

#include "association.h"

struct schedule {
	struct net_association *ready, **ready_last;
	/* A heap by deadline; the first entry is not used. */
	struct net_association **due;
	uint32_t due_count;
};

void schedule_init(struct schedule *schedule);
void schedule_destroy(struct schedule *schedule);
/* Have room for so many associations; false: no memory. */
bool schedule_reserve(struct schedule *schedule, uint32_t count);
/* It has something to send. */
void schedule_ready(struct schedule *schedule, struct net_association *association);
void schedule_unready(struct schedule *schedule, struct net_association *association);
/* It has neither a turn nor a deadline any more. */
void schedule_remove(struct schedule *schedule, struct net_association *association);
/* Its deadline may have changed. One that is later now counts only in schedule_settle. */
void schedule_due(struct schedule *schedule, struct net_association *association);
/* The next one is due when it says, and not later. */
void schedule_settle(struct schedule *schedule);
/* One that may be due by that time, and matches; NULL: none. Deadlines may be too early. */
struct net_association *schedule_find(const struct schedule *schedule, uint64_t time,
				      bool (*matches)(struct net_association *, uint64_t));
/* Its deadline was reached: look at it again at the new one, later than now. */
void schedule_again(struct schedule *schedule, struct net_association *association, uint64_t now);

/* The next to be due; NULL: none. */
static inline struct net_association *schedule_next(const struct schedule *schedule)
{
	return schedule->due_count ? schedule->due[1] : NULL;
}

#endif
