/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to be sent: each association that has some gets its turn. */
#include "core.h"
#include "output.h"

/* Looks at the one that is due next: deadlines may be too early, but not too late. */
static bool hurry(const struct net_core *core, bool really)
{
	struct net_association *next = schedule_next(&core->schedule);

	return next && next->deadline <= core->shared.now + WINDOW_MOMENT &&
	       association_hurry(next, really);
}

bool net_owes(const struct net_core *core)
{
	const struct net_association *association = core->schedule.ready;

	while (association && !output_owes(association))
		association = association->next_ready;
	return association || hurry(core, false);
}

void net_hurry(struct net_core *core)
{
	if (hurry(core, true))
		core_settle(core, schedule_next(&core->schedule));
}

bool net_blocked(const struct net_core *core)
{
	return core->shared.blocked != 0;
}

unsigned net_output(struct net_core *core, uint64_t now, struct net_batch *batch)
{
	struct schedule *schedule = &core->schedule;
	struct net_association *association;

	core_clock(core, now);
	while ((association = schedule->ready)) {
		/* First, so that what comes up meanwhile is not missed. */
		schedule_unready(schedule, association);
		output_batch(batch, association, core->shared.now);
		/* It may have more to send: after the other associations. */
		association->wants_output |= batch->count != 0;
		association_set_blocked(association, !batch->count && output_blocked(association));
		if (!batch->count && association->state == GONE && association->closing) {
			core_remove(core, association);
			continue;
		}
		core_settle(core, association);
		if (batch->count)
			return batch->count;
	}
	return 0;
}

void net_unsent(struct net_core *core, const struct net_batch *batch, bool unreadable)
{
	struct net_association *association = core_index(core, batch->association);

	if (!association)
		return;
	if (association->state == OPENING)
		association->opening->hello_due = core->shared.now;
	else if (association->state == ACCEPTED)
		association->welcome = true;
	association->wants_output = true;
	if (batch->path < NET_PATHS_MOST && association->state == OPEN && association->busy) {
		if (batch->probe)
			mtu_unsent(&association->paths[batch->path]->mtu);
		association_unsent(association, batch->path, batch->number, batch->count,
				   unreadable);
	}
	core_settle(core, association);
}
