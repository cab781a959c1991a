// SPDX-License-Identifier: GPL-2.0
/* Records at the target. */
#include <string.h>

#include "fault.h"
#include "granule.h"
#include "memory.h"
#include "packet.h"
#include "registers.h"
#include "sender.h"
#include "target.h"

static void init_record(struct peer *peer, u32 slot)
{
	struct record *r = &peer->records[slot];

	memset(r, 0, sizeof(*r));
	r->slot = slot;
	r->sender.peer = peer;
	r->sender.record = r;
	r->fault.record = r;
}

void init_records(struct peer *peer)
{
	for (u32 slot = 0; slot < PACKET_SLOTS; slot++)
		init_record(peer, slot);
}

void end_record(struct engine *e, struct record *r, u32 status, u64 address)
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
void serve_record(struct engine *e, struct record *r)
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
bool receive_request(struct engine *e, struct peer *peer, const struct packet *p)
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

void forget_records(struct engine *e, struct peer *peer)
{
	for (u32 slot = 0; slot < PACKET_SLOTS; slot++) {
		clear_fault(e, &peer->records[slot].fault);
		dequeue(e, &peer->records[slot].sender);
		init_record(peer, slot);
	}
}

/* The next packet of a record, of its state as it is now; 0: there is none. */
size_t make_record_packet(struct engine *e, struct record *r, struct packet *p)
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
