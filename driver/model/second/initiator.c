// SPDX-License-Identifier: GPL-2.0
/* Blocks at the initiator. */
#include <string.h>

#include "fault.h"
#include "granule.h"
#include "initiator.h"
#include "memory.h"
#include "packet.h"
#include "queue.h"
#include "registers.h"
#include "sender.h"

static struct space *local_space(struct engine *e, const struct block *b)
{
	return &e->spaces[b->transfer->submission.space];
}

/* Queue the transfer for cutting, if another block of it may be outstanding. */
static void schedule(struct engine *e, struct transfer *t)
{
	if (!t->open || t->queued || t->stopped || t->cut == t->submission.length ||
	    t->outstanding >= TRANSFER_BLOCKS)
		return;
	t->queued = true;
	TAILQ_INSERT_TAIL(&e->uncut, t, link);
}

/* Cut no further blocks of the transfer. */
static void stop_transfer(struct engine *e, struct transfer *t)
{
	t->stopped = true;
	if (t->queued)
		TAILQ_REMOVE(&e->uncut, t, link);
	t->queued = false;
}

/* Post the completion, if no block is outstanding and none will be. */
static void finish_transfer(struct engine *e, struct transfer *t)
{
	if (!t->open || t->outstanding || (!t->stopped && t->cut < t->submission.length))
		return;
	t->open = false;
	e->open--;
	post_completion(e, &t->result);
}

static void fail_transfer(struct engine *e, struct transfer *t, u32 status, u32 side, u64 address)
{
	stop_transfer(e, t);
	if (t->result.status)
		return;
	t->result.status = status;
	t->result.side = side;
	t->result.address = address;
	t->result.value = 0;
}

void open_transfer(struct engine *e, const struct submission *s, struct peer *peer)
{
	struct transfer *t = e->transfers;

	while (t->open) /* fewer than COMPLETION_ENTRIES are open */
		t++;
	memset(t, 0, sizeof(*t));
	t->open = true;
	t->submission = *s;
	t->peer = peer;
	t->result.tag = s->tag;
	memcpy(t->key, e->spaces[s->space].key, sizeof(t->key));
	e->open++;
	schedule(e, t);
}

static u32 slot_of(const struct engine *e, const struct block *b)
{
	return b - e->blocks;
}

bool is_known(const struct peer *peer)
{
	return peer->self || peer->incarnation;
}

static bool has_packets(const struct block *b)
{
	return b->state == BLOCK_SENDING || b->ask;
}

/* Start the timer of section 9.5, or stop it where it does not run. */
static void set_timer(struct engine *e, struct block *b)
{
	struct peer *peer = b->transfer->peer;

	if (peer->self || b->state == BLOCK_FAULTED || (has_packets(b) && is_known(peer)))
		b->deadline = NEVER;
	else if (b->state == BLOCK_PARKED)
		b->deadline = e->now + e->timeout * 16;
	else
		b->deadline = e->now + (e->timeout << (b->silent < 4 ? b->silent : 4));
}

static void end_block(struct engine *e, struct block *b, u32 status, u32 side, u64 address)
{
	struct transfer *t = b->transfer;

	b->state = BLOCK_FREE;
	dequeue(e, &b->sender);
	clear_fault(e, &b->fault);
	t->outstanding--;
	if (status) {
		fail_transfer(e, t, status, side, address);
	} else {
		count(e, REG_BYTES, b->length);
		count(e, REG_BLOCKS_DONE, 1);
	}
	finish_transfer(e, t);
	schedule(e, t);
}

/* End a block that gets no answer any more. One that is CANCELLING has failed its transfer already. */
static void end_block_alone(struct engine *e, struct block *b, u32 status)
{
	if (b->state == BLOCK_CANCELLING)
		end_block(e, b, b->transfer->result.status, SIDE_NONE, 0);
	else
		end_block(e, b, status, SIDE_NONE, 0);
}

/* Section 8.3: the block accesses no local memory any more. */
void abort_block(struct engine *e, struct block *b, u32 status, u32 side, u64 address)
{
	if (b->state == BLOCK_CANCELLING)
		return;
	if (b->transfer->submission.operation == OPERATION_GET || !b->sent) {
		end_block(e, b, status, side, address);
		return;
	}
	clear_fault(e, &b->fault);
	fail_transfer(e, b->transfer, status, side, address);
	b->state = BLOCK_CANCELLING;
	b->silent = 0;
	b->ask = true;
	enqueue(e, &b->sender);
	set_timer(e, b);
}

/* An access to local memory failed. */
static void fail_access(struct engine *e, struct block *b, u32 status, u64 address)
{
	if (status != ACCESS_ABSENT) {
		abort_block(e, b, status, SIDE_LOCAL, address);
		return;
	}
	b->state = BLOCK_FAULTED;
	b->ask = false;
	set_timer(e, b);
	raise_fault(e, &b->fault, address);
}

/*
 * Send what is in the mask. A PUT looks for absent pages first, so that their fault does not wait
 * until the link takes packets. A peer that is not known gets HELLO instead.
 */
void start_sending(struct engine *e, struct block *b)
{
	struct submission *s = &b->transfer->submission;
	struct peer *peer = b->transfer->peer;

	b->state = BLOCK_SENDING;
	b->ask = false;
	set_timer(e, b);
	if (!is_known(peer)) {
		enqueue(e, &peer->sender);
		return;
	}
	if (s->operation == OPERATION_PUT) {
		u64 failed;
		u32 status = check_granules(e, local_space(e, b), s->local + b->offset, b->length,
					    b->mask, &failed);

		if (status) {
			fail_access(e, b, status, failed);
			return;
		}
	}
	enqueue(e, &b->sender);
}

void start_blocks(struct engine *e, struct peer *peer)
{
	for (struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->transfer->peer == peer) {
			b->silent = 0;
			start_sending(e, b);
		}
}

/* Cut blocks while there are slots, one of each transfer in turn. Returns whether one was cut. */
bool cut_blocks(struct engine *e)
{
	struct transfer *t;
	bool cut = false;

	while ((t = TAILQ_FIRST(&e->uncut)) && is_ready(e)) {
		struct block *b = e->blocks;
		u64 sequence;

		while (b < e->blocks + BLOCKS && b->state != BLOCK_FREE)
			b++;
		if (b == e->blocks + BLOCKS)
			break;
		TAILQ_REMOVE(&e->uncut, t, link);
		t->queued = false;

		sequence = b->sequence + 1;
		memset(b, 0, sizeof(*b));
		b->sequence = sequence;
		b->transfer = t;
		b->sender.peer = t->peer;
		b->sender.block = b;
		b->fault.block = b;
		b->offset = t->cut;
		b->length = t->submission.length - t->cut;
		if (b->length > BLOCK_SIZE)
			b->length = BLOCK_SIZE;
		b->mask = granules(0, b->length);
		t->cut += b->length;
		t->outstanding++;
		cut = true;
		start_sending(e, b);
		schedule(e, t);
	}
	return cut;
}

void abort_transfer(struct engine *e, struct transfer *t)
{
	stop_transfer(e, t);
	for (struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->transfer == t)
			abort_block(e, b, STATUS_ABORTED, SIDE_NONE, 0);
	if (t->open && !t->outstanding) {
		fail_transfer(e, t, STATUS_ABORTED, SIDE_NONE, 0);
		finish_transfer(e, t);
	}
}

void forget_blocks(struct engine *e, struct peer *peer, enum status status)
{
	for (struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->transfer->peer == peer)
			end_block_alone(e, b, status);
	for (unsigned int i = 0; i < QUEUE_ENTRIES; i++) {
		struct transfer *t = &e->transfers[i];

		if (t->open && t->peer == peer) { /* no block of it was outstanding */
			fail_transfer(e, t, status, SIDE_NONE, 0);
			finish_transfer(e, t);
		}
	}
}

static void run_timeout(struct engine *e, struct block *b)
{
	u8 operation = b->transfer->submission.operation;

	count(e, REG_TIMEOUTS, 1);
	if (++b->silent > e->retries) {
		end_block_alone(e, b, STATUS_LINK_TIMEOUT);
		return;
	}
	if (!is_known(b->transfer->peer)) {
		enqueue(e, &b->transfer->peer->sender);
	} else {
		if (b->state == BLOCK_CANCELLING || operation == OPERATION_PUT)
			b->ask = true;
		else
			b->state = BLOCK_SENDING;
		enqueue(e, &b->sender);
	}
	set_timer(e, b);
}

void expire_blocks(struct engine *e)
{
	for (struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->deadline <= e->now)
			run_timeout(e, b);
}

u64 next_deadline(const struct engine *e)
{
	u64 next = NEVER;

	for (const struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->deadline < next)
			next = b->deadline;
	return next;
}

/* The next packet of a block; 0: there is none. */
size_t make_block_packet(struct engine *e, struct block *b, struct packet *p)
{
	struct transfer *t = b->transfer;
	struct submission *s = &t->submission;
	u32 length;
	u8 type;

	if (!has_packets(b))
		return 0;
	p->request = (struct request){
		.key = { t->key[0], t->key[1] },
		.space = s->remote_space,
		.generation = s->generation,
		.address = s->remote + b->offset,
		.length = b->length,
		.ahead = s->length - b->offset - b->length,
	};
	if (b->state == BLOCK_CANCELLING) {
		memset(&p->request, 0, sizeof(p->request));
		type = PACKET_CANCEL;
		length = LENGTH_HEADER;
	} else if (s->operation == OPERATION_GET) {
		p->get_mask = b->mask;
		type = PACKET_GET;
		length = LENGTH_GET;
	} else if (s->operation == OPERATION_ATOMIC) {
		p->atomic.operation = s->atomic;
		p->atomic.operand = s->operand;
		p->atomic.compare = s->compare;
		type = PACKET_ATOMIC;
		length = LENGTH_ATOMIC;
	} else {
		if (b->state == BLOCK_SENDING) {
			u64 run = next_run(b->mask, e->payload, b->length, &p->put.offset,
					   &p->put.length);
			u64 failed;
			u32 status = read_memory(e, local_space(e, b),
						 s->local + b->offset + p->put.offset, p->put.bytes,
						 p->put.length, &failed);

			if (status) {
				fail_access(e, b, status, failed);
				return 0;
			}
			b->mask &= ~run;
		}
		type = PACKET_PUT;
		length = LENGTH_PUT + p->put.length;
	}
	b->ask = false;
	b->sent = true;
	if (b->state == BLOCK_SENDING && (s->operation != OPERATION_PUT || !b->mask))
		b->state = BLOCK_WAITING;
	if (has_packets(b))
		enqueue(e, &b->sender);
	else
		set_timer(e, b);
	return set_header(e, p, t->peer, type, slot_of(e, b), b->sequence, length);
}

/* Returns false if the packet is dropped. */
bool receive_response(struct engine *e, struct peer *peer, const struct packet *p)
{
	struct block *b;
	struct submission *s;
	u64 failed;
	u32 status;

	if (p->slot >= BLOCKS)
		return false;
	b = &e->blocks[p->slot];
	if (b->state == BLOCK_FREE || b->sequence != p->sequence || b->transfer->peer != peer ||
	    !b->sent || (b->state == BLOCK_CANCELLING && p->type != PACKET_ACK))
		return false;
	s = &b->transfer->submission;
	if (p->type == PACKET_AGAIN &&
	    (s->operation != OPERATION_PUT || p->again_mask & ~granules(0, b->length)))
		return false;
	if (p->type == PACKET_ACK && s->operation == OPERATION_GET && p->ack.status == STATUS_OK)
		return false;
	if (p->type == PACKET_DATA) {
		u32 end = p->data.offset + p->data.length;

		if (s->operation != OPERATION_GET || b->state == BLOCK_FAULTED || end > b->length ||
		    (end % GRANULE && end != b->length))
			return false;
	}

	b->silent = 0;
	switch (p->type) {
	case PACKET_ACK:
		status = p->ack.status > STATUS_ABORTED ? STATUS_MEMORY : p->ack.status;
		if (b->state == BLOCK_CANCELLING) {
			end_block_alone(e, b, status);
		} else if (status >= STATUS_FAULT && status <= STATUS_MEMORY) {
			end_block(e, b, status, SIDE_REMOTE, p->ack.address);
		} else {
			if (!status && s->operation == OPERATION_ATOMIC)
				b->transfer->result.value = s->length == 4 ? (u32)p->ack.value :
									     p->ack.value;
			end_block(e, b, status, SIDE_NONE, 0);
		}
		break;
	case PACKET_NACK:
		if (b->state == BLOCK_FAULTED)
			break;
		/* A request that was not sent yet asks for granules that the record may not keep. */
		if (b->state == BLOCK_SENDING && s->operation != OPERATION_PUT)
			b->ask = true;
		b->state = BLOCK_PARKED;
		if (s->operation == OPERATION_PUT)
			b->mask = 0; /* AGAIN says what is to be sent */
		break;
	case PACKET_AGAIN:
		b->mask |= p->again_mask;
		if (b->state == BLOCK_FAULTED)
			break;
		if (b->state == BLOCK_PARKED)
			count(e, REG_BLOCKS_AGAIN, 1);
		start_sending(e, b);
		break;
	case PACKET_DATA:
		status = write_memory(e, local_space(e, b), s->local + b->offset + p->data.offset,
				      p->data.bytes, p->data.length, &failed);
		if (status) {
			fail_access(e, b, status, failed);
			break;
		}
		b->mask &= ~granules(p->data.offset, p->data.length);
		if (b->state == BLOCK_PARKED) {
			b->state = BLOCK_WAITING;
			count(e, REG_BLOCKS_AGAIN, 1);
		}
		if (!b->mask)
			end_block(e, b, STATUS_OK, SIDE_NONE, 0);
		break;
	}
	if (b->state != BLOCK_FREE && !has_packets(b))
		set_timer(e, b);
	return true;
}
