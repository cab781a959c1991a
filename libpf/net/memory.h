/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's memory as the protocol core sees it: is it there, put bytes
 * into it, and have what is absent resolved.
 */
#ifndef PF_NET_MEMORY_H
#define PF_NET_MEMORY_H

#include <stdatomic.h>

#include "memory/access.h"
#include "memory/policy.h"
#include "protocol/net.h"

struct net_resolution;

/* Ranges of hidden memory that are remembered: those of a few buffers in use at a time. */
#define NET_HIDDEN_RANGES 8

struct net_hidden {
	uint64_t start, end; /* addresses: [start, end) */
};

/* Used by the thread that drives the core, but for "resolved". */
struct net_memory {
	pf_context *context;
	struct access access;
	struct resolve_window source_window, destination_window;
	bool progress; /* it drives: it may wait for a page, if it has to */
	_Atomic(struct net_resolution *) resolved; /* by threads that resolve */
	struct net_resolution *deferred;           /* what only progress may do */
	/* Ranges that were found hidden (FAULT_HIDDEN): moved without a look. */
	struct net_hidden hidden[NET_HIDDEN_RANGES];
	unsigned hidden_next;                      /* modulo NET_HIDDEN_RANGES: replaced next */
	void (*notify)(struct net_memory *memory); /* any thread: something was resolved */
};

void net_memory_open(struct net_memory *memory, pf_context *context,
		     void (*notify)(struct net_memory *memory));
/* When nothing is resolved any more. */
void net_memory_close(struct net_memory *memory);
struct net_memory_operations net_memory_functions(struct net_memory *memory);
/* As net_memory_operations.gather; user is the net_memory. */
bool net_memory_gather(void *user, const struct iovec *from, unsigned count, void *to);
/* Tell the core what was resolved. Returns how many. */
unsigned net_memory_tell(struct net_memory *memory, struct net_core *core);

#endif
