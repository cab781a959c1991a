// SPDX-License-Identifier: GPL-2.0
/* Registers, queues and commands: sections 3 to 7 of engine.md; and the adapter of the suite. */
#include <stdlib.h>
#include <string.h>

#include "../conformance/adapter.h"
#include "engine.h"

#define ALIGNMENT 65536 /* of the memory of a node */

static u32 get32(const struct engine *e, enum reg offset)
{
	u32 value;

	memcpy(&value, e->registers + offset, sizeof(value));
	return value;
}

static u64 get64(const struct engine *e, enum reg offset)
{
	u64 value;

	memcpy(&value, e->registers + offset, sizeof(value));
	return value;
}

static void set32(struct engine *e, enum reg offset, u32 value)
{
	memcpy(e->registers + offset, &value, sizeof(value));
}

static void set64(struct engine *e, enum reg offset, u64 value)
{
	memcpy(e->registers + offset, &value, sizeof(value));
}

void count(struct engine *e, enum reg counter, u64 n)
{
	set64(e, counter, get64(e, counter) + n);
}

bool is_ready(const struct engine *e)
{
	return get32(e, REG_STATUS) == ENGINE_READY;
}

bool has_failed(const struct engine *e)
{
	return get32(e, REG_STATUS) == ENGINE_FAILED;
}

/* ---- State ---- */

/* Raise the vectors that are due. */
static void raise_vectors(struct engine *e)
{
	for (unsigned int vector = VECTOR_STATUS; vector <= VECTOR_COMMAND; vector++) {
		if (!(e->due >> vector & 1))
			continue;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!(get32(e, REG_IRQ_ENABLE) >> vector & 1))
			continue;
		count(e, REG_INTERRUPTS, 1);
		e->raised |= 1u << vector;
	}
	e->due = 0;
}

static void fail(struct engine *e, enum engine_error error, u64 detail)
{
	if (has_failed(e))
		return;
	set32(e, REG_ERROR, error);
	set64(e, REG_ERROR_DETAIL, detail);
	set32(e, REG_STATUS, ENGINE_FAILED);
	e->due = 1u << VECTOR_STATUS;
}

static void forget_all(struct engine *e)
{
	memset(&e->due, 0, sizeof(*e) - offsetof(struct engine, due));
	TAILQ_INIT(&e->faults);
	TAILQ_INIT(&e->remote_senders);
	TAILQ_INIT(&e->local_senders);
	TAILQ_INIT(&e->uncut);
	for (unsigned int i = 0; i < 1 + PEERS; i++)
		init_peer(&e->peers[i]);
}

static void reset(struct engine *e)
{
	forget_all(e);
	set32(e, REG_ERROR, ERROR_NONE);
	set64(e, REG_ERROR_DETAIL, 0);
	set32(e, REG_STATUS, ENGINE_DISABLED);
	e->due = 1u << VECTOR_STATUS;
}

static bool is_power_of_two(u32 n)
{
	return n && !(n & (n - 1));
}

static bool is_base_allowed(u64 base, u64 size)
{
	return base % 64 == 0 && base < 1ull << PHYSICAL_BITS &&
	       size <= (1ull << PHYSICAL_BITS) - base;
}

/* Read the registers of a queue; returns the first one that is not allowed, or 0. */
static u32 configure_queue(struct engine *e, struct queue *q, u32 offset, u32 entry_size)
{
	bool allowed;

	q->base = get64(e, offset);
	q->entries = get32(e, offset + 8);
	q->entry_size = entry_size;
	allowed = is_power_of_two(q->entries) && q->entries >= 2 && q->entries <= QUEUE_ENTRIES;
	if (!is_base_allowed(q->base, allowed ? (u64)q->entries * entry_size : entry_size))
		return offset;
	return allowed ? 0 : offset + 8;
}

/* Read the configuration; returns the first register that is not allowed, or 0. */
static u32 configure(struct engine *e)
{
	u32 timeout = get32(e, REG_LINK_TIMEOUT);
	u32 bad;

	e->node = get32(e, REG_NODE);
	e->payload = get32(e, REG_LINK_PAYLOAD);
	e->timeout = timeout * 1000ull;
	e->retries = get32(e, REG_LINK_RETRIES);
	e->incarnation = get64(e, REG_INCARNATION);
	e->index_base = get64(e, REG_INDEX_BASE);
	if (e->node < 1 || e->node > 65535)
		return REG_NODE;
	if (!is_power_of_two(e->payload) || e->payload < 256 || e->payload > PACKET_PAYLOAD)
		return REG_LINK_PAYLOAD;
	if (timeout < 1 || timeout > 10000000)
		return REG_LINK_TIMEOUT;
	if (e->retries < 1 || e->retries > 255)
		return REG_LINK_RETRIES;
	if (!e->incarnation)
		return REG_INCARNATION;
	if (!is_base_allowed(e->index_base, INDEX_SIZE))
		return REG_INDEX_BASE;
	bad = configure_queue(e, &e->command, REG_COMMAND_BASE, sizeof(struct command));
	if (!bad)
		bad = configure_queue(e, &e->submission, REG_SUBMISSION_BASE,
				      sizeof(struct submission));
	if (!bad)
		bad = configure_queue(e, &e->completion, REG_COMPLETION_BASE,
				      sizeof(struct completion));
	if (!bad)
		bad = configure_queue(e, &e->fault, REG_FAULT_BASE, sizeof(struct fault_entry));
	return bad;
}

static void enable(struct engine *e)
{
	u32 bad;
	u8 *index;

	forget_all(e);
	bad = configure(e);
	if (bad) {
		fail(e, ERROR_CONFIGURATION, bad);
		return;
	}
	index = physical(e, e->index_base, INDEX_SIZE);
	if (!index) {
		fail(e, ERROR_MEMORY, e->index_base);
		return;
	}
	memset(index, 0, INDEX_SIZE);
	e->peers[0].set = true;
	e->peers[0].self = true;
	e->peers[0].node = e->node;
	for (u32 counter = REG_TRANSFERS; counter <= REG_INTERRUPTS; counter += 8)
		set64(e, counter, 0);
	set32(e, REG_STATUS, ENGINE_READY);
	e->due = 1u << VECTOR_STATUS;
}

static void run_control(struct engine *e)
{
	u32 control = get32(e, REG_CONTROL);
	u32 status = get32(e, REG_STATUS);

	if (control > 1)
		fail(e, ERROR_CONFIGURATION, REG_CONTROL);
	else if (control == 0 && status != ENGINE_DISABLED)
		reset(e);
	else if (control == 1 && status == ENGINE_DISABLED)
		enable(e);
}

/* ---- Queues ---- */

/* Return the entry of an index, or NULL after the engine failed. */
static void *get_entry(struct engine *e, const struct queue *q, u32 index)
{
	u64 address = q->base + (u64)(index & (q->entries - 1)) * q->entry_size;
	void *entry = physical(e, address, q->entry_size);

	if (!entry)
		fail(e, ERROR_MEMORY, address);
	return entry;
}

/* Make an index of the engine visible, after what was written before it. */
static void publish_index(struct engine *e, u32 offset, u32 value)
{
	u32 *index = physical(e, e->index_base + offset, sizeof(*index));

	if (index)
		__atomic_store_n(index, value, __ATOMIC_RELEASE);
	else
		fail(e, ERROR_MEMORY, e->index_base + offset);
}

/* Check a new value of the producer of a queue, which the driver writes. */
static bool is_producer_allowed(struct engine *e, const struct queue *q, u32 producer, u32 offset)
{
	u32 used = producer - q->consumer;

	if (used <= q->entries && used >= q->producer - q->consumer)
		return true;
	fail(e, ERROR_INDEX, offset);
	return false;
}

/* Check a new value of the consumer of a queue, which the driver writes. */
static bool is_consumer_allowed(struct engine *e, const struct queue *q, u32 consumer, u32 offset)
{
	if (consumer - q->consumer <= q->producer - q->consumer)
		return true;
	fail(e, ERROR_INDEX, offset);
	return false;
}

void post_completion(struct engine *e, const struct completion *completion)
{
	void *entry = get_entry(e, &e->completion, e->completion.producer);

	if (!entry)
		return;
	memcpy(entry, completion, sizeof(*completion));
	publish_index(e, INDEX_COMPLETION_PRODUCER, ++e->completion.producer);
	count(e, REG_TRANSFERS, 1);
	e->due |= 1u << VECTOR_COMPLETION;
}

/* ---- Faults ---- */

static void describe_block_fault(struct engine *e, const struct block *b, struct fault_entry *f)
{
	const struct submission *s = &b->transfer->submission;

	f->block = s->local + b->offset;
	f->length = f->block + b->length - f->address;
	f->flags = s->operation == OPERATION_GET ? FAULT_WRITE : 0;
	f->space = s->space;
	f->generation = e->spaces[s->space].generation;
	f->node = e->node;
	f->ahead = s->length - b->offset - b->length;
	f->tag = s->tag;
}

static void describe_record_fault(const struct record *r, struct fault_entry *f)
{
	f->block = r->request.address;
	f->length = f->block + r->request.length - f->address;
	f->flags = FAULT_REMOTE;
	if (r->type != PACKET_GET)
		f->flags |= FAULT_WRITE;
	if (r->type == PACKET_ATOMIC)
		f->flags |= FAULT_ATOMIC;
	f->space = r->request.space;
	f->generation = r->request.generation;
	f->node = r->sender.peer->node;
	f->ahead = r->request.ahead;
	f->request = r->number;
}

/* Write the entries of faults that are not written, while there is room. */
static void write_faults(struct engine *e)
{
	struct queue *q = &e->fault;
	struct fault *fault;

	for (fault = TAILQ_FIRST(&e->faults); fault; fault = TAILQ_NEXT(fault, link)) {
		struct fault_entry f = { .fault = fault->id, .address = fault->address };
		void *entry;

		if (fault->written)
			continue;
		if (q->producer - q->consumer >= q->entries)
			return;
		entry = get_entry(e, q, q->producer);
		if (!entry)
			return;
		if (fault->block)
			describe_block_fault(e, fault->block, &f);
		else
			describe_record_fault(fault->record, &f);
		memcpy(entry, &f, sizeof(f));
		publish_index(e, INDEX_FAULT_PRODUCER, ++q->producer);
		count(e, fault->block ? REG_FAULTS_LOCAL : REG_FAULTS_REMOTE, 1);
		fault->written = true;
		e->due |= 1u << VECTOR_FAULT;
	}
}

void raise_fault(struct engine *e, struct fault *fault, u64 address)
{
	fault->id = ++e->fault_id;
	fault->address = address;
	fault->written = false;
	TAILQ_INSERT_TAIL(&e->faults, fault, link);
	write_faults(e);
}

void clear_fault(struct engine *e, struct fault *fault)
{
	if (!fault->id)
		return;
	fault->id = 0;
	TAILQ_REMOVE(&e->faults, fault, link);
}

static struct fault *find_fault(struct engine *e, u64 id)
{
	struct fault *fault;

	TAILQ_FOREACH(fault, &e->faults, link)
		if (fault->id == id)
			return fault;
	return NULL;
}

static void run_fault_doorbell(struct engine *e)
{
	u32 consumer = get32(e, REG_FAULT_CONSUMER);

	if (!is_consumer_allowed(e, &e->fault, consumer, REG_FAULT_CONSUMER))
		return;
	e->fault.consumer = consumer;
	write_faults(e);
}

/* ---- Commands ---- */

static bool are_zeros(const void *memory, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (((const u8 *)memory)[i])
			return false;
	return true;
}

/* The bytes of arguments that each operation uses, from offset 8 on. */
static const u8 argument_sizes[] = {
	[COMMAND_NOP] = 0,         [COMMAND_SPACE_ATTACH] = 30, [COMMAND_SPACE_DETACH] = 0,
	[COMMAND_INVALIDATE] = 16, [COMMAND_PEER_SET] = 4,      [COMMAND_PEER_CLEAR] = 4,
	[COMMAND_RESUME] = 8,      [COMMAND_REJECT] = 24,       [COMMAND_ABORT] = 8,
};

static bool is_attach_allowed(const struct command *c)
{
	u8 shift = c->attach.page_shift;

	return shift < 32 && PAGE_SIZES >> shift & 1 && c->attach.bits > shift &&
	       c->attach.bits <= ADDRESS_BITS && (c->attach.key[0] || c->attach.key[1]) &&
	       c->attach.generation && !(c->attach.root & ((1ull << shift) - 1)) &&
	       c->attach.root < 1ull << PHYSICAL_BITS;
}

/* Check what makes a command INVALID. */
static bool is_command_allowed(const struct engine *e, const struct command *c)
{
	u8 used;

	if (c->operation > COMMAND_ABORT)
		return false;
	used = argument_sizes[c->operation];
	if (!are_zeros(c->arguments + used, sizeof(c->arguments) - used) || c->reserved)
		return false;
	switch (c->operation) {
	case COMMAND_SPACE_ATTACH:
		return c->space < SPACES && is_attach_allowed(c);
	case COMMAND_SPACE_DETACH:
		return c->space < SPACES;
	case COMMAND_INVALIDATE:
		return c->space < SPACES && c->invalidate.length &&
		       c->invalidate.start <= UINT64_MAX - c->invalidate.length;
	case COMMAND_PEER_SET:
	case COMMAND_PEER_CLEAR:
		return !c->space && c->node >= 1 && c->node <= 65535 && c->node != e->node;
	case COMMAND_REJECT:
		return !c->space && c->reject.status >= STATUS_FAULT &&
		       c->reject.status <= STATUS_FAULT_MEMORY;
	default:
		return !c->space;
	}
}

static u32 attach_space(struct engine *e, const struct command *c)
{
	struct space *s = &e->spaces[c->space];

	if (s->attached)
		return COMMAND_EXISTS;
	s->attached = true;
	s->root = c->attach.root;
	memcpy(s->key, c->attach.key, sizeof(s->key));
	s->generation = c->attach.generation;
	s->page_shift = c->attach.page_shift;
	s->bits = c->attach.bits;
	return COMMAND_OK;
}

static u32 detach_space(struct engine *e, const struct command *c)
{
	struct space *s = &e->spaces[c->space];

	if (!s->attached)
		return COMMAND_NOT_FOUND;
	for (unsigned int i = 0; i < QUEUE_ENTRIES; i++)
		if (e->transfers[i].open && e->transfers[i].submission.space == c->space)
			abort_transfer(e, &e->transfers[i]);
	end_records(e, c->space);
	s->attached = false;
	return COMMAND_OK;
}

static u32 set_peer(struct engine *e, u32 node)
{
	if (find_peer(e, node))
		return COMMAND_EXISTS;
	for (unsigned int i = 1; i < 1 + PEERS; i++) {
		struct peer *peer = &e->peers[i];

		if (peer->set)
			continue;
		peer->set = true;
		peer->node = node;
		peer->incarnation = 0;
		return COMMAND_OK;
	}
	return COMMAND_FULL;
}

static u32 clear_peer(struct engine *e, u32 node)
{
	struct peer *peer = find_peer(e, node);

	if (!peer)
		return COMMAND_NOT_FOUND;
	forget_peer(e, peer, STATUS_UNREACHABLE);
	peer->set = false;
	return COMMAND_OK;
}

static u32 end_fault(struct engine *e, const struct command *c)
{
	struct fault *fault = find_fault(e, c->fault);

	if (!fault)
		return COMMAND_NOT_FOUND;
	if (c->operation == COMMAND_RESUME) {
		count(e, REG_RESUMES, 1);
		resume(e, fault);
	} else {
		count(e, REG_REJECTS, 1);
		reject(e, fault, c->reject.status, c->reject.address);
	}
	return COMMAND_OK;
}

static u32 abort_tag(struct engine *e, u64 tag)
{
	u32 status = COMMAND_NOT_FOUND;

	for (unsigned int i = 0; i < QUEUE_ENTRIES; i++)
		if (e->transfers[i].open && e->transfers[i].submission.tag == tag) {
			abort_transfer(e, &e->transfers[i]);
			status = COMMAND_OK;
		}
	return status;
}

static u32 run_command(struct engine *e, const struct command *c)
{
	if (!is_command_allowed(e, c))
		return COMMAND_INVALID;
	switch (c->operation) {
	case COMMAND_SPACE_ATTACH:
		return attach_space(e, c);
	case COMMAND_SPACE_DETACH:
		return detach_space(e, c);
	case COMMAND_INVALIDATE:
		/* This engine keeps no translation after an access. */
		if (!e->spaces[c->space].attached)
			return COMMAND_NOT_FOUND;
		count(e, REG_INVALIDATIONS, 1);
		return COMMAND_OK;
	case COMMAND_PEER_SET:
		return set_peer(e, c->node);
	case COMMAND_PEER_CLEAR:
		return clear_peer(e, c->node);
	case COMMAND_RESUME:
	case COMMAND_REJECT:
		return end_fault(e, c);
	case COMMAND_ABORT:
		return abort_tag(e, c->tag);
	default:
		return COMMAND_OK;
	}
}

static void run_command_doorbell(struct engine *e)
{
	struct queue *q = &e->command;
	u32 producer = get32(e, REG_COMMAND_PRODUCER);

	if (!is_producer_allowed(e, q, producer, REG_COMMAND_PRODUCER))
		return;
	q->producer = producer;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	while (is_ready(e) && q->consumer != q->producer) {
		struct command *entry = get_entry(e, q, q->consumer);
		struct command c;
		u32 status;

		if (!entry)
			return;
		memcpy(&c, entry, sizeof(c));
		status = run_command(e, &c);
		if (!is_ready(e))
			return;
		entry->status = status;
		publish_index(e, INDEX_COMMAND_CONSUMER, ++q->consumer);
		e->due |= 1u << VECTOR_COMMAND;
	}
}

/* ---- Submissions ---- */

static bool are_reserved_fields_zero(const struct submission *s)
{
	if (s->reserved)
		return false;
	if (s->operation == OPERATION_NOP)
		return !s->atomic && !s->space &&
		       are_zeros(&s->local, sizeof(*s) - offsetof(struct submission, local));
	if (s->operation == OPERATION_ATOMIC)
		return !s->local && (s->atomic == ATOMIC_COMPARE || !s->compare);
	return !s->atomic && !s->operand && !s->compare;
}

/* Check a submission; if it is allowed, and not a NOP, the peer is set. */
static u32 check_submission(struct engine *e, const struct submission *s, struct peer **peer)
{
	bool atomic = s->operation == OPERATION_ATOMIC;

	if (s->operation > OPERATION_ATOMIC || !are_reserved_fields_zero(s))
		return STATUS_INVALID;
	if (s->operation == OPERATION_NOP)
		return STATUS_OK;
	if (s->space >= SPACES || !e->spaces[s->space].attached)
		return STATUS_INVALID;
	if (atomic) {
		if (s->atomic > ATOMIC_COMPARE || (s->length != 4 && s->length != 8) ||
		    !(ATOMICS >> (s->atomic + (s->length == 8 ? 16 : 0)) & 1))
			return STATUS_INVALID;
	} else {
		u64 limit = 1ull << e->spaces[s->space].bits;

		if (s->length < 1 || s->length > TRANSFER_MAX || s->local > limit ||
		    s->length > limit - s->local)
			return STATUS_INVALID;
	}
	if (s->remote > LINK_ADDRESS_LIMIT || s->length > LINK_ADDRESS_LIMIT - s->remote ||
	    (atomic && s->remote % s->length))
		return STATUS_INVALID;
	*peer = find_peer(e, s->node);
	return *peer ? STATUS_OK : STATUS_UNREACHABLE;
}

static void run_submission_doorbell(struct engine *e)
{
	struct queue *q = &e->submission;
	struct queue *completion = &e->completion;
	u32 producer = get32(e, REG_SUBMISSION_PRODUCER);
	u32 consumer = get32(e, REG_COMPLETION_CONSUMER);

	if (!is_producer_allowed(e, q, producer, REG_SUBMISSION_PRODUCER) ||
	    !is_consumer_allowed(e, completion, consumer, REG_COMPLETION_CONSUMER))
		return;
	q->producer = producer;
	completion->consumer = consumer;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	while (is_ready(e) && q->consumer != q->producer &&
	       completion->producer - completion->consumer + e->open < completion->entries) {
		void *entry = get_entry(e, q, q->consumer);
		struct submission s;
		struct peer *peer = NULL;
		u32 status;

		if (!entry)
			return;
		memcpy(&s, entry, sizeof(s));
		publish_index(e, INDEX_SUBMISSION_CONSUMER, ++q->consumer);
		status = check_submission(e, &s, &peer);
		if (status || !peer)
			post_completion(e, &(struct completion){ .tag = s.tag, .status = status });
		else
			open_transfer(e, &s, peer);
	}
}

/* ---- Adapter ---- */

/* Do what follows from a call of the adapter. */
static void finish_call(struct engine *e)
{
	if (is_ready(e))
		progress(e);
	raise_vectors(e);
}

static void *adapter_allocate(size_t size)
{
	size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *ram = aligned_alloc(ALIGNMENT, rounded);

	return ram ? memset(ram, 0, rounded) : NULL;
}

static void adapter_release(void *ram, size_t size)
{
	(void)size;
	free(ram);
}

static void *adapter_create(void *ram, size_t size)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->ram = ram;
	e->size = size;
	forget_all(e);
	set32(e, REG_MAGIC, MAGIC);
	set32(e, REG_VERSION, VERSION_1_0);
	set64(e, REG_FEATURES, FEATURES);
	set32(e, REG_BLOCK_SIZE, BLOCK_SIZE);
	set32(e, REG_BLOCKS, BLOCKS);
	set32(e, REG_SPACES, SPACES);
	set32(e, REG_PEERS, PEERS);
	set32(e, REG_QUEUE_ENTRIES, QUEUE_ENTRIES);
	set32(e, REG_TRANSFER_MAX, TRANSFER_MAX);
	set32(e, REG_PAGE_SIZES, PAGE_SIZES);
	set32(e, REG_ADDRESS_BITS, ADDRESS_BITS);
	set32(e, REG_PHYSICAL_BITS, PHYSICAL_BITS);
	set32(e, REG_ATOMICS, ATOMICS);
	set32(e, REG_DOORBELL_BASE, DOORBELL_BASE);
	set32(e, REG_COMMAND_TIME, COMMAND_TIME);
	set32(e, REG_TRANSFER_BLOCKS, TRANSFER_BLOCKS);
	return e;
}

static u32 adapter_read32(void *engine, unsigned int offset)
{
	return offset <= REG_SIZE - sizeof(u32) ? get32(engine, offset) : 0;
}

static u64 adapter_read64(void *engine, unsigned int offset)
{
	return offset <= REG_SIZE - sizeof(u64) ? get64(engine, offset) : 0;
}

/* The driver writes the registers from CONTROL to FAULT_CONSUMER; others are RO or reserved. */
static bool is_writable(unsigned int offset, unsigned int width)
{
	return offset >= REG_CONTROL && offset + width <= REG_FAULT_CONSUMER + sizeof(u32);
}

static void adapter_write32(void *engine, unsigned int offset, u32 value)
{
	if (is_writable(offset, sizeof(value)))
		set32(engine, offset, value);
}

static void adapter_write64(void *engine, unsigned int offset, u64 value)
{
	if (is_writable(offset, sizeof(value)))
		set64(engine, offset, value);
}

static void adapter_doorbell(void *engine, unsigned int number, u64 now)
{
	struct engine *e = engine;

	e->now = now;
	if (number == DOORBELL_CONTROL)
		run_control(e);
	else if (!is_ready(e))
		return;
	else if (number == DOORBELL_COMMAND)
		run_command_doorbell(e);
	else if (number == DOORBELL_SUBMISSION)
		run_submission_doorbell(e);
	else if (number == DOORBELL_FAULT)
		run_fault_doorbell(e);
	finish_call(e);
}

static void adapter_receive(void *engine, const void *packet, size_t length, u64 now)
{
	struct engine *e = engine;

	if (!is_ready(e))
		return;
	e->now = now;
	receive_packet(e, packet, length);
	finish_call(e);
}

static size_t adapter_transmit(void *engine, void *packet, size_t size, u64 now)
{
	struct engine *e = engine;
	struct packet p;
	size_t length;

	if (!is_ready(e) || size < sizeof(p))
		return 0;
	e->now = now;
	length = make_packet(e, &p);
	memcpy(packet, &p, length);
	finish_call(e);
	return length;
}

static u64 adapter_advance(void *engine, u64 now)
{
	struct engine *e = engine;
	u64 next;

	if (!is_ready(e))
		return NEVER;
	e->now = now;
	next = run_timers(e);
	finish_call(e);
	return next;
}

static u32 adapter_interrupts(void *engine)
{
	struct engine *e = engine;
	u32 raised = e->raised;

	e->raised = 0;
	return raised;
}

const struct adapter conformance_adapter = {
	.name = "second",
	.allocate = adapter_allocate,
	.release = adapter_release,
	.create = adapter_create,
	.destroy = free,
	.read32 = adapter_read32,
	.read64 = adapter_read64,
	.write32 = adapter_write32,
	.write64 = adapter_write64,
	.doorbell = adapter_doorbell,
	.receive = adapter_receive,
	.transmit = adapter_transmit,
	.advance = adapter_advance,
	.interrupts = adapter_interrupts,
};
