/* SPDX-License-Identifier: BSD-3-Clause */
/* Associations with something to send, in turns, and associations by deadline. */
#ifndef PF_NET_SCHEDULE_H
#define PF_NET_SCHEDULE_H

#include "association.h"

struct schedule {
	STAILQ_HEAD(, net_association) ready;
	/* A heap by deadline; the first entry is not used. */
	struct net_association **due;
	uint32_t due_count;
};

void schedule_init(struct schedule *schedule);
void schedule_destroy(struct schedule *schedule);
/* Have room for count associations. False: no memory. */
bool schedule_reserve(struct schedule *schedule, uint32_t count);
/* The association has something to send: queue the association for a turn. */
void schedule_ready(struct schedule *schedule, struct net_association *association);
/* Take the association out of the queue. */
void schedule_unready(struct schedule *schedule, struct net_association *association);
/* Remove the turn and the deadline of the association. */
void schedule_remove(struct schedule *schedule, struct net_association *association);
/* The deadline may have changed. A later deadline counts only in schedule_settle. */
void schedule_due(struct schedule *schedule, struct net_association *association);
/* Make the deadline of the next association exact: not too early. */
void schedule_settle(struct schedule *schedule);
/* Find an association that may be due by time, and matches; NULL: none. Deadlines may be early. */
struct net_association *schedule_find(const struct schedule *schedule, uint64_t time,
				      bool (*matches)(struct net_association *, uint64_t));
/* The deadline was reached: set the new deadline, later than now. */
void schedule_again(struct schedule *schedule, struct net_association *association, uint64_t now);

/* Return the association with the earliest deadline; NULL: none. */
static inline struct net_association *schedule_next(const struct schedule *schedule)
{
	return schedule->due_count ? schedule->due[1] : NULL;
}

#endif
