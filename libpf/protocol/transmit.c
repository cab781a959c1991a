/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to be sent: associations with packets take turns. */
#include "core.h"
#include "output.h"

#include "base/check.h"

static bool owes_unready(struct net_association *association, uint64_t time)
{
	return !association->ready && association_owes(association, time);
}

bool net_owes(const struct net_core *core)
{
	uint64_t soon = core->shared.now + core->shared.options.ack_delay;
	const struct net_association *association;

	STAILQ_FOREACH(association, &core->schedule.ready, next_ready) {
		if (output_owes(association) || association_owes(association, soon))
			return true;
	}
	return schedule_find(&core->schedule, soon, owes_unready);
}

void net_acknowledge(struct net_core *core)
{
	uint64_t soon = core->shared.now + core->shared.options.ack_delay;
	struct net_association *association;

	STAILQ_FOREACH(association, &core->schedule.ready, next_ready)
		association_acknowledge(association, soon);
	/* core_settle makes the association ready: the next search skips the association. */
	while ((association = schedule_find(&core->schedule, soon, owes_unready))) {
		association_acknowledge(association, soon);
		core_settle(core, association);
	}
}

void net_linger(struct net_core *core)
{
	uint32_t i;

	for (i = 0; i < core->room; i++) {
		if (!core->associations[i])
			continue;
		association_linger(core->associations[i]);
		core_settle(core, core->associations[i]);
	}
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
	while ((association = STAILQ_FIRST(&schedule->ready))) {
		/* Leave the queue first: output_batch may make the association ready again. */
		schedule_unready(schedule, association);
		output_batch(batch, association, core->shared.now);
		assert_that(batch->length <= NET_BATCH_BYTES || batch->count == 1);
		/* The association may have more to send after the rest of the queue. */
		association->wants_output |= batch->count != 0;
		association_set_blocked(association, !batch->count && output_blocked(association));
		core_settle(core, association);
		if (batch->count)
			return batch->count;
	}
	return 0;
}

void net_unsent(struct net_core *core, const struct net_batch *batch, bool unreadable)
{
	struct net_association *association = core_index(core, batch->association);

	assert_that(batch->count && batch->count <= NET_BATCH_MOST &&
		    batch->path <= NET_PATHS_MOST);
	/* The caller reads no statistics between net_output and net_unsent: no decrease is seen. */
	core->shared.statistics.packets_sent -= batch->count;
	core->shared.statistics.bytes_sent -= batch->length;
	if (!association)
		return;
	if (association->state == OPENING) {
		association->opening->hello_due = core->shared.now;
	} else if (association->state == ACCEPTED) {
		association->welcome = true;
	} else if (association->state == GONE) {
		association->goodbye = true;
		/* Keep the association until GOODBYE is sent. */
		schedule_again(&core->schedule, association, core->shared.now);
	}
	association->wants_output = true;
	if (batch->path < NET_PATHS_MOST)
		association_unsent(association, batch, unreadable);
	core_settle(core, association);
}
