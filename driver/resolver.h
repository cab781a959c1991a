/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Resolving a fault: bringing the pages in that a block needs, in the memory of one
 * context, as its owner would. Nothing here knows what becomes of the block.
 */
#ifndef EXANEST_RESOLVER_H
#define EXANEST_RESOLVER_H

#include <linux/types.h>

struct cgroup_subsys_state;
struct cred;
struct exanest_counters;
struct exanest_page_fault;
struct exanest_pagers;
struct exanest_space;
struct exanest_translation;
struct mem_cgroup;

/* How it is done for one context. For one thread at a time. */
struct exanest_resolver {
	struct exanest_space *space;
	struct exanest_pagers *pagers;
	struct exanest_counters *counters;
	const struct cred *cred; /* the owner's: quotas, limits and charges */
	u32 policy;              /* enum exanest_policy */
	unsigned long *buffer;   /* of EXANEST_SPAN_PAGES */
};

/* What the thread was before it acted as the owner, and what it holds of the owner's. */
struct exanest_identity {
	const struct cred *cred;
	struct mem_cgroup *memcg, *previous;
	struct cgroup_subsys_state *io;
};

/* What is to become of the block; else a negative errno ends its transfer. */
enum exanest_verdict {
	EXANEST_READY = 0,   /* its pages are there */
	EXANEST_FORWARD = 1, /* the process provides address and length */
};

/* What one block needs, and what its transfer will, of the span that it met its fault in. */
struct exanest_need {
	struct exanest_translation *translation;
	u64 span;                      /* address of the span */
	unsigned int first, end, last; /* pages of the block: [first, end); its transfer's: last */
	unsigned int ahead;            /* up to which to bring in after the block is ready */
	bool write;
	bool entered; /* the address space */
	struct exanest_identity identity;
	/* Out: */
	bool fault;  /* a page was absent */
	u64 address; /* of the page that verdict is of */
	u64 length;  /* with EXANEST_FORWARD */
};

int exanest_resolver_init(struct exanest_resolver *resolver);
void exanest_resolver_free(struct exanest_resolver *resolver);

/*
 * Resolve a page fault, which is the caller's. What is brought in ahead grows from fault to
 * fault of a transfer. Sleeps. Returns a verdict. Whatever it is, exanest_resolve_end follows,
 * which brings in pages ahead if more; the fault may be gone by then.
 */
int exanest_resolve(struct exanest_resolver *resolver, const struct exanest_page_fault *fault,
		    struct exanest_need *need);
void exanest_resolve_end(struct exanest_resolver *resolver, struct exanest_need *need, bool more);

#endif
