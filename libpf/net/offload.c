/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/probe.h"
#include "common/context.h"

void offloads_init(struct offloads *offloads, struct device *device, struct statistics *statistics)
{
	offloads->statistics = statistics;
	if (device->node)
		offloads->device = device;
	pthread_mutex_init(&offloads->lock, NULL);
	TAILQ_INIT(&offloads->posted);
}

void offloads_destroy(struct offloads *offloads)
{
	pthread_mutex_destroy(&offloads->lock);
}

void offload_describe_transfer(struct offload *offload, uint64_t engine, uint64_t local,
			       uint64_t remote, uint64_t length)
{
	offload->submission = (struct exanest_submission){
		.peer = engine,
		.local = local,
		.remote = remote,
		.length = length,
		.op = offload->operation.kind == OPERATION_PUT ? EXANEST_OP_PUT : EXANEST_OP_GET,
	};
}

void offload_describe_atomic(struct offload *offload, uint64_t engine, enum pf_atomic_op op,
			     unsigned width, uint64_t remote, uint64_t operand, uint64_t compare)
{
	offload->submission = (struct exanest_submission){
		.peer = engine,
		.remote = remote,
		.length = width,
		.operand = operand,
		.compare = op == PF_ATOMIC_COMPARE_SWAP ? compare : 0,
		.op = EXANEST_OP_ATOMIC,
		.atomic = device_atomic_op(op),
	};
}

void offload_post(struct offloads *offloads, struct offload *offload)
{
	pthread_mutex_lock(&offloads->lock);
	TAILQ_INSERT_TAIL(&offloads->posted, offload, link);
	atomic_store_explicit(&offloads->waiting, true, memory_order_relaxed);
	pthread_mutex_unlock(&offloads->lock);
}

static void offload_finish(struct offload *offload, int status, uint64_t value)
{
	pf_context *context = offload->operation.peer->context;

	assert_progress(context);
	offload->operation.completion.status = status;
	offload->operation.completion.value = value;
	operation_finish(&context->operations, &offload->operation);
	free(offload);
}

static void offload_moved(struct offload *offload)
{
	const struct exanest_submission *submission = &offload->submission;
	pf_peer *peer = offload->operation.peer;
	pf_context *context = peer->context;

	assert_progress(context);
	statistic_add(&context->statistics, PF_STAT_DEVICE_BYTES, submission->length);
	record_moved(context->trace, offload->started, &offload->operation,
		     submission->op == EXANEST_OP_PUT, submission->local, submission->remote,
		     submission->length, peer->id);
}

/*
 * Handle a completion. After a failure of the engine, packets can repeat a put or get, resolve page
 * faults that only the owner can resolve, and report errors. An atomic is not repeated if it may
 * have been executed.
 */
static void offload_request_done(struct device_request *request,
				 const struct exanest_completion *completion)
{
	struct offload *offload = DEVICE_REQUEST_OF(struct offload, request);
	bool atomic = offload->operation.kind == OPERATION_ATOMIC;
	int status;

	assert_progress(offload->operation.peer->context);
	switch (completion->status) {
	case 0:
		if (!atomic)
			offload_moved(offload);
		offload_finish(offload, PF_OK, completion->value);
		return;
	case -ENOMEM:
		offload_finish(offload, PF_ERR_MEMORY, 0);
		return;
	case -ECONNRESET:
	case -EIO:
		if (atomic) {
			offload_finish(offload, PF_ERR_SYSTEM, 0);
			return;
		}
		break;
	}
	status = offload->again(offload, completion->status == -EHOSTUNREACH);
	if (status < 0)
		offload_finish(offload, status, 0);
}

static struct offload *posted_take(struct offloads *offloads)
{
	struct offload *offload;

	pthread_mutex_lock(&offloads->lock);
	offload = TAILQ_FIRST(&offloads->posted);
	if (offload)
		TAILQ_REMOVE(&offloads->posted, offload, link);
	else
		atomic_store_explicit(&offloads->waiting, false, memory_order_relaxed);
	pthread_mutex_unlock(&offloads->lock);
	return offload;
}

static void posted_put_back(struct offloads *offloads, struct offload *offload)
{
	pthread_mutex_lock(&offloads->lock);
	TAILQ_INSERT_HEAD(&offloads->posted, offload, link);
	pthread_mutex_unlock(&offloads->lock);
}

/* Return false if the ring is full. */
static bool offload_submit(struct offloads *offloads, struct offload *offload)
{
	static const struct exanest_completion lost = { .status = -EHOSTUNREACH };

	assert_progress(offload->operation.peer->context);
	offload->request.done = offload_request_done;
	offload->started = trace_time(offload->operation.peer->context->trace);
	if (device_submit(offloads->device, &offload->request, &offload->submission))
		return true;
	if (device_node_address(offloads->device))
		return false;
	/* The device failed meanwhile. */
	offload_request_done(&offload->request, &lost);
	return true;
}

int offloads_advance(struct offloads *offloads)
{
	struct offload *offload;
	int count;

	assert_progress(offloads->device->pagers->context);
	count = device_poll(offloads->device, offloads->statistics);
	while (offloads_wait(offloads)) {
		offload = posted_take(offloads);
		if (!offload)
			break;
		if (!offload_submit(offloads, offload)) {
			posted_put_back(offloads, offload);
			break;
		}
		count++;
	}
	return count + device_ring_bell(offloads->device);
}
