// SPDX-License-Identifier: GPL-2.0
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "block.h"
#include "context.h"
#include "ring.h"

/* Frees contexts. */
static struct workqueue_struct *workqueue;

static uint contexts_max = 1024;
module_param(contexts_max, uint, 0644);
MODULE_PARM_DESC(contexts_max, "Contexts that one user may have open");

static LIST_HEAD(contexts);
static DEFINE_MUTEX(contexts_lock);
static DECLARE_WAIT_QUEUE_HEAD(contexts_drained);

/*
 * A structure of an ioctl, whose first field is its size as the caller knows
 * it. in: what the caller's lacks is 0. out: no more than the caller's size.
 */
static long copy_in(void *structure, size_t size, const void __user *argument)
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

static long copy_out(void __user *argument, void *structure, size_t size)
{
	size_t theirs = *(u32 *)structure;

	*(u32 *)structure = size;
	return copy_to_user(argument, structure, min(theirs, size)) ? -EFAULT : 0;
}

/*
 * The user whose limit a context counts against. User ids of a namespace that a user
 * other than root created are that user's: subordinate ids (newuidmap) raise no limit.
 */
static kuid_t charged_user(const struct cred *cred)
{
	const struct user_namespace *user_ns = cred->user_ns;
	kuid_t user = cred->euid;

	for (; user_ns->parent && !uid_eq(user_ns->owner, GLOBAL_ROOT_UID);
	     user_ns = user_ns->parent)
		user = user_ns->owner;
	return user;
}

/* What a context has of the kernel is not all charged to its user: so there are only so many. */
static int contexts_add(struct exanest_context *context)
{
	struct exanest_context *other;
	unsigned int count = 0;
	int error = 0;

	mutex_lock(&contexts_lock);
	list_for_each_entry(other, &contexts, link)
		count += uid_eq(other->charged, context->charged);
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

	if (context->port.domain)
		exanest_domain_put(context->port.domain);
	exanest_port_free(&context->port);
	contexts_remove(context); /* its counters are shown no more, which are in the space, too */
	exanest_space_quit(&context->user);
	exanest_engine_put(context->port.engine);
	put_cred(context->cred);
	kfree_rcu(context, rcu); /* exanest_domain_find may look at it */
}

/* The rest sleeps. */
static void context_release(struct exanest_port *port)
{
	struct exanest_context *context = container_of(port, struct exanest_context, port);

	queue_work(workqueue, &context->free_work);
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

int exanest_contexts_start(void)
{
	workqueue = alloc_workqueue("exanest/contexts", WQ_UNBOUND | WQ_FREEZABLE, 0);
	return workqueue ? 0 : -ENOMEM;
}

void exanest_contexts_stop(void)
{
	wait_event(contexts_drained, list_empty_careful(&contexts));
	destroy_workqueue(workqueue);
}

/* If its last reference is gone it came to its end before. */
static void context_gone(struct exanest_space_user *user)
{
	struct exanest_port *port = &container_of(user, struct exanest_context, user)->port;

	if (exanest_port_get_unless_zero(port)) {
		exanest_port_end(port);
		exanest_port_put(port);
	}
}

/* Give the context an engine, and a space of it. */
static int context_attach(struct exanest_context *context)
{
	struct exanest_engine *engine;
	bool dead;
	int error;

	do {
		engine = exanest_engine_get();
		if (!engine)
			return -ENODEV;
		context->port.engine = engine;
		error = exanest_space_join(&context->user, &exanest_engine_spaces, engine);
		if (!error)
			return 0;
		/* It may have gone since it was found. Then another one is found the next time. */
		dead = exanest_engine_is_dead(engine);
		exanest_engine_put(engine);
	} while (dead);
	return error;
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

	INIT_WORK(&context->free_work, context_free);
	mutex_init(&context->setup_lock);
	context->pid = task_tgid_nr(current);
	get_task_comm(context->comm, current);
	context->cred = get_current_cred();
	context->charged = charged_user(context->cred);
	error = exanest_port_init(&context->port, context_release);
	if (error)
		goto cred;
	context->user.gone = context_gone;
	context->port.memory.resolver.cred = context->cred;
	error = context_attach(context);
	if (error)
		goto port;
	context->port.memory.resolver.space = context->user.space;
	context->port.export.space = context->user.space;
	context->invalidations = atomic64_read(&context->user.space->invalidations);
	/* Last: once it is in the list its counters are shown. */
	error = contexts_add(context);
	if (error)
		goto space;
	file->private_data = context;
	return nonseekable_open(inode, file);

space:
	exanest_space_quit(&context->user);
	exanest_engine_put(context->port.engine);
port:
	exanest_port_free(&context->port);
cred:
	put_cred(context->cred);
	kfree(context);
	return error;
}

static void context_leave(struct exanest_context *context)
{
	mutex_lock(&context->setup_lock);
	if (context->port.domain)
		exanest_domain_leave(context->port.domain, &context->port.member);
	exanest_port_end(&context->port);
	mutex_unlock(&context->setup_lock);
}

/* The last descriptor is closed, and the rings are mapped no more. */
static int context_close(struct inode *inode, struct file *file)
{
	struct exanest_context *context = file->private_data;

	context_leave(context);
	exanest_port_put(&context->port);
	return 0;
}

static bool context_is_callers(const struct exanest_context *context)
{
	return current->mm == context->user.space->mm;
}

static long query_ioctl(const struct exanest_context *context, void __user *argument)
{
	struct exanest_query query;
	u32 theirs;
	long error;

	error = copy_in(&query, sizeof(query), argument);
	if (error)
		return error;
	theirs = query.size;
	memset(&query, 0, sizeof(query));
	query.size = theirs;
	query.abi_version = EXANEST_ABI_VERSION;
	query.features = EXANEST_FEATURE_EVENTFD | EXANEST_FEATURE_PAGER | EXANEST_FEATURE_POLL |
			 exanest_engine_features(context->port.engine);
	query.block_size = EXANEST_BLOCK_SIZE;
	query.ring_entries = EXANEST_RING_ENTRIES_MAX;
	query.transfer_max = EXANEST_TRANSFER_MAX;
	strscpy(query.engine, exanest_engine_name(context->port.engine), sizeof(query.engine));
	query.node = exanest_engine_limits(context->port.engine)->node;
	return copy_out(argument, &query, sizeof(query));
}

/* Give the context an address, and the domain room for it. */
static int enter(struct exanest_context *context, struct exanest_domain *domain)
{
	struct exanest_port *port = &context->port;
	int error;

	exanest_domain_key(domain, port->export.key);
	error = exanest_engine_export(port->engine, &port->export);
	if (error)
		return error;
	port->member.address = port->export.address;
	error = exanest_domain_reserve(domain, &port->member);
	if (error)
		exanest_engine_retract(port->engine, &port->export);
	return error;
}

static long join(struct exanest_context *context, struct exanest_join *request)
{
	struct exanest_port *port = &context->port;
	struct exanest_domain *domain;
	int error;

	if (exanest_port_gone(port))
		return -ESHUTDOWN;
	if (port->domain)
		return -EALREADY;
	domain = exanest_domain_join(request->secret, context->cred, port->engine);
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	error = enter(context, domain);
	if (error) {
		exanest_domain_put(domain);
		return error;
	}
	request->address = port->member.address;
	port->memory.resolver.policy = request->policy;
	WRITE_ONCE(port->memory.resolvers, exanest_domain_resolver(domain));
	port->domain = domain;
	/* Last: from here on peers' transfers use the port. */
	exanest_domain_enter(domain, &port->member);
	return 0;
}

static long join_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_join request;
	long error;

	error = copy_in(&request, sizeof(request), argument);
	if (error)
		return error;
	if (request.policy > EXANEST_POLICY_HUGE ||
	    !memchr_inv(request.secret, 0, sizeof(request.secret)))
		error = -EINVAL;
	if (!error) {
		mutex_lock(&context->setup_lock);
		error = join(context, &request);
		mutex_unlock(&context->setup_lock);
	}
	if (!error)
		error = copy_out(argument, &request, sizeof(request));
	memzero_explicit(request.secret, sizeof(request.secret));
	return error;
}

static long make_rings(struct exanest_context *context, struct exanest_rings *request)
{
	struct exanest_port *port = &context->port;
	struct exanest_ring_set *rings;
	int error;

	if (exanest_port_gone(port))
		return -ESHUTDOWN;
	if (port->rings)
		return -EALREADY;
	if (!port->domain)
		return -ENOTCONN;
	rings = exanest_ring_set_create(request);
	if (IS_ERR(rings))
		return PTR_ERR(rings);
	error = exanest_port_set_rings(port, rings, request->submissions);
	if (error)
		exanest_ring_set_free(rings);
	return error;
}

static long rings_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_rings request;
	long error;

	error = copy_in(&request, sizeof(request), argument);
	if (error)
		return error;
	mutex_lock(&context->setup_lock);
	error = make_rings(context, &request);
	mutex_unlock(&context->setup_lock);
	return error ? error : copy_out(argument, &request, sizeof(request));
}

static long doorbell_ioctl(struct exanest_context *context)
{
	struct exanest_ring_set *rings = smp_load_acquire(&context->port.rings);

	if (!rings)
		return -ENXIO;
	if (READ_ONCE(rings->broken))
		return -EPROTO;
	exanest_port_ready(&context->port);
	return 0;
}

static bool has_fault_ring(struct exanest_context *context)
{
	struct exanest_ring_set *rings = smp_load_acquire(&context->port.rings);

	return rings && rings->fault.entries;
}

static long pager_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_pager request;
	unsigned long last;
	long error;

	error = copy_in(&request, sizeof(request), argument);
	if (error)
		return error;
	if (request.enable > 1 || !request.length ||
	    !PAGE_ALIGNED(request.address | request.length) ||
	    request.address + request.length < request.address)
		return -EINVAL;
	if (!has_fault_ring(context))
		return -ENXIO;
	last = request.address + request.length - 1;
	if (request.enable)
		return exanest_memory_take_range(&context->port.memory, context->port.rings,
						 request.address, last);
	return exanest_memory_give_back_range(&context->port.memory, request.address, last);
}

static long resolved_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_resolved answer;
	long error;

	error = copy_in(&answer, sizeof(answer), argument);
	if (error)
		return error;
	if (answer.status > 0 || !answer.ticket)
		return -EINVAL;
	if (!has_fault_ring(context))
		return -ENXIO;
	return exanest_memory_answer(&context->port.memory, answer.ticket, !answer.status);
}

void exanest_context_count(const struct exanest_context *context, u64 values[EXANEST_COUNTERS])
{
	unsigned int i;

	for (i = 0; i < EXANEST_COUNTERS; i++)
		values[i] = atomic64_read(&context->port.counters.value[i]);
	/* Of the process, which may have other contexts. */
	values[EXANEST_INVALIDATIONS] = atomic64_read(&context->user.space->invalidations) -
					context->invalidations;
}

static long statistics_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_statistics statistics;
	long error;

	BUILD_BUG_ON(sizeof(statistics) != offsetof(struct exanest_statistics, transfers) +
						   EXANEST_COUNTERS * sizeof(u64));
	error = copy_in(&statistics, sizeof(statistics), argument);
	if (error)
		return error;
	statistics.reserved = 0;
	exanest_context_count(context, &statistics.transfers);
	return copy_out(argument, &statistics, sizeof(statistics));
}

static long context_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	struct exanest_context *context = file->private_data;
	void __user *argument = (void __user *)value;

	if (!context_is_callers(context))
		return -EPERM;

	switch (command) {
	case EXANEST_IOC_QUERY:
		return query_ioctl(context, argument);
	case EXANEST_IOC_JOIN:
		return join_ioctl(context, argument);
	case EXANEST_IOC_RINGS:
		return rings_ioctl(context, argument);
	case EXANEST_IOC_DOORBELL:
		return doorbell_ioctl(context);
	case EXANEST_IOC_PAGER:
		return pager_ioctl(context, argument);
	case EXANEST_IOC_RESOLVED:
		return resolved_ioctl(context, argument);
	case EXANEST_IOC_STATISTICS:
		return statistics_ioctl(context, argument);
	case EXANEST_IOC_LEAVE:
		context_leave(context);
		return 0;
	}
	return -ENOTTY;
}

static int context_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct exanest_context *context = file->private_data;
	struct exanest_ring_set *rings = smp_load_acquire(&context->port.rings);

	if (!context_is_callers(context))
		return -EPERM;
	if (!rings)
		return -ENXIO;
	return exanest_ring_set_mmap(rings, vma);
}

static __poll_t context_poll(struct file *file, poll_table *table)
{
	struct exanest_context *context = file->private_data;
	struct exanest_ring_set *rings = smp_load_acquire(&context->port.rings);

	if (!context_is_callers(context) || !rings)
		return EPOLLERR;
	return exanest_ring_set_poll(rings, file, table);
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
