/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule.h"

#include <stdlib.h>

#include "base/check.h"

void schedule_init(struct schedule *schedule)
{
	*schedule = (struct schedule){ 0 };
	STAILQ_INIT(&schedule->ready);
}

void schedule_destroy(struct schedule *schedule)
{
	free(schedule->due);
}

bool schedule_reserve(struct schedule *schedule, uint32_t count)
{
	struct net_association **due = realloc(schedule->due, (count + 1) * sizeof(*due));

	if (due)
		schedule->due = due;
	return due != NULL;
}

void schedule_ready(struct schedule *schedule, struct net_association *association)
{
	if (association->ready)
		return;
	association->ready = true;
	STAILQ_INSERT_TAIL(&schedule->ready, association, next_ready);
}

void schedule_unready(struct schedule *schedule, struct net_association *association)
{
	if (!association->ready)
		return;
	assert_that(!STAILQ_EMPTY(&schedule->ready));
	association->ready = false;
	STAILQ_REMOVE(&schedule->ready, association, net_association, next_ready);
}

/* ---- deadlines: a heap ---- */

/* Put an association at a place of the heap. */
static void put_due(struct schedule *schedule, uint32_t place, struct net_association *association)
{
	schedule->due[place] = association;
	association->place = place;
}

/* Move an association from a free place up or down the heap. */
static void schedule_sift(struct schedule *schedule, uint32_t place,
			  struct net_association *association)
{
	struct net_association **due = schedule->due;
	uint32_t child;

	assert_that(place && place <= schedule->due_count);
	while (place > 1 && due[place / 2]->deadline > association->deadline) {
		put_due(schedule, place, due[place / 2]);
		place /= 2;
	}
	while ((child = 2 * place) <= schedule->due_count) {
		if (child < schedule->due_count && due[child + 1]->deadline < due[child]->deadline)
			child++;
		if (due[child]->deadline >= association->deadline)
			break;
		put_due(schedule, place, due[child]);
		place = child;
	}
	put_due(schedule, place, association);
}

/* Set the deadline, and enter, move or remove the association; NET_NEVER: no deadline. */
static void set_deadline(struct schedule *schedule, struct net_association *association,
			 uint64_t deadline)
{
	uint32_t place = association->place;
	struct net_association *last;

	/* An association with a place is at the place. */
	assert_that(!place ||
		    (place <= schedule->due_count && schedule->due[place] == association));
	association->deadline = deadline;
	if (deadline != NET_NEVER) {
		schedule_sift(schedule, place ? place : ++schedule->due_count, association);
		return;
	}
	if (!place)
		return;
	association->place = 0;
	last = schedule->due[schedule->due_count--];
	if (last != association)
		schedule_sift(schedule, place, last);
}

void schedule_remove(struct schedule *schedule, struct net_association *association)
{
	schedule_unready(schedule, association);
	set_deadline(schedule, association, NET_NEVER);
}

void schedule_due(struct schedule *schedule, struct net_association *association)
{
	uint64_t deadline = association_deadline(association);

	if (association->place && deadline >= association->deadline && deadline != NET_NEVER)
		return;
	set_deadline(schedule, association, deadline);
}

static struct net_association *
schedule_find_below(const struct schedule *schedule, uint32_t place, uint64_t time,
		    bool (*matches)(struct net_association *, uint64_t))
{
	struct net_association *association;

	if (place > schedule->due_count || schedule->due[place]->deadline > time)
		return NULL;
	if (matches(schedule->due[place], time))
		return schedule->due[place];
	association = schedule_find_below(schedule, 2 * place, time, matches);
	return association ? association :
			     schedule_find_below(schedule, 2 * place + 1, time, matches);
}

struct net_association *schedule_find(const struct schedule *schedule, uint64_t time,
				      bool (*matches)(struct net_association *, uint64_t))
{
	return schedule_find_below(schedule, 1, time, matches);
}

void schedule_settle(struct schedule *schedule)
{
	struct net_association *first;
	uint64_t deadline;

	while ((first = schedule_next(schedule))) {
		deadline = association_deadline(first);
		if (deadline <= first->deadline)
			return;
		set_deadline(schedule, first, deadline);
	}
}

void schedule_again(struct schedule *schedule, struct net_association *association, uint64_t now)
{
	uint64_t deadline = association_deadline(association);

	/* An association due before now waits for output. */
	set_deadline(schedule, association, deadline <= now ? now + 1 : deadline);
}
