// SPDX-License-Identifier: GPL-2.0
#include <crypto/algapi.h>
#include <crypto/sha2.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/random.h>
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
	u64 key[2];
	kuid_t uid;
	struct user_namespace *user_ns;
	const void *engine;
	struct xarray members; /* by address */
	struct workqueue_struct *resolver;
};

static LIST_HEAD(domains);
static DEFINE_MUTEX(domains_lock);

static bool domain_admits(const struct exanest_domain *domain, const u8 *secret,
			  const struct cred *cred, const void *engine)
{
	return uid_eq(domain->uid, cred->euid) && domain->user_ns == cred->user_ns &&
	       domain->engine == engine &&
	       !crypto_memneq(domain->secret, secret, sizeof(domain->secret));
}

static void key_make(struct exanest_domain *domain)
{
	struct {
		u8 name[16];
		u8 secret[EXANEST_SECRET_BYTES];
		__le64 uid;
	} what = { .name = "exanest domain", .uid = cpu_to_le64(__kuid_val(domain->uid)) };
	u64 digest[SHA256_DIGEST_SIZE / sizeof(u64)];

	BUILD_BUG_ON(sizeof(what) != 16 + EXANEST_SECRET_BYTES + 8);
	memcpy(what.secret, domain->secret, sizeof(what.secret));
	sha256((const u8 *)&what, sizeof(what), (u8 *)digest);
	if (domain->user_ns != &init_user_ns)
		get_random_bytes(digest, sizeof(digest));
	/* As on the link, so that nodes of either byte order agree. */
	domain->key[0] = le64_to_cpu((__force __le64)digest[0]);
	domain->key[1] = le64_to_cpu((__force __le64)digest[1]);
	memzero_explicit(&what, sizeof(what));
	memzero_explicit(digest, sizeof(digest));
}

static struct exanest_domain *domain_create(const u8 *secret, const struct cred *cred,
					    const void *engine)
{
	struct exanest_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);
	static u64 count; /* under domains_lock */

	if (!domain)
		return NULL;
	domain->resolver = alloc_workqueue("exanest/%llu", WQ_UNBOUND | WQ_FREEZABLE, 0, ++count);
	if (!domain->resolver) {
		kfree(domain);
		return NULL;
	}
	memcpy(domain->secret, secret, sizeof(domain->secret));
	domain->uid = cred->euid;
	domain->user_ns = get_user_ns(cred->user_ns);
	domain->engine = engine;
	key_make(domain);
	xa_init_flags(&domain->members, XA_FLAGS_ACCOUNT);
	list_add(&domain->link, &domains);
	return domain;
}

struct exanest_domain *exanest_domain_join(const u8 *secret, const struct cred *cred,
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
	return domain ?: ERR_PTR(-ENOMEM);
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

void exanest_domain_key(const struct exanest_domain *domain, u64 key[2])
{
	key[0] = domain->key[0];
	key[1] = domain->key[1];
}

int exanest_domain_reserve(struct exanest_domain *domain, const struct exanest_member *member)
{
	return xa_reserve(&domain->members, member->address, GFP_KERNEL_ACCOUNT);
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
