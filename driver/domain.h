/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Protection domains: the contexts of one job, which reach one another and
 * no other context. A domain has a workqueue of its own for the faults in its
 * members' memory, so that faults that never end (a file system in user space
 * that does not answer) use up no workers of other domains.
 */
#ifndef EXANEST_DOMAIN_H
#define EXANEST_DOMAIN_H

#include <linux/types.h>

struct exanest_context;
struct exanest_domain;
struct workqueue_struct;

long exanest_join_ioctl(struct exanest_context *context, void __user *argument);

/* No peer finds the context any more; one that found it before may still hold it. */
void exanest_domain_leave(struct exanest_context *context);
/* Give the membership back. Sleeps until the workqueue is through if it was the last. */
void exanest_domain_put(struct exanest_domain *domain);

/* A member, counted, or NULL. Any context. */
struct exanest_context *exanest_domain_find(struct exanest_domain *domain, u64 address);

struct workqueue_struct *exanest_domain_resolver(struct exanest_domain *domain);

#endif
