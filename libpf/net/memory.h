/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of this process for the protocol core: find out whether pages are present, write and read
 * bytes, and have absent pages resolved.
 */
#ifndef PF_NET_MEMORY_H
#define PF_NET_MEMORY_H

#include <stdatomic.h>

#include "memory/access.h"
#include "memory/policy.h"
#include "protocol/net.h"

struct net_resolution;

/* Ranges of hidden memory to remember: enough for a few buffers in use at a time. */
#define NET_HIDDEN_RANGES 8

struct net_hidden {
	uint64_t start, end; /* addresses: [start, end) */
};

/* State of the driving thread, which alone uses all fields but "resolved". */
struct net_memory {
	pf_context *context;
	struct access access;
	struct resolve_window source_window, destination_window;
	bool progress; /* progress drives: waiting for a page is permitted, if nothing else helps */
	_Atomic(struct net_resolution *)
		resolved; /* finished resolutions, pushed by resolving threads */
	struct net_resolution
		*deferred; /* atomics left to progress, as the service thread must not do them */
	/* Ranges found hidden (FAULT_HIDDEN): moved without a look. */
	struct net_hidden hidden[NET_HIDDEN_RANGES];
	unsigned hidden_next; /* range to replace next, modulo NET_HIDDEN_RANGES */
	void (*notify)(struct net_memory *memory); /* any thread: a resolution is finished */
};

void net_memory_open(struct net_memory *memory, pf_context *context,
		     void (*notify)(struct net_memory *memory));
/* Free everything. Call it when no resolution is under way. */
void net_memory_close(struct net_memory *memory);
struct net_memory_operations net_memory_functions(struct net_memory *memory);
/* Implement net_memory_operations.gather; user is the struct net_memory. */
bool net_memory_gather(void *user, const struct iovec *from, unsigned count, void *to);
/* Tell the core of finished resolutions. Return their number. */
unsigned net_memory_tell(struct net_memory *memory, struct net_core *core);

#endif
