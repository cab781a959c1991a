// SPDX-License-Identifier: GPL-2.0
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "block.h"
#include "ring.h"
#include "trace.h"
#include "transfer.h"

/* Blocks that an engine is given at a time, as one, for as long as they meet no fault. */
#define RUN_SIZE (8 * EXANEST_BLOCK_SIZE)
/*
 * Blocks of a port that may be on their way to other nodes at a time. They wait there for page faults
 * of others, in slots of an engine that all share.
 */
#define FAR_MAX 32

/* Bytes that a port may have moved before it is the next one's turn. */
#define TURN_BYTES RUN_SIZE

#define ALL_FREE (BIT(EXANEST_TRANSFER_BLOCKS) - 1)

static struct exanest_port *port_of_member(struct exanest_member *member)
{
	return container_of(member, struct exanest_port, member);
}

static void port_get(struct exanest_port *port)
{
	kref_get(&port->member.reference);
}

static void port_release(struct kref *reference)
{
	struct exanest_port *port =
		port_of_member(container_of(reference, struct exanest_member, reference));

	port->release(port);
}

void exanest_port_put(struct exanest_port *port)
{
	kref_put(&port->member.reference, port_release);
}

static bool range_valid(u64 address, u64 length)
{
	return address + length >= address && length <= EXANEST_TRANSFER_MAX;
}

/* All that is checked about a submission; the rest of the driver relies on it. */
static bool submission_valid(const struct exanest_submission *s, u64 features)
{
	if (s->reserved)
		return false;
	switch (s->op) {
	case EXANEST_OP_NOP:
		return !(s->peer | s->local | s->remote | s->length | s->operand | s->compare |
			 s->atomic);
	case EXANEST_OP_FENCE:
		return !(s->local | s->remote | s->length | s->operand | s->compare | s->atomic);
	case EXANEST_OP_PUT:
	case EXANEST_OP_GET:
		return !(s->operand | s->compare | s->atomic) && range_valid(s->local, s->length) &&
		       range_valid(s->remote, s->length);
	case EXANEST_OP_ATOMIC:
		return s->atomic <= EXANEST_ATOMIC_COMPARE_SWAP && !s->local &&
		       (s->length == 4 || s->length == 8) && !(s->remote & (s->length - 1)) &&
		       range_valid(s->remote, s->length) &&
		       (s->atomic == EXANEST_ATOMIC_COMPARE_SWAP || !s->compare) &&
		       (features & EXANEST_FEATURE_ATOMICS);
	}
	return false;
}

static void transfer_end(struct exanest_transfer *transfer)
{
	struct exanest_port *port = transfer->port, *peer = transfer->peer;
	struct exanest_completion completion = {
		.cookie = transfer->submission.cookie,
		.status = transfer->status,
	};

	if (!transfer->status) {
		completion.value = transfer->value;
	} else if (transfer->fault_side) {
		completion.fault_side = transfer->fault_side;
		completion.fault_address = transfer->fault_address;
	}
	exanest_completion_post(port->rings, &completion);
	exanest_count(&port->counters, EXANEST_TRANSFERS, 1);
	if (transfer->status == -EFAULT)
		exanest_count(&port->counters, EXANEST_FAULT_ERRORS, 1);
	trace_exanest_transfer_end(transfer);

	transfer->peer = NULL;
	transfer->used = false;
	port->outstanding--;
	list_move(&transfer->link, &port->idle);
	if (peer)
		exanest_port_put(peer);
	exanest_port_put(port); /* not the last: who serves it has one too */
}

/* A transfer to peer, that fences may wait for, has ended. */
static void fences_advance(struct exanest_port *port, u64 peer, u64 sequence)
{
	struct exanest_transfer *fence, *next;

	list_for_each_entry_safe(fence, next, &port->fences, link)
		if (fence->submission.peer == peer && fence->sequence > sequence &&
		    !--fence->waiting)
			transfer_end(fence);
}

static void transfer_finish(struct exanest_transfer *transfer)
{
	transfer_end(transfer);
	fences_advance(transfer->port, transfer->submission.peer, transfer->sequence);
}

static unsigned int transfers_to(struct exanest_port *port, u64 peer)
{
	struct exanest_transfer *transfer = port->transfers;
	unsigned int count = 0;

	for (; transfer < port->transfers + port->transfer_count; transfer++)
		count += transfer->used && transfer->submission.peer == peer &&
			 transfer->submission.op != EXANEST_OP_FENCE;
	return count;
}

/* Find the peer of a transfer. -EHOSTUNREACH: there is none. */
static int transfer_find_peer(struct exanest_transfer *transfer)
{
	struct exanest_port *port = transfer->port;
	u64 address = transfer->submission.peer;
	struct exanest_member *member = exanest_domain_find(port->domain, address);

	if (member)
		transfer->peer = port_of_member(member);
	else if (!exanest_engine_reaches(port->engine, address))
		return -EHOSTUNREACH;
	return 0;
}

static void transfer_start(struct exanest_port *port, const struct exanest_submission *submission)
{
	struct exanest_transfer *transfer = list_first_entry(&port->idle, struct exanest_transfer,
							     link);
	bool fence = submission->op == EXANEST_OP_FENCE;

	list_del_init(&transfer->link);
	port_get(port);
	port->outstanding++;
	transfer->submission = *submission;
	transfer->sequence = ++port->sequence;
	transfer->next = 0;
	transfer->value = 0;
	memset(transfer->ahead, 0, sizeof(transfer->ahead));
	transfer->free_blocks = ALL_FREE;
	transfer->status = 0;
	transfer->fault_side = EXANEST_SIDE_NONE;
	transfer->waiting = 0;

	if (!submission_valid(submission, exanest_engine_features(port->engine)))
		transfer->status = -EINVAL;
	else if (submission->op != EXANEST_OP_NOP)
		transfer->status = transfer_find_peer(transfer);
	if (fence && !transfer->status)
		transfer->waiting = transfers_to(port, submission->peer);
	transfer->used = true;
	trace_exanest_transfer_start(transfer);

	if (transfer->waiting)
		list_add_tail(&transfer->link, &port->fences);
	else if (fence || transfer->status || !submission->length)
		transfer_end(transfer);
	else
		list_add_tail(&transfer->link, &port->runnable);
}

/* Returns whether there was any. The caller may fill the ring as fast as it is read: a turn ends. */
static bool transfers_take(struct exanest_port *port)
{
	struct exanest_submission submission;
	unsigned int taken;

	spin_lock(&port->lock);
	for (taken = 0; taken < EXANEST_TRANSFERS_MAX && !list_empty(&port->idle) &&
			exanest_submission_take(port->rings, port->outstanding, &submission);
	     taken++)
		transfer_start(port, &submission);
	spin_unlock(&port->lock);
	return taken;
}

static void transfer_runnable(struct exanest_transfer *transfer)
{
	if (list_empty(&transfer->link))
		list_add_tail(&transfer->link, &transfer->port->runnable);
}

static void block_free(struct exanest_block *block)
{
	block->transfer->free_blocks |= BIT(block - block->transfer->blocks);
}

/* Bytes from an offset on up to the end of its block. */
static u64 to_end_of_block(const struct exanest_transfer *transfer, u64 offset)
{
	const struct exanest_submission *submission = &transfer->submission;
	u64 written = submission->op == EXANEST_OP_GET ? submission->local : submission->remote;

	return EXANEST_BLOCK_SIZE - ((written + offset) & (EXANEST_BLOCK_SIZE - 1));
}

/* The lock is held. A block of its own for [offset, offset + length) of a transfer. */
static struct exanest_block *block_take(struct exanest_transfer *transfer, u64 offset, u32 length)
{
	struct exanest_block *block = &transfer->blocks[__ffs(transfer->free_blocks)];

	transfer->free_blocks &= ~BIT(block - transfer->blocks);
	INIT_LIST_HEAD(&block->link);
	block->transfer = transfer;
	block->offset = offset;
	block->length = length;
	block->returned = false;
	block->side = EXANEST_SIDE_NONE;
	block->fault.retries = 0;
	block->fault.forwards = 0;
	block->fault.counted = false;
	block->fault.pager = NULL;
	return block;
}

/* The written side is cut at multiples of the block size, so that blocks share no page there. */
static struct exanest_block *run_cut(struct exanest_transfer *transfer)
{
	u32 run = min(RUN_SIZE, exanest_engine_limits(transfer->port->engine)->run);
	u64 most = to_end_of_block(transfer, transfer->next) + run - EXANEST_BLOCK_SIZE;
	struct exanest_block *block;

	block = block_take(transfer, transfer->next,
			   min(transfer->submission.length - transfer->next, most));
	transfer->next += block->length;
	return block;
}

/*
 * Up to where a transfer is to be moved. Its blocks meet bad addresses in any order, so what is
 * before one may have another, which is the first.
 */
static u64 transfer_limit(const struct exanest_transfer *transfer)
{
	const struct exanest_submission *submission = &transfer->submission;
	u64 start = transfer->fault_side == EXANEST_SIDE_LOCAL ? submission->local :
								 submission->remote;

	if (!transfer->status)
		return submission->length;
	if (transfer->status != -EFAULT)
		return 0;
	return min(transfer->fault_address - start, submission->length);
}

static struct exanest_block *transfer_issue(struct exanest_transfer *transfer)
{
	u64 limit = transfer_limit(transfer);
	struct exanest_block *block, *next;

	if (transfer->status) {
		list_for_each_entry_safe(block, next, &transfer->retry, link) {
			if (block->offset < limit)
				continue;
			list_del_init(&block->link);
			block_free(block);
		}
	}
	block = list_first_entry_or_null(&transfer->retry, struct exanest_block, link);
	if (block) {
		list_del_init(&block->link);
		if (!block->returned) {
			exanest_count(&transfer->port->counters, EXANEST_RETRANSMITS, 1);
			trace_exanest_retransmit(&block->fault);
		}
		block->returned = false;
		return block;
	}
	if (transfer->next < limit && transfer->free_blocks)
		return run_cut(transfer);
	return NULL;
}

/* The transfers of a context take turns, a run each. */
static struct exanest_block *transfers_issue(struct exanest_port *port)
{
	struct exanest_transfer *transfer;
	struct exanest_block *block = NULL;

	spin_lock(&port->lock);
	while (!block && !list_empty(&port->runnable)) {
		transfer = list_first_entry(&port->runnable, struct exanest_transfer, link);
		if (!transfer->peer && port->far >= FAR_MAX && !exanest_port_gone(port)) {
			list_move_tail(&transfer->link, &port->held);
			continue;
		}
		block = transfer_issue(transfer);
		if (block) {
			port->far += !transfer->peer;
			list_move_tail(&transfer->link, &port->runnable);
		} else {
			list_del_init(&transfer->link);
			if (transfer->free_blocks == ALL_FREE)
				transfer_finish(transfer);
		}
	}
	spin_unlock(&port->lock);
	return block;
}

/* The context is gone: its transfers end as soon as no thread has a block of theirs. */
static void transfers_drop(struct exanest_port *port)
{
	struct exanest_transfer *transfer = port->transfers, *next;
	struct exanest_block *block;
	unsigned long busy;
	unsigned int i;

	spin_lock(&port->lock);
	list_for_each_entry_safe(transfer, next, &port->fences, link) {
		transfer->status = -ECONNRESET;
		transfer_end(transfer);
	}
	list_splice_tail_init(&port->held, &port->runnable);
	for (transfer = port->transfers; transfer < port->transfers + port->transfer_count;
	     transfer++) {
		if (!transfer->used)
			continue;
		transfer->status = -ECONNRESET;
		busy = ~transfer->free_blocks & ALL_FREE;
		for_each_set_bit(i, &busy, EXANEST_TRANSFER_BLOCKS) {
			block = &transfer->blocks[i];
			/* Which side it waits for, if it does, only the pagers know. */
			if (exanest_pager_cancel(&port->memory.pagers, &block->fault) ||
			    (transfer->peer &&
			     exanest_pager_cancel(&transfer->peer->memory.pagers, &block->fault)))
				block_free(block);
		}
		transfer_runnable(transfer);
	}
	spin_unlock(&port->lock);
}

/*
 * How a block leaves the engine, the resolver or a pager.
 */
/*
 * Whether this is the port's turn, which keeps the port, and after which it is looked at
 * again. Else a block that goes back may end its transfer, and with it what keeps the port.
 */
static bool port_served_here(const struct exanest_port *port)
{
	return READ_ONCE(port->server) == current;
}

/* The lock is held. A block that was issued is not on its way any more. */
static void far_return(struct exanest_block *block)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_port *port = transfer->port;

	if (transfer->peer)
		return;
	port->far--;
	list_splice_tail_init(&port->held, &port->runnable);
}

static void block_return(struct exanest_block *block, bool ready)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_port *port = transfer->port;
	bool here = port_served_here(port);

	if (!here)
		port_get(port);
	spin_lock(&port->lock);
	far_return(block);
	if (ready)
		list_add_tail(&block->link, &transfer->retry);
	else
		block_free(block);
	transfer_runnable(transfer);
	spin_unlock(&port->lock);
	if (!here) {
		exanest_engine_ready(port->engine, &port->turn);
		exanest_port_put(port);
	}
}

/* To be sent again. */
static void block_ready(struct exanest_block *block)
{
	block->fault.retries++;
	block_return(block, true);
}

/* The end of its transfer. side: of address, or EXANEST_SIDE_NONE. */
static void block_fail(struct exanest_block *block, int status, u32 side, u64 address)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_port *port = transfer->port;

	spin_lock(&port->lock);
	if (!transfer->status ||
	    (side && transfer->status == -EFAULT && transfer->fault_side == side &&
	     transfer->fault_address > address)) {
		transfer->status = status;
		transfer->fault_side = side;
		transfer->fault_address = address;
	}
	spin_unlock(&port->lock);
	trace_exanest_fail(block, status, address);
	block_return(block, false);
}

/*
 * Of a run that met a fault, what lies behind the block that did is cut again, or, as
 * others were cut behind it, is a block of its own that goes on.
 */
static void run_split(struct exanest_block *block, u32 skipped)
{
	struct exanest_transfer *transfer = block->transfer;
	u64 length = skipped + to_end_of_block(transfer, block->offset + skipped);
	u64 end = block->offset + block->length;
	struct exanest_block *rest;

	if (length >= block->length)
		return;
	spin_lock(&transfer->port->lock);
	if (transfer->next == end) {
		transfer->next = block->offset + length;
		block->length = length;
		transfer_runnable(transfer);
	} else if (transfer->free_blocks) {
		rest = block_take(transfer, block->offset + length, block->length - length);
		rest->returned = true;
		list_add_tail(&rest->link, &transfer->retry);
		block->length = length;
		transfer_runnable(transfer);
	}
	spin_unlock(&transfer->port->lock);
	/* The block keeps the transfer, and that the port. */
	if (!port_served_here(transfer->port))
		exanest_engine_ready(transfer->port->engine, &transfer->port->turn);
}

static void block_settle(struct exanest_page_fault *fault, int status)
{
	struct exanest_block *block = container_of(fault, struct exanest_block, fault);

	if (status)
		block_fail(block, status, block->side, fault->address);
	else
		block_ready(block);
}

/* Hand a block to the resolver of the side that it met a fault on. */
static void block_fault(struct exanest_block *block, u32 side, u32 skipped)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_page_fault *fault = &block->fault;
	u64 start = exanest_block_address(block, side);

	run_split(block, skipped);
	block->side = side;
	fault->settle = block_settle;
	fault->dropped = &transfer->port->memory.gone;
	fault->start = start;
	fault->end = start + block->length;
	fault->last = start - block->offset + transfer->submission.length;
	fault->address = start + skipped;
	fault->detected = ktime_get_ns();
	fault->ahead = &transfer->ahead[side];
	fault->write = exanest_block_writes(block, side);
	fault->context = transfer->address;
	fault->sequence = transfer->sequence;
	fault->offset = block->offset;
	fault->owner = side == EXANEST_SIDE_LOCAL ? transfer->address : transfer->submission.peer;
	if (exanest_page_fault_exhausted(fault))
		block_settle(fault, -EBUSY);
	else
		exanest_memory_park(&exanest_block_owner(block, side)->memory, fault);
}

/*
 * Blocks at the engine. One that is to go there is counted before its ports are seen not
 * to be gone, and exanest_port_end looks at the count after it says so.
 */
static void port_moved(struct exanest_port *port)
{
	if (atomic_dec_and_test(&port->moving) && exanest_port_gone(port))
		wake_up_var(&port->moving);
}

static bool block_moves(struct exanest_block *block)
{
	struct exanest_port *port = block->transfer->port, *peer = block->transfer->peer;

	atomic_inc(&port->moving);
	if (peer)
		atomic_inc(&peer->moving);
	smp_mb__after_atomic();
	return !exanest_port_gone(port) && !(peer && exanest_port_gone(peer));
}

static void block_moved(struct exanest_block *block)
{
	struct exanest_port *peer = block->transfer->peer;

	port_moved(block->transfer->port);
	if (peer)
		port_moved(peer);
}

static void block_count(struct exanest_block *block, u32 moved)
{
	struct exanest_counters *counters = &block->transfer->port->counters;

	exanest_count(counters, EXANEST_BYTES, moved);
	exanest_count(counters, EXANEST_BLOCKS, DIV_ROUND_UP(moved, EXANEST_BLOCK_SIZE));
	block->offset += moved;
	block->length -= moved;
}

static void block_fail_at(struct exanest_block *block, const struct exanest_result *result)
{
	block_fail(block, result->status, result->side,
		   exanest_block_address(block, result->side) + result->skipped);
}

static void block_complete(struct exanest_block *block, const struct exanest_result *result)
{
	block_moved(block);
	if (result->moved)
		block_count(block, result->moved);
	switch (result->status) {
	case 0:
		block->transfer->value = result->value;
		block_return(block, false);
		break;
	case -EFAULT:
		/* Of another node: what resolves page faults there could not. */
		if (result->side == EXANEST_SIDE_REMOTE && !block->transfer->peer)
			block_fail_at(block, result);
		else
			block_fault(block, result->side, result->skipped);
		break;
	case -EBUSY:
	case -ENOMEM:
	case -ETIMEDOUT:
		block_fail_at(block, result);
		break;
	case -EHOSTUNREACH:
	case -ECONNRESET:
		block_fail(block, result->status, EXANEST_SIDE_NONE, 0);
		break;
	case -ECANCELED:
		if (exanest_page_fault_exhausted(&block->fault))
			block_fail(block, -EIO, EXANEST_SIDE_NONE, 0);
		else
			block_ready(block);
		break;
	default:
		block_fail(block, -EIO, EXANEST_SIDE_NONE, 0);
	}
}

/* The engine did not take it: it is the next one. */
static void block_take_back(struct exanest_block *block)
{
	struct exanest_transfer *transfer = block->transfer;

	block_moved(block);
	block->returned = true;
	spin_lock(&transfer->port->lock);
	far_return(block);
	list_add(&block->link, &transfer->retry);
	transfer_runnable(transfer);
	spin_unlock(&transfer->port->lock);
}

static void block_describe(const struct exanest_block *block, struct exanest_descriptor *descriptor)
{
	const struct exanest_transfer *transfer = block->transfer;

	*descriptor = (struct exanest_descriptor){
		.op = transfer->submission.op,
		.atomic = transfer->submission.atomic,
		.length = block->length,
		.local = &transfer->port->export,
		.remote = transfer->peer ? &transfer->peer->export : NULL,
		.peer = transfer->submission.peer,
		.local_address = exanest_block_address(block, EXANEST_SIDE_LOCAL),
		.remote_address = exanest_block_address(block, EXANEST_SIDE_REMOTE),
		.operand = transfer->submission.operand,
		.compare = transfer->submission.compare,
	};
}

/*
 * Turns.
 */
/* Submit up to runs blocks, and some more bytes than so many at most. Returns how many. */
static unsigned int blocks_submit(struct exanest_port *port, unsigned int runs, unsigned int *bytes)
{
	struct exanest_descriptor *descriptors = port->descriptors;
	struct exanest_block **blocks = port->blocks;
	unsigned int count = 0;

	runs = min(runs, exanest_engine_free_slots(port->engine));
	while (count < runs && *bytes < TURN_BYTES) {
		blocks[count] = transfers_issue(port);
		if (!blocks[count])
			break;
		if (!block_moves(blocks[count])) {
			block_moved(blocks[count]);
			block_fail(blocks[count], -ECONNRESET, EXANEST_SIDE_NONE, 0);
			continue;
		}
		*bytes += blocks[count]->length;
		block_describe(blocks[count], &descriptors[count]);
		count++;
	}
	if (!count)
		return 0;
	return exanest_engine_submit(port->engine, descriptors, blocks, count);
}

static bool port_serve(struct exanest_port *port)
{
	struct exanest_ring_set *rings = smp_load_acquire(&port->rings);
	bool gone = exanest_port_gone(port), busy = false;
	unsigned int runs = 0, submitted, bytes = 0;

	if (!rings)
		return false;
	WRITE_ONCE(port->server, current);
	if (gone) {
		transfers_drop(port);
	} else {
		exanest_doorbell_need(rings, false);
		busy = transfers_take(port);
	}
	do {
		submitted = blocks_submit(port, EXANEST_TURN_RUNS - runs, &bytes);
		runs += submitted;
	} while (submitted && runs < EXANEST_TURN_RUNS && bytes < TURN_BYTES);
	exanest_completion_signal(rings);
	WRITE_ONCE(port->server, NULL);

	if (runs == EXANEST_TURN_RUNS || bytes >= TURN_BYTES ||
	    !list_empty_careful(&port->runnable))
		return true;
	if (gone)
		return false;
	if (exanest_ring_set_watched(rings, busy || runs))
		return true;
	exanest_doorbell_need(rings, true);
	return transfers_take(port);
}

static struct exanest_port *port_of_turn(struct exanest_turn *turn)
{
	return container_of(turn, struct exanest_port, turn);
}

static void turn_get(struct exanest_turn *turn)
{
	port_get(port_of_turn(turn));
}

static void turn_put(struct exanest_turn *turn)
{
	exanest_port_put(port_of_turn(turn));
}

static bool turn_serve(struct exanest_turn *turn)
{
	return port_serve(port_of_turn(turn));
}

static void export_fault(struct exanest_export *export, const struct exanest_remote_fault *fault)
{
	struct exanest_port *port = container_of(export, struct exanest_port, export);

	exanest_request_fault(&port->requests, port->engine, fault);
}

const struct exanest_engine_client exanest_transfers = {
	.get = turn_get,
	.put = turn_put,
	.serve = turn_serve,
	.complete = block_complete,
	.take_back = block_take_back,
	.fault = export_fault,
};

void exanest_port_ready(struct exanest_port *port)
{
	exanest_engine_ready(port->engine, &port->turn);
}

/*
 * Lifetime.
 */
void exanest_port_end(struct exanest_port *port)
{
	exanest_memory_end(&port->memory);
	/* Its transfers are told when they are next looked at, and its peers' as well. */
	exanest_port_ready(port);
	/*
	 * A block that was seen not to be gone may be on its way to the engine still: so again and
	 * again. An engine that does not let go is reset after block_timeout_ms.
	 */
	do {
		if (atomic_read(&port->moving))
			exanest_engine_quiesce(port->engine, &port->export);
	} while (!wait_var_event_timeout(&port->moving, !atomic_read(&port->moving), HZ / 2));
	exanest_engine_retract(port->engine, &port->export);
}

int exanest_port_set_rings(struct exanest_port *port, struct exanest_ring_set *rings,
			   unsigned int submissions)
{
	unsigned int count = min(submissions, EXANEST_TRANSFERS_MAX);
	struct exanest_transfer *transfer;

	port->transfers = kvcalloc(count, sizeof(*port->transfers), GFP_KERNEL_ACCOUNT);
	if (!port->transfers)
		return -ENOMEM;
	port->transfer_count = count;
	for (transfer = port->transfers; transfer < port->transfers + count; transfer++) {
		transfer->port = port;
		transfer->address = port->member.address;
		INIT_LIST_HEAD(&transfer->retry);
		list_add_tail(&transfer->link, &port->idle);
	}
	smp_store_release(&port->rings, rings);
	return 0;
}

int exanest_port_init(struct exanest_port *port, void (*release)(struct exanest_port *port))
{
	kref_init(&port->member.reference);
	port->release = release;
	INIT_LIST_HEAD(&port->turn.link);
	spin_lock_init(&port->lock);
	INIT_LIST_HEAD(&port->runnable);
	INIT_LIST_HEAD(&port->held);
	INIT_LIST_HEAD(&port->idle);
	INIT_LIST_HEAD(&port->fences);
	port->memory.reference = &port->member.reference;
	port->memory.release = port_release;
	port->memory.counters = &port->counters;
	exanest_requests_init(&port->requests, &port->memory, &port->export);
	return exanest_memory_init(&port->memory);
}

void exanest_port_free(struct exanest_port *port)
{
	exanest_ring_set_free(port->rings);
	exanest_requests_free(&port->requests);
	exanest_memory_free(&port->memory);
	kvfree(port->transfers);
}
