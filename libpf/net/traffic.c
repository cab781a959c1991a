/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <stdlib.h>

#include "base/check.h"

/*
 * Times in a row for the core to take back all packets of a round, before sending stops for a
 * moment.
 */
#define RETURNS_MOST 64

int traffic_create(struct traffic *traffic, enum net_auth auth)
{
	const size_t room = NET_BATCH_BYTES + 2048;
	unsigned i;

	traffic->batches = calloc(CARRIER_BATCHES, sizeof(*traffic->batches));
	if (!traffic->batches)
		return PF_ERR_MEMORY;
	if (auth == NET_AUTH_HEADER)
		return PF_OK;
	traffic->rooms = malloc(CARRIER_BATCHES * room);
	if (!traffic->rooms)
		return PF_ERR_MEMORY;
	for (i = 0; i < CARRIER_BATCHES; i++)
		traffic->batches[i].room = traffic->rooms + i * room;
	return PF_OK;
}

void traffic_destroy(struct traffic *traffic)
{
	free(traffic->batches);
	free(traffic->rooms);
}

unsigned traffic_receive(struct traffic *traffic, struct net_core *core, enum net_lent lent,
			 uint32_t *waited)
{
	struct carrier *carrier = traffic->carrier;
	struct net_place places[NET_BATCH_MOST];
	struct net_packet *packets;
	uint32_t header = 0;
	unsigned predicted;
	int count;

	assert_locked(traffic->lock, true);
	for (;;) {
		predicted = 0;
		if (carrier->places && net_foresees(core))
			predicted = net_predict(core, traffic->now(traffic->user), places,
						NET_BATCH_MOST, &header);
		count = carrier->operations->receive(carrier, places, predicted, header, &packets);
		if (count != PF_ERR_FAULT)
			break;
		net_misplaced(core);
	}
	assert_that(count >= 0);
	if (!count)
		return 0;
	*waited = packets[0].waited;
	net_input(core, traffic->now(traffic->user), packets, (unsigned)count, lent);
	return (unsigned)count;
}

void traffic_take_reports(struct traffic *traffic, struct net_core *core, bool woken)
{
	struct carrier *carrier = traffic->carrier;
	struct carrier_report report;

	assert_locked(traffic->lock, true);
	for (; carrier->operations->report(carrier, woken, &report); woken = false) {
		if (report.refused)
			net_refused(core, &report.to, report.refusal);
		if (report.most)
			net_too_big(core, &report.to, report.most);
	}
}

/*
 * Give a batch longer than the carrier permits back to the core. Return false if the batch is lost
 * instead.
 */
static bool traffic_shorten(struct traffic *traffic, struct net_core *core,
			    const struct net_batch *batch)
{
	struct carrier *carrier = traffic->carrier;
	size_t most;

	assert_locked(traffic->lock, true);
	/*
	 * A lost probe is an answered probe. A packet of the least length should fit every path,
	 * and is lost, too.
	 */
	if (batch->probe || batch->segment <= NET_PACKET_LEAST)
		return false;
	/* The route to the peer may use another interface, of unknown MTU. */
	most = carrier->operations->packet_most(carrier, &batch->to);
	if (most > batch->segment - 8)
		most = batch->segment - 8;
	net_unsent(core, batch, false);
	net_too_big(core, &batch->to, most > NET_PACKET_LEAST ? most : NET_PACKET_LEAST);
	return true;
}

/* Send count batches. Return the number of batches taken back by the core. */
static unsigned traffic_send(struct traffic *traffic, struct net_core *core, unsigned count,
			     bool *full)
{
	struct carrier *carrier = traffic->carrier;
	struct net_batch *batches = traffic->batches;
	enum carrier_stop stop;
	unsigned at = 0, returned = 0;

	assert_locked(traffic->lock, true);
	assert_that(count <= CARRIER_BATCHES);
	while (at < count && !*full) {
		at += carrier->operations->send(carrier, &batches[at], count - at, &stop);
		if (at == count)
			break;
		if (stop == CARRIER_TOO_LONG) {
			returned += traffic_shorten(traffic, core, &batches[at++]);
			continue;
		}
		*full = stop == CARRIER_FULL;
		net_unsent(core, &batches[at++], stop == CARRIER_FAULT);
		returned++;
	}
	for (; at < count; at++, returned++)
		net_unsent(core, &batches[at], false);
	return returned;
}

unsigned traffic_transmit(struct traffic *traffic, struct net_core *core, uint64_t time)
{
	unsigned count, most, returned, barren = 0, total = 0;
	bool full = false;

	assert_locked(traffic->lock, true);
	/*
	 * The first batch goes at once. The core is asked for more batches while the first is under
	 * way.
	 */
	for (most = 1;; time = traffic->now(traffic->user), most = CARRIER_BATCHES) {
		for (count = 0; count < most; count++) {
			if (!net_output(core, time, &traffic->batches[count]))
				break;
		}
		returned = traffic_send(traffic, core, count, &full);
		total += count - returned;
		barren = returned < count ? 0 : barren + 1;
		if (full || barren == RETURNS_MOST || (count < most && !returned))
			break;
	}
	traffic->held = returned != 0;
	return total;
}
