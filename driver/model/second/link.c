// SPDX-License-Identifier: GPL-2.0
/* Blocks at the initiator, records at the target, and packets: sections 8 to 10 of engine.md. */
#include <string.h>

#include "engine.h"

static struct space *local_space(struct engine *e, const struct block *b)
{
	return &e->spaces[b->transfer->submission.space];
}

struct peer *find_peer(struct engine *e, u32 node)
{
	for (unsigned int i = 0; i < 1 + PEERS; i++)
		if (e->peers[i].set && e->peers[i].node == node)
			return &e->peers[i];
	return NULL;
}

/* ---- What has packets to send ---- */

static void enqueue(struct engine *e, struct sender *s)
{
	if (s->queued)
		return;
	s->queued = true;
	if (s->peer->self)
		TAILQ_INSERT_TAIL(&e->local_senders, s, link);
	else
		TAILQ_INSERT_TAIL(&e->remote_senders, s, link);
}

static void dequeue(struct engine *e, struct sender *s)
{
	if (!s->queued)
		return;
	s->queued = false;
	if (s->peer->self)
		TAILQ_REMOVE(&e->local_senders, s, link);
	else
		TAILQ_REMOVE(&e->remote_senders, s, link);
}

/* ---- Granules ---- */

/* The first n granules. */
static u64 first_granules(u32 n)
{
	return n >= 64 ? ~0ull : (1ull << n) - 1;
}

/* The granules of a range that begins at a multiple of GRANULE. */
static u64 granules(u32 offset, u32 length)
{
	return first_granules((length + GRANULE - 1) / GRANULE) << offset / GRANULE;
}

/* The first granules of the mask that follow one another, at most `limit` bytes of them. */
static u64 next_run(u64 mask, u32 limit, u32 block_length, u32 *offset, u32 *length)
{
	u32 first = __builtin_ctzll(mask);
	u32 n = 1;

	while (n < limit / GRANULE && first + n < 64 && mask >> (first + n) & 1)
		n++;
	*offset = first * GRANULE;
	*length = n * GRANULE;
	if (*length > block_length - *offset)
		*length = block_length - *offset;
	return granules(*offset, *length);
}

/* Check that granules of a block can be read. */
static u32 check_granules(struct engine *e, const struct space *s, u64 address, u32 length,
			  u64 mask, u64 *failed)
{
	while (mask) {
		u32 run_offset, run_length, status;
		u64 run = next_run(mask, BLOCK_SIZE, length, &run_offset, &run_length);

		status = check_memory(e, s, address + run_offset, run_length, false, failed);
		if (status)
			return status;
		mask &= ~run;
	}
	return STATUS_OK;
}

/* ---- Transfers ---- */

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

/* ---- Blocks ---- */

static u32 slot_of(const struct engine *e, const struct block *b)
{
	return b - e->blocks;
}

static bool is_known(const struct peer *peer)
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

/* End a block whose peer is gone. A block that is CANCELLING has its status already. */
static void end_block_alone(struct engine *e, struct block *b, u32 status)
{
	if (b->state == BLOCK_CANCELLING)
		end_block(e, b, b->status, b->side, b->address);
	else
		end_block(e, b, status, SIDE_NONE, 0);
}

/* Section 8.3: the block accesses no local memory any more. */
static void abort_block(struct engine *e, struct block *b, u32 status, u32 side, u64 address)
{
	if (b->state == BLOCK_CANCELLING)
		return;
	stop_transfer(e, b->transfer);
	if (b->transfer->submission.operation == OPERATION_GET || !b->sent) {
		end_block(e, b, status, side, address);
		return;
	}
	clear_fault(e, &b->fault);
	fail_transfer(e, b->transfer, status, side, address);
	b->state = BLOCK_CANCELLING;
	b->status = status;
	b->side = side;
	b->address = address;
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
static void start_sending(struct engine *e, struct block *b)
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

/* Cut blocks while there are slots, one of each transfer in turn. Returns whether one was cut. */
static bool cut_blocks(struct engine *e)
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

u64 run_timers(struct engine *e)
{
	u64 next = NEVER;

	for (struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->deadline <= e->now)
			run_timeout(e, b);
	progress(e);
	for (struct block *b = e->blocks; b < e->blocks + BLOCKS; b++)
		if (b->state != BLOCK_FREE && b->deadline < next)
			next = b->deadline;
	return is_ready(e) ? next : NEVER;
}

/* ---- Records ---- */

static void init_record(struct peer *peer, u32 slot)
{
	struct record *r = &peer->records[slot];

	memset(r, 0, sizeof(*r));
	r->slot = slot;
	r->sender.peer = peer;
	r->sender.record = r;
	r->fault.record = r;
}

void init_peer(struct peer *peer)
{
	peer->sender.peer = peer;
	for (u32 slot = 0; slot < PACKET_SLOTS; slot++)
		init_record(peer, slot);
}

static void end_record(struct engine *e, struct record *r, u32 status, u64 address)
{
	clear_fault(e, &r->fault);
	r->state = RECORD_ENDED;
	r->status = status;
	r->address = status >= STATUS_FAULT && status <= STATUS_MEMORY ? address : 0;
	enqueue(e, &r->sender);
}

/* An access of the record to memory failed. */
static void fail_record(struct engine *e, struct record *r, u32 status, u64 address)
{
	if (status != ACCESS_ABSENT) {
		end_record(e, r, status, address);
		return;
	}
	r->state = RECORD_FAULTED;
	raise_fault(e, &r->fault, address);
	enqueue(e, &r->sender);
}

static bool is_permitted(const struct engine *e, const struct request *q)
{
	const struct space *s;

	if (q->space >= SPACES)
		return false;
	s = &e->spaces[q->space];
	return s->attached && s->generation == q->generation && s->key[0] == q->key[0] &&
	       s->key[1] == q->key[1];
}

/* Do what a record in RECEIVING can do without a payload. */
static void serve_record(struct engine *e, struct record *r)
{
	struct request *q = &r->request;
	u32 status = STATUS_OK;
	u64 failed;

	if (r->type == PACKET_GET) {
		status = check_granules(e, &e->spaces[q->space], q->address, q->length, r->mask,
					&failed);
	} else if (r->type == PACKET_ATOMIC) {
		if (!(ATOMICS >> (r->atomic + (q->length == 8 ? 16 : 0)) & 1)) {
			end_record(e, r, STATUS_INVALID, 0);
			return;
		}
		status = atomic_memory(e, &e->spaces[q->space], r, &failed);
		if (!status)
			end_record(e, r, STATUS_OK, 0);
	}
	if (status)
		fail_record(e, r, status, failed);
	else
		enqueue(e, &r->sender);
}

static void receive_payload(struct engine *e, struct record *r, const struct payload *payload)
{
	struct request *q = &r->request;
	u64 failed;
	u32 status = write_memory(e, &e->spaces[q->space], q->address + payload->offset,
				  payload->bytes, payload->length, &failed);

	if (status) {
		fail_record(e, r, status, failed);
		return;
	}
	r->mask &= ~granules(payload->offset, payload->length);
	if (!r->mask)
		end_record(e, r, STATUS_OK, 0);
}

static void renew_record(struct engine *e, struct peer *peer, const struct packet *p)
{
	struct record *r = &peer->records[p->slot];

	clear_fault(e, &r->fault);
	dequeue(e, &r->sender);
	init_record(peer, p->slot);
	r->state = RECORD_RECEIVING;
	r->sequence = p->sequence;
	r->type = p->type;
	r->number = ++e->request_number;
	if (p->type == PACKET_CANCEL)
		return;
	r->request = p->request;
	if (p->type == PACKET_PUT) {
		r->mask = granules(0, p->request.length);
	} else if (p->type == PACKET_ATOMIC) {
		r->atomic = p->atomic.operation;
		r->operand = p->atomic.operand;
		r->compare = p->atomic.compare;
	}
}

/* `ahead` is a hint and not compared. */
static bool is_same_request(const struct record *r, const struct packet *p)
{
	return r->type == p->type &&
	       !memcmp(&r->request, &p->request, offsetof(struct request, ahead));
}

/* Returns false if the packet is dropped. */
static bool receive_request(struct engine *e, struct peer *peer, const struct packet *p)
{
	struct record *r = &peer->records[p->slot];

	if (p->sequence < r->sequence)
		return false;
	if (p->sequence > r->sequence)
		renew_record(e, peer, p);
	else if (p->type != PACKET_CANCEL && !is_same_request(r, p))
		return false;

	if (p->type == PACKET_CANCEL) {
		if (r->state != RECORD_ENDED)
			end_record(e, r, STATUS_ABORTED, 0);
		enqueue(e, &r->sender);
		return true;
	}
	if (!is_permitted(e, &r->request)) {
		if (r->state != RECORD_ENDED)
			end_record(e, r, STATUS_UNREACHABLE, 0);
		if (r->status == STATUS_UNREACHABLE)
			count(e, REG_PACKETS_DENIED, 1);
	}
	if (p->type == PACKET_GET)
		r->mask |= p->get_mask;
	if (r->state != RECORD_RECEIVING)
		enqueue(e, &r->sender); /* NACK, or the ACK again */
	else if (p->type == PACKET_PUT && p->put.length)
		receive_payload(e, r, &p->put);
	else
		serve_record(e, r);
	return true;
}

void end_records(struct engine *e, u32 space)
{
	for (unsigned int i = 0; i < 1 + PEERS; i++)
		for (u32 slot = 0; slot < PACKET_SLOTS; slot++) {
			struct record *r = &e->peers[i].records[slot];

			if (r->request.space == space &&
			    (r->state == RECORD_RECEIVING || r->state == RECORD_FAULTED))
				end_record(e, r, STATUS_UNREACHABLE, 0);
		}
}

void forget_peer(struct engine *e, struct peer *peer, enum status status)
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
	for (u32 slot = 0; slot < PACKET_SLOTS; slot++) {
		clear_fault(e, &peer->records[slot].fault);
		dequeue(e, &peer->records[slot].sender);
		init_record(peer, slot);
	}
	dequeue(e, &peer->sender);
}

/* ---- Faults of either side ---- */

void resume(struct engine *e, struct fault *fault)
{
	struct block *b = fault->block;
	struct record *r = fault->record;

	clear_fault(e, fault);
	if (b) {
		count(e, REG_BLOCKS_AGAIN, 1);
		start_sending(e, b);
	} else {
		r->state = RECORD_RECEIVING;
		serve_record(e, r);
	}
}

void reject(struct engine *e, struct fault *fault, u32 status, u64 address)
{
	struct block *b = fault->block;
	struct record *r = fault->record;
	u64 start = b ? b->transfer->submission.local + b->offset : r->request.address;
	u32 length = b ? b->length : r->request.length;

	if (address < fault->address || address - start >= length)
		address = fault->address;
	if (b)
		abort_block(e, b, status, SIDE_LOCAL, address);
	else
		end_record(e, r, status, address);
}

/* ---- Packets that are sent ---- */

static size_t set_header(struct engine *e, struct packet *p, const struct peer *peer, u8 type,
			 u32 slot, u64 sequence, u32 length)
{
	p->version = PACKET_VERSION;
	p->type = type;
	p->length = length;
	p->source = e->node;
	p->destination = peer->node;
	p->incarnation = e->incarnation;
	p->peer_incarnation = peer->incarnation;
	p->sequence = sequence;
	p->slot = slot;
	return length;
}

/* The next packet of a block; 0: there is none. */
static size_t make_block_packet(struct engine *e, struct block *b, struct packet *p)
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

/* The next packet of a record, of its state as it is now; 0: there is none. */
static size_t make_record_packet(struct engine *e, struct record *r, struct packet *p)
{
	struct request *q = &r->request;
	u32 length = LENGTH_HEADER;
	u8 type;

	if (r->state == RECORD_ENDED) {
		p->ack.status = r->status;
		p->ack.value = r->value;
		p->ack.address = r->address;
		type = PACKET_ACK;
		length = LENGTH_ACK;
	} else if (r->state == RECORD_FAULTED) {
		type = PACKET_NACK;
	} else if (!r->mask) {
		return 0;
	} else if (r->type == PACKET_PUT) {
		p->again_mask = r->mask;
		type = PACKET_AGAIN;
		length = LENGTH_AGAIN;
	} else {
		u64 run = next_run(r->mask, e->payload, q->length, &p->data.offset,
				   &p->data.length);
		u64 failed;
		u32 status = read_memory(e, &e->spaces[q->space], q->address + p->data.offset,
					 p->data.bytes, p->data.length, &failed);

		if (status) {
			fail_record(e, r, status, failed);
			return 0;
		}
		r->mask &= ~run;
		if (r->mask)
			enqueue(e, &r->sender);
		type = PACKET_DATA;
		length = LENGTH_DATA + p->data.length;
	}
	return set_header(e, p, r->sender.peer, type, r->slot, r->sequence, length);
}

static size_t next_packet(struct engine *e, struct senders *senders, struct packet *p)
{
	struct sender *s;
	size_t length = 0;

	while (!length && (s = TAILQ_FIRST(senders)) && is_ready(e)) {
		dequeue(e, s);
		memset(p, 0, LENGTH_ATOMIC);
		if (s->block)
			length = make_block_packet(e, s->block, p);
		else if (s->record)
			length = make_record_packet(e, s->record, p);
		else
			length = set_header(e, p, s->peer, PACKET_HELLO, 0, 0, LENGTH_HEADER);
	}
	return length;
}

size_t make_packet(struct engine *e, struct packet *p)
{
	size_t length;

	do {
		length = next_packet(e, &e->remote_senders, p);
		progress(e);
	} while (!length && is_ready(e) && !TAILQ_EMPTY(&e->remote_senders));
	if (!is_ready(e))
		return 0;
	if (length)
		count(e, REG_PACKETS_SENT, 1);
	return length;
}

/* ---- Packets that are received ---- */

/* Returns false if the packet is dropped. */
static bool receive_response(struct engine *e, struct peer *peer, const struct packet *p)
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

/* Handle a packet other than HELLO. Returns false if it is dropped. */
static bool receive_block_packet(struct engine *e, struct peer *peer, const struct packet *p)
{
	if (p->type <= PACKET_CANCEL)
		return receive_request(e, peer, p);
	return receive_response(e, peer, p);
}

static void receive_hello(struct engine *e, struct peer *peer, const struct packet *p)
{
	if (p->incarnation > peer->incarnation) {
		bool first = !peer->incarnation;

		if (!first)
			forget_peer(e, peer, STATUS_PEER_RESET);
		peer->incarnation = p->incarnation;
		for (struct block *b = e->blocks; first && b < e->blocks + BLOCKS; b++)
			if (b->state != BLOCK_FREE && b->transfer->peer == peer) {
				b->silent = 0;
				start_sending(e, b);
			}
	}
	if (p->peer_incarnation != e->incarnation)
		enqueue(e, &peer->sender);
}

/* Check that a range is within a block and, at its end, of whole granules. */
static bool is_payload_valid(const struct payload *payload, u32 block_length)
{
	u64 end = (u64)payload->offset + payload->length;

	return payload->offset % GRANULE == 0 && end <= block_length &&
	       (end % GRANULE == 0 || end == block_length);
}

/* Check the length of the type, and that reserved fields are 0. */
static bool is_length_valid(const struct packet *p, size_t length)
{
	static const u8 zeros[7];

	switch (p->type) {
	case PACKET_HELLO:
	case PACKET_CANCEL:
	case PACKET_NACK:
		return length == LENGTH_HEADER;
	case PACKET_PUT:
		return length >= LENGTH_PUT && length - LENGTH_PUT == p->put.length;
	case PACKET_GET:
		return length == LENGTH_GET;
	case PACKET_ATOMIC:
		return length == LENGTH_ATOMIC && !memcmp(p->atomic.reserved, zeros, sizeof(zeros));
	case PACKET_DATA:
		return length >= LENGTH_DATA && length - LENGTH_DATA == p->data.length;
	case PACKET_ACK:
		return length == LENGTH_ACK && !p->ack.reserved;
	case PACKET_AGAIN:
		return length == LENGTH_AGAIN;
	default:
		return false;
	}
}

/* Check the fields of the type; those of a response that depend on the block are checked later. */
static bool is_body_valid(const struct packet *p)
{
	const struct request *q = &p->request;

	if (p->type == PACKET_PUT || p->type == PACKET_GET) {
		if (q->length < 1 || q->length > BLOCK_SIZE)
			return false;
	} else if (p->type == PACKET_ATOMIC) {
		if ((q->length != 4 && q->length != 8) || q->address % q->length ||
		    p->atomic.operation > ATOMIC_COMPARE)
			return false;
	}
	if (p->type == PACKET_PUT || p->type == PACKET_GET || p->type == PACKET_ATOMIC)
		if (q->address > LINK_ADDRESS_LIMIT || q->length > LINK_ADDRESS_LIMIT - q->address)
			return false;

	switch (p->type) {
	case PACKET_PUT:
		if (p->put.length == 0)
			return p->put.offset == 0;
		return is_payload_valid(&p->put, q->length);
	case PACKET_GET:
		return p->get_mask && !(p->get_mask & ~granules(0, q->length));
	case PACKET_DATA:
		return p->data.length && p->data.length <= PACKET_PAYLOAD &&
		       p->data.offset % GRANULE == 0 && p->data.offset < BLOCK_SIZE;
	case PACKET_AGAIN:
		return p->again_mask;
	default:
		return true;
	}
}

/* Section 9.3. Returns false if the packet is dropped. */
static bool check_packet(struct engine *e, const struct packet *p, size_t length,
			 struct peer **peer)
{
	bool hello = p->type == PACKET_HELLO;

	if (length < LENGTH_HEADER || length > sizeof(*p) || p->version != PACKET_VERSION ||
	    p->length != length || p->reserved1 || p->reserved2 || !is_length_valid(p, length))
		return false;
	if (!p->incarnation || p->slot >= PACKET_SLOTS || hello != !p->sequence ||
	    (hello && p->slot))
		return false;
	if (!is_body_valid(p) || p->destination != e->node)
		return false;
	*peer = find_peer(e, p->source);
	if (!*peer || (*peer)->self)
		return false;
	if (hello)
		return p->incarnation >= (*peer)->incarnation;
	if (p->peer_incarnation != e->incarnation || p->incarnation > (*peer)->incarnation) {
		enqueue(e, &(*peer)->sender);
		return false;
	}
	return p->incarnation == (*peer)->incarnation;
}

void receive_packet(struct engine *e, const void *datagram, size_t length)
{
	struct packet p = { 0 };
	struct peer *peer;
	bool taken;

	count(e, REG_PACKETS_RECEIVED, 1);
	memcpy(&p, datagram, length < sizeof(p) ? length : sizeof(p));
	taken = check_packet(e, &p, length, &peer);
	if (taken && p.type == PACKET_HELLO)
		receive_hello(e, peer, &p);
	else if (taken)
		taken = receive_block_packet(e, peer, &p);
	if (!taken)
		count(e, REG_PACKETS_DROPPED, 1);
}

void progress(struct engine *e)
{
	struct packet p;
	bool more;

	do {
		more = cut_blocks(e);
		while (next_packet(e, &e->local_senders, &p))
			more |= receive_block_packet(e, &e->peers[0], &p);
	} while (more && is_ready(e));
}
