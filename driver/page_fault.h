/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A page fault that an engine met in the memory of a context: what has to be known to
 * resolve it, whichever node the block is from. It is part of what waits for it.
 */
#ifndef EXANEST_PAGE_FAULT_H
#define EXANEST_PAGE_FAULT_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

struct exanest_pagers;

struct exanest_page_fault {
	struct list_head link; /* waits for the resolver, or for a pager */
	/*
	 * Ends it: the fault is the callee's again. status: 0, the pages are there; or a negative
	 * errno of the page at address.
	 */
	void (*settle)(struct exanest_page_fault *fault, int status);
	const bool *dropped; /* set: the submitter is gone, and the fault need not be resolved */
	u64 start, end;      /* addresses of the block */
	u64 last;            /* up to which its transfer goes */
	u64 address;         /* of the fault */
	u64 detected;        /* ns */
	u32 *ahead;          /* pages that the resolver brought in ahead for this transfer */
	u32 retries;         /* times that the block was sent again */
	u32 forwards;        /* to a pager */
	bool write;
	bool counted; /* as a page fault, not as a miss of the translations */
	/* For the trace: */
	u64 context, sequence, offset; /* of the transfer, and in it */
	u64 owner;                     /* address of the context whose memory it is */
	/* Under the lock of the pager: */
	struct exanest_pagers *pager; /* that it waits for, or NULL */
	struct rb_node node;          /* by ticket, once the event was sent */
	u64 ticket;                   /* 0: the event is still to be sent */
	unsigned long expires;        /* jiffies */
	u64 needs;                    /* bytes from the page of address on */
};

#endif
