/* SPDX-License-Identifier: BSD-3-Clause */
/* Driving: one thread receives, sends and keeps the deadlines of the core, under the lock. */
#include <string.h>

#include "base/check.h"
#include "common/context.h"
#include "network.h"

/* Without a packet, 1 look in LOOKS_ADVANCE sends due packets, or every look if looks are rare. */
#define LOOKS_ADVANCE 8
/*
 * Times in a row for the core to take back all packets of a round, before sending stops for a
 * moment.
 */
#define RETURNS_MOST 64
/* Packets: more than the longest message has, and more than the first window of a path. */
#define PACKETS_MANY 64

void network_take_reports(struct network *network, bool woken)
{
	struct socket_complaint report;

	assert_locked(&network->lock, true);
	assert_driving(network);
	for (; sockets_report(network->sockets, woken, &report); woken = false) {
		if (report.refused)
			net_refused(network->core, &report.to, report.refusal);
		if (report.most)
			net_too_big(network->core, &report.to, report.most);
	}
}

/*
 * Return whether the core may lend packets to the application. When the service thread drives, the
 * next packets overwrite the buffers before the application takes a message.
 */
static enum net_lent network_lent(const struct network *network)
{
	if (!network->calling)
		return NET_NOT_LENT;
	return network->context->receive_pieces ? NET_LENT_PIECES : NET_LENT;
}

/*
 * Note that count packets came to an absent application. wanted: the core's counter before the
 * packets. Peers with much to send may have used up their windows, and wait for acknowledgements.
 */
static void network_note_late(struct network *network, unsigned count, uint64_t wanted)
{
	assert_locked(&network->lock, true);
	assert_driving(network);
	network->late += count;
	if (net_statistics(network->core)->wanted != wanted || network->late >= PACKETS_MANY)
		network->grace.needed = true;
}

/* Receive for each socket that is due. Return the number of packets. */
static unsigned network_receive(struct network *network)
{
	struct net_place places[NET_BATCH_MOST];
	struct net_packet *packets;
	uint64_t told = network->processes.told, wanted;
	unsigned total = 0, predicted;
	uint32_t header = 0, waited;
	int count;

	assert_locked(&network->lock, true);
	assert_driving(network);
	do {
		predicted = net_foresees(network->core) ?
				    net_predict(network->core, network_now(), places,
						NET_BATCH_MOST, &header) :
				    0;
		count = sockets_receive(network->sockets, places, predicted, header, &packets);
		if (!count)
			break;
		if (count == PF_ERR_FAULT) {
			net_misplaced(network->core);
			continue;
		}
		waited = packets[0].waited;
		wanted = net_statistics(network->core)->wanted;
		net_input(network->core, network_now(), packets, (unsigned)count,
			  network_lent(network));
		if (network->calling)
			net_processes_tell(&network->processes, network->core);
		if (!network->calling || (network->away && waited >= GRACE_LEAST))
			network_note_late(network, (unsigned)count, wanted);
		total += (unsigned)count;
		/* The answer of the application to an event is more urgent than further packets. */
	} while (network->processes.told == told);
	if (network->sockets->complaining)
		network_take_reports(network, false);
	return total;
}

/*
 * Give a batch longer than the interface permits back to the core. Return false if the batch is
 * lost instead.
 */
static bool network_shorten(struct network *network, const struct net_batch *batch)
{
	size_t most;

	assert_locked(&network->lock, true);
	/*
	 * A lost probe is an answered probe. A packet of the least length should fit every path,
	 * and is lost, too.
	 */
	if (batch->probe || batch->segment <= NET_PACKET_LEAST)
		return false;
	/* The route to the peer may use another interface, of unknown MTU. */
	most = sockets_packet_most(network->sockets, &batch->to);
	if (most > batch->segment - 8)
		most = batch->segment - 8;
	net_unsent(network->core, batch, false);
	net_too_big(network->core, &batch->to, most > NET_PACKET_LEAST ? most : NET_PACKET_LEAST);
	return true;
}

/* Send count batches. Return the number of batches taken back by the core. */
static unsigned network_send_batches(struct network *network, unsigned count, bool *full)
{
	struct net_batch *batches = network->batches;
	enum socket_sent stopped;
	unsigned at = 0, returned = 0;

	assert_locked(&network->lock, true);
	assert_that(count <= SEND_BATCHES);
	while (!*full) {
		at += sockets_send(network->sockets, &batches[at], count - at, &stopped);
		if (at == count)
			return returned;
		if (stopped == SOCKET_TOO_LONG) {
			returned += network_shorten(network, &batches[at++]);
			continue;
		}
		*full = stopped == SOCKET_FULL;
		net_unsent(network->core, &batches[at++], stopped == SOCKET_FAULT);
		returned++;
	}
	for (; at < count; at++, returned++)
		net_unsent(network->core, &batches[at], false);
	return returned;
}

unsigned network_transmit(struct network *network, uint64_t time)
{
	unsigned count, most, returned, barren = 0, total = 0;
	bool full = false;

	assert_locked(&network->lock, true);
	atomic_store_explicit(&network->posted, false, memory_order_relaxed);
	/*
	 * The first batch goes at once. The core is asked for more batches while the first is under
	 * way.
	 */
	for (most = 1;; time = network_now(), most = SEND_BATCHES) {
		for (count = 0; count < most; count++) {
			if (!net_output(network->core, time, &network->batches[count]))
				break;
		}
		returned = network_send_batches(network, count, &full);
		total += count - returned;
		barren = returned < count ? 0 : barren + 1;
		if (full || barren == RETURNS_MOST || (count < most && !returned))
			break;
	}
	network->held = returned != 0;
	return total;
}

static void statistic_add_growth(struct statistics *to, enum pf_stat stat, uint64_t now,
				 uint64_t before)
{
	if (now != before)
		statistic_add_concurrent(to, stat, now - before);
}

/* Add the counts of the core to the statistics of the context. */
void network_add_counts(struct network *network)
{
	const struct net_statistics *statistics = net_statistics(network->core);
	struct statistics *to = &network->context->statistics;
	struct net_statistics *before = &network->counted;
	unsigned i;

	assert_locked(&network->lock, true);
	statistic_add_growth(to, PF_STAT_NET_SENT, statistics->packets_sent, before->packets_sent);
	statistic_add_growth(to, PF_STAT_NET_RECEIVED, statistics->packets_received,
			     before->packets_received);
	statistic_add_growth(to, PF_STAT_NET_BYTES, statistics->bytes_sent, before->bytes_sent);
	statistic_add_growth(to, PF_STAT_NET_LOST, statistics->lost, before->lost);
	statistic_add_growth(to, PF_STAT_NET_NACKS, statistics->nacks_sent, before->nacks_sent);
	for (i = 0; i < NET_DROPS && statistics->dropped != before->dropped; i++)
		statistic_add_growth(to, PF_STAT_NET_MALFORMED + i, statistics->drops[i],
				     before->drops[i]);
	*before = *statistics;
	statistic_add_growth(to, PF_STAT_NET_DROPPED, network->sockets->dropped, network->dropped);
	network->dropped = network->sockets->dropped;
}

void network_count(struct network *network)
{
	/* The owner of the lock adds the counts later, unless the owner is in a callback. */
	if (!network_trylock(network))
		return;
	network_add_counts(network);
	network_unlock(network);
}

/* Do everything due, and send everything permitted. Return the number of batches sent. */
static unsigned network_advance(struct network *network)
{
	uint64_t time = network_now();
	unsigned sent;

	assert_locked(&network->lock, true);
	assert_driving(network);
	atomic_store_explicit(&network->behind, false, memory_order_relaxed);
	if (net_deadline(network->core) <= time)
		net_advance(network->core, time);
	sent = network_transmit(network, time);
	network_add_counts(network);
	return sent;
}

/*
 * Put off sending after an event was told to the application: the application's answer will
 * acknowledge the received packets. Either nothing else is to be sent, or a poll is predicted to
 * follow soon. Return true if the next poll, or the first round of the service thread, sends the
 * rest without an answer. Return false if sending must go on now, because no poll may follow.
 */
static bool network_put_off(struct network *network, uint64_t told)
{
	bool attended = atomic_load_explicit(&network->attended, memory_order_relaxed);

	assert_locked(&network->lock, true);
	assert_driving(network);
	if (network->processes.told == told)
		return false;
	if (attended || net_owes(network->core)) {
		if (attended || !coalesce_trusts(&network->coalesce)) {
			net_acknowledge(network->core);
			return false;
		}
		coalesce_keep(&network->coalesce);
	}
	atomic_store_explicit(&network->behind, true, memory_order_relaxed);
	return true;
}

unsigned network_drive(struct network *network, unsigned rounds)
{
	unsigned total = 0, received, resolved;
	uint64_t told = network->processes.told;

	assert_locked(&network->lock, true);
	assert_driving(network);
	assert_that(rounds);
	assert_that(network->calling == network->memory.progress);
	sockets_look(network->sockets, network->looks, !network->calling || network->rare);
	network->late = 0;
	if (atomic_load_explicit(&network->behind, memory_order_relaxed))
		total += network_advance(network);
	do {
		resolved = net_memory_tell(&network->memory, network->core);
		received = network_receive(network);
		total += received + resolved;
		if (network_put_off(network, told))
			break;
		/* A poll without packets is kept short, and the next poll comes soon. */
		if (received || resolved || !network->calling ||
		    atomic_load_explicit(&network->posted, memory_order_relaxed) || network->rare ||
		    network->looks % LOOKS_ADVANCE == 0)
			total += network_advance(network);
	} while (received && --rounds && network->processes.told == told);
	return total;
}
