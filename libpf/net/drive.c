/* SPDX-License-Identifier: BSD-3-Clause */
/* Driving: one thread receives, sends and keeps the deadlines of the core, under the lock. */
#include "base/check.h"
#include "common/context.h"
#include "network.h"

/* Without a packet, 1 look in LOOKS_ADVANCE sends due packets, or every look if looks are rare. */
#define LOOKS_ADVANCE 8
/* Packets: more than the longest message has, and more than the first window of a path. */
#define PACKETS_MANY 64

/*
 * Return whether the core may lend packets to the application. When the service thread drives, the
 * next packets overwrite the buffers before the application takes a message.
 */
static enum net_lent network_lent(const struct network *network)
{
	if (!network->calling)
		return NET_NOT_LENT;
	return network->context->callbacks.receive_pieces ? NET_LENT_PIECES : NET_LENT;
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

/* Receive for a round of the carrier. Return the number of packets. */
static unsigned network_receive(struct network *network)
{
	const struct net_statistics *statistics = net_statistics(network->core);
	struct traffic *traffic = &network->traffic;
	uint64_t told = network->processes.told, wanted;
	unsigned total = 0, count;
	uint32_t waited;

	assert_locked(&network->lock, true);
	assert_driving(network);
	do {
		wanted = statistics->wanted;
		count = traffic_receive(traffic, network->core, network_lent(network), &waited);
		if (!count)
			break;
		if (network->calling)
			net_processes_tell(&network->processes, network->core);
		if (!network->calling || (network->away && waited >= GRACE_LEAST))
			network_note_late(network, count, wanted);
		total += count;
		/* The answer of the application to an event is more urgent than further packets. */
	} while (network->processes.told == told);
	if (traffic->carrier->reports)
		traffic_take_reports(traffic, network->core, false);
	return total;
}

unsigned network_transmit(struct network *network, uint64_t time)
{
	assert_locked(&network->lock, true);
	atomic_store_explicit(&network->posted, false, memory_order_relaxed);
	return traffic_transmit(&network->traffic, network->core, time);
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
	const struct carrier *carrier = network->traffic.carrier;
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
	statistic_add_growth(to, PF_STAT_NET_DROPPED, carrier->dropped, network->dropped);
	network->dropped = carrier->dropped;
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
	struct carrier *carrier = network->traffic.carrier;

	assert_locked(&network->lock, true);
	assert_driving(network);
	assert_that(rounds);
	assert_that(network->calling == network->memory.progress);
	carrier->operations->look(carrier, !network->calling || network->rare);
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
