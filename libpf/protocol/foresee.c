/* SPDX-License-Identifier: BSD-3-Clause */
#include "foresee.h"

#include <stdlib.h>

#include "destination.h"

#include "base/check.h"

/*
 * Limits of a saturating counter, as in a branch predictor. From TRUST_MOST, two receive
 * calls in a row with unexpected data end prediction; from 0, two calls with expected data
 * start prediction again. Single acknowledgements do not end prediction.
 */
#define TRUST_MOST 3
#define TRUST_LEAST 2
#define FORESEEN_MOST 10000000 /* ns after the peer's last packet during which data is predicted */

void foresee_init(struct foresight *foresight, struct shared *shared)
{
	foresight->shared = shared;
	foresight->trust = TRUST_MOST;
}

static void foresight_judge(struct foresight *foresight, bool right)
{
	foresight->judged = true;
	if (right && foresight->trust < TRUST_MOST)
		foresight->trust++;
	else if (!right && foresight->trust)
		foresight->trust--;
}

void foresee_begin(struct foresight *foresight, struct net_packet *packets, unsigned count)
{
	unsigned i;

	/* foresee_end has forgotten the packets before. */
	assert_that(!foresight->count && !foresight->stash && foresight->trust <= TRUST_MOST);
	foresight->judged = false;
	foresight->foreseen = foresight->offered;
	foresight->offered = false;
	foresight->packets = packets;
	foresight->count = count;
	foresight->scattered = 0;
	for (i = count; i && !foresight->scattered; i--) {
		if (packets[i - 1].payload_length)
			foresight->scattered = i;
	}
}

void foresee_step(struct foresight *foresight)
{
	assert_that(foresight->count && foresight->scattered <= foresight->count);
	foresight->packets++;
	foresight->count--;
	foresight->scattered -= foresight->scattered != 0;
}

void foresee_end(struct foresight *foresight)
{
	if (foresight->foreseen && !foresight->judged)
		foresight_judge(foresight, false);
	foresight->count = foresight->scattered = 0;
	free(foresight->stash);
	foresight->stash = NULL;
}

void foresee_destroy(struct foresight *foresight)
{
	free(foresight->stash);
	free(foresight->gathered);
}

bool foresee_settle(struct foresight *foresight)
{
	const struct net_memory_operations *memory = &foresight->shared->memory;
	struct net_packet *packets = foresight->packets;
	unsigned i, count = foresight->scattered, listed = 0;
	bool in_hand, there;
	struct iovec *vectors;
	size_t length = 0;
	uint8_t *bytes;

	if (foresee_apart(foresight))
		return true;
	assert_that(count <= foresight->count);
	for (i = 0; i < count; i++)
		length += packets[i].payload_length;
	in_hand = packets[0].payload_length != 0;
	/* Not 0: at least one packet is scattered. NOLINTNEXTLINE(clang-analyzer-*) */
	foresight->stash = vectors = malloc(count * sizeof(*vectors) + length);
	bytes = vectors ? (uint8_t *)(vectors + count) : NULL;
	for (i = 0; vectors && i < count; i++) {
		if (packets[i].payload_length)
			vectors[listed++] = (struct iovec){ packets[i].payload,
							    packets[i].payload_length };
	}
	there = vectors && memory->gather(memory->user, vectors, listed, bytes);
	if (!there)
		foresee_misplaced(foresight);
	for (i = 0; i < count; i++) {
		if (!packets[i].payload_length)
			continue;
		if (!there) {
			/* Treat the packet as lost. */
			packets[i].header_length = packets[i].payload_length = 0;
			continue;
		}
		packets[i].payload = bytes;
		bytes += packets[i].payload_length;
	}
	foresight->scattered = 0;
	return there || !in_hand;
}

bool foresee_gather(struct foresight *foresight, struct net_packet *packet)
{
	const struct net_memory_operations *memory = &foresight->shared->memory;
	const struct iovec from = { packet->payload, packet->payload_length };
	uint32_t at = packet->header_length;

	assert_that(packet == foresight->packets && packet->payload_length);
	if (!foresight->gathered)
		foresight->gathered = malloc(NET_PACKET_MOST + 64);
	if (!foresight->gathered || at + from.iov_len > NET_PACKET_MOST + 64)
		return false;
	if (!memory->gather(memory->user, &from, 1, foresight->gathered + at)) {
		foresee_misplaced(foresight);
		return false;
	}
	memcpy(foresight->gathered, packet->header, at);
	packet->header = foresight->gathered;
	packet->header_length += packet->payload_length;
	packet->payload_length = 0;
	return true;
}

static struct exchange *latest_exchange(const struct foresight *foresight)
{
	struct net_association *latest = foresight->latest;

	return latest && latest->busy && latest->busy->exchange.transfers.latest ?
		       &latest->busy->exchange :
		       NULL;
}

void foresee_misplaced(struct foresight *foresight)
{
	struct exchange *exchange = latest_exchange(foresight);

	if (!exchange)
		return;
	exchange->transfers.latest->unforeseen = true;
	exchange->transfers.latest->predicted = 0;
}

void foresee_judge(struct foresight *foresight, const struct net_association *association, bool get,
		   uint32_t transfer, uint32_t offset)
{
	const struct exchange *exchange = latest_exchange(foresight);
	bool right = exchange && get && association == foresight->latest &&
		     destination_expects(exchange, transfer, offset);

	/* A payload of unexpected length is not in place either. */
	if (foresight->foreseen && !foresight->packets->payload_length)
		right = false;
	if (exchange && !foresight->judged)
		foresight_judge(foresight, right);
}

bool foresee_possible(const struct foresight *foresight)
{
	return foresight->shared->options.auth == NET_AUTH_HEADER &&
	       foresight->trust >= TRUST_LEAST && latest_exchange(foresight);
}

unsigned foresee_places(struct foresight *foresight, uint64_t now, struct net_place *places,
			unsigned most, uint32_t *header)
{
	*header = WIRE_HEADER + WIRE_DATA;
	if (!foresee_possible(foresight))
		return 0;
	/*
	 * A silent peer may never finish a payload that was begun. Packets of further peers
	 * must not go to the rest of the place until the peer is known to be dead, and by
	 * then the memory may have another use.
	 */
	if (now - foresight->latest->heard > FORESEEN_MOST)
		return 0;
	most = destination_predict(latest_exchange(foresight), places, most, *header);
	assert_that(foresight->trust >= TRUST_LEAST);
	foresight->offered = most != 0;
	return most;
}
