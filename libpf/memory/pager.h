/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pagers: memory with absent pages supplied by a callback of the application. The kernel reports
 * an access to an absent page by userfaultfd(2), in one of two ways:
 * - For a load or store the kernel queues a message and suspends the thread. The service thread
 *   reads the message. The service thread supplies the page if the pager is known to be quick;
 *   else a thread that may wait does (pagers_defer), because peers wait for the service thread.
 * - A system call, as a copy between processes, fails with EFAULT at once (UFFD_USER_MODE_ONLY).
 *   The block is parked, and pager_supply runs on the thread that resolves the block: no message
 *   and no wake-up (as PFF-UINTR forwards page faults).
 * Both end with UFFDIO_COPY, which installs a whole page atomically. supply must not touch memory
 * of any pager: the service thread may be the caller of supply.
 *
 * Locks: the list of pagers changes only under the lock for writing, and supply runs under the
 * lock for reading, hence pager_unregister returns after the last call of supply. The lock
 * prefers readers, which is the default: progress takes the lock for reading for a moment, and
 * must not wait behind a writer that waits for a slow supply. Overlapping slow supplies would
 * then keep a writer waiting for ever. Therefore a writer holds the gate while waiting, and
 * resolver threads pass the gate before each supply. The lock of the device (forward) is taken
 * inside the lock of the pagers, never the other way round.
 */
#ifndef PF_PAGER_H
#define PF_PAGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/service.h"
#include <libpf/pf.h>

/*
 * Longest time of a quick supply, ns: pf_progress calls a quick supply itself. Handing the page
 * fault to a resolver thread would take about as long.
 */
#define PAGER_QUICK_NANOSECONDS 20000

/*
 * Have page faults of a range raised by anything but a processor (by the engine) reported to
 * libpf, or no longer. Runs under the lock of the pagers for writing.
 */
typedef int (*pagers_forward_fn)(void *arg, uint64_t start, uint64_t length, bool enable);

struct deferred_unit;

/*
 * Have the page of a pager supplied on a thread that may wait and then calls pagers_supplied.
 * Service thread, without the lock.
 */
typedef void (*pagers_defer_fn)(void *arg, uint64_t page, struct deferred_unit *unit);

struct pagers {
	pf_context *context;     /* argument of supply */
	struct service *service; /* its thread reads userfault */
	pthread_rwlock_t lock;
	pthread_mutex_t gate;
	LIST_HEAD(, pf_pager) list; /* changed under the lock for writing */
	/*
	 * The list has an entry; false skips the lock. Relaxed loads are enough: a thread with
	 * permission to use a pager's memory learned of the pager after pf_pager_register
	 * returned, and the same order puts its load behind the store.
	 */
	_Atomic bool any;
	_Atomic bool open;      /* userfault is open; relaxed as well */
	int userfault;          /* the userfaultfd, opened by the first pager; -1: none yet */
	void *no_access;        /* a page without permissions; set with userfault */
	struct event *readable; /* of userfault; the service thread's */
	/*
	 * [ahead_start, ahead_end) is memory of a single pager, to be supplied by the event
	 * ahead. Set by the service thread under the lock for reading; the end is set to 0 by any
	 * thread under the lock for writing, when the pager goes or changes.
	 */
	struct event *ahead;
	uint64_t ahead_start, ahead_end;
	pagers_forward_fn forward;
	void *forward_arg;
	pagers_defer_fn defer; /* NULL: the service thread supplies all pages needed by loads */
	void *defer_arg;
	/* Units given to defer. Changed by the service thread under the lock for reading. */
	LIST_HEAD(, deferred_unit) deferred;
};

/* The service is borrowed and must outlive the pagers. */
void pagers_init(struct pagers *pagers, pf_context *context, struct service *service);
/*
 * Call after service_stop. Frees pagers not unregistered; threads waiting for a page of a pager
 * find zeros.
 */
void pagers_destroy(struct pagers *pagers);

/* Before the first pager. */
void pagers_defer(struct pagers *pagers, pagers_defer_fn defer, void *arg);
/*
 * Any thread, also after service_stop: the page is present (PF_OK), or is not (any other status).
 */
void pagers_supplied(struct deferred_unit *unit, int status);

/* Any thread: the functions of pf.h with equal names. */
int pager_register(struct pagers *pagers, void *address, size_t length, pf_supply_fn supply,
		   void *arg, struct pf_pager **pager);
int pager_set_unit(struct pf_pager *pager, size_t unit);
int pager_set_ahead(struct pf_pager *pager, size_t most);
int pager_evict(struct pf_pager *pager, void *address, size_t length);
void pager_unregister(struct pf_pager *pager);

/* Any thread: does a pager own the address? If so, *quick: its supply is known to be quick. */
bool pager_owns(struct pagers *pagers, uint64_t address, bool *quick);
/* Any thread: does a single pager own all of [address, address + length)? */
bool pager_owns_all(struct pagers *pagers, uint64_t address, uint64_t length);
/* Any thread: does a pager own any byte of [address, address + length)? */
bool pagers_own(struct pagers *pagers, uint64_t address, uint64_t length);
/* Any thread: does a pager own the page at the address, and is the page absent? */
bool pager_lacks(struct pagers *pagers, uint64_t address);
/*
 * Any thread: supply the absent pages of [address, address + length), up to the first page
 * without a pager. *done: bytes from address on present now. *supplied: at least one page was
 * installed. Returns PF_OK, or PF_ERR_FAULT if the page at address + *done cannot be supplied.
 * Waits for supply; on_resolver_thread: also for threads waiting to change the list of pagers.
 */
int pager_supply(struct pagers *pagers, uint64_t address, uint64_t length, bool on_resolver_thread,
		 uint64_t *done, bool *supplied);
/*
 * Any thread: give zeros to the absent pages of [address, address + length), up to the first byte
 * owned by a pager, where page faults are reported to userfault although no pager owns the
 * memory: mremap may grow memory out of a pager's range in place. Does nothing to other memory,
 * nor to memory of another userfaultfd. Returns whether memory without a pager has pages now,
 * given by the calling thread or another.
 *
 * The function fills (UFFDIO_ZEROPAGE) rather than unregisters (UFFDIO_UNREGISTER).
 * UFFDIO_UNREGISTER splits mappings, of which a process may have only a limited number
 * (vm.max_map_count), and in older kernels could undo the registration of another userfaultfd.
 * The device need not be told: when the kernel refuses a page to the device, the block parks, the
 * resolver calls pagers_touch, and the block is retransmitted.
 */
bool pagers_fill(struct pagers *pagers, uint64_t address, uint64_t length);
/*
 * Touch memory without a pager as touch_range; calls pagers_fill where needed. Memory of another
 * userfaultfd without page faults of the kernel ends with EFAULT in errno.
 */
int pagers_touch(struct pagers *pagers, uint64_t address, uint64_t length, bool write,
		 uint64_t *failed);
/*
 * Any thread, once: call forward for each range, present and later. forward and arg must outlive
 * the pagers.
 */
void pagers_forward(struct pagers *pagers, pagers_forward_fn forward, void *arg);

#endif
