/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges whose pages their process provides: their faults are handed out as
 * events, and their blocks wait for the answer, no longer than pager_timeout_ms.
 */
#ifndef EXANEST_PAGER_H
#define EXANEST_PAGER_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct exanest_block;
struct exanest_context;

struct exanest_pagers {
	spinlock_t lock;
	struct rb_root_cached ranges; /* interval tree */
	unsigned int range_count;
	struct list_head waiting; /* blocks, the oldest first */
	u64 ticket;               /* the last one given out */
	struct delayed_work timeout;
};

void exanest_pagers_init(struct exanest_pagers *pager);

long exanest_pager_ioctl(struct exanest_context *context, void __user *argument);
long exanest_resolved_ioctl(struct exanest_context *context, void __user *argument);

/* Up to which address the process provides the pages from address on; 0: it does not. */
unsigned long exanest_pager_end(struct exanest_context *context, unsigned long address);
/* Hand a block's fault to the process, which is not gone: then true, and the block waits. */
bool exanest_pager_forward(struct exanest_context *context, struct exanest_block *block,
			   unsigned long address, unsigned long length);
/* Take a block back that waits for the process's answer. false: it does not. */
bool exanest_pager_cancel(struct exanest_context *context, struct exanest_block *block);
/* Nothing waits any more. */
void exanest_pagers_free(struct exanest_pagers *pager);
/* The process is gone: all that wait for it go back to the resolver. */
void exanest_pagers_gone(struct exanest_context *context);

#endif
