// SPDX-License-Identifier: GPL-2.0
/* Peers, and packets that are sent and received. */
#include <string.h>

#include "fault.h"
#include "initiator.h"
#include "link.h"
#include "packet.h"
#include "registers.h"
#include "sender.h"
#include "target.h"

struct peer *find_peer(struct engine *e, u32 node)
{
	for (unsigned int i = 0; i < 1 + PEERS; i++)
		if (e->peers[i].set && e->peers[i].node == node)
			return &e->peers[i];
	return NULL;
}

void init_peer(struct peer *peer)
{
	peer->sender.peer = peer;
	init_records(peer);
}

void forget_peer(struct engine *e, struct peer *peer, enum status status)
{
	forget_blocks(e, peer, status);
	forget_records(e, peer);
	dequeue(e, &peer->sender);
}

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
		if (first)
			start_blocks(e, peer);
	}
	if (p->peer_incarnation != e->incarnation)
		enqueue(e, &peer->sender);
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

u64 run_timers(struct engine *e)
{
	expire_blocks(e);
	progress(e);
	return is_ready(e) ? next_deadline(e) : NEVER;
}
