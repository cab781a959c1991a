// SPDX-License-Identifier: GPL-2.0
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "context.h"
#include "domain.h"
#include "engine.h"
#include "ring.h"
#include "transfer.h"

struct workqueue_struct *exanest_workqueue;

static uint contexts_max = 1024;
module_param(contexts_max, uint, 0644);
MODULE_PARM_DESC(contexts_max, "Contexts that one user may have open");

static LIST_HEAD(contexts);
static DEFINE_MUTEX(contexts_lock);
static DECLARE_WAIT_QUEUE_HEAD(contexts_drained);

long exanest_copy_in(void *structure, size_t size, const void __user *argument)
{
	u32 theirs;
	int error;

	if (get_user(theirs, (const u32 __user *)argument))
		return -EFAULT;
	if (theirs < sizeof(theirs))
		return -EINVAL;
	if (theirs > PAGE_SIZE)
		return -E2BIG;
	error = copy_struct_from_user(structure, size, argument, theirs);
	if (error)
		return error;
	/* Whatever it has become meanwhile, copy_out writes no more than was meant. */
	*(u32 *)structure = theirs;
	return 0;
}

long exanest_copy_out(void __user *argument, void *structure, size_t size)
{
	size_t theirs = *(u32 *)structure;

	*(u32 *)structure = size;
	return copy_to_user(argument, structure, min(theirs, size)) ? -EFAULT : 0;
}

/* What a context has of the kernel is not all charged to its user: so there are only so many. */
static int contexts_add(struct exanest_context *context)
{
	struct exanest_context *other;
	unsigned int count = 0;
	int error = 0;

	mutex_lock(&contexts_lock);
	list_for_each_entry(other, &contexts, link)
		count += uid_eq(other->cred->euid, context->cred->euid);
	if (count < READ_ONCE(contexts_max))
		list_add_tail(&context->link, &contexts);
	else
		error = -EMFILE;
	mutex_unlock(&contexts_lock);
	return error;
}

static void contexts_remove(struct exanest_context *context)
{
	mutex_lock(&contexts_lock);
	list_del(&context->link);
	if (list_empty(&contexts))
		wake_up_all(&contexts_drained);
	mutex_unlock(&contexts_lock);
}

static void context_free(struct work_struct *work)
{
	struct exanest_context *context = container_of(work, struct exanest_context, free_work);

	if (context->domain)
		exanest_domain_put(context->domain);
	exanest_ring_set_free(context->rings);
	exanest_pagers_free(&context->pager);
	exanest_transfers_free(context);
	contexts_remove(context);
	put_cred(context->cred);
	kfree_rcu(context, rcu); /* exanest_domain_find may look at it */
}

static void context_release(struct kref *reference)
{
	struct exanest_context *context = container_of(reference, struct exanest_context,
						       reference);

	queue_work(exanest_workqueue, &context->free_work);
}

void exanest_context_put(struct exanest_context *context)
{
	kref_put(&context->reference, context_release);
}

void exanest_contexts_call(void (*call)(struct exanest_context *context, void *argument),
			   void *argument)
{
	struct exanest_context *context;

	mutex_lock(&contexts_lock);
	list_for_each_entry(context, &contexts, link)
		call(context, argument);
	mutex_unlock(&contexts_lock);
}

static bool contexts_none(void)
{
	bool none;

	mutex_lock(&contexts_lock);
	none = list_empty(&contexts);
	mutex_unlock(&contexts_lock);
	return none;
}

void exanest_context_drain(void)
{
	wait_event(contexts_drained, contexts_none());
}

/* The address space is empty: its transfers and its peers' are told when they are next looked at. */
static void context_gone(struct exanest_space *space)
{
	struct exanest_context *context = container_of(space, struct exanest_context, space);

	exanest_pagers_gone(context);
	exanest_engine_ready(context);
}

static int context_open(struct inode *inode, struct file *file)
{
	struct exanest_context *context;
	int error;

	if (!current->mm)
		return -EINVAL;
	context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);
	if (!context)
		return -ENOMEM;

	kref_init(&context->reference);
	INIT_WORK(&context->free_work, context_free);
	mutex_init(&context->setup_lock);
	spin_lock_init(&context->lock);
	init_waitqueue_head(&context->wait);
	INIT_LIST_HEAD(&context->ready);
	INIT_LIST_HEAD(&context->runnable);
	INIT_LIST_HEAD(&context->idle);
	INIT_LIST_HEAD(&context->fences);
	exanest_faults_init(&context->faults);
	exanest_pagers_init(&context->pager);
	context->pid = task_tgid_nr(current);
	get_task_comm(context->comm, current);

	context->cred = get_current_cred();
	error = contexts_add(context);
	if (error)
		goto free;
	error = exanest_space_open(&context->space, &context->counters, context_gone);
	if (error)
		goto remove;
	file->private_data = context;
	return nonseekable_open(inode, file);

remove:
	contexts_remove(context);
free:
	put_cred(context->cred);
	kfree(context);
	return error;
}

/*
 * From here on nothing of the context is accessed; giving its translations back
 * is for its resolver, which may be in the middle of a fault that takes its time.
 */
static void context_leave(struct exanest_context *context)
{
	exanest_domain_leave(context);
	exanest_space_invalidate(&context->space);
	context_gone(&context->space);
}

/* The last descriptor is closed, and the rings are mapped no more. */
static int context_close(struct inode *inode, struct file *file)
{
	struct exanest_context *context = file->private_data;

	context_leave(context);
	exanest_faults_close(context);
	exanest_context_put(context);
	return 0;
}

static bool context_is_callers(const struct exanest_context *context)
{
	return current->mm == context->space.mm;
}

static long query_ioctl(void __user *argument)
{
	struct exanest_query query;
	u32 theirs;
	long error;

	error = exanest_copy_in(&query, sizeof(query), argument);
	if (error)
		return error;
	theirs = query.size;
	memset(&query, 0, sizeof(query));
	query.size = theirs;
	query.abi_version = EXANEST_ABI_VERSION;
	query.features = EXANEST_FEATURE_EVENTFD | EXANEST_FEATURE_PAGER | EXANEST_FEATURE_POLL |
			 exanest_engine()->operations->features;
	query.block_size = EXANEST_BLOCK_SIZE;
	query.ring_entries = EXANEST_RING_ENTRIES_MAX;
	query.transfer_max = EXANEST_TRANSFER_MAX;
	strscpy(query.engine, exanest_engine()->operations->name, sizeof(query.engine));
	return exanest_copy_out(argument, &query, sizeof(query));
}

static long context_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	struct exanest_context *context = file->private_data;
	void __user *argument = (void __user *)value;

	if (!context_is_callers(context))
		return -EPERM;

	switch (command) {
	case EXANEST_IOC_QUERY:
		return query_ioctl(argument);
	case EXANEST_IOC_JOIN:
		return exanest_join_ioctl(context, argument);
	case EXANEST_IOC_RINGS:
		return exanest_rings_ioctl(context, argument);
	case EXANEST_IOC_DOORBELL:
		return exanest_doorbell_ioctl(context);
	case EXANEST_IOC_PAGER:
		return exanest_pager_ioctl(context, argument);
	case EXANEST_IOC_RESOLVED:
		return exanest_resolved_ioctl(context, argument);
	case EXANEST_IOC_STATISTICS:
		return exanest_statistics_ioctl(context, argument);
	case EXANEST_IOC_LEAVE:
		context_leave(context);
		return 0;
	}
	return -ENOTTY;
}

static int context_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct exanest_context *context = file->private_data;
	struct exanest_ring_set *rings = smp_load_acquire(&context->rings);

	if (!context_is_callers(context))
		return -EPERM;
	if (!rings)
		return -ENXIO;
	return exanest_ring_set_mmap(rings, vma);
}

static __poll_t context_poll(struct file *file, poll_table *table)
{
	struct exanest_context *context = file->private_data;
	struct exanest_ring_set *rings = smp_load_acquire(&context->rings);

	poll_wait(file, &context->wait, table);
	if (!context_is_callers(context) || !rings)
		return EPOLLERR;
	return exanest_ring_set_poll(rings);
}

const struct file_operations exanest_context_operations = {
	.owner = THIS_MODULE,
	.open = context_open,
	.release = context_close,
	.unlocked_ioctl = context_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = context_mmap,
	.poll = context_poll,
};
