// SPDX-License-Identifier: GPL-2.0
#include <crypto/algapi.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "domain.h"
#include "uapi/exanest.h"

struct exanest_domain {
	struct list_head link;
	unsigned int count; /* of memberships, under domains_lock */
	u8 secret[EXANEST_SECRET_BYTES];
	kuid_t uid;
	struct user_namespace *user_ns;
	const void *engine;
	struct xarray members; /* by address */
	struct workqueue_struct *resolver;
};

static LIST_HEAD(domains);
static DEFINE_MUTEX(domains_lock);
static atomic64_t last_address = ATOMIC64_INIT(0);

static bool domain_admits(const struct exanest_domain *domain, const u8 *secret,
			  const struct cred *cred, const void *engine)
{
	return uid_eq(domain->uid, cred->euid) && domain->user_ns == cred->user_ns &&
	       domain->engine == engine &&
	       !crypto_memneq(domain->secret, secret, sizeof(domain->secret));
}

static struct exanest_domain *domain_create(const u8 *secret, const struct cred *cred,
					    const void *engine)
{
	struct exanest_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);

	if (!domain)
		return NULL;
	domain->resolver = alloc_workqueue("exanest/%lld", WQ_UNBOUND | WQ_FREEZABLE, 0,
					   atomic64_read(&last_address));
	if (!domain->resolver) {
		kfree(domain);
		return NULL;
	}
	memcpy(domain->secret, secret, sizeof(domain->secret));
	domain->uid = cred->euid;
	domain->user_ns = get_user_ns(cred->user_ns);
	domain->engine = engine;
	xa_init_flags(&domain->members, XA_FLAGS_ACCOUNT);
	list_add(&domain->link, &domains);
	return domain;
}

static struct exanest_domain *domain_get(const u8 *secret, const struct cred *cred,
					 const void *engine)
{
	struct exanest_domain *domain;

	mutex_lock(&domains_lock);
	list_for_each_entry(domain, &domains, link)
		if (domain_admits(domain, secret, cred, engine))
			goto found;
	domain = domain_create(secret, cred, engine);
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

struct exanest_domain *exanest_domain_join(struct exanest_member *member, const u8 *secret,
					   const struct cred *cred, const void *engine)
{
	struct exanest_domain *domain = domain_get(secret, cred, engine);
	int error;

	if (!domain)
		return ERR_PTR(-ENOMEM);
	member->address = atomic64_inc_return(&last_address);
	error = xa_reserve(&domain->members, member->address, GFP_KERNEL_ACCOUNT);
	if (error) {
		exanest_domain_put(domain);
		return ERR_PTR(error);
	}
	return domain;
}

void exanest_domain_enter(struct exanest_domain *domain, struct exanest_member *member)
{
	xa_store(&domain->members, member->address, member, GFP_KERNEL_ACCOUNT);
}

void exanest_domain_leave(struct exanest_domain *domain, struct exanest_member *member)
{
	xa_erase(&domain->members, member->address);
}

struct exanest_member *exanest_domain_find(struct exanest_domain *domain, u64 address)
{
	struct exanest_member *member;

	rcu_read_lock();
	member = xa_load(&domain->members, address);
	if (member && !kref_get_unless_zero(&member->reference))
		member = NULL;
	rcu_read_unlock();
	return member;
}

struct workqueue_struct *exanest_domain_resolver(struct exanest_domain *domain)
{
	return domain->resolver;
}
