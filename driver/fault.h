/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults in one context's memory, and their resolver: a work that has one
 * parked block after the other made ready again. One at a time for a context,
 * so that one process's slow memory holds up only transfers that need it.
 */
#ifndef EXANEST_FAULT_H
#define EXANEST_FAULT_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

struct exanest_block;
struct exanest_context;

struct exanest_faults {
	spinlock_t lock;
	struct list_head blocks; /* parked, in the order in which they met their faults */
	struct work_struct work;
	bool closing; /* the descriptor is closed: give the translations back */
	bool closed;
};

void exanest_faults_init(struct exanest_faults *faults);

/* Hand a parked block to the resolver of the side that it met a fault on. Any context. */
void exanest_fault_queue(struct exanest_block *block);

/* The descriptor is closed. Has the resolver close the address space as its last deed. */
void exanest_faults_close(struct exanest_context *context);

#endif
