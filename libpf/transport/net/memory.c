/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "atomic.h"
#include "clock.h"
#include "context.h"
#include "fault/pager.h"
#include "probe.h"

/* A range being resolved for the core, then what became of it. */
struct resolved {
	struct resolution resolution;
	struct engine *engine;
	struct resolved *next;
	struct net_token token;
	uint64_t end; /* of the block: what is bad behind it is not its own */
	uint64_t detected;
};

/* Any thread. */
static void done(struct resolution *resolution)
{
	struct resolved *resolved = (struct resolved *)resolution;
	struct engine *engine = resolved->engine;
	uint64_t one = 1;

	resolved->next = atomic_load_explicit(&engine->resolved, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&engine->resolved, &resolved->next, resolved,
						      memory_order_seq_cst, memory_order_relaxed))
		;
	/* Whoever polls finds it; the service thread may be asleep. It can only fail when awake. */
	if (atomic_load_explicit(&engine->attended, memory_order_seq_cst) &&
	    write(engine->wake, &one, sizeof(one)) < 0)
		return;
}

/* The block, and more behind it as the policy has it. */
static int resolve(struct engine *engine, const struct net_wait *wait, struct window *window)
{
	pf_context *context = engine->context;
	uint64_t length = wait->length;
	struct resolved *resolved;

	/* Lack of memory here is waited out: it is not the application's fault. */
	while (!(resolved = malloc(sizeof(*resolved))))
		usleep(1000);
	if (wait->end > wait->address + wait->length) {
		length = policy_window((enum pf_policy)context->options.policy, window,
				       wait->address, wait->length, wait->end);
		if (length < wait->length)
			length = wait->length;
	}
	*resolved = (struct resolved){
		.resolution = { .address = wait->address,
				.length = length,
				.write = wait->write,
				.done = done },
		.engine = engine,
		.token = wait->token,
		.end = wait->address + wait->length,
		.detected = clock_nanoseconds(CLOCK_MONOTONIC),
	};
	statistic_add_elsewhere(&context->statistics, PF_STAT_LOCAL_FAULTS, 1);
	probe_fault(context, NULL, PF_SIDE_LOCAL, FAULT_MAJOR, wait->address);
	resolver_submit(engine->resolver, &resolved->resolution);
	return PF_ERR_AGAIN;
}

unsigned memory_tell(struct engine *engine)
{
	struct statistics *statistics = &engine->context->statistics;
	struct resolved *resolved;
	unsigned count = 0;

	if (!atomic_load_explicit(&engine->resolved, memory_order_relaxed))
		return 0;
	resolved = atomic_exchange_explicit(&engine->resolved, NULL, memory_order_acquire);
	while (resolved) {
		struct resolved *next = resolved->next;
		int status = resolved->resolution.status;

		if (status != PF_OK && resolved->resolution.failed >= resolved->end)
			status = PF_OK;
		statistic_fault(statistics, PF_SIDE_LOCAL, resolved->resolution.kind);
		if (status == PF_OK) {
			statistic_resolved(statistics,
					   clock_nanoseconds(CLOCK_MONOTONIC) - resolved->detected);
			statistic_add_elsewhere(statistics, PF_STAT_RETRANSMITS, 1);
		}
		net_resolved(engine->core, resolved->token, status, resolved->resolution.failed);
		free(resolved);
		resolved = next;
		count++;
	}
	return count;
}

void memory_forget(struct engine *engine)
{
	struct resolved *resolved = atomic_exchange(&engine->resolved, NULL);

	while (resolved) {
		struct resolved *next = resolved->next;

		free(resolved);
		resolved = next;
	}
}

static bool is_pagers(const struct engine *engine, uint64_t address)
{
	bool quick;

	return pager_owns(&engine->context->pagers, address, &quick);
}

/* Does the system read a byte of every page? If not, *bad is in the first that it does not. */
static bool readable(uint64_t address, uint64_t length, uint64_t *bad)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = address + length;
	struct iovec from[64];
	uint8_t bytes[64];
	struct iovec to = { bytes, sizeof(bytes) };
	unsigned long count;
	ssize_t moved;

	while (address < end) {
		for (count = 0; count < 64 && address + count * page < end; count++)
			from[count] = (struct iovec){ (void *)(uintptr_t)(address + count * page),
						      1 };
		moved = process_vm_readv(getpid(), &to, 1, from, count, 0);
		if (moved != (ssize_t)count) {
			*bad = address + (moved > 0 ? (uint64_t)moved : 0) * page;
			return false;
		}
		address = (address + count * page) & ~(page - 1);
	}
	return true;
}

int memory_source(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		  uint64_t *bad)
{
	struct engine *engine = user;

	if (policy_prepare(engine->context, address, length, false) < length)
		return resolve(engine, wait, &engine->source_window);
	if (__builtin_expect(!wait->suspect, 1))
		return PF_OK;
	if (readable(address, length, bad))
		return PF_OK;
	if (is_pagers(engine, *bad))
		return resolve(engine, wait, &engine->source_window);
	return PF_ERR_FAULT;
}

int memory_destination(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		       uint64_t *bad)
{
	struct engine *engine = user;

	(void)bad;
	if (policy_prepare(engine->context, address, length, true) < length)
		return resolve(engine, wait, &engine->destination_window);
	return PF_OK;
}

int memory_place(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		 uint32_t length, uint64_t *bad)
{
	struct iovec from = { (void *)(uintptr_t)data, length };
	struct iovec to = { (void *)(uintptr_t)address, length };
	struct engine *engine = user;
	ssize_t moved;

	/* By the kernel, for whom a bad address is an error and not a signal. */
	moved = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	if (moved == (ssize_t)length)
		return PF_OK;
	*bad = address + (moved > 0 ? (uint64_t)moved : 0);
	if (is_pagers(engine, *bad))
		return resolve(engine, wait, &engine->destination_window);
	return PF_ERR_FAULT;
}

int memory_fetch(void *user, const struct net_wait *wait, uint64_t address, void *bytes,
		 uint32_t length, uint64_t *bad)
{
	struct iovec from = { (void *)(uintptr_t)address, length };
	struct iovec to = { bytes, length };
	struct engine *engine = user;
	ssize_t moved;

	moved = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	if (moved == (ssize_t)length)
		return PF_OK;
	*bad = address + (moved > 0 ? (uint64_t)moved : 0);
	if (is_pagers(engine, *bad))
		return resolve(engine, wait, &engine->source_window);
	return PF_ERR_FAULT;
}

int memory_atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		  uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad)
{
	const struct message_atomic message = { .address = wait->address,
						.operand = operand,
						.compare = compare,
						.op = (uint8_t)op,
						.width = (uint8_t)width };
	struct engine *engine = user;
	int status;

	if (!atomic_valid(op, width, wait->address))
		return PF_ERR_ARGUMENT;
	if ((is_pagers(engine, wait->address) && !readable(wait->address, width, bad)) ||
	    policy_prepare(engine->context, wait->address, width, true) < width)
		return resolve(engine, wait, &engine->destination_window);
	status = atomic_execute(&message, value);
	if (status == PF_ERR_FAULT)
		*bad = *value;
	return status;
}
