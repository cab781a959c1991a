// SPDX-License-Identifier: GPL-2.0
#include "engine.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "../registers.h"
#include "command.h"
#include "core.h"
#include "queue.h"
#include "submission.h"

#define QUEUE_ENTRIES 4096u
#define TIMEOUT_MAX_US 10000000u
#define COMMAND_TIME_US 1000000u /* a program on a busy machine may not run for that long */

_Static_assert(PACKET_MAX <= ENGINE_PACKET_MAX, "a packet fits into the caller's buffer");

struct engine {
	struct memory memory;
	uint8_t *registers;
	uint32_t state; /* enum exanest_register_status */
	uint32_t interrupts;
	uint64_t index_base;
	struct queue commands, submissions, completions, faults;
	uint64_t transfers, faults_local, faults_remote, raised; /* counters */
	struct core *core;                                       /* NULL: not READY */
};

/* ---- registers ---- */

static uint32_t get32(const struct engine *engine, unsigned int offset)
{
	const uint32_t *place = (const void *)(engine->registers + offset);

	return le32toh(__atomic_load_n(place, __ATOMIC_ACQUIRE));
}

static uint64_t get64(const struct engine *engine, unsigned int offset)
{
	const uint64_t *place = (const void *)(engine->registers + offset);

	return le64toh(__atomic_load_n(place, __ATOMIC_ACQUIRE));
}

static void set32(struct engine *engine, unsigned int offset, uint32_t value)
{
	uint32_t *place = (void *)(engine->registers + offset);

	__atomic_store_n(place, htole32(value), __ATOMIC_RELEASE);
}

static void set64(struct engine *engine, unsigned int offset, uint64_t value)
{
	uint64_t *place = (void *)(engine->registers + offset);

	__atomic_store_n(place, htole64(value), __ATOMIC_RELEASE);
}

static void raise_vector(struct engine *engine, unsigned int vector)
{
	/* The index is visible before IRQ_ENABLE is read: the driver does it the other way round. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!(get32(engine, EXANEST_REG_IRQ_ENABLE) >> vector & 1))
		return;
	engine->raised++;
	engine->interrupts |= 1u << vector;
}

static void set_state(struct engine *engine, uint32_t state)
{
	engine->state = state;
	set32(engine, EXANEST_REG_STATUS, state);
	raise_vector(engine, EXANEST_VECTOR_STATUS);
}

static void stop(struct engine *engine)
{
	if (engine->core)
		core_stop(engine->core);
	free(engine->core);
	engine->core = NULL;
}

static void fail(struct engine *engine, uint32_t error, uint64_t detail)
{
	if (engine->state == EXANEST_ENGINE_FAILED)
		return;
	stop(engine);
	set32(engine, EXANEST_REG_ERROR, error);
	set64(engine, EXANEST_REG_ERROR_DETAIL, detail);
	set_state(engine, EXANEST_ENGINE_FAILED);
}

static void set_counters(struct engine *engine)
{
	const struct core *core = engine->core;
	const uint64_t values[EXANEST_ENGINE_COUNTERS] = {
		[EXANEST_COUNTER_TRANSFERS] = engine->transfers,
		[EXANEST_COUNTER_BYTES] = core->initiator.bytes,
		[EXANEST_COUNTER_BLOCKS_DONE] = core->initiator.blocks_done,
		[EXANEST_COUNTER_BLOCKS_AGAIN] = core->initiator.blocks_again,
		[EXANEST_COUNTER_PACKETS_SENT] = core->packets_sent,
		[EXANEST_COUNTER_PACKETS_RECEIVED] = core->packets_received,
		[EXANEST_COUNTER_PACKETS_DROPPED] = core->packets_dropped,
		[EXANEST_COUNTER_PACKETS_DENIED] = core->target.denied,
		[EXANEST_COUNTER_TIMEOUTS] = core->initiator.timeouts,
		[EXANEST_COUNTER_FAULTS_LOCAL] = engine->faults_local,
		[EXANEST_COUNTER_FAULTS_REMOTE] = engine->faults_remote,
		[EXANEST_COUNTER_RESUMES] = core->resumes,
		[EXANEST_COUNTER_REJECTS] = core->rejects,
		[EXANEST_COUNTER_INVALIDATIONS] = core->invalidations,
		[EXANEST_COUNTER_CACHE_HITS] = core->translation.hits,
		[EXANEST_COUNTER_CACHE_MISSES] = core->translation.misses,
		[EXANEST_COUNTER_ATOMICS_DONE] = core->target.atomics,
		[EXANEST_COUNTER_INTERRUPTS] = engine->raised,
	};
	unsigned int i;

	for (i = 0; i < EXANEST_ENGINE_COUNTERS; i++)
		set64(engine, EXANEST_REG_COUNTERS + 8 * i, values[i]);
}

/* ---- enabling ---- */

/* Each register of the configuration and what it may be, in the order of engine.md. */
static uint32_t bad_register(const struct engine *engine, const struct core_configuration *c,
			     uint64_t timeout)
{
	const struct {
		unsigned int offset;
		const struct queue *queue;
	} queues[] = {
		{ EXANEST_REG_COMMAND_BASE, &engine->commands },
		{ EXANEST_REG_SUBMISSION_BASE, &engine->submissions },
		{ EXANEST_REG_COMPLETION_BASE, &engine->completions },
		{ EXANEST_REG_FAULT_BASE, &engine->faults },
	};
	const uint64_t limit = 1ull << TRANSLATION_PHYSICAL_BITS;
	const struct queue *queue;
	unsigned int i;

	if (!c->node || c->node > 65535)
		return EXANEST_REG_NODE;
	if (c->payload < GRANULE || c->payload > PACKET_PAYLOAD || c->payload & (c->payload - 1))
		return EXANEST_REG_LINK_PAYLOAD;
	if (!timeout || timeout > TIMEOUT_MAX_US)
		return EXANEST_REG_LINK_TIMEOUT;
	if (!c->retries || c->retries > 255)
		return EXANEST_REG_LINK_RETRIES;
	if (!c->incarnation)
		return EXANEST_REG_INCARNATION;
	if (engine->index_base % 64 ||
	    engine->index_base > limit - sizeof(struct exanest_engine_indices))
		return EXANEST_REG_INDEX_BASE;
	for (i = 0; i < 4; i++) {
		queue = queues[i].queue;
		if (queue->base % 64 || queue->base > limit - (uint64_t)QUEUE_ENTRIES * queue->size)
			return queues[i].offset;
		if (queue->entries < 2 || queue->entries > QUEUE_ENTRIES ||
		    queue->entries & (queue->entries - 1))
			return queues[i].offset + 8;
	}
	return 0;
}

static struct queue get_queue(const struct engine *engine, unsigned int offset, uint32_t size)
{
	return (struct queue){
		.base = get64(engine, offset),
		.entries = get32(engine, offset + 8),
		.size = size,
	};
}

static void enable(struct engine *engine)
{
	static const struct exanest_engine_indices zeros;
	const struct core_configuration configuration = {
		.node = get32(engine, EXANEST_REG_NODE),
		.payload = get32(engine, EXANEST_REG_LINK_PAYLOAD),
		.retries = get32(engine, EXANEST_REG_LINK_RETRIES),
		.timeout = get32(engine, EXANEST_REG_LINK_TIMEOUT) * 1000ull,
		.incarnation = get64(engine, EXANEST_REG_INCARNATION),
	};
	uint32_t bad;

	engine->index_base = get64(engine, EXANEST_REG_INDEX_BASE);
	engine->commands = get_queue(engine, EXANEST_REG_COMMAND_BASE,
				     sizeof(struct exanest_engine_command));
	engine->submissions = get_queue(engine, EXANEST_REG_SUBMISSION_BASE,
					sizeof(struct exanest_engine_submission));
	engine->completions = get_queue(engine, EXANEST_REG_COMPLETION_BASE,
					sizeof(struct exanest_engine_completion));
	engine->faults = get_queue(engine, EXANEST_REG_FAULT_BASE,
				   sizeof(struct exanest_engine_fault));
	engine->transfers = engine->faults_local = engine->faults_remote = engine->raised = 0;
	bad = bad_register(engine, &configuration, configuration.timeout / 1000);
	if (bad) {
		fail(engine, EXANEST_ERROR_CONFIGURATION, bad);
		return;
	}
	if (!engine->memory.write(engine->memory.context, engine->index_base, &zeros,
				  sizeof(zeros))) {
		fail(engine, EXANEST_ERROR_MEMORY, engine->index_base);
		return;
	}
	engine->core = calloc(1, sizeof(*engine->core));
	if (!engine->core || !core_start(engine->core, &engine->memory, &configuration)) {
		fail(engine, EXANEST_ERROR_INTERNAL, 0);
		return;
	}
	set_counters(engine);
	set_state(engine, EXANEST_ENGINE_READY);
}

static void reset(struct engine *engine)
{
	stop(engine);
	set32(engine, EXANEST_REG_ERROR, EXANEST_ERROR_NONE);
	set64(engine, EXANEST_REG_ERROR_DETAIL, 0);
	set_state(engine, EXANEST_ENGINE_DISABLED);
}

static void doorbell_control(struct engine *engine)
{
	uint32_t control = get32(engine, EXANEST_REG_CONTROL);

	if (control > 1)
		fail(engine, EXANEST_ERROR_CONFIGURATION, EXANEST_REG_CONTROL);
	else if (control && engine->state == EXANEST_ENGINE_DISABLED)
		enable(engine);
	else if (!control && engine->state != EXANEST_ENGINE_DISABLED)
		reset(engine);
}

/* ---- queues ---- */

static bool read_entry(struct engine *engine, const struct queue *queue, void *entry)
{
	uint64_t address = queue_address(queue, queue->consumer);

	if (engine->memory.read(engine->memory.context, address, entry, queue->size))
		return true;
	fail(engine, EXANEST_ERROR_MEMORY, address);
	return false;
}

static bool write_at(struct engine *engine, uint64_t address, const void *bytes, size_t length)
{
	if (engine->memory.write(engine->memory.context, address, bytes, length))
		return true;
	fail(engine, EXANEST_ERROR_MEMORY, address);
	return false;
}

static bool write_index(struct engine *engine, size_t offset, uint32_t index)
{
	uint32_t bytes = htole32(index);

	return write_at(engine, engine->index_base + offset, &bytes, sizeof(bytes));
}

static bool add_entry(struct engine *engine, struct queue *queue, const void *entry,
		      size_t index_offset)
{
	return write_at(engine, queue_address(queue, queue->producer), entry, queue->size) &&
	       write_index(engine, index_offset, ++queue->producer);
}

static bool post(struct engine *engine, const struct exanest_engine_completion *completion)
{
	engine->transfers++;
	return add_entry(engine, &engine->completions, completion,
			 offsetof(struct exanest_engine_indices, completion_producer));
}

static void run_commands(struct engine *engine, uint64_t now)
{
	struct exanest_engine_command entry;
	bool any = false;
	uint32_t status;

	while (queue_used(&engine->commands)) {
		if (!read_entry(engine, &engine->commands, &entry))
			return;
		status = htole32(command_execute(engine->core, &entry, now));
		if (!write_at(engine,
			      queue_address(&engine->commands, engine->commands.consumer) +
				      offsetof(struct exanest_engine_command, status),
			      &status, sizeof(status)) ||
		    !write_index(engine, offsetof(struct exanest_engine_indices, command_consumer),
				 ++engine->commands.consumer))
			return;
		any = true;
	}
	if (any)
		raise_vector(engine, EXANEST_VECTOR_COMMAND);
}

/* Take submissions while their completions have room. true: completions were posted. */
static bool take_submissions(struct engine *engine)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_submission entry;
	struct submission submission;
	bool posted = false;
	struct peer *peer;
	uint32_t status;

	while (queue_used(&engine->submissions) && engine->core->initiator.open < TRANSFERS &&
	       queue_used(&engine->completions) + engine->core->initiator.open <
		       engine->completions.entries) {
		if (!read_entry(engine, &engine->submissions, &entry))
			return posted;
		status = submission_check(engine->core, &entry, &submission, &peer);
		if (!write_index(engine,
				 offsetof(struct exanest_engine_indices, submission_consumer),
				 ++engine->submissions.consumer))
			return posted;
		if (status == EXANEST_STATUS_OK && peer) {
			initiator_submit(&engine->core->initiator, &submission, peer);
			continue;
		}
		completion = (struct exanest_engine_completion){ .tag = entry.tag,
								 .status = htole32(status) };
		if (!post(engine, &completion))
			return posted;
		posted = true;
	}
	return posted;
}

static bool post_ended(struct engine *engine)
{
	struct exanest_engine_completion completion;
	struct transfer *transfer;
	bool posted = false;

	while ((transfer = initiator_ended(&engine->core->initiator))) {
		completion = (struct exanest_engine_completion){
			.tag = htole64(transfer->submission.tag),
			.value = htole64(transfer->status ? 0 : transfer->value),
			.address = htole64(transfer->address),
			.status = htole32(transfer->status),
			.side = htole32(transfer->side),
		};
		initiator_release(&engine->core->initiator, transfer);
		if (!post(engine, &completion))
			return posted;
		posted = true;
	}
	return posted;
}

static void report_faults(struct engine *engine)
{
	struct faults *faults = &engine->core->faults;
	struct exanest_engine_fault entry;
	bool any = false;
	struct fault *fault;

	while ((fault = TAILQ_FIRST(&faults->unreported)) &&
	       queue_used(&engine->faults) < engine->faults.entries) {
		TAILQ_REMOVE(&faults->unreported, fault, link);
		fault->unreported = false;
		entry = (struct exanest_engine_fault){
			.fault = htole64(fault->number),
			.address = htole64(fault->address),
			.length = htole32(fault->length),
			.flags = htole32(fault->flags),
			.space = htole32(fault->space),
			.generation = htole32(fault->generation),
			.node = htole32(fault->node),
			.ahead = htole32(fault->ahead),
			.tag = htole64(fault->tag),
			.block = htole64(fault->block),
			.request = htole64(fault->request),
		};
		if (fault->flags & EXANEST_ENGINE_FAULT_REMOTE)
			engine->faults_remote++;
		else
			engine->faults_local++;
		if (!add_entry(engine, &engine->faults, &entry,
			       offsetof(struct exanest_engine_indices, fault_producer)))
			return;
		any = true;
	}
	if (any)
		raise_vector(engine, EXANEST_VECTOR_FAULT);
}

/* What follows from whatever happened. */
static void settle(struct engine *engine, uint64_t now)
{
	bool posted = false;

	if (engine->core)
		posted |= post_ended(engine);
	if (engine->core)
		posted |= take_submissions(engine);
	if (engine->core)
		initiator_cut(&engine->core->initiator, now);
	if (engine->core)
		report_faults(engine);
	if (!engine->core)
		return;
	if (posted)
		raise_vector(engine, EXANEST_VECTOR_COMPLETION);
	set_counters(engine);
}

/* ---- the interface ---- */

static void doorbell_command(struct engine *engine, uint64_t now)
{
	if (!queue_produced(&engine->commands, get32(engine, EXANEST_REG_COMMAND_PRODUCER)))
		fail(engine, EXANEST_ERROR_INDEX, EXANEST_REG_COMMAND_PRODUCER);
	else
		run_commands(engine, now);
}

static void doorbell_submission(struct engine *engine)
{
	if (!queue_produced(&engine->submissions, get32(engine, EXANEST_REG_SUBMISSION_PRODUCER)))
		fail(engine, EXANEST_ERROR_INDEX, EXANEST_REG_SUBMISSION_PRODUCER);
	else if (!queue_consumed(&engine->completions,
				 get32(engine, EXANEST_REG_COMPLETION_CONSUMER)))
		fail(engine, EXANEST_ERROR_INDEX, EXANEST_REG_COMPLETION_CONSUMER);
}

void engine_doorbell(struct engine *engine, unsigned int number, uint64_t now)
{
	if (number == EXANEST_DOORBELL_CONTROL)
		doorbell_control(engine);
	else if (!engine->core)
		return;
	else if (number == EXANEST_DOORBELL_COMMAND)
		doorbell_command(engine, now);
	else if (number == EXANEST_DOORBELL_SUBMISSION)
		doorbell_submission(engine);
	else if (number == EXANEST_DOORBELL_FAULT &&
		 !queue_consumed(&engine->faults, get32(engine, EXANEST_REG_FAULT_CONSUMER)))
		fail(engine, EXANEST_ERROR_INDEX, EXANEST_REG_FAULT_CONSUMER);
	settle(engine, now);
}

void engine_receive(struct engine *engine, const void *packet, size_t length, uint64_t now)
{
	if (!engine->core)
		return;
	core_receive(engine->core, packet, length, now);
	settle(engine, now);
}

size_t engine_transmit(struct engine *engine, uint8_t packet[ENGINE_PACKET_MAX], uint32_t *node,
		       uint64_t now)
{
	size_t length;

	if (!engine->core)
		return 0;
	length = core_transmit(engine->core, packet, now);
	if (length) {
		memcpy(node, packet + 12, sizeof(*node));
		*node = le32toh(*node);
	}
	settle(engine, now);
	/* A packet of an engine that has just failed is not sent. */
	return engine->core ? length : 0;
}

bool engine_busy(const struct engine *engine)
{
	return engine->core && core_busy(engine->core);
}

uint64_t engine_expire(struct engine *engine, uint64_t now)
{
	uint64_t next;

	if (!engine->core)
		return UINT64_MAX;
	next = initiator_expire(&engine->core->initiator, now);
	settle(engine, now);
	return next;
}

uint32_t engine_interrupts(struct engine *engine)
{
	uint32_t interrupts = engine->interrupts;

	engine->interrupts = 0;
	return interrupts;
}

static void identify(struct engine *engine, uint32_t doorbell_base)
{
	set32(engine, EXANEST_REG_VERSION, EXANEST_VERSION);
	set64(engine, EXANEST_REG_FEATURES, EXANEST_ENGINE_ATOMICS | EXANEST_ENGINE_LARGE_PAGES);
	set32(engine, EXANEST_REG_BLOCK_SIZE, BLOCK_SIZE);
	set32(engine, EXANEST_REG_BLOCKS, BLOCK_SLOTS);
	set32(engine, EXANEST_REG_SPACES, SPACES);
	set32(engine, EXANEST_REG_PEERS, PEERS);
	set32(engine, EXANEST_REG_QUEUE_ENTRIES, QUEUE_ENTRIES);
	set32(engine, EXANEST_REG_TRANSFER_MAX, TRANSFER_MAX);
	set32(engine, EXANEST_REG_PAGE_SIZES, 1u << 12 | 1u << 14 | 1u << 16);
	set32(engine, EXANEST_REG_ADDRESS_BITS, TRANSLATION_ADDRESS_BITS);
	set32(engine, EXANEST_REG_PHYSICAL_BITS, TRANSLATION_PHYSICAL_BITS);
	set32(engine, EXANEST_REG_ATOMICS, 0x3f | 0x3f << 16);
	set32(engine, EXANEST_REG_DOORBELL_BASE, doorbell_base);
	set32(engine, EXANEST_REG_COMMAND_TIME, COMMAND_TIME_US);
	set32(engine, EXANEST_REG_TRANSFER_BLOCKS, TRANSFER_BLOCKS);
	/* Last: a driver may be looking. */
	set32(engine, EXANEST_REG_MAGIC, EXANEST_MAGIC);
}

struct engine *engine_create(const struct memory *memory, void *registers, uint32_t doorbell_base)
{
	struct engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return NULL;
	engine->memory = *memory;
	engine->registers = registers;
	memset(registers, 0, EXANEST_REGISTERS_SIZE);
	identify(engine, doorbell_base);
	return engine;
}

void engine_destroy(struct engine *engine)
{
	if (engine)
		stop(engine);
	free(engine);
}
