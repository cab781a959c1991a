// SPDX-License-Identifier: GPL-2.0
#include "initiator.h"

#include <string.h>

#include "../registers.h"
#include "../uapi/exanest.h"

#define SILENT_SHIFT_MAX 4u /* how often a time-out is doubled */
#define NEVER UINT64_MAX

static bool is_own(const struct initiator *initiator, const struct peer *peer)
{
	return peer->node == initiator->node;
}

/* ---- queues ---- */

static void queue_block(struct initiator *initiator, struct block *block)
{
	if (!block->queued)
		TAILQ_INSERT_TAIL(&initiator->sending, block, link);
	block->queued = true;
}

static void unqueue_block(struct initiator *initiator, struct block *block)
{
	if (block->queued)
		TAILQ_REMOVE(&initiator->sending, block, link);
	block->queued = false;
}

/* It does not run while there are packets to send: a question that has not left has no answer. */
static void start_timer(struct initiator *initiator, struct block *block, uint64_t now)
{
	uint32_t shift = block->silent;

	if (block->state == BLOCK_PARKED || shift > SILENT_SHIFT_MAX)
		shift = SILENT_SHIFT_MAX;
	block->timer = NEVER;
	if (!is_own(initiator, block->transfer->peer) &&
	    !(block->queued && block->transfer->peer->incarnation))
		block->timer = now + (initiator->timeout << shift);
}

/* ---- ends ---- */

static void stop_cutting(struct initiator *initiator, struct transfer *transfer)
{
	if (transfer->cutting)
		TAILQ_REMOVE(&initiator->cutting, transfer, link);
	transfer->cutting = false;
}

/* The first error counts. */
static void fail_transfer(struct initiator *initiator, struct transfer *transfer, uint32_t status,
			  uint32_t side, uint64_t address)
{
	stop_cutting(initiator, transfer);
	transfer->next = transfer->submission.length;
	if (transfer->status != EXANEST_STATUS_OK)
		return;
	transfer->status = status;
	if (status >= EXANEST_STATUS_FAULT && status <= EXANEST_STATUS_MEMORY) {
		transfer->side = side;
		transfer->address = address;
	}
}

static void end_transfer(struct initiator *initiator, struct transfer *transfer)
{
	if (transfer->outstanding || transfer->next < transfer->submission.length)
		return;
	transfer->open = false;
	TAILQ_INSERT_TAIL(&initiator->ended, transfer, link);
}

static void end_block(struct initiator *initiator, struct block *block, uint32_t status,
		      uint32_t side, uint64_t address)
{
	struct transfer *transfer = block->transfer;

	fault_end(initiator->faults, &block->fault);
	unqueue_block(initiator, block);
	block->state = BLOCK_FREE;
	if (status == EXANEST_STATUS_OK) {
		initiator->bytes += block->length;
		initiator->blocks_done++;
	} else {
		fail_transfer(initiator, transfer, status, side, address);
	}
	transfer->outstanding--;
	end_transfer(initiator, transfer);
}

/* No access to local memory from now on; it ends when the target cannot write any more. */
static void abort_block(struct initiator *initiator, struct block *block, uint32_t status,
			uint32_t side, uint64_t address, uint64_t now)
{
	if (block->state == BLOCK_CANCELLING)
		return;
	if (!block->sent || block->transfer->submission.operation == EXANEST_ENGINE_GET) {
		end_block(initiator, block, status, side, address);
		return;
	}
	fault_end(initiator->faults, &block->fault);
	fail_transfer(initiator, block->transfer, status, side, address);
	block->state = BLOCK_CANCELLING;
	block->silent = 0;
	block->ask = true;
	queue_block(initiator, block);
	start_timer(initiator, block, now);
}

static void abort_transfer(struct initiator *initiator, struct transfer *transfer, uint64_t now)
{
	unsigned int i;

	fail_transfer(initiator, transfer, EXANEST_STATUS_ABORTED, EXANEST_SIDE_NONE, 0);
	/* It ends with its last block, in this loop or later. */
	for (i = 0; i < BLOCK_SLOTS; i++)
		if (initiator->blocks[i].state != BLOCK_FREE &&
		    initiator->blocks[i].transfer == transfer)
			abort_block(initiator, &initiator->blocks[i], EXANEST_STATUS_ABORTED,
				    EXANEST_SIDE_NONE, 0, now);
	if (transfer->open && !transfer->outstanding)
		end_transfer(initiator, transfer);
}

/* ---- beginnings ---- */

void initiator_start(struct initiator *initiator)
{
	unsigned int i;

	TAILQ_INIT(&initiator->free);
	TAILQ_INIT(&initiator->cutting);
	TAILQ_INIT(&initiator->ended);
	TAILQ_INIT(&initiator->sending);
	for (i = 0; i < TRANSFERS; i++)
		TAILQ_INSERT_TAIL(&initiator->free, &initiator->transfers[i], link);
}

void initiator_submit(struct initiator *initiator, const struct submission *submission,
		      struct peer *peer)
{
	struct transfer *transfer = TAILQ_FIRST(&initiator->free);

	TAILQ_REMOVE(&initiator->free, transfer, link);
	initiator->open++;
	memset(transfer, 0, sizeof(*transfer));
	transfer->open = true;
	transfer->cutting = true;
	transfer->submission = *submission;
	transfer->peer = peer;
	TAILQ_INSERT_TAIL(&initiator->cutting, transfer, link);
}

static void begin_block(struct initiator *initiator, struct block *block, struct transfer *transfer,
			uint64_t now)
{
	uint32_t rest = transfer->submission.length - transfer->next;

	block->sent = false;
	block->ask = false;
	block->state = BLOCK_SENDING;
	block->transfer = transfer;
	block->offset = transfer->next;
	block->length = rest < BLOCK_SIZE ? rest : BLOCK_SIZE;
	block->sequence = ++initiator->sequence[block - initiator->blocks];
	block->mask = granules_of(block->length);
	block->silent = 0;
	block->timer = NEVER;
	queue_block(initiator, block);
	transfer->next += block->length;
	transfer->outstanding++;
	if (!transfer->peer->incarnation) {
		transfer->peer->hello = true;
		start_timer(initiator, block, now);
	}
}

static struct block *free_block(struct initiator *initiator)
{
	unsigned int i;

	for (i = 0; i < BLOCK_SLOTS; i++)
		if (initiator->blocks[i].state == BLOCK_FREE)
			return &initiator->blocks[i];
	return NULL;
}

void initiator_cut(struct initiator *initiator, uint64_t now)
{
	struct transfer *transfer, *first_full = NULL;
	struct block *block;

	while ((transfer = TAILQ_FIRST(&initiator->cutting)) && transfer != first_full) {
		TAILQ_REMOVE(&initiator->cutting, transfer, link);
		TAILQ_INSERT_TAIL(&initiator->cutting, transfer, link);
		if (transfer->outstanding == TRANSFER_BLOCKS) {
			if (!first_full)
				first_full = transfer;
			continue;
		}
		block = free_block(initiator);
		if (!block)
			return;
		begin_block(initiator, block, transfer, now);
		if (transfer->next == transfer->submission.length)
			stop_cutting(initiator, transfer);
		first_full = NULL;
	}
}

struct transfer *initiator_ended(struct initiator *initiator)
{
	return TAILQ_FIRST(&initiator->ended);
}

void initiator_release(struct initiator *initiator, struct transfer *transfer)
{
	TAILQ_REMOVE(&initiator->ended, transfer, link);
	TAILQ_INSERT_TAIL(&initiator->free, transfer, link);
	initiator->open--;
}

/* ---- faults ---- */

static uint32_t block_ahead(const struct block *block)
{
	return block->transfer->submission.length - block->offset - block->length;
}

static void fail_access(struct initiator *initiator, struct block *block, enum access result,
			uint64_t address, uint64_t now)
{
	const struct submission *submission = &block->transfer->submission;
	struct fault *fault = &block->fault;

	if (result != ACCESS_ABSENT) {
		abort_block(initiator, block,
			    result == ACCESS_RANGE ? EXANEST_STATUS_FAULT : EXANEST_STATUS_MEMORY,
			    EXANEST_SIDE_LOCAL, address, now);
		return;
	}
	unqueue_block(initiator, block);
	block->state = BLOCK_FAULTED;
	block->timer = NEVER;
	fault->address = address;
	fault->block = submission->local + block->offset;
	fault->request = 0;
	fault->length = (uint32_t)(submission->local + block->offset + block->length - address);
	fault->flags = submission->operation == EXANEST_ENGINE_GET ? EXANEST_ENGINE_FAULT_WRITE : 0;
	fault->space = submission->space;
	fault->generation = initiator->spaces[submission->space].generation;
	fault->node = initiator->node;
	fault->ahead = block_ahead(block);
	fault->tag = submission->tag;
	fault_begin(initiator->faults, fault, (uint32_t)(block - initiator->blocks));
}

static struct block *find(struct initiator *initiator, uint64_t fault)
{
	uint32_t where = fault_where(fault);

	if (where >= BLOCK_SLOTS || !fault_is(&initiator->blocks[where].fault, fault))
		return NULL;
	return &initiator->blocks[where];
}

/* Move it again. */
static void send_again(struct initiator *initiator, struct block *block)
{
	initiator->blocks_again++;
	block->state = BLOCK_SENDING;
	queue_block(initiator, block);
}

bool initiator_resume(struct initiator *initiator, uint64_t fault)
{
	struct block *block = find(initiator, fault);

	if (!block)
		return false;
	fault_end(initiator->faults, &block->fault);
	send_again(initiator, block);
	return true;
}

bool initiator_reject(struct initiator *initiator, uint64_t fault, uint32_t status,
		      uint64_t address, uint64_t now)
{
	struct block *block = find(initiator, fault);

	if (!block)
		return false;
	abort_block(initiator, block, status, EXANEST_SIDE_LOCAL,
		    fault_address(&block->fault, address), now);
	return true;
}

/* ---- packets that arrive ---- */

static void receive_data(struct initiator *initiator, struct block *block,
			 const struct packet *packet, uint64_t now)
{
	const struct submission *submission = &block->transfer->submission;
	uint64_t granules = granules_in(packet->offset, packet->payload_length), bad;
	enum access result;

	if (block->mask & granules) {
		result = translation_write(initiator->translation,
					   &initiator->spaces[submission->space],
					   submission->local + block->offset + packet->offset,
					   packet->payload, packet->payload_length, &bad);
		if (result != ACCESS_DONE) {
			fail_access(initiator, block, result, bad, now);
			return;
		}
		block->mask &= ~granules;
	}
	if (block->state == BLOCK_PARKED) {
		initiator->blocks_again++;
		block->state = BLOCK_WAITING;
	}
	if (!block->mask)
		end_block(initiator, block, EXANEST_STATUS_OK, EXANEST_SIDE_NONE, 0);
}

static void receive_ack(struct initiator *initiator, struct block *block,
			const struct packet *packet)
{
	uint32_t status = packet->status;

	if (status > EXANEST_STATUS_ABORTED)
		status = EXANEST_STATUS_MEMORY;
	if (block->state == BLOCK_CANCELLING) {
		end_block(initiator, block, block->transfer->status, EXANEST_SIDE_NONE, 0);
		return;
	}
	if (status == EXANEST_STATUS_OK &&
	    block->transfer->submission.operation == EXANEST_ENGINE_ATOMIC)
		block->transfer->value = packet->value;
	end_block(initiator, block, status, EXANEST_SIDE_REMOTE, packet->address);
}

/* A request that is due is sent nevertheless: DATA that was dropped here is not kept there. */
static void receive_nack(struct block *block)
{
	if (block->state == BLOCK_SENDING &&
	    block->transfer->submission.operation != EXANEST_ENGINE_PUT)
		block->ask = true;
	if (block->state == BLOCK_SENDING || block->state == BLOCK_WAITING)
		block->state = BLOCK_PARKED;
}

static void receive_again(struct initiator *initiator, struct block *block,
			  const struct packet *packet)
{
	block->mask |= packet->mask;
	if (block->state == BLOCK_WAITING || block->state == BLOCK_SENDING) {
		block->state = BLOCK_SENDING;
		queue_block(initiator, block);
	} else if (block->state == BLOCK_PARKED) {
		send_again(initiator, block);
	}
}

/* What a packet may be for the operation of its block. */
static bool fits(const struct block *block, const struct packet *packet)
{
	uint8_t operation = block->transfer->submission.operation;
	uint32_t end = packet->offset + packet->payload_length;

	switch (packet->type) {
	case PACKET_DATA:
		return operation == EXANEST_ENGINE_GET && block->state != BLOCK_FAULTED &&
		       end <= block->length && (!(end % GRANULE) || end == block->length);
	case PACKET_AGAIN:
		return operation == EXANEST_ENGINE_PUT &&
		       !(packet->mask & ~granules_of(block->length));
	case PACKET_ACK:
		return operation != EXANEST_ENGINE_GET || packet->status != EXANEST_STATUS_OK;
	default:
		return true;
	}
}

bool initiator_receive(struct initiator *initiator, struct peer *peer, const struct packet *packet,
		       uint64_t now)
{
	struct block *block = &initiator->blocks[packet->slot];

	if (block->state == BLOCK_FREE || block->sequence != packet->sequence ||
	    block->transfer->peer != peer || !block->sent || !fits(block, packet) ||
	    (block->state == BLOCK_CANCELLING && packet->type != PACKET_ACK))
		return false;
	block->silent = 0;
	if (packet->type == PACKET_ACK)
		receive_ack(initiator, block, packet);
	else if (packet->type == PACKET_NACK)
		receive_nack(block);
	else if (packet->type == PACKET_AGAIN)
		receive_again(initiator, block, packet);
	else
		receive_data(initiator, block, packet, now);
	if (block->state == BLOCK_PARKED && !block->ask)
		unqueue_block(initiator, block);
	if (block->state != BLOCK_FREE && block->state != BLOCK_FAULTED)
		start_timer(initiator, block, now);
	return true;
}

/* ---- packets to send ---- */

static void describe(const struct initiator *initiator, const struct block *block,
		     struct packet *packet)
{
	const struct submission *submission = &block->transfer->submission;
	const struct space *space = &initiator->spaces[submission->space];

	packet->request.key[0] = space->key[0];
	packet->request.key[1] = space->key[1];
	packet->request.space = submission->remote_space;
	packet->request.generation = submission->generation;
	packet->request.address = submission->remote + block->offset;
	packet->request.length = block->length;
	packet->ahead = block_ahead(block);
}

/* false: the block is FAULTED, or ended. */
static bool send_put(struct initiator *initiator, struct block *block, struct packet *packet,
		     uint8_t *bytes, uint64_t now)
{
	const struct submission *submission = &block->transfer->submission;
	enum access result;
	uint64_t bad;

	packet->type = PACKET_PUT;
	if (block->ask || !block->mask) {
		block->ask = false;
		return true;
	}
	granules_first(block->mask, block->length, initiator->payload, &packet->offset,
		       &packet->payload_length);
	result = translation_read(initiator->translation, &initiator->spaces[submission->space],
				  submission->local + block->offset + packet->offset,
				  bytes + packet_payload_offset(PACKET_PUT), packet->payload_length,
				  &bad);
	if (result != ACCESS_DONE) {
		fail_access(initiator, block, result, bad, now);
		return false;
	}
	block->mask &= ~granules_in(packet->offset, packet->payload_length);
	return true;
}

static bool send_block(struct initiator *initiator, struct block *block, struct packet *packet,
		       uint8_t *bytes, uint64_t now)
{
	const struct submission *submission = &block->transfer->submission;

	if (block->state == BLOCK_CANCELLING) {
		block->ask = false;
		packet->type = PACKET_CANCEL;
		return true;
	}
	describe(initiator, block, packet);
	if (submission->operation == EXANEST_ENGINE_PUT)
		return send_put(initiator, block, packet, bytes, now);
	block->ask = false;
	switch (submission->operation) {
	case EXANEST_ENGINE_GET:
		packet->type = PACKET_GET;
		packet->mask = block->mask;
		return true;
	default:
		packet->type = PACKET_ATOMIC;
		packet->atomic = submission->atomic;
		packet->operand = submission->operand;
		packet->compare = submission->compare;
		return true;
	}
}

/* After a packet was sent: is there more, or does it wait? */
static void after_send(struct initiator *initiator, struct block *block, uint64_t now)
{
	bool put = block->transfer->submission.operation == EXANEST_ENGINE_PUT;

	block->sent = true;
	if (block->state == BLOCK_SENDING && put && block->mask) {
		queue_block(initiator, block);
		return;
	}
	if (block->state == BLOCK_SENDING)
		block->state = BLOCK_WAITING;
	start_timer(initiator, block, now);
}

bool initiator_transmit(struct initiator *initiator, struct packet *packet,
			uint8_t bytes[PACKET_MAX], struct peer **peer, uint64_t now)
{
	struct block *block, *next;

	for (block = TAILQ_FIRST(&initiator->sending); block; block = next) {
		next = TAILQ_NEXT(block, link);
		*peer = block->transfer->peer;
		if (!(*peer)->incarnation)
			continue;
		unqueue_block(initiator, block);
		block->timer = NEVER;
		memset(packet, 0, sizeof(*packet));
		packet->sequence = block->sequence;
		packet->slot = (uint32_t)(block - initiator->blocks);
		if (send_block(initiator, block, packet, bytes, now)) {
			after_send(initiator, block, now);
			return true;
		}
	}
	return false;
}

/* ---- time ---- */

static void expire(struct initiator *initiator, struct block *block, uint64_t now)
{
	struct peer *peer = block->transfer->peer;

	initiator->timeouts++;
	if (++block->silent > initiator->retries) {
		if (block->state == BLOCK_CANCELLING)
			end_block(initiator, block, block->transfer->status, EXANEST_SIDE_NONE, 0);
		else
			end_block(initiator, block, EXANEST_STATUS_LINK_TIMEOUT, EXANEST_SIDE_NONE,
				  0);
		return;
	}
	if (!peer->incarnation) {
		peer->hello = true;
		start_timer(initiator, block, now);
		return;
	}
	if (block->state == BLOCK_CANCELLING ||
	    block->transfer->submission.operation == EXANEST_ENGINE_PUT)
		block->ask = true;
	else
		block->state = BLOCK_SENDING;
	queue_block(initiator, block);
	start_timer(initiator, block, now);
}

uint64_t initiator_expire(struct initiator *initiator, uint64_t now)
{
	uint64_t next = NEVER;
	struct block *block;
	unsigned int i;

	for (i = 0; i < BLOCK_SLOTS; i++) {
		block = &initiator->blocks[i];
		if (block->state != BLOCK_FREE && block->timer <= now)
			expire(initiator, block, now);
		if (block->state != BLOCK_FREE && block->timer < next)
			next = block->timer;
	}
	return next;
}

void initiator_hello(struct initiator *initiator, struct peer *peer)
{
	struct block *block;
	unsigned int i;

	for (i = 0; i < BLOCK_SLOTS; i++) {
		block = &initiator->blocks[i];
		if (block->state != BLOCK_FREE && block->transfer->peer == peer) {
			block->silent = 0;
			block->timer = NEVER;
		}
	}
}

void initiator_forget(struct initiator *initiator, struct peer *peer, uint32_t status)
{
	struct transfer *transfer;
	struct block *block;
	unsigned int i;

	for (i = 0; i < TRANSFERS; i++) {
		transfer = &initiator->transfers[i];
		if (!transfer->open || transfer->peer != peer)
			continue;
		fail_transfer(initiator, transfer, status, EXANEST_SIDE_NONE, 0);
		if (!transfer->outstanding)
			end_transfer(initiator, transfer);
	}
	for (i = 0; i < BLOCK_SLOTS; i++) {
		block = &initiator->blocks[i];
		if (block->state != BLOCK_FREE && block->transfer->peer == peer)
			end_block(initiator, block, status, EXANEST_SIDE_NONE, 0);
	}
}

bool initiator_detach(struct initiator *initiator, uint32_t space, uint64_t now)
{
	bool found = false;
	unsigned int i;

	for (i = 0; i < TRANSFERS; i++)
		if (initiator->transfers[i].open &&
		    initiator->transfers[i].submission.space == space) {
			abort_transfer(initiator, &initiator->transfers[i], now);
			found = true;
		}
	return found;
}

bool initiator_abort(struct initiator *initiator, uint64_t tag, uint64_t now)
{
	bool found = false;
	unsigned int i;

	for (i = 0; i < TRANSFERS; i++)
		if (initiator->transfers[i].open && initiator->transfers[i].submission.tag == tag) {
			abort_transfer(initiator, &initiator->transfers[i], now);
			found = true;
		}
	return found;
}
