/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks of other nodes that met page faults in the memory of a context here. Their engines move
 * them; what is left for this node is to resolve the page faults.
 */
#ifndef EXANEST_REQUEST_H
#define EXANEST_REQUEST_H

#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct exanest_engine;
struct exanest_export;
struct exanest_memory;
struct exanest_remote_fault;

/* A transfer of another node, whose blocks meet page faults: they have their last address in common. */
struct exanest_incoming {
	u64 node, last;
	u64 first; /* lowest address of a block that met one */
	u32 ahead; /* pages that were brought in ahead for it; written by the resolver, and here */
};

/* As many nodes as OPEN_MAX has blocks of. */
#define EXANEST_INCOMING_MAX 16

/* The requests of one memory. */
struct exanest_requests {
	struct exanest_memory *memory;
	const struct exanest_export *export;
	spinlock_t lock;
	struct list_head settled;     /* the oldest first: they may meet one more page fault */
	DECLARE_HASHTABLE(blocks, 6); /* the same, by their block */
	unsigned int settled_count;
	unsigned int open; /* that are not settled */
	struct exanest_incoming incoming[EXANEST_INCOMING_MAX];
	unsigned int incoming_next; /* to be forgotten */
};

void exanest_requests_init(struct exanest_requests *requests, struct exanest_memory *memory,
			   const struct exanest_export *export);
/* Once the memory has settled all. */
void exanest_requests_free(struct exanest_requests *requests);

/*
 * A block met a page fault: resolve it, and tell the engine, which the owner of memory
 * keeps. May sleep, but not for memory: see registers_export.
 */
void exanest_request_fault(struct exanest_requests *requests, struct exanest_engine *engine,
			   const struct exanest_remote_fault *what);

#endif
