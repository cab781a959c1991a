/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"

#include <errno.h>
#include <stdlib.h>

#include "base/probe.h"
#include "common/context.h"

void nodes_init(struct nodes *nodes, struct device *device, struct statistics *statistics)
{
	nodes->statistics = statistics;
	if (device->node)
		nodes->device = device;
	pthread_mutex_init(&nodes->lock, NULL);
	TAILQ_INIT(&nodes->posted);
}

void nodes_destroy(struct nodes *nodes)
{
	pthread_mutex_destroy(&nodes->lock);
}

void node_describe_transfer(struct node_operation *operation, uint64_t engine, uint64_t local,
			    uint64_t remote, uint64_t length)
{
	operation->submission = (struct exanest_submission){
		.peer = engine,
		.local = local,
		.remote = remote,
		.length = length,
		.op = operation->operation.kind == OPERATION_PUT ? EXANEST_OP_PUT : EXANEST_OP_GET,
	};
}

void node_describe_atomic(struct node_operation *operation, uint64_t engine, enum pf_atomic_op op,
			  unsigned width, uint64_t remote, uint64_t operand, uint64_t compare)
{
	operation->submission = (struct exanest_submission){
		.peer = engine,
		.remote = remote,
		.length = width,
		.operand = operand,
		.compare = op == PF_COMPARE_SWAP ? compare : 0,
		.op = EXANEST_OP_ATOMIC,
		.atomic = device_atomic_op(op),
	};
}

void node_post(struct nodes *nodes, struct node_operation *operation)
{
	pthread_mutex_lock(&nodes->lock);
	TAILQ_INSERT_TAIL(&nodes->posted, operation, link);
	atomic_store_explicit(&nodes->waiting, true, memory_order_relaxed);
	pthread_mutex_unlock(&nodes->lock);
}

static void node_operation_finish(struct node_operation *operation, int status, uint64_t value)
{
	pf_context *context = operation->operation.peer->context;

	operation->operation.completion.status = status;
	operation->operation.completion.value = value;
	operation_finish(&context->operations, &operation->operation);
	free(operation);
}

static void node_operation_moved(struct node_operation *operation)
{
	const struct exanest_submission *submission = &operation->submission;
	pf_peer *peer = operation->operation.peer;
	pf_context *context = peer->context;

	statistic_add(&context->statistics, PF_STAT_DEVICE_BYTES, submission->length);
	record_moved(context->trace, operation->started, &operation->operation,
		     submission->op == EXANEST_OP_PUT, submission->local, submission->remote,
		     submission->length, peer->id);
}

/*
 * The engine did not do it, or not all of it. A put or get may be done again by packets, which
 * also resolve page faults that only the owner can, and tell its errors. An atomic may not, if it
 * may have been executed.
 */
static void node_request_done(struct device_request *request,
			      const struct exanest_completion *completion)
{
	struct node_operation *operation = DEVICE_REQUEST_OF(struct node_operation, request);
	bool atomic = operation->operation.kind == OPERATION_ATOMIC;
	int status;

	switch (completion->status) {
	case 0:
		if (!atomic)
			node_operation_moved(operation);
		node_operation_finish(operation, PF_OK, completion->value);
		return;
	case -ENOMEM:
		node_operation_finish(operation, PF_ERR_MEMORY, 0);
		return;
	case -ECONNRESET:
	case -EIO:
		if (atomic) {
			node_operation_finish(operation, PF_ERR_SYSTEM, 0);
			return;
		}
		break;
	}
	status = operation->again(operation, completion->status == -EHOSTUNREACH);
	if (status != PF_OK)
		node_operation_finish(operation, status, 0);
}

static struct node_operation *posted_take(struct nodes *nodes)
{
	struct node_operation *operation;

	pthread_mutex_lock(&nodes->lock);
	operation = TAILQ_FIRST(&nodes->posted);
	if (operation)
		TAILQ_REMOVE(&nodes->posted, operation, link);
	else
		atomic_store_explicit(&nodes->waiting, false, memory_order_relaxed);
	pthread_mutex_unlock(&nodes->lock);
	return operation;
}

static void posted_put_back(struct nodes *nodes, struct node_operation *operation)
{
	pthread_mutex_lock(&nodes->lock);
	TAILQ_INSERT_HEAD(&nodes->posted, operation, link);
	pthread_mutex_unlock(&nodes->lock);
}

/* False: the ring is full. */
static bool node_submit(struct nodes *nodes, struct node_operation *operation)
{
	static const struct exanest_completion lost = { .status = -EHOSTUNREACH };

	operation->request.done = node_request_done;
	operation->started = trace_time(operation->operation.peer->context->trace);
	if (device_submit(nodes->device, &operation->request, &operation->submission))
		return true;
	if (device_node_address(nodes->device))
		return false;
	/* The device failed meanwhile. */
	node_request_done(&operation->request, &lost);
	return true;
}

int nodes_advance(struct nodes *nodes)
{
	struct node_operation *operation;
	int count = device_poll(nodes->device, nodes->statistics);

	while (nodes_wait(nodes)) {
		operation = posted_take(nodes);
		if (!operation)
			break;
		if (!node_submit(nodes, operation)) {
			posted_put_back(nodes, operation);
			break;
		}
		count++;
	}
	return count + device_ring_bell(nodes->device);
}
