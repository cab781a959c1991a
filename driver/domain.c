// SPDX-License-Identifier: GPL-2.0
#include <crypto/algapi.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "context.h"
#include "domain.h"

struct exanest_domain {
	struct list_head link;
	unsigned int count; /* of memberships, under domains_lock */
	u8 secret[EXANEST_SECRET_BYTES];
	kuid_t uid;
	struct user_namespace *user_ns;
	struct xarray members; /* by address */
	struct workqueue_struct *resolver;
};

static LIST_HEAD(domains);
static DEFINE_MUTEX(domains_lock);
static atomic64_t last_address = ATOMIC64_INIT(0);

static bool domain_admits(const struct exanest_domain *domain,
			  const struct exanest_context *context, const u8 *secret)
{
	return uid_eq(domain->uid, context->cred->euid) &&
	       domain->user_ns == context->cred->user_ns &&
	       !crypto_memneq(domain->secret, secret, sizeof(domain->secret));
}

static struct exanest_domain *domain_create(const struct exanest_context *context, const u8 *secret)
{
	struct exanest_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);

	if (!domain)
		return NULL;
	domain->resolver = alloc_workqueue("exanest/%lld", WQ_UNBOUND, 0,
					   atomic64_read(&last_address));
	if (!domain->resolver) {
		kfree(domain);
		return NULL;
	}
	memcpy(domain->secret, secret, sizeof(domain->secret));
	domain->uid = context->cred->euid;
	domain->user_ns = get_user_ns(context->cred->user_ns);
	xa_init_flags(&domain->members, XA_FLAGS_ACCOUNT);
	list_add(&domain->link, &domains);
	return domain;
}

static struct exanest_domain *domain_get(const struct exanest_context *context, const u8 *secret)
{
	struct exanest_domain *domain;

	mutex_lock(&domains_lock);
	list_for_each_entry(domain, &domains, link)
		if (domain_admits(domain, context, secret))
			goto found;
	domain = domain_create(context, secret);
found:
	if (domain)
		domain->count++;
	mutex_unlock(&domains_lock);
	return domain;
}

void exanest_domain_put(struct exanest_domain *domain)
{
	bool last;

	mutex_lock(&domains_lock);
	last = --domain->count == 0;
	if (last)
		list_del(&domain->link);
	mutex_unlock(&domains_lock);
	if (!last)
		return;

	destroy_workqueue(domain->resolver);
	xa_destroy(&domain->members);
	put_user_ns(domain->user_ns);
	kfree_sensitive(domain);
}

static int domain_join(struct exanest_context *context, const struct exanest_join *join)
{
	struct exanest_domain *domain = domain_get(context, join->secret);
	int error;

	if (!domain)
		return -ENOMEM;
	context->address = atomic64_inc_return(&last_address);
	context->policy = join->policy;
	/* Before a peer can find it: the peers' transfers use it. */
	smp_store_release(&context->domain, domain);
	error = xa_err(xa_store(&domain->members, context->address, context, GFP_KERNEL_ACCOUNT));
	if (!error)
		return 0;
	context->domain = NULL;
	exanest_domain_put(domain);
	return error;
}

long exanest_join_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_join join;
	long error;

	error = exanest_copy_in(&join, sizeof(join), argument);
	if (error)
		return error;
	if (join.policy > EXANEST_POLICY_HUGE || !memchr_inv(join.secret, 0, sizeof(join.secret)))
		error = -EINVAL;

	mutex_lock(&context->setup_lock);
	if (!error && context->domain)
		error = -EALREADY;
	if (!error)
		error = domain_join(context, &join);
	if (!error)
		join.address = context->address;
	mutex_unlock(&context->setup_lock);
	if (!error)
		error = exanest_copy_out(argument, &join, sizeof(join));
	memzero_explicit(join.secret, sizeof(join.secret));
	return error;
}

void exanest_domain_leave(struct exanest_context *context)
{
	if (context->domain)
		xa_erase(&context->domain->members, context->address);
}

struct exanest_context *exanest_domain_find(struct exanest_domain *domain, u64 address)
{
	struct exanest_context *context;

	rcu_read_lock();
	context = xa_load(&domain->members, address);
	if (context && !exanest_context_get_unless_zero(context))
		context = NULL;
	rcu_read_unlock();
	return context;
}

struct workqueue_struct *exanest_domain_resolver(struct exanest_domain *domain)
{
	return domain->resolver;
}
