/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Protection domains: the contexts of one job, which reach one another and
 * no other context. A domain has a workqueue of its own for the faults in its
 * members' memory, so that faults that never end (a file system in user space
 * that does not answer) use up no workers of other domains.
 */
#ifndef EXANEST_DOMAIN_H
#define EXANEST_DOMAIN_H

#include <linux/kref.h>
#include <linux/types.h>

struct cred;
struct exanest_domain;
struct workqueue_struct;

/* What a domain knows of a context. It is freed no sooner than an RCU grace period after its last reference. */
struct exanest_member {
	struct kref reference;
	u64 address; /* of its engine; 0 before it joined */
};

/* The domain of this secret, user and engine, with a membership to give back. ERR_PTR. */
struct exanest_domain *exanest_domain_join(const u8 *secret, const struct cred *cred,
					   const void *engine);
/*
 * What other nodes prove with that they know the secret: from it and the user, so the same
 * on all nodes. User namespaces have no identity beyond their node: in one that is not the
 * initial one, the key is random.
 */
void exanest_domain_key(const struct exanest_domain *domain, u64 key[2]);
/* A member, whose address is set, becomes known with exanest_domain_enter, which cannot fail after this. */
int exanest_domain_reserve(struct exanest_domain *domain, const struct exanest_member *member);
void exanest_domain_enter(struct exanest_domain *domain, struct exanest_member *member);
/* No peer finds the member any more; one that found it before may still hold it. */
void exanest_domain_leave(struct exanest_domain *domain, struct exanest_member *member);
/* Give the membership back. Sleeps until the workqueue is through if it was the last. */
void exanest_domain_put(struct exanest_domain *domain);

/* A member, counted, or NULL. Any context. */
struct exanest_member *exanest_domain_find(struct exanest_domain *domain, u64 address);

struct workqueue_struct *exanest_domain_resolver(struct exanest_domain *domain);

#endif
