// SPDX-License-Identifier: GPL-2.0
#include "target.h"

#include <string.h>

#include "../registers.h"

/* Where a record is, for fault_where. */
#define WHERE_RECORD (1u << 30)

static void queue_record(struct target *target, struct record *record)
{
	if (!record->queued)
		TAILQ_INSERT_TAIL(&target->sending, record, link);
	record->queued = true;
}

static void unqueue_record(struct target *target, struct record *record)
{
	if (record->queued)
		TAILQ_REMOVE(&target->sending, record, link);
	record->queued = false;
}

static void answer(struct target *target, struct record *record)
{
	record->answer = true;
	queue_record(target, record);
}

static void end(struct target *target, struct record *record, uint32_t status)
{
	fault_end(target->faults, &record->fault);
	record->state = RECORD_ENDED;
	record->status = status;
	record->value = 0;
	record->address = 0;
	answer(target, record);
}

static void end_at(struct target *target, struct record *record, uint32_t status, uint64_t address)
{
	end(target, record, status);
	record->address = address;
}

static void fail(struct target *target, struct record *record, enum access result, uint64_t address)
{
	uint32_t where = WHERE_RECORD | (uint32_t)(record->peer - target->peers->peer) << 8 |
			 (uint32_t)(record - record->peer->records);
	struct fault *fault = &record->fault;

	if (result != ACCESS_ABSENT) {
		end_at(target, record,
		       result == ACCESS_RANGE ? EXANEST_STATUS_FAULT : EXANEST_STATUS_MEMORY,
		       address);
		return;
	}
	record->state = RECORD_FAULTED;
	fault->address = address;
	fault->block = record->request.address;
	fault->length = (uint32_t)(record->request.address + record->request.length - address);
	fault->flags = EXANEST_ENGINE_FAULT_REMOTE;
	if (record->type != PACKET_GET)
		fault->flags |= EXANEST_ENGINE_FAULT_WRITE;
	if (record->type == PACKET_ATOMIC)
		fault->flags |= EXANEST_ENGINE_FAULT_ATOMIC;
	fault->space = record->request.space;
	fault->generation = record->request.generation;
	fault->node = record->peer->node;
	fault->ahead = record->ahead;
	fault->tag = 0;
	fault->request = record->sequence << 8 | (uint64_t)(record - record->peer->records);
	fault_begin(target->faults, fault, where);
	answer(target, record);
}

/* The space that a request names, if its sender has the right to it. */
static struct space *permitted(struct target *target, const struct request *request)
{
	struct space *space;

	if (request->space >= target->spaces_count)
		return NULL;
	space = &target->spaces[request->space];
	if (!space->attached || space->generation != request->generation ||
	    space->key[0] != request->key[0] || space->key[1] != request->key[1])
		return NULL;
	return space;
}

static void begin(struct target *target, struct peer *peer, struct record *record,
		  const struct packet *packet)
{
	fault_end(target->faults, &record->fault);
	record->peer = peer;
	record->answer = false;
	record->state = RECORD_RECEIVING;
	record->type = packet->type;
	record->sequence = packet->sequence;
	record->request = packet->request;
	record->ahead = packet->ahead;
	record->mask = 0;
	record->atomic = packet->atomic;
	record->operand = packet->operand;
	record->compare = packet->compare;
}

static bool same_request(const struct record *record, const struct packet *packet)
{
	const struct request *a = &record->request, *b = &packet->request;

	return record->type == packet->type && a->key[0] == b->key[0] && a->key[1] == b->key[1] &&
	       a->space == b->space && a->generation == b->generation && a->address == b->address &&
	       a->length == b->length;
}

static void receive_put(struct target *target, struct record *record, const struct space *space,
			const struct packet *packet)
{
	enum access result;
	uint64_t bad;

	if (!packet->payload_length) {
		answer(target, record);
		return;
	}
	result = translation_write(target->translation, space,
				   record->request.address + packet->offset, packet->payload,
				   packet->payload_length, &bad);
	if (result != ACCESS_DONE) {
		fail(target, record, result, bad);
		return;
	}
	record->mask |= granules_in(packet->offset, packet->payload_length);
	if (record->mask == granules_of(record->request.length))
		end(target, record, EXANEST_STATUS_OK);
}

static void execute(struct target *target, struct record *record, const struct space *space)
{
	enum access result;
	uint64_t value = 0;

	result = translation_atomic(target->translation, space, record->request.address,
				    record->request.length, record->atomic, record->operand,
				    record->compare, &value);
	if (result != ACCESS_DONE) {
		fail(target, record, result, record->request.address);
		return;
	}
	target->atomics++;
	end(target, record, EXANEST_STATUS_OK);
	record->value = value;
}

static void cancel(struct target *target, struct peer *peer, struct record *record,
		   const struct packet *packet)
{
	if (packet->sequence > record->sequence)
		begin(target, peer, record, packet);
	if (record->state == RECORD_ENDED)
		answer(target, record);
	else
		end(target, record, EXANEST_STATUS_ABORTED);
}

bool target_receive(struct target *target, struct peer *peer, const struct packet *packet)
{
	struct record *record = &peer->records[packet->slot];
	struct space *space;

	if (packet->sequence < record->sequence)
		return false;
	if (packet->type == PACKET_CANCEL) {
		cancel(target, peer, record, packet);
		return true;
	}
	if (packet->sequence > record->sequence)
		begin(target, peer, record, packet);
	else if (!same_request(record, packet))
		return false;
	space = permitted(target, &packet->request);
	if (!space && record->state != RECORD_ENDED)
		end(target, record, EXANEST_STATUS_UNREACHABLE);
	if (!space && record->status == EXANEST_STATUS_UNREACHABLE)
		target->denied++;
	if (record->type == PACKET_GET && record->state != RECORD_ENDED) {
		record->mask |= packet->mask;
		queue_record(target, record);
	}
	if (record->state != RECORD_RECEIVING)
		answer(target, record);
	else if (record->type == PACKET_PUT)
		receive_put(target, record, space, packet);
	else if (record->type == PACKET_ATOMIC)
		execute(target, record, space);
	return true;
}

/* Read the next part of a GET. false: the record is FAULTED or ENDED instead. */
static bool send_data(struct target *target, struct record *record, struct packet *packet,
		      uint8_t *bytes)
{
	struct space *space = permitted(target, &record->request);
	enum access result;
	uint64_t bad;

	if (!space) {
		end(target, record, EXANEST_STATUS_UNREACHABLE);
		return false;
	}
	granules_first(record->mask, record->request.length, target->payload, &packet->offset,
		       &packet->payload_length);
	packet->type = PACKET_DATA;
	result = translation_read(target->translation, space,
				  record->request.address + packet->offset,
				  bytes + packet_payload_offset(PACKET_DATA),
				  packet->payload_length, &bad);
	if (result != ACCESS_DONE) {
		fail(target, record, result, bad);
		return false;
	}
	record->mask &= ~granules_in(packet->offset, packet->payload_length);
	return true;
}

/* What a record has to say. false: nothing. */
static bool send_record(struct target *target, struct record *record, struct packet *packet,
			uint8_t *bytes)
{
	bool due;

	memset(packet, 0, sizeof(*packet));
	if (record->state == RECORD_RECEIVING && record->type == PACKET_GET && record->mask &&
	    send_data(target, record, packet, bytes))
		return true;
	memset(packet, 0, sizeof(*packet));
	due = record->answer;
	record->answer = false;
	switch (record->state) {
	case RECORD_ENDED:
		packet->type = PACKET_ACK;
		packet->status = record->status;
		packet->value = record->value;
		packet->address = record->address;
		return due;
	case RECORD_FAULTED:
		packet->type = PACKET_NACK;
		return due;
	default:
		packet->type = PACKET_AGAIN;
		packet->mask = granules_of(record->request.length) & ~record->mask;
		return due && record->type == PACKET_PUT;
	}
}

bool target_transmit(struct target *target, struct packet *packet, uint8_t bytes[PACKET_MAX],
		     struct peer **peer)
{
	struct record *record;
	bool found;

	while ((record = TAILQ_FIRST(&target->sending))) {
		unqueue_record(target, record);
		*peer = record->peer;
		found = send_record(target, record, packet, bytes);
		if (record->answer || (record->state == RECORD_RECEIVING &&
				       record->type == PACKET_GET && record->mask))
			queue_record(target, record);
		packet->sequence = record->sequence;
		packet->slot = (uint32_t)(record - (*peer)->records);
		if (found)
			return true;
	}
	return false;
}

void target_forget(struct target *target, struct peer *peer)
{
	unsigned int i;

	for (i = 0; i < BLOCK_SLOTS; i++) {
		fault_end(target->faults, &peer->records[i].fault);
		unqueue_record(target, &peer->records[i]);
	}
	memset(peer->records, 0, BLOCK_SLOTS * sizeof(*peer->records));
}

void target_detach(struct target *target, uint32_t space)
{
	struct record *record;
	struct peer *peer;
	unsigned int i;

	for (peer = target->peers->peer; peer <= &target->peers->peer[PEERS]; peer++)
		for (i = 0; peer->node && i < BLOCK_SLOTS; i++) {
			record = &peer->records[i];
			if (record->sequence && record->state != RECORD_ENDED &&
			    record->request.space == space)
				end(target, record, EXANEST_STATUS_UNREACHABLE);
		}
}

static struct record *find(struct target *target, uint64_t fault)
{
	uint32_t where = fault_where(fault), number = (where & ~WHERE_RECORD) >> 8;
	struct record *record;

	if (!(where & WHERE_RECORD) || number > PEERS || !target->peers->peer[number].node)
		return NULL;
	record = &target->peers->peer[number].records[where & (BLOCK_SLOTS - 1)];
	return fault_is(&record->fault, fault) ? record : NULL;
}

bool target_resume(struct target *target, uint64_t fault)
{
	struct record *record;
	struct space *space;

	record = find(target, fault);
	if (!record)
		return false;
	fault_end(target->faults, &record->fault);
	record->state = RECORD_RECEIVING;
	record->answer = false;
	space = permitted(target, &record->request);
	if (!space)
		end(target, record, EXANEST_STATUS_UNREACHABLE);
	else if (record->type == PACKET_ATOMIC)
		execute(target, record, space);
	else if (record->type == PACKET_PUT)
		answer(target, record);
	else
		queue_record(target, record);
	return true;
}

bool target_reject(struct target *target, uint64_t fault, uint32_t status, uint64_t address)
{
	struct record *record;

	record = find(target, fault);
	if (!record)
		return false;
	end_at(target, record, status, fault_address(&record->fault, address));
	return true;
}
