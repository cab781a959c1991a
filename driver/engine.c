// SPDX-License-Identifier: GPL-2.0
#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include "block.h"
#include "engine.h"
#include "translation.h"

/* Resets without a completion in between, after which an engine is given up. */
#define RESETS_MAX 3
/* Turns of one work, so that a reset comes soon. */
#define WORK_TURNS 64

#define TAG_SLOT 0xffffU
#define TAG_GENERATION 16

static uint block_timeout_ms = 10000;
module_param(block_timeout_ms, uint, 0644);
MODULE_PARM_DESC(block_timeout_ms, "How long, ms, an engine may take for a block before its reset");

static unsigned long timeout_jiffies(void)
{
	return msecs_to_jiffies(clamp(READ_ONCE(block_timeout_ms), 10U, 3600U * MSEC_PER_SEC));
}

struct slot {
	struct list_head link;          /* in flight, the oldest first; far; or free */
	struct exanest_block *block;    /* NULL: free */
	struct exanest_descriptor what; /* what a completion is checked against */
	unsigned long deadline;         /* jiffies */
	u16 generation;
};

struct exanest_engine {
	struct kref reference;
	struct list_head link; /* registered, the one in use first */
	/* Those of the backend, until it unregisters; then none. */
	const struct exanest_engine_operations *operations;
	struct srcu_struct srcu; /* held while one of them is called */
	const struct exanest_engine_operations *registered;
	/* What operations has, once and for all: what it has not costs nothing. */
	bool moves, maps, invalidates;
	struct exanest_limits limits;
	char name[32];
	u64 features;
	void *private;

	spinlock_t lock;        /* of turns */
	struct list_head ready; /* in their order */

	spinlock_t slots_lock; /* of what follows */
	struct slot *slots;
	struct list_head free, in_flight;
	struct list_head far; /* in flight to other nodes, without a deadline */
	unsigned int free_count;
	unsigned int rooms;    /* times that there was room */
	unsigned int failures; /* resets since the last completion */
	u64 resets, dropped;

	bool full;    /* it did not accept all */
	bool failing; /* a reset is on its way */
	bool resumed; /* only because it was off */
	bool dead;
	const char *reason; /* of the reset */
	unsigned long full_deadline;

	struct workqueue_struct *worker; /* ordered: */
	struct work_struct serve_work, reset_work;
	struct delayed_work watchdog;
};

static const struct exanest_engine_client *client;
static LIST_HEAD(engines);
static DEFINE_MUTEX(engines_lock);

static unsigned int submit_nothing(struct exanest_engine *engine,
				   const struct exanest_descriptor *descriptors, unsigned int count)
{
	return 0;
}

static const struct exanest_engine_operations no_operations = {
	.name = "none",
	.submit = submit_nothing,
};

/* The backend's operations stay until operations_release. */
static const struct exanest_engine_operations *operations_hold(struct exanest_engine *engine,
							       int *held) __acquires(&engine->srcu)
{
	*held = srcu_read_lock(&engine->srcu);
	return READ_ONCE(engine->operations);
}

static void operations_release(struct exanest_engine *engine, int held) __releases(&engine->srcu)
{
	srcu_read_unlock(&engine->srcu, held);
}

/*
 * Turns.
 */
static void engine_wake(struct exanest_engine *engine)
{
	if (engine->moves)
		engine->registered->wake(engine);
	else
		queue_work(engine->worker, &engine->serve_work);
}

void exanest_engine_ready(struct exanest_engine *engine, struct exanest_turn *turn)
{
	bool wake = false;

	spin_lock(&engine->lock);
	if (turn->served) {
		turn->again = true;
	} else if (!turn->queued) {
		client->get(turn);
		turn->queued = true;
		list_add_tail(&turn->link, &engine->ready);
		wake = true;
	}
	spin_unlock(&engine->lock);
	if (wake)
		engine_wake(engine);
}

/* Nothing can be submitted now; a completion, room or the end of a reset wakes the engine. */
static bool engine_stalled(const struct exanest_engine *engine)
{
	if (READ_ONCE(engine->dead))
		return false;
	return READ_ONCE(engine->failing) || READ_ONCE(engine->full) ||
	       !READ_ONCE(engine->free_count);
}

bool exanest_engine_idle(const struct exanest_engine *engine)
{
	return list_empty_careful(&engine->ready) || engine_stalled(engine);
}

/* A turn is at most a few blocks long, so every context has its own after as many as are ready. */
bool exanest_engine_serve(struct exanest_engine *engine)
{
	struct exanest_turn *turn;
	bool more;

	if (engine_stalled(engine))
		return false;
	spin_lock(&engine->lock);
	turn = list_first_entry_or_null(&engine->ready, struct exanest_turn, link);
	if (!turn) {
		spin_unlock(&engine->lock);
		return false;
	}
	list_del_init(&turn->link);
	turn->queued = false;
	turn->served = true;
	turn->again = false;
	spin_unlock(&engine->lock);

	more = client->serve(turn);

	spin_lock(&engine->lock);
	turn->served = false;
	more |= turn->again;
	if (more) {
		turn->queued = true;
		list_add_tail(&turn->link, &engine->ready);
	}
	spin_unlock(&engine->lock);
	if (!more)
		client->put(turn);
	return true;
}

static void engine_work(struct work_struct *work)
{
	struct exanest_engine *engine = container_of(work, struct exanest_engine, serve_work);
	unsigned int turns;

	for (turns = 0; turns < WORK_TURNS; turns++) {
		if (!exanest_engine_serve(engine))
			return;
		cond_resched_tasks_rcu_qs();
	}
	queue_work(engine->worker, &engine->serve_work);
}

/*
 * Slots.
 */
/* slots_lock is held. */
static struct exanest_block *slot_release(struct exanest_engine *engine, struct slot *slot)
{
	struct exanest_block *block = slot->block;

	slot->block = NULL;
	slot->generation++;
	list_move(&slot->link, &engine->free);
	WRITE_ONCE(engine->free_count, engine->free_count + 1);
	return block;
}

static unsigned int slots_take(struct exanest_engine *engine,
			       struct exanest_descriptor *descriptors,
			       struct exanest_block *const *blocks, unsigned int count)
{
	unsigned long deadline = jiffies + timeout_jiffies();
	struct slot *slot;
	unsigned int i;

	spin_lock(&engine->slots_lock);
	for (i = 0; i < count && engine->free_count; i++) {
		slot = list_first_entry(&engine->free, struct slot, link);
		list_move_tail(&slot->link,
			       descriptors[i].remote ? &engine->in_flight : &engine->far);
		WRITE_ONCE(engine->free_count, engine->free_count - 1);
		slot->block = blocks[i];
		slot->deadline = deadline;
		descriptors[i].tag = (slot - engine->slots) | (u32)slot->generation
								      << TAG_GENERATION;
		slot->what = descriptors[i];
	}
	spin_unlock(&engine->slots_lock);
	return i;
}

/*
 * The engine did not accept descriptors [first, taken), so it is full, unless there was
 * room since rooms was read. A block that it completed nevertheless is the client's already.
 */
static void slots_return(struct exanest_engine *engine,
			 const struct exanest_descriptor *descriptors, unsigned int first,
			 unsigned int taken, unsigned int rooms)
{
	struct exanest_block *block;
	struct slot *slot;

	while (taken-- > first) {
		slot = &engine->slots[descriptors[taken].tag & TAG_SLOT];
		block = NULL;
		spin_lock(&engine->slots_lock);
		if (slot->block && slot->generation == descriptors[taken].tag >> TAG_GENERATION)
			block = slot_release(engine, slot);
		spin_unlock(&engine->slots_lock);
		if (block)
			client->take_back(block);
	}
	spin_lock(&engine->slots_lock);
	if (engine->rooms == rooms) {
		engine->full_deadline = jiffies + timeout_jiffies();
		WRITE_ONCE(engine->full, true);
	}
	spin_unlock(&engine->slots_lock);
}

/* All that is checked about a completion; the layers above rely on it. */
static bool result_valid(const struct exanest_result *result, const struct exanest_descriptor *what)
{
	bool atomic = what->op == EXANEST_OP_ATOMIC;

	switch (result->status) {
	case 0:
		return result->moved == what->length &&
		       (!atomic || what->length == 8 || result->value <= U32_MAX);
	case -EFAULT:
		if (result->side != EXANEST_SIDE_REMOTE &&
		    (atomic || result->side != EXANEST_SIDE_LOCAL))
			return false;
		if (result->moved >= what->length ||
		    result->skipped >= what->length - result->moved)
			return false;
		break;
	case -ECANCELED:
	case -EIO:
		break;
	case -EBUSY:
	case -ENOMEM:
	case -ETIMEDOUT:
		if (what->remote || result->side != EXANEST_SIDE_REMOTE ||
		    result->skipped >= what->length - result->moved)
			return false;
		break;
	case -EHOSTUNREACH:
	case -ECONNRESET:
		if (what->remote)
			return false;
		break;
	default:
		return false;
	}
	return result->moved < what->length && (!atomic || !result->moved);
}

/* slots_lock is held. Returns whether the engine was full. */
static bool engine_has_room(struct exanest_engine *engine)
{
	bool full = engine->full;

	engine->rooms++;
	WRITE_ONCE(engine->full, false);
	return full;
}

void exanest_engine_complete(struct exanest_engine *engine, const struct exanest_result *result)
{
	struct exanest_block *block = NULL;
	unsigned int index = result->tag & TAG_SLOT;
	const char *nonsense = NULL;
	bool wake = false;
	struct slot *slot;

	spin_lock(&engine->slots_lock);
	slot = index < engine->limits.depth ? &engine->slots[index] : NULL;
	if (!slot) {
		nonsense = "it completed a slot that does not exist";
	} else if (!slot->block || slot->generation != result->tag >> TAG_GENERATION) {
		engine->dropped++;
	} else if (!result_valid(result, &slot->what)) {
		nonsense = "it reported what cannot be";
	} else {
		wake = !engine->free_count;
		engine->failures = 0;
		block = slot_release(engine, slot);
		wake |= engine_has_room(engine);
	}
	spin_unlock(&engine->slots_lock);
	if (nonsense)
		exanest_engine_fail(engine, nonsense);
	if (block)
		client->complete(block, result);
	if (wake)
		engine_wake(engine);
}
EXPORT_SYMBOL_GPL(exanest_engine_complete);

void exanest_engine_room(struct exanest_engine *engine)
{
	bool wake;

	spin_lock(&engine->slots_lock);
	wake = engine_has_room(engine);
	spin_unlock(&engine->slots_lock);
	if (wake)
		engine_wake(engine);
}
EXPORT_SYMBOL_GPL(exanest_engine_room);

unsigned int exanest_engine_free_slots(const struct exanest_engine *engine)
{
	if (READ_ONCE(engine->dead))
		return engine->limits.depth;
	return engine_stalled(engine) ? 0 : READ_ONCE(engine->free_count);
}

/* A dead engine moves nothing. */
static void fail_all(struct exanest_block *const *blocks, unsigned int count)
{
	static const struct exanest_result failed = { .status = -EIO };
	unsigned int i;

	for (i = 0; i < count; i++)
		client->complete(blocks[i], &failed);
}

static void move_all(const struct exanest_engine_operations *operations,
		     const struct exanest_descriptor *descriptors,
		     struct exanest_block *const *blocks, unsigned int count)
{
	struct exanest_result result;
	unsigned int i;

	for (i = 0; i < count; i++) {
		operations->move(&descriptors[i], &result);
		client->complete(blocks[i], &result);
	}
}

unsigned int exanest_engine_submit(struct exanest_engine *engine,
				   struct exanest_descriptor *descriptors,
				   struct exanest_block *const *blocks, unsigned int count)
{
	const struct exanest_engine_operations *operations;
	unsigned int accepted = 0, taken, rooms;
	int held;

	if (engine->moves) {
		move_all(engine->registered, descriptors, blocks, count);
		return count;
	}
	operations = operations_hold(engine, &held);
	/* Under the hold: exanest_engine_unregister sets it before it waits for this, and looks after. */
	if (READ_ONCE(engine->dead)) {
		operations_release(engine, held);
		fail_all(blocks, count);
		return count;
	}
	rooms = READ_ONCE(engine->rooms);
	taken = slots_take(engine, descriptors, blocks, count);
	if (taken)
		accepted = operations->submit(engine, descriptors, taken);
	if (WARN_ON_ONCE(accepted > taken))
		accepted = taken;
	if (accepted && operations->kick)
		operations->kick(engine);
	if (taken && operations->reset)
		queue_delayed_work(engine->worker, &engine->watchdog, timeout_jiffies() + 1);
	operations_release(engine, held);
	/* The last one first: each becomes the next one. */
	while (count > taken)
		client->take_back(blocks[--count]);
	if (accepted < taken)
		slots_return(engine, descriptors, accepted, taken, rooms);
	return accepted;
}

/* From now on blocks of an export to other nodes have a deadline, too. */
static void far_limit(struct exanest_engine *engine, const struct exanest_export *export)
{
	unsigned long deadline = jiffies + timeout_jiffies();
	struct slot *slot, *next;

	spin_lock(&engine->slots_lock);
	list_for_each_entry_safe(slot, next, &engine->far, link) {
		if (slot->what.local != export)
			continue;
		slot->deadline = deadline;
		list_move_tail(&slot->link, &engine->in_flight);
	}
	spin_unlock(&engine->slots_lock);
}

void exanest_engine_quiesce(struct exanest_engine *engine, struct exanest_export *export)
{
	const struct exanest_engine_operations *operations;
	int held;

	operations = operations_hold(engine, &held);
	if (operations->quiesce) {
		far_limit(engine, export);
		operations->quiesce(engine, export);
		queue_delayed_work(engine->worker, &engine->watchdog, timeout_jiffies() + 1);
	}
	operations_release(engine, held);
}

/*
 * Exports.
 */
int exanest_engine_export(struct exanest_engine *engine, struct exanest_export *export)
{
	const struct exanest_engine_operations *operations;
	static atomic64_t last_address = ATOMIC64_INIT(0);
	int held, error = 0;

	operations = operations_hold(engine, &held);
	if (operations->export && !READ_ONCE(engine->dead))
		error = operations->export(engine, export);
	else
		export->address = atomic64_inc_return(&last_address);
	operations_release(engine, held);
	return error;
}

void exanest_engine_retract(struct exanest_engine *engine, struct exanest_export *export)
{
	const struct exanest_engine_operations *operations;
	int held;

	operations = operations_hold(engine, &held);
	if (operations->retract)
		operations->retract(engine, export);
	operations_release(engine, held);
}

void exanest_engine_settle(struct exanest_engine *engine, const struct exanest_remote_fault *fault,
			   int status, u64 address)
{
	const struct exanest_engine_operations *operations;
	int held;

	operations = operations_hold(engine, &held);
	if (operations->settle)
		operations->settle(engine, fault, status, address);
	operations_release(engine, held);
}

void exanest_engine_fault(struct exanest_engine *engine, struct exanest_export *export,
			  const struct exanest_remote_fault *fault)
{
	client->fault(export, fault);
}
EXPORT_SYMBOL_GPL(exanest_engine_fault);

bool exanest_engine_reaches(const struct exanest_engine *engine, u64 address)
{
	u64 node = address >> EXANEST_ADDRESS_NODE_SHIFT;

	return engine->limits.node && node && node != engine->limits.node;
}

/*
 * Failure.
 */
void exanest_engine_fail(struct exanest_engine *engine, const char *reason)
{
	if (READ_ONCE(engine->dead))
		return;
	WRITE_ONCE(engine->reason, reason);
	WRITE_ONCE(engine->failing, true);
	queue_work(engine->worker, &engine->reset_work);
}
EXPORT_SYMBOL_GPL(exanest_engine_fail);

void exanest_engine_resumed(struct exanest_engine *engine)
{
	WRITE_ONCE(engine->resumed, true);
	exanest_engine_fail(engine, "it was off");
}

/* Another node may take its time, but the engine is to be there. */
static bool engine_answers(struct exanest_engine *engine)
{
	const struct exanest_engine_operations *operations;
	bool answers = true;
	int held;

	operations = operations_hold(engine, &held);
	if (operations->answers)
		answers = operations->answers(engine);
	operations_release(engine, held);
	return answers;
}

/* Overdue, or the first of those in flight is not: look again when it is. */
static void engine_watch(struct work_struct *work)
{
	struct exanest_engine *engine = container_of(to_delayed_work(work), struct exanest_engine,
						     watchdog);
	unsigned long now = jiffies, next = 0;
	const char *late = NULL;
	struct slot *slot;
	bool far;

	spin_lock(&engine->slots_lock);
	far = !list_empty(&engine->far);
	slot = list_first_entry_or_null(&engine->in_flight, struct slot, link);
	if (slot) {
		if (time_after_eq(now, slot->deadline))
			late = "a block was not completed in time";
		else
			next = slot->deadline - now + 1;
	} else if (engine->full) {
		if (time_after_eq(now, engine->full_deadline))
			late = "it accepted no block in time";
		else
			next = engine->full_deadline - now + 1;
	}
	spin_unlock(&engine->slots_lock);
	if (!late && far && !engine_answers(engine))
		late = "it does not answer";
	if (!next && far)
		next = timeout_jiffies() + 1;
	if (late)
		exanest_engine_fail(engine, late);
	else if (next)
		queue_delayed_work(engine->worker, &engine->watchdog, next);
}

/* Nothing of the engine moves any more: the blocks in flight go back. late: end those that are. */
static void engine_give_back(struct exanest_engine *engine, bool late)
{
	unsigned long now = jiffies;
	struct exanest_result result;
	struct exanest_block *block;
	struct slot *slot;

	spin_lock(&engine->slots_lock);
	list_for_each_entry(slot, &engine->far, link)
		slot->deadline = now + 1; /* it was not late */
	list_splice_init(&engine->far, &engine->in_flight);
	while ((slot = list_first_entry_or_null(&engine->in_flight, struct slot, link))) {
		result = (struct exanest_result){ .status = -ECANCELED };
		if (engine->dead || slot->what.op == EXANEST_OP_ATOMIC ||
		    (late && time_after_eq(now, slot->deadline)))
			result.status = -EIO;
		block = slot_release(engine, slot);
		spin_unlock(&engine->slots_lock);
		client->complete(block, &result);
		spin_lock(&engine->slots_lock);
	}
	engine_has_room(engine);
	spin_unlock(&engine->slots_lock);
}

static void engine_reset(struct work_struct *work)
{
	struct exanest_engine *engine = container_of(work, struct exanest_engine, reset_work);
	const struct exanest_engine_operations *operations;
	bool resumed = xchg(&engine->resumed, false);
	int held, error;

	operations = operations_hold(engine, &held);
	/* Given up: or exanest_engine_unregister resets it, and the backend's text may be gone. */
	if (READ_ONCE(engine->dead)) {
		operations_release(engine, held);
		return;
	}
	if (!resumed)
		pr_warn_ratelimited("exanest: engine %s is reset: %s\n", engine->name,
				    engine->reason);
	error = operations->reset ? operations->reset(engine) : -ENODEV;
	operations_release(engine, held);

	spin_lock(&engine->slots_lock);
	if (!resumed) {
		engine->resets++;
		engine->failures++;
	}
	if ((error || engine->failures >= RESETS_MAX) && !engine->dead) {
		pr_err("exanest: engine %s is given up: %s\n", engine->name,
		       error ? "it cannot be reset" : "resets do not help");
		WRITE_ONCE(engine->dead, true);
	}
	spin_unlock(&engine->slots_lock);
	engine_give_back(engine, !resumed);
	WRITE_ONCE(engine->failing, false);
	engine_wake(engine);
}

/*
 * Spaces.
 */
static int engine_space_attach(struct exanest_space *space)
{
	struct exanest_engine *engine = space->engine;
	const struct exanest_engine_operations *operations;
	int held, error = 0;

	operations = operations_hold(engine, &held);
	/* What attached before this is found by exanest_spaces_detach in exanest_engine_unregister. */
	if (READ_ONCE(engine->dead))
		error = -ENODEV;
	else if (operations->space_attach)
		error = operations->space_attach(engine, space);
	operations_release(engine, held);
	return error;
}

/* Not by way of operations: the last ones come in exanest_engine_unregister. */
static void engine_space_detach(struct exanest_space *space)
{
	struct exanest_engine *engine = space->engine;

	if (engine->registered->space_detach)
		engine->registered->space_detach(engine, space);
}

static int engine_space_map(struct exanest_translation *translation, unsigned int first,
			    unsigned int count)
{
	struct exanest_engine *engine = translation->space->engine;
	const struct exanest_engine_operations *operations;
	int held, error = 0;

	if (!engine->maps)
		return 0;
	operations = operations_hold(engine, &held);
	if (operations->map)
		error = operations->map(engine, translation, first, count);
	operations_release(engine, held);
	return error;
}

static bool engine_space_invalidate(struct exanest_space *space, unsigned long start,
				    unsigned long end, bool may_block)
{
	struct exanest_engine *engine = space->engine;
	const struct exanest_engine_operations *operations;
	bool done = true;
	int held;

	if (!engine->invalidates)
		return true;
	operations = operations_hold(engine, &held);
	if (operations->invalidate)
		done = operations->invalidate(engine, space, start, end, may_block) || may_block;
	operations_release(engine, held);
	return done;
}

const struct exanest_space_operations exanest_engine_spaces = {
	.attach = engine_space_attach,
	.detach = engine_space_detach,
	.map = engine_space_map,
	.invalidate = engine_space_invalidate,
};

/*
 * Lifetime.
 */
static void engine_free(struct kref *reference)
{
	struct exanest_engine *engine = container_of(reference, struct exanest_engine, reference);

	cancel_delayed_work_sync(&engine->watchdog);
	destroy_workqueue(engine->worker);
	cleanup_srcu_struct(&engine->srcu);
	kvfree(engine->slots);
	kfree(engine);
}

void exanest_engine_put(struct exanest_engine *engine)
{
	kref_put(&engine->reference, engine_free);
}

struct exanest_engine *exanest_engine_get(void)
{
	struct exanest_engine *engine;

	mutex_lock(&engines_lock);
	list_for_each_entry(engine, &engines, link) {
		if (READ_ONCE(engine->dead))
			continue;
		kref_get(&engine->reference);
		mutex_unlock(&engines_lock);
		return engine;
	}
	mutex_unlock(&engines_lock);
	return NULL;
}

static void slots_init(struct exanest_engine *engine)
{
	struct slot *slot;

	INIT_LIST_HEAD(&engine->free);
	INIT_LIST_HEAD(&engine->in_flight);
	INIT_LIST_HEAD(&engine->far);
	for (slot = engine->slots; slot < engine->slots + engine->limits.depth; slot++)
		list_add_tail(&slot->link, &engine->free);
	engine->free_count = engine->limits.depth;
}

struct exanest_engine *exanest_engine_register(const struct exanest_engine_operations *operations,
					       const struct exanest_limits *limits, void *private)
{
	struct exanest_engine *engine;
	int error = -ENOMEM;

	if (!operations->move != !operations->wake || !operations->move == !operations->submit ||
	    !operations->submit != !operations->reset)
		return ERR_PTR(-EINVAL);
	if (!operations->export != !operations->retract ||
	    (limits->node && (!operations->settle || !operations->answers)) ||
	    limits->node > U16_MAX)
		return ERR_PTR(-EINVAL);
	if (!limits->depth || limits->depth > EXANEST_ENGINE_DEPTH_MAX ||
	    limits->run < EXANEST_BLOCK_SIZE || limits->run % EXANEST_BLOCK_SIZE)
		return ERR_PTR(-EINVAL);
	engine = kzalloc(sizeof(*engine), GFP_KERNEL);
	if (!engine)
		return ERR_PTR(-ENOMEM);
	engine->slots = kvcalloc(limits->depth, sizeof(*engine->slots), GFP_KERNEL);
	if (!engine->slots)
		goto free;
	error = init_srcu_struct(&engine->srcu);
	if (error)
		goto free;
	engine->worker = alloc_ordered_workqueue("exanest/%s", WQ_FREEZABLE | WQ_MEM_RECLAIM,
						 operations->name);
	if (!engine->worker) {
		error = -ENOMEM;
		goto cleanup;
	}
	kref_init(&engine->reference);
	engine->operations = engine->registered = operations;
	engine->moves = operations->move;
	engine->maps = operations->map;
	engine->invalidates = operations->invalidate;
	engine->limits = *limits;
	strscpy(engine->name, operations->name, sizeof(engine->name));
	engine->features = operations->features;
	engine->private = private;
	spin_lock_init(&engine->lock);
	INIT_LIST_HEAD(&engine->ready);
	spin_lock_init(&engine->slots_lock);
	slots_init(engine);
	INIT_WORK(&engine->serve_work, engine_work);
	INIT_WORK(&engine->reset_work, engine_reset);
	INIT_DELAYED_WORK(&engine->watchdog, engine_watch);

	mutex_lock(&engines_lock);
	list_add(&engine->link, &engines);
	mutex_unlock(&engines_lock);
	return engine;

cleanup:
	cleanup_srcu_struct(&engine->srcu);
free:
	kvfree(engine->slots);
	kfree(engine);
	return ERR_PTR(error);
}
EXPORT_SYMBOL_GPL(exanest_engine_register);

void exanest_engine_unregister(struct exanest_engine *engine)
{
	const struct exanest_engine_operations *operations = engine->operations;

	mutex_lock(&engines_lock);
	list_del(&engine->link);
	mutex_unlock(&engines_lock);

	WRITE_ONCE(engine->dead, true);
	synchronize_srcu(&engine->srcu);
	/* No block or space is given to it any more. It may still move: invalidations go on. */
	if (operations->reset)
		operations->reset(engine);
	WRITE_ONCE(engine->operations, &no_operations);
	synchronize_srcu(&engine->srcu);
	/* No operation runs, and none will. */
	engine_give_back(engine, true);
	exanest_spaces_detach(engine);
	engine_wake(engine);
	exanest_engine_put(engine);
}
EXPORT_SYMBOL_GPL(exanest_engine_unregister);

void *exanest_engine_private(const struct exanest_engine *engine)
{
	return engine->private;
}
EXPORT_SYMBOL_GPL(exanest_engine_private);

const char *exanest_engine_name(const struct exanest_engine *engine)
{
	return engine->name;
}

u64 exanest_engine_features(const struct exanest_engine *engine)
{
	return engine->features;
}

bool exanest_engine_is_dead(const struct exanest_engine *engine)
{
	return READ_ONCE(engine->dead);
}

const struct exanest_limits *exanest_engine_limits(const struct exanest_engine *engine)
{
	return &engine->limits;
}

static void engine_count(struct exanest_engine *engine, struct exanest_engine_state *state)
{
	const struct exanest_engine_operations *operations;
	int held;

	operations = operations_hold(engine, &held);
	if (operations->count && operations->count(engine, state->values))
		state->counters = operations->counters;
	operations_release(engine, held);
}

void exanest_engines_call(void (*call)(const struct exanest_engine_state *state, void *argument),
			  void *argument)
{
	struct exanest_engine *engine;

	mutex_lock(&engines_lock);
	list_for_each_entry(engine, &engines, link) {
		struct exanest_engine_state state = { .name = engine->name };

		spin_lock(&engine->slots_lock);
		state.depth = engine->limits.depth;
		state.in_flight = state.depth - engine->free_count;
		state.resets = engine->resets;
		state.dropped = engine->dropped;
		state.dead = engine->dead;
		spin_unlock(&engine->slots_lock);
		engine_count(engine, &state);
		call(&state, argument);
	}
	mutex_unlock(&engines_lock);
}

void exanest_engines_start(const struct exanest_engine_client *given)
{
	client = given;
}
