/* SPDX-License-Identifier: BSD-3-Clause */
#include "route_device.h"

#include <errno.h>
#include <sched.h>

#include "atomic.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/probe.h"
#include "block.h"
#include "route.h"
#include "turns.h"

/*
 * The driver completes transfers in flight to a dead peer much sooner; if not, the device is given
 * up.
 */
#define DRAIN_NANOSECONDS 1000000000

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

static void block_done(struct device_request *request, const struct exanest_completion *completion);
static void atomic_done(struct device_request *request,
			const struct exanest_completion *completion);

static bool device_submit_request(struct host_state *host, struct host_peer *peer,
				  struct device_request *request,
				  struct exanest_submission *submission)
{
	submission->peer = peer->engine;
	if (!device_submit(&host->context->device, request, submission))
		return false;
	peer->device_moving++;
	return true;
}

static enum advanced device_move(struct host_state *host, struct transfer *transfer)
{
	struct device *device = &host->context->device;
	struct block *block = block_ready(transfer);
	struct exanest_submission submission;

	assert_progress(host->context);
	if (device_full(device))
		return ADVANCED_BLOCKED;
	if (!block)
		block = block_of_run(transfer, device->transfer_max);
	if (!block)
		return ADVANCED_LITTLE;
	submission = (struct exanest_submission){
		.local = block_address(block, PF_SIDE_LOCAL),
		.remote = block_address(block, PF_SIDE_REMOTE),
		.length = block->length,
		.op = transfer_is_put(transfer) ? EXANEST_OP_PUT : EXANEST_OP_GET,
	};
	block->request.done = block_done;
	if (!device_submit_request(host, transfer_peer(transfer), &block->request, &submission))
		return ADVANCED_BLOCKED;
	block_set_state(block, BLOCK_MOVING);
	block->started = trace_time(host->context->trace);
	transfer->moving++;
	return ADVANCED_LITTLE;
}

static enum advanced move_atomic(struct host_state *host, struct atomic_operation *atomic)
{
	const struct atomic_request *request = &atomic->message.request;
	struct exanest_submission submission = {
		.remote = request->address,
		.length = request->width,
		.operand = request->operand,
		.compare = request->op == PF_ATOMIC_COMPARE_SWAP ? request->compare : 0,
		.op = EXANEST_OP_ATOMIC,
		.atomic = device_atomic_op(request->op),
	};

	assert_progress(host->context);
	atomic->request.done = atomic_done;
	if (!device_submit_request(host, atomic_peer(atomic), &atomic->request, &submission))
		return ADVANCED_BLOCKED;
	atomic->sent = true;
	return ADVANCED_LITTLE;
}

static enum advanced move_nothing(struct host_state *host, struct transfer *transfer)
{
	(void)host;
	transfer_fail(transfer, PF_ERR_UNREACHABLE);
	return ADVANCED_LITTLE;
}

const struct route route_device = { .move = device_move, .atomic = move_atomic };
const struct route route_none = { .move = move_nothing };

/*
 * The driver could not make a page present. The process that owns the page may be able to: a
 * program with a userfaultfd of its own supplies a page when a thread of the program touches the
 * page. The owner is asked, as for any other fault, and the parts before and behind go on.
 */
static void block_refused(struct host_state *host, struct block *block, enum pf_side side,
			  uint64_t address)
{
	struct transfer *transfer = block->transfer;
	uint64_t front = address - block_address(block, side),
		 size = host->context->options.block_size;

	if (side == PF_SIDE_NONE || front >= block->length) {
		block_fail(block, side, address);
		block_free(block);
		return;
	}
	if ((front && !block_new(transfer, block->piece, block->offset, front)) ||
	    (block->length - front > size &&
	     !block_new(transfer, block->piece, block->offset + front + size,
			block->length - front - size))) {
		block_free(block);
		return;
	}
	block->offset += front;
	block->length = block->length - front > size ? size : block->length - front;
	block_fault(host, block, side, address, FAULT_PERMISSION);
}

/* The pages were evicted again and again: retransmit once more? */
static bool try_again(pf_context *context, int status, unsigned *retries)
{
	if (status != -EBUSY || (*retries)++ >= context->options.fault_retries)
		return false;
	statistic_add(&context->statistics, PF_STAT_RETRANSMITS, 1);
	return true;
}

static void block_done(struct device_request *request, const struct exanest_completion *completion)
{
	struct block *block = DEVICE_REQUEST_OF(struct block, request);
	struct transfer *transfer = block->transfer;
	struct host_peer *peer = transfer_peer(transfer);
	pf_context *context = peer->peer.context;
	struct host_state *host = context->host;

	transfer->moving--;
	peer->device_moving--;
	operation_wake(&transfer->operation);
	switch (completion->status) {
	case 0:
		block_moved(block, PF_STAT_DEVICE_BYTES);
		return;
	case -EHOSTUNREACH:
	case -ECONNRESET:
		/* If the peer's process is gone, the connection reports the end soon. */
		host_peer_lose_device(peer);
		block_set_ready(block);
		return;
	case -EIO:
		/* The engine is given up; another route moves the block. */
		block_set_ready(block);
		return;
	case -EFAULT:
		block_refused(host, block, side_of(completion), completion->fault_address);
		return;
	case -EBUSY:
	case -ETIMEDOUT:
		if (try_again(context, completion->status, &block->retries)) {
			block_set_ready(block);
			return;
		}
		block_fail(block, side_of(completion), completion->fault_address);
		break;
	case -ENOMEM:
		transfer_fail(transfer, PF_ERR_MEMORY);
		break;
	default:
		transfer_fail(transfer, PF_ERR_SYSTEM);
	}
	block_free(block);
}

static void atomic_done(struct device_request *request, const struct exanest_completion *completion)
{
	struct atomic_operation *atomic = DEVICE_REQUEST_OF(struct atomic_operation, request);
	struct host_peer *peer = atomic_peer(atomic);
	pf_context *context = peer->peer.context;

	peer->device_moving--;
	operation_wake(&atomic->operation);
	switch (completion->status) {
	case 0:
		atomic_answered(atomic, PF_OK, completion->value);
		return;
	case -EHOSTUNREACH:
		/* The atomic was not begun. */
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

void device_lost(void *arg)
{
	struct host_state *host = arg;
	pf_context *context = host->context;
	pf_peer *peer;

	assert_progress(context);
	peers_lock(&context->peers);
	for (peer = NULL; (peer = peers_next(&context->peers, peer));) {
		if (peer->transport == &transport_host)
			host_peer_lose_device((struct host_peer *)peer);
	}
	peers_unlock(&context->peers);
}

void device_drain(struct host_state *host, struct host_peer *peer)
{
	struct device *device = &host->context->device;
	uint64_t start = clock_nanoseconds(CLOCK_MONOTONIC);

	assert_progress(host->context);
	while (peer->device_moving) {
		if (device_poll(device, &host->context->statistics) || device_ring_bell(device))
			continue;
		if (clock_nanoseconds(CLOCK_MONOTONIC) - start > DRAIN_NANOSECONDS)
			device_fail(device);
		sched_yield();
	}
}
