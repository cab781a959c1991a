/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routes by which blocks move between this process and a linked peer of this host: one for each
 * peer, chosen when the peer is linked, changed when the route is lost.
 */
#ifndef PF_ROUTE_H
#define PF_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct host_peer;
struct host_state;
struct transfer;
struct atomic_operation;

/* Result of advancing an operation; up to ADVANCED_SHARED: nothing happened. */
enum advanced {
	ADVANCED_BLOCKED, /* no room towards the peer, for the operation and all behind */
	ADVANCED_WAITS,   /* an event will make the operation ready again (turns.h) */
	ADVANCED_SHARED,  /* the peer moves the rest, and reports in the share only */
	ADVANCED_LITTLE,  /* something small */
	ADVANCED_COPY,    /* copied a run */
	ADVANCED_TO_END,  /* the operation is finished */
};

struct route {
	/* Progress: move a READY block, or the next of the run in hand. */
	enum advanced (*move)(struct host_state *host, struct transfer *transfer);
	/*
	 * Progress: move an atomic likewise; NULL: a message asks the peer to execute the atomic.
	 */
	enum advanced (*atomic)(struct host_state *host, struct atomic_operation *atomic);
	bool shares; /* both processes can move long transfers, each from its end */
};

extern const struct route route_copy;   /* process_vm_readv, process_vm_writev */
extern const struct route route_stream; /* messages through the ring */
extern const struct route route_device; /* /dev/exanest */
extern const struct route route_none;   /* transfers end with PF_ERR_UNREACHABLE */

/*
 * Progress, or without threads the program's thread: a copy looked up the pages there, in the memory of
 * the peer. Only if collapse_counts.
 */
void route_copy_note(struct host_peer *peer, uint64_t remote, uint64_t length);

#endif
