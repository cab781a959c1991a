/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory whose pages come from a callback of the application. The kernel
 * tells of absent pages in two ways: to a processor's load or store by a
 * userfaultfd message, which the service thread answers; to a copy that we
 * asked for by EFAULT at once (UFFD_USER_MODE_ONLY), which the engine answers
 * itself, on the thread that it is on: no message, no other thread, no wake-up
 * (as PFF-UINTR forwards faults). Both end in one UFFDIO_COPY.
 *
 * Lifetime: a callback runs under the lock for reading, so that unregistering,
 * which writes, waits until none is running.
 */
#ifndef PF_PAGER_H
#define PF_PAGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/service.h"
#include "pf.h"

/* A supply that takes longer than this is not waited for in pf_progress. */
#define PAGER_QUICK_NANOSECONDS 20000

/* Takes over the faults of a range for somebody else than a processor, or gives them back. */
typedef int (*pagers_forward_fn)(void *arg, uint64_t start, uint64_t length, bool enable);

struct pagers {
	pf_context *context; /* handed to the callbacks */
	struct service *service;
	pthread_rwlock_t lock;
	struct pf_pager *first;
	_Atomic bool any;
	int userfault;         /* -1: not open yet */
	struct event *faulted; /* the service thread's: the userfaultfd is readable */
	pagers_forward_fn forward;
	void *forward_arg;
};

/* context: for the callbacks. The service is the caller's and lives longer. */
void pagers_init(struct pagers *pagers, pf_context *context, struct service *service);
/* After service_stop. */
void pagers_destroy(struct pagers *pagers);

/* As pf_pager_register, _evict, _unregister. */
int pager_register(struct pagers *pagers, void *address, size_t length, pf_supply_fn supply,
		   void *arg, struct pf_pager **pager);
int pager_evict(struct pf_pager *pager, void *address, size_t length);
void pager_unregister(struct pf_pager *pager);

/* Any thread: is this the memory of a pager? *quick: of one that is known to take next to no time. */
bool pager_owns(struct pagers *pagers, uint64_t address, bool *quick);
/* Any thread: is any of [address, address + length) the memory of a pager? */
bool pagers_own(struct pagers *pagers, uint64_t address, uint64_t length);
/* Any thread: is the page there a pager's, and absent? */
bool pager_lacks(struct pagers *pagers, uint64_t address);
/*
 * Any thread: supply what is absent of [address, address + length) as far as it
 * is a pager's; *done is how far that is, *supplied whether anything came.
 * PF_OK, or PF_ERR_FAULT: the page at address + *done cannot be had.
 */
int pager_supply(struct pagers *pagers, uint64_t address, uint64_t length, uint64_t *done,
		 bool *supplied);
/* Any thread, once: forward is told of all ranges, those that there are and those to come. */
void pagers_forward(struct pagers *pagers, pagers_forward_fn forward, void *arg);

#endif
