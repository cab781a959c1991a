// SPDX-License-Identifier: GPL-2.0
/*
 * An engine for tests. It moves in the background, through tables of its own, which map
 * fills and invalidate empties, as hardware does. Or it misbehaves as the parameter says.
 */
#include <linux/delay.h>
#include <linux/hmm.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "block.h"
#include "engine.h"
#include "translation.h"

#define DEPTH 64U

static char mode[16] = "work";
module_param_string(mode, mode, sizeof(mode), 0644);
MODULE_PARM_DESC(mode,
		 "work; never, late, twice: completions; slot, generation, length, short, side, "
		 "status: nonsense in them; full, one, both: what submit accepts");

static bool reset_fails;
module_param(reset_fails, bool, 0644);
static bool reset_forgets;
module_param(reset_forgets, bool, 0644);
MODULE_PARM_DESC(reset_forgets, "A reset empties the tables");
static uint late_ms = 1000;
module_param(late_ms, uint, 0644);
MODULE_PARM_DESC(late_ms, "When mode late completes");
static uint page_us;
module_param(page_us, uint, 0644);
MODULE_PARM_DESC(page_us, "Time between the look at the table and the access, for each page");

/* What happened. */
static atomic_t refused = ATOMIC_INIT(0), attached = ATOMIC_INIT(0), quiesced = ATOMIC_INIT(0);
module_param_named(refused, refused.counter, int, 0444);
MODULE_PARM_DESC(refused, "Invalidations that had to wait and must not");
module_param_named(attached, attached.counter, int, 0444);
module_param_named(quiesced, quiesced.counter, int, 0444);

static bool mode_is(const char *name)
{
	return sysfs_streq(mode, name);
}

/* A space's table: page number -> frame number and whether it may be written. */
struct table {
	struct list_head link;
	struct rw_semaphore lock; /* for reading: while pages are accessed */
	struct xarray pages;
};

struct item {
	struct list_head link;
	struct exanest_descriptor what;
	unsigned long due; /* jiffies; mode late */
};

struct test_engine {
	struct exanest_engine *engine;
	struct task_struct *thread;
	wait_queue_head_t wait;
	spinlock_t lock;
	struct list_head items; /* to be moved */
	struct list_head late;
	struct mutex moving; /* held while one is moved and completed */
	bool stopping; /* no upcall but under the mutex before the reset that ends the registration */
	struct list_head tables;
	struct mutex tables_lock;
};

static struct test_engine the;

/*
 * Tables.
 */
static int test_attach(struct exanest_engine *engine, struct exanest_space *space)
{
	struct table *table = kzalloc(sizeof(*table), GFP_KERNEL);

	if (!table)
		return -ENOMEM;
	init_rwsem(&table->lock);
	xa_init(&table->pages);
	space->private = table;
	mutex_lock(&the.tables_lock);
	list_add(&table->link, &the.tables);
	mutex_unlock(&the.tables_lock);
	atomic_inc(&attached);
	return 0;
}

static void test_detach(struct exanest_engine *engine, struct exanest_space *space)
{
	struct table *table = space->private;

	mutex_lock(&the.tables_lock);
	list_del(&table->link);
	mutex_unlock(&the.tables_lock);
	xa_destroy(&table->pages);
	kfree(table);
	space->private = NULL;
	atomic_dec(&attached);
}

static int test_map(struct exanest_engine *engine, struct exanest_translation *translation,
		    unsigned int first, unsigned int count)
{
	struct table *table = translation->space->private;
	unsigned long index = (exanest_translation_start(translation) >> PAGE_SHIFT) + first;
	unsigned long entry;
	unsigned int i;
	int error = 0;

	for (i = 0; i < count && !error; i++) {
		entry = translation->entries[first + i];
		if (entry & HMM_PFN_VALID)
			error = xa_err(xa_store(&table->pages, index + i,
						xa_mk_value((entry & ~HMM_PFN_FLAGS) << 1 |
							    (entry & HMM_PFN_WRITE ? 1 : 0)),
						GFP_ATOMIC));
	}
	return error;
}

static bool test_invalidate(struct exanest_engine *engine, struct exanest_space *space,
			    unsigned long start, unsigned long end, bool may_block)
{
	struct table *table = space->private;
	unsigned long index;
	void *entry;

	if (may_block) {
		down_write(&table->lock);
	} else if (!down_write_trylock(&table->lock)) {
		atomic_inc(&refused);
		return false;
	}
	xa_for_each_range(&table->pages, index, entry, start >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT)
		xa_erase(&table->pages, index);
	up_write(&table->lock);
	return true;
}

/* The table's lock is held. */
static void *table_find(struct table *table, u64 address, bool write)
{
	void *entry = xa_load(&table->pages, address >> PAGE_SHIFT);
	unsigned long value;
	struct page *page;

	if (!entry)
		return NULL;
	value = xa_to_value(entry);
	if (write && !(value & 1))
		return NULL;
	page = pfn_to_page(value >> 1);
	if (write)
		folio_mark_dirty(page_folio(page));
	return page_address(page) + offset_in_page(address);
}

static u64 add_word(void *word, const struct exanest_descriptor *what)
{
	if (what->length == 4)
		return (u32)atomic_fetch_add((u32)what->operand, word);
	return atomic64_fetch_add(what->operand, word);
}

/* Both locks are held. Moves a page of both sides, or less; 0: fault on side. */
static u32 move_page(const struct exanest_descriptor *what, struct exanest_result *result)
{
	u64 local = what->local_address + result->moved,
	    remote = what->remote_address + result->moved;
	u32 length = what->length - result->moved;
	void *here = NULL, *there;

	length = min_t(u32, length, PAGE_SIZE - offset_in_page(remote));
	result->side = EXANEST_SIDE_REMOTE;
	there = table_find(what->remote->space->private, remote, what->op != EXANEST_OP_GET);
	if (!there)
		return 0;
	if (what->op != EXANEST_OP_ATOMIC) {
		length = min_t(u32, length, PAGE_SIZE - offset_in_page(local));
		result->side = EXANEST_SIDE_LOCAL;
		here = table_find(what->local->space->private, local, what->op == EXANEST_OP_GET);
		if (!here)
			return 0;
	}
	if (page_us)
		usleep_range(page_us, page_us + 1);
	if (what->op == EXANEST_OP_ATOMIC)
		result->value = add_word(there, what);
	else if (what->op == EXANEST_OP_PUT)
		memcpy(there, here, length);
	else
		memcpy(here, there, length);
	return length;
}

/* A page at a time, as an invalidation waits for no more. */
static void move(const struct exanest_descriptor *what, struct exanest_result *result)
{
	struct table *remote = what->remote->space->private, *local = what->local->space->private;
	u32 length;

	*result = (struct exanest_result){ .tag = what->tag };
	while (result->moved < what->length) {
		down_read(&remote->lock);
		/* A writer that waits between two readers would close a circle. */
		if (local != remote && !down_read_trylock(&local->lock)) {
			up_read(&remote->lock);
			cond_resched();
			continue;
		}
		length = move_page(what, result);
		if (local != remote)
			up_read(&local->lock);
		up_read(&remote->lock);
		if (!length) {
			result->status = -EFAULT;
			return;
		}
		result->moved += length;
	}
}

/*
 * The engine proper.
 */
static void item_complete(const struct exanest_descriptor *what)
{
	struct exanest_result result;

	move(what, &result);
	if (mode_is("slot"))
		result.tag |= 0xffff;
	if (mode_is("generation"))
		result.tag ^= 0x10000;
	if (mode_is("length"))
		result = (struct exanest_result){ .tag = what->tag, .moved = what->length + 1 };
	if (mode_is("short"))
		result = (struct exanest_result){ .tag = what->tag, .moved = what->length - 1 };
	if (mode_is("side"))
		result = (struct exanest_result){ .tag = what->tag, .status = -EFAULT, .side = 3 };
	if (mode_is("status"))
		result = (struct exanest_result){ .tag = what->tag, .status = -ENOSPC };
	exanest_engine_complete(the.engine, &result);
	if (mode_is("twice"))
		exanest_engine_complete(the.engine, &result);
}

static struct item *item_take(struct list_head *list, bool due)
{
	struct item *item;

	spin_lock(&the.lock);
	item = list_first_entry_or_null(list, struct item, link);
	if (item && due && time_before(jiffies, item->due))
		item = NULL;
	if (item)
		list_del(&item->link);
	spin_unlock(&the.lock);
	return item;
}

/* Says what was not done. */
static void item_complete_late(const struct exanest_descriptor *what)
{
	struct exanest_result result = { .tag = what->tag, .moved = what->length };

	exanest_engine_complete(the.engine, &result);
}

static int test_thread(void *unused)
{
	struct item *item;

	while (!kthread_should_stop()) {
		wait_event_interruptible_timeout(
			the.wait, !list_empty_careful(&the.items) || kthread_should_stop(),
			HZ / 50 + 1);
		mutex_lock(&the.moving);
		while (!READ_ONCE(the.stopping) && (item = item_take(&the.late, true))) {
			item_complete_late(&item->what);
			kfree(item);
		}
		while ((item = item_take(&the.items, false))) {
			if (mode_is("late")) {
				item->due = jiffies + msecs_to_jiffies(late_ms);
				spin_lock(&the.lock);
				list_add_tail(&item->link, &the.late);
				spin_unlock(&the.lock);
				continue;
			}
			if (!mode_is("never"))
				item_complete(&item->what);
			kfree(item);
		}
		if (!READ_ONCE(the.stopping) && mode_is("one"))
			exanest_engine_room(the.engine);
		mutex_unlock(&the.moving);
	}
	return 0;
}

static unsigned int test_submit(struct exanest_engine *engine,
				const struct exanest_descriptor *descriptors, unsigned int count)
{
	struct item *item;
	unsigned int i;

	if (mode_is("full"))
		return 0;
	/* Completed, and not accepted. */
	for (i = 0; mode_is("both") && i < count; i++)
		item_complete(&descriptors[i]);
	if (mode_is("both"))
		return 0;
	if (mode_is("one"))
		count = min(count, 1U);
	for (i = 0; i < count; i++) {
		item = kmalloc(sizeof(*item), GFP_KERNEL);
		if (!item)
			break;
		item->what = descriptors[i];
		spin_lock(&the.lock);
		list_add_tail(&item->link, &the.items);
		spin_unlock(&the.lock);
	}
	return i;
}

static void test_kick(struct exanest_engine *engine)
{
	wake_up(&the.wait);
}

static void test_quiesce(struct exanest_engine *engine, struct exanest_export *export)
{
	atomic_inc(&quiesced);
}

static int test_reset(struct exanest_engine *engine)
{
	struct table *table;
	struct item *item;

	mutex_lock(&the.moving);
	while ((item = item_take(&the.items, false)))
		kfree(item);
	mutex_unlock(&the.moving);
	mutex_lock(&the.tables_lock);
	list_for_each_entry(table, &the.tables, link) {
		if (!reset_forgets)
			break;
		down_write(&table->lock);
		xa_destroy(&table->pages);
		up_write(&table->lock);
	}
	mutex_unlock(&the.tables_lock);
	return reset_fails ? -EIO : 0;
}

static const struct exanest_engine_operations test_operations = {
	.name = "test",
	.features = EXANEST_FEATURE_ATOMICS,
	.space_attach = test_attach,
	.space_detach = test_detach,
	.map = test_map,
	.invalidate = test_invalidate,
	.submit = test_submit,
	.kick = test_kick,
	.quiesce = test_quiesce,
	.reset = test_reset,
};

static int test_start(void)
{
	static const struct exanest_limits limits = {
		.depth = DEPTH,
		.run = 2 * EXANEST_BLOCK_SIZE,
	};
	int error;

	the.thread = kthread_create(test_thread, NULL, "exanest_test");
	if (IS_ERR(the.thread))
		return PTR_ERR(the.thread);
	the.engine = exanest_engine_register(&test_operations, &limits, NULL);
	if (IS_ERR(the.engine)) {
		error = PTR_ERR(the.engine);
		kthread_stop(the.thread);
		return error;
	}
	wake_up_process(the.thread);
	return 0;
}

static void test_stop(void)
{
	struct item *item;

	WRITE_ONCE(the.stopping, true);
	/* What was submitted before is moved until the reset, as by hardware. */
	exanest_engine_unregister(the.engine);
	kthread_stop(the.thread);
	while ((item = item_take(&the.late, false)))
		kfree(item);
}

/* Waits for the quiescent states of all tasks. */
static int rcu_tasks_set(const char *value, const struct kernel_param *param)
{
#ifdef CONFIG_TASKS_RCU
	synchronize_rcu_tasks();
#endif
	return 0;
}

static const struct kernel_param_ops rcu_tasks_operations = { .set = rcu_tasks_set };
module_param_cb(rcu_tasks, &rcu_tasks_operations, NULL, 0200);

static int __init test_init(void)
{
	init_waitqueue_head(&the.wait);
	spin_lock_init(&the.lock);
	mutex_init(&the.moving);
	mutex_init(&the.tables_lock);
	INIT_LIST_HEAD(&the.tables);
	INIT_LIST_HEAD(&the.items);
	INIT_LIST_HEAD(&the.late);
	return test_start();
}

static void __exit test_exit(void)
{
	test_stop();
	WARN_ON(atomic_read(&attached));
}

module_init(test_init);
module_exit(test_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("exanest: an engine that works in the background, or misbehaves on request");
