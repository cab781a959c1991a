/* SPDX-License-Identifier: BSD-3-Clause */
#include "route_device.h"

#include <errno.h>
#include <sched.h>

#include "atomic.h"
#include "base/clock.h"
#include "base/probe.h"
#include "block.h"
#include "route.h"

/* The lowest bit of a cookie tells the two kinds of objects apart. */
#define COOKIE_ATOMIC 1u
/* The driver completes what is in flight to a dead peer much sooner; if not, the device is given up. */
#define DRAIN_NANOSECONDS 1000000000
/* How often the driver's counters are read, for pf_info --job. */
#define COUNT_NANOSECONDS 10000000

static enum pf_side side_of(const struct exanest_completion *completion)
{
	switch (completion->fault_side) {
	case EXANEST_SIDE_LOCAL:
		return PF_SIDE_LOCAL;
	case EXANEST_SIDE_REMOTE:
		return PF_SIDE_REMOTE;
	default:
		return PF_SIDE_NONE;
	}
}

static bool submit(struct host_state *host, struct host_peer *peer,
		   struct exanest_submission *submission)
{
	submission->peer = peer->engine;
	if (!device_submit(&host->context->device, submission))
		return false;
	peer->device_moving++;
	return true;
}

static enum advanced move(struct host_state *host, struct transfer *transfer)
{
	struct device *device = &host->context->device;
	struct block *block = block_ready(transfer);
	struct exanest_submission submission;

	if (device_full(device))
		return ADVANCED_NOTHING;
	if (!block) {
		uint64_t length = transfer->run_end - transfer->run;

		if (length > device->transfer_max)
			length = device->transfer_max;
		block = block_new(transfer, transfer->run, length);
		if (!block)
			return ADVANCED_LITTLE;
		transfer->run += length;
	}
	submission = (struct exanest_submission){
		.cookie = (uint64_t)(uintptr_t)block,
		.local = (uint64_t)(uintptr_t)transfer->local + block->offset,
		.remote = transfer->remote + block->offset,
		.length = block->length,
		.op = transfer_is_put(transfer) ? EXANEST_OP_PUT : EXANEST_OP_GET,
	};
	if (!submit(host, transfer_peer(transfer), &submission))
		return ADVANCED_NOTHING;
	block->state = BLOCK_MOVING;
	block->on_device = true;
	block->started = trace_time(host->context->trace);
	transfer->moving++;
	return ADVANCED_LITTLE;
}

static enum advanced move_atomic(struct host_state *host, struct atomic_operation *atomic)
{
	static const uint16_t ops[] = {
		[PF_ADD] = EXANEST_ATOMIC_ADD,   [PF_AND] = EXANEST_ATOMIC_AND,
		[PF_OR] = EXANEST_ATOMIC_OR,     [PF_XOR] = EXANEST_ATOMIC_XOR,
		[PF_SWAP] = EXANEST_ATOMIC_SWAP, [PF_COMPARE_SWAP] = EXANEST_ATOMIC_COMPARE_SWAP,
	};
	const struct atomic_request *request = &atomic->message.request;
	struct exanest_submission submission = {
		.cookie = (uint64_t)(uintptr_t)atomic | COOKIE_ATOMIC,
		.remote = request->address,
		.length = request->width,
		.operand = request->operand,
		.compare = request->op == PF_COMPARE_SWAP ? request->compare : 0,
		.op = EXANEST_OP_ATOMIC,
		.atomic = ops[request->op],
	};

	if (!submit(host, atomic_peer(atomic), &submission))
		return ADVANCED_NOTHING;
	atomic->sent = true;
	return ADVANCED_LITTLE;
}

static enum advanced move_nothing(struct host_state *host, struct transfer *transfer)
{
	(void)host;
	transfer_fail(transfer, PF_ERR_UNREACHABLE, PF_SIDE_NONE, 0);
	return ADVANCED_LITTLE;
}

const struct route route_device = { .move = move, .atomic = move_atomic };
const struct route route_none = { .move = move_nothing };

/*
 * The driver could not make a page present. The process that owns it may be able to: a
 * program with a userfaultfd of its own supplies a page when a thread of its own touches it.
 * So the owner is asked, as for any other fault, and the parts before and behind go on.
 */
static void block_refused(struct host_state *host, struct block *block, enum pf_side side,
			  uint64_t address)
{
	struct transfer *transfer = block->transfer;
	uint64_t front = address - block_address(block, side),
		 size = host->context->options.block_size;

	if (side == PF_SIDE_NONE || front >= block->length) {
		transfer_fail(transfer, PF_ERR_FAULT, side, address);
		block_free(block);
		return;
	}
	if ((front && !block_new(transfer, block->offset, front)) ||
	    (block->length - front > size &&
	     !block_new(transfer, block->offset + front + size, block->length - front - size))) {
		block_free(block);
		return;
	}
	block->offset += front;
	block->length = block->length - front > size ? size : block->length - front;
	block_fault(host, block, side, address, FAULT_PERMISSION);
}

/* Its pages were evicted again and again: retransmit once more? */
static bool try_again(pf_context *context, int status, unsigned *retries)
{
	if (status != -EBUSY || (*retries)++ >= context->options.fault_retries)
		return false;
	statistic_add(&context->statistics, PF_STAT_RETRANSMITS, 1);
	return true;
}

static void block_done(struct host_state *host, struct block *block,
		       const struct exanest_completion *completion)
{
	struct transfer *transfer = block->transfer;
	struct host_peer *peer = transfer_peer(transfer);
	pf_context *context = host->context;

	transfer->moving--;
	peer->device_moving--;
	block->on_device = false;
	switch (completion->status) {
	case 0:
		statistic_add(&context->statistics, PF_STAT_DEVICE_BYTES, block->length);
		record_moved(context->trace, block->started, transfer, transfer_is_put(transfer),
			     block_address(block, PF_SIDE_LOCAL),
			     block_address(block, PF_SIDE_REMOTE), block->length,
			     transfer->operation.peer->id);
		block_free(block);
		return;
	case -EHOSTUNREACH:
	case -ECONNRESET:
		/* If its process is gone, its connection says so soon. */
		host_peer_lose_device(peer);
		block->state = BLOCK_READY;
		return;
	case -EIO:
		/* The engine is given up; another route moves it. */
		block->state = BLOCK_READY;
		return;
	case -EFAULT:
		block_refused(host, block, side_of(completion), completion->fault_address);
		return;
	case -EBUSY:
	case -ETIMEDOUT:
		if (try_again(context, completion->status, &block->retries)) {
			block->state = BLOCK_READY;
			return;
		}
		transfer_fail(transfer, PF_ERR_FAULT, side_of(completion),
			      completion->fault_address);
		break;
	case -ENOMEM:
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
		break;
	default:
		transfer_fail(transfer, PF_ERR_SYSTEM, PF_SIDE_NONE, 0);
	}
	block_free(block);
}

static void atomic_done(pf_context *context, struct atomic_operation *atomic,
			const struct exanest_completion *completion)
{
	struct host_peer *peer = atomic_peer(atomic);

	peer->device_moving--;
	switch (completion->status) {
	case 0:
		atomic_answered(atomic, PF_OK, completion->value);
		return;
	case -EHOSTUNREACH:
		/* It was not begun. */
		host_peer_lose_device(peer);
		atomic->sent = false;
		return;
	case -EBUSY:
	case -EFAULT:
	case -ETIMEDOUT:
		if (try_again(context, completion->status, &atomic->retries)) {
			atomic->sent = false;
			return;
		}
		atomic_answered(atomic, PF_ERR_FAULT, completion->fault_address);
		return;
	case -ECONNRESET:
		atomic_answered(atomic, PF_ERR_PEER, 0);
		return;
	default:
		atomic_answered(atomic, PF_ERR_SYSTEM, 0);
	}
}

/* The device is closed: complete every block and atomic in flight as lost. */
static void take_back(struct host_state *host)
{
	const struct exanest_completion lost = { .status = -EHOSTUNREACH };
	struct operation *head = &host->context->operations.active, *operation;
	struct block *block;

	for (operation = head->next; operation != head; operation = operation->next) {
		if (operation->kind == OPERATION_ATOMIC) {
			struct atomic_operation *atomic = (struct atomic_operation *)operation;

			/* Whether it was executed is not known. */
			if (atomic->sent && !atomic->message.token && !atomic->answered) {
				atomic_peer(atomic)->device_moving--;
				atomic_answered(atomic, PF_ERR_SYSTEM, 0);
			}
			continue;
		}
		if (!((struct host_peer *)operation->peer)->device_moving)
			continue;
		for (block = ((struct transfer *)operation)->blocks; block; block = block->next) {
			if (block->state == BLOCK_MOVING && block->on_device)
				block_done(host, block, &lost);
		}
	}
}

static void give_up(struct host_state *host)
{
	pf_context *context = host->context;
	pf_peer *peer;

	device_close(&context->device);
	atomic_store(&context->device.why, "the engine of " EXANEST_DEVICE " is out of order");
	take_back(host);
	peers_lock(&context->peers);
	for (peer = context->peers.first; peer; peer = peer->next) {
		if (peer->transport == &transport_host)
			host_peer_lose_device((struct host_peer *)peer);
	}
	peers_unlock(&context->peers);
}

static int take_completions(struct host_state *host)
{
	struct exanest_completion completion;
	bool failed = false;
	int count = 0;

	while (device_take_completion(&host->context->device, &completion)) {
		void *object = (void *)(uintptr_t)(completion.cookie & ~(uint64_t)COOKIE_ATOMIC);

		if (completion.cookie & COOKIE_ATOMIC)
			atomic_done(host->context, object, &completion);
		else
			block_done(host, object, &completion);
		failed |= completion.status == -EIO;
		count++;
	}
	if (failed)
		give_up(host);
	return count;
}

static void count_at_times(pf_context *context)
{
	struct device *device = &context->device;
	uint64_t now = clock_nanoseconds(CLOCK_MONOTONIC);

	if (now - device->counted_at < COUNT_NANOSECONDS)
		return;
	device->counted_at = now;
	device_count(device, &context->statistics);
}

int device_progress(struct host_state *host)
{
	int count = take_completions(host);

	if (count)
		count_at_times(host->context);
	return count;
}

int device_wake(struct host_state *host)
{
	if (device_ring_bell(&host->context->device))
		return 0;
	give_up(host);
	return 1;
}

void device_drain(struct host_state *host, struct host_peer *peer)
{
	uint64_t start = clock_nanoseconds(CLOCK_MONOTONIC);

	while (peer->device_moving) {
		if (take_completions(host))
			continue;
		if (!device_ring_bell(&host->context->device) ||
		    clock_nanoseconds(CLOCK_MONOTONIC) - start > DRAIN_NANOSECONDS) {
			give_up(host);
			return;
		}
		sched_yield();
	}
}
