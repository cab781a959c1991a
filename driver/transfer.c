// SPDX-License-Identifier: GPL-2.0
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "context.h"
#include "domain.h"
#include "engine.h"
#include "ring.h"
#include "trace.h"
#include "transfer.h"

static uint retries = 1000;
module_param(retries, uint, 0644);
MODULE_PARM_DESC(retries, "Times that a block is sent again, or to a pager, before -EBUSY");

#define ALL_FREE (BIT(EXANEST_TRANSFER_BLOCKS) - 1)

int exanest_transfers_alloc(struct exanest_context *context, unsigned int submissions)
{
	unsigned int count = min(submissions, EXANEST_TRANSFERS_MAX);
	struct exanest_transfer *transfer;

	context->transfers = kvcalloc(count, sizeof(*context->transfers), GFP_KERNEL_ACCOUNT);
	if (!context->transfers)
		return -ENOMEM;
	context->transfer_count = count;
	for (transfer = context->transfers; transfer < context->transfers + count; transfer++) {
		transfer->context = context;
		INIT_LIST_HEAD(&transfer->retry);
		list_add_tail(&transfer->link, &context->idle);
	}
	return 0;
}

/* None is in use: each counts its context. */
void exanest_transfers_free(struct exanest_context *context)
{
	INIT_LIST_HEAD(&context->idle);
	kvfree(context->transfers);
	context->transfers = NULL;
	context->transfer_count = 0;
}

static bool range_valid(u64 address, u64 length)
{
	return address + length >= address && length <= EXANEST_TRANSFER_MAX;
}

/* All that is checked about a submission; the rest of the driver relies on it. */
static bool submission_valid(const struct exanest_submission *s)
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
		       (s->atomic == EXANEST_ATOMIC_COMPARE_SWAP || !s->compare) &&
		       (exanest_engine()->operations->features & EXANEST_FEATURE_ATOMICS);
	}
	return false;
}

static void transfer_end(struct exanest_transfer *transfer)
{
	struct exanest_context *context = transfer->context, *peer = transfer->peer;
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
	exanest_completion_post(context->rings, &completion);
	exanest_count(&context->counters, EXANEST_TRANSFERS, 1);
	if (transfer->status == -EFAULT)
		exanest_count(&context->counters, EXANEST_FAULT_ERRORS, 1);
	trace_exanest_transfer_end(transfer);

	transfer->peer = NULL;
	context->outstanding--;
	list_move(&transfer->link, &context->idle);
	if (peer)
		exanest_context_put(peer);
	exanest_context_put(context); /* not the last: who serves it has one too */
}

/* A transfer that fences may wait for has ended. */
static void fences_advance(struct exanest_context *context, const struct exanest_context *peer,
			   u64 sequence)
{
	struct exanest_transfer *fence, *next;

	list_for_each_entry_safe(fence, next, &context->fences, link)
		if (fence->peer == peer && fence->sequence > sequence && !--fence->waiting)
			transfer_end(fence);
}

static void transfer_finish(struct exanest_transfer *transfer)
{
	const struct exanest_context *peer = transfer->peer;

	transfer_end(transfer);
	fences_advance(transfer->context, peer, transfer->sequence);
}

static unsigned int transfers_to(struct exanest_context *context,
				 const struct exanest_context *peer)
{
	struct exanest_transfer *transfer = context->transfers;
	unsigned int count = 0;

	for (; transfer < context->transfers + context->transfer_count; transfer++)
		count += transfer->peer == peer && transfer->submission.op != EXANEST_OP_FENCE;
	return count;
}

static void transfer_start(struct exanest_context *context,
			   const struct exanest_submission *submission)
{
	struct exanest_transfer *transfer = list_first_entry(&context->idle,
							     struct exanest_transfer, link);
	bool fence = submission->op == EXANEST_OP_FENCE;
	struct exanest_context *peer = NULL;

	list_del_init(&transfer->link);
	exanest_context_get(context);
	context->outstanding++;
	transfer->submission = *submission;
	transfer->sequence = ++context->sequence;
	transfer->next = 0;
	transfer->value = 0;
	memset(transfer->ahead, 0, sizeof(transfer->ahead));
	transfer->free_blocks = ALL_FREE;
	transfer->status = 0;
	transfer->fault_side = EXANEST_SIDE_NONE;

	if (!submission_valid(submission)) {
		transfer->status = -EINVAL;
	} else if (submission->op != EXANEST_OP_NOP) {
		peer = exanest_domain_find(context->domain, submission->peer);
		if (!peer)
			transfer->status = -EHOSTUNREACH;
	}
	if (fence && peer)
		transfer->waiting = transfers_to(context, peer);
	transfer->peer = peer;
	trace_exanest_transfer_start(transfer);

	if (fence && peer && transfer->waiting)
		list_add_tail(&transfer->link, &context->fences);
	else if (fence || transfer->status || !submission->length)
		transfer_end(transfer);
	else
		list_add_tail(&transfer->link, &context->runnable);
}

/* Returns whether there was any. The caller may fill the ring as fast as it is read: a turn ends. */
static bool transfers_take(struct exanest_context *context)
{
	struct exanest_submission submission;
	unsigned int taken;

	spin_lock(&context->lock);
	for (taken = 0; taken < EXANEST_TRANSFERS_MAX && !list_empty(&context->idle) &&
			exanest_submission_take(context->rings, context->outstanding, &submission);
	     taken++)
		transfer_start(context, &submission);
	spin_unlock(&context->lock);
	return taken;
}

static void transfer_runnable(struct exanest_transfer *transfer)
{
	if (list_empty(&transfer->link))
		list_add_tail(&transfer->link, &transfer->context->runnable);
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

/* The written side is cut at multiples of the block size, so that blocks share no page there. */
static struct exanest_block *run_cut(struct exanest_transfer *transfer)
{
	struct exanest_block *block = &transfer->blocks[__ffs(transfer->free_blocks)];
	u64 most = to_end_of_block(transfer, transfer->next) + EXANEST_RUN_SIZE -
		   EXANEST_BLOCK_SIZE;

	transfer->free_blocks &= ~BIT(block - transfer->blocks);
	memset(block, 0, sizeof(*block));
	INIT_LIST_HEAD(&block->link);
	block->transfer = transfer;
	block->offset = transfer->next;
	block->length = min(transfer->submission.length - transfer->next, most);
	transfer->next += block->length;
	return block;
}

/* Of a run that met a fault, what lies behind the block that did is cut again. */
static void run_give_back(struct exanest_block *block)
{
	struct exanest_transfer *transfer = block->transfer;
	u64 length = to_end_of_block(transfer, block->offset);

	spin_lock(&transfer->context->lock);
	if (length < block->length && transfer->next == block->offset + block->length) {
		transfer->next = block->offset + length;
		block->length = length;
	}
	spin_unlock(&transfer->context->lock);
}

static struct exanest_block *transfer_issue(struct exanest_transfer *transfer)
{
	struct exanest_block *block, *next;

	if (transfer->status) {
		list_for_each_entry_safe(block, next, &transfer->retry, link) {
			list_del_init(&block->link);
			block_free(block);
		}
		transfer->next = transfer->submission.length;
	}
	block = list_first_entry_or_null(&transfer->retry, struct exanest_block, link);
	if (block) {
		list_del_init(&block->link);
		exanest_count(&transfer->context->counters, EXANEST_RETRANSMITS, 1);
		trace_exanest_retransmit(block);
		return block;
	}
	if (transfer->next < transfer->submission.length && transfer->free_blocks)
		return run_cut(transfer);
	return NULL;
}

/* The transfers of a context take turns, a run each. */
static struct exanest_block *transfers_issue(struct exanest_context *context)
{
	struct exanest_transfer *transfer;
	struct exanest_block *block = NULL;

	spin_lock(&context->lock);
	while (!block && !list_empty(&context->runnable)) {
		transfer = list_first_entry(&context->runnable, struct exanest_transfer, link);
		block = transfer_issue(transfer);
		if (block) {
			list_move_tail(&transfer->link, &context->runnable);
		} else {
			list_del_init(&transfer->link);
			if (transfer->free_blocks == ALL_FREE)
				transfer_finish(transfer);
		}
	}
	spin_unlock(&context->lock);
	return block;
}

/* The context is gone: its transfers end as soon as no thread has a block of theirs. */
static void transfers_drop(struct exanest_context *context)
{
	struct exanest_transfer *transfer = context->transfers, *next;
	struct exanest_context *owner;
	struct exanest_block *block;
	unsigned long busy;
	unsigned int i;

	spin_lock(&context->lock);
	list_for_each_entry_safe(transfer, next, &context->fences, link) {
		transfer->status = -ECONNRESET;
		transfer_end(transfer);
	}
	for (transfer = context->transfers; transfer < context->transfers + context->transfer_count;
	     transfer++) {
		if (!transfer->peer)
			continue;
		transfer->status = -ECONNRESET;
		busy = ~transfer->free_blocks & ALL_FREE;
		for_each_set_bit(i, &busy, EXANEST_TRANSFER_BLOCKS) {
			block = &transfer->blocks[i];
			owner = exanest_block_owner(block, READ_ONCE(block->side));
			if (exanest_pager_cancel(owner, block))
				block_free(block);
		}
		transfer_runnable(transfer);
	}
	spin_unlock(&context->lock);
}

bool exanest_transfers_serve(struct exanest_engine *engine, struct exanest_context *context)
{
	struct exanest_ring_set *rings = smp_load_acquire(&context->rings);
	bool gone = exanest_context_gone(context), busy = false;
	struct exanest_block *block;
	unsigned int runs, bytes = 0;

	if (!rings)
		return false;
	if (gone) {
		transfers_drop(context);
	} else {
		exanest_doorbell_need(rings, false);
		busy = transfers_take(context);
	}

	for (runs = 0; runs < EXANEST_TURN_RUNS && bytes < EXANEST_TURN_BYTES; runs++) {
		block = transfers_issue(context);
		if (!block)
			break;
		bytes += block->length;
		engine->operations->move(engine, block);
	}
	exanest_completion_signal(context);

	if (runs == EXANEST_TURN_RUNS || bytes >= EXANEST_TURN_BYTES)
		return true;
	if (gone)
		return false;
	if (exanest_ring_set_watched(rings, busy || runs))
		return true;
	exanest_doorbell_need(rings, true);
	return transfers_take(context);
}

void exanest_block_moved(struct exanest_block *block, u32 bytes)
{
	struct exanest_counters *counters = &block->transfer->context->counters;

	if (!bytes)
		return;
	exanest_count(counters, EXANEST_BYTES, bytes);
	exanest_count(counters, EXANEST_BLOCKS, DIV_ROUND_UP(bytes, EXANEST_BLOCK_SIZE));
}

void exanest_block_done(struct exanest_block *block)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_context *context = transfer->context;

	spin_lock(&context->lock);
	block_free(block);
	transfer_runnable(transfer);
	spin_unlock(&context->lock);
}

bool exanest_block_exhausted(const struct exanest_block *block)
{
	return block->retries + block->forwards > READ_ONCE(retries);
}

void exanest_block_fault(struct exanest_block *block, u32 side)
{
	run_give_back(block);
	block->write = exanest_block_writes(block, side);
	block->address = exanest_block_address(block, side);
	block->detected = ktime_get_ns();
	WRITE_ONCE(block->side, side);
	if (exanest_block_exhausted(block))
		exanest_block_fail(block, -EBUSY, block->address);
	else
		exanest_fault_queue(block);
}

/* Once the lock is dropped the transfer may end, and with it what keeps its context. */
static void block_return(struct exanest_block *block, bool ready)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_context *context = transfer->context;

	exanest_context_get(context);
	spin_lock(&context->lock);
	if (ready)
		list_add_tail(&block->link, &transfer->retry);
	else
		block_free(block);
	transfer_runnable(transfer);
	spin_unlock(&context->lock);
	exanest_engine_ready(context);
	exanest_context_put(context);
}

void exanest_block_ready(struct exanest_block *block)
{
	block->retries++;
	block_return(block, true);
}

void exanest_block_fail(struct exanest_block *block, int status, u64 address)
{
	struct exanest_transfer *transfer = block->transfer;
	struct exanest_context *context = transfer->context;
	bool first;

	spin_lock(&context->lock);
	first = !transfer->status ||
		(transfer->fault_side == block->side && transfer->fault_address > address);
	if (first) {
		transfer->status = status;
		transfer->fault_side = block->side;
		transfer->fault_address = address;
	}
	spin_unlock(&context->lock);
	trace_exanest_fail(block, status, address);
	block_return(block, false);
}
