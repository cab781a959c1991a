/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pagers: memory whose absent pages the application supplies from a callback. The kernel
 * reports an access to such a page by userfaultfd(2), in one of two ways:
 * - For a load or store it queues a message and suspends the thread. The service thread
 *   reads the message. It supplies the page itself if the pager is known to be quick; else a
 *   thread that may wait does (pagers_defer), because peers wait for the service thread.
 * - A system call, such as a copy between processes, fails with EFAULT at once
 *   (UFFD_USER_MODE_ONLY). The block is parked, and pager_supply runs on the thread that
 *   resolves it: no message and no wake-up (as PFF-UINTR forwards page faults).
 * Both end with UFFDIO_COPY, which installs a whole page atomically. supply must not touch memory
 * of any pager: the service thread may be the one that runs it.
 *
 * Locks: the list of pagers changes only under the lock for writing, and supply runs under
 * it for reading, so pager_unregister returns after the last call of supply. The lock
 * prefers readers, which is the default: progress takes it for reading for a moment, and must not
 * wait behind a writer that waits for a slow supply. Slow supplies that overlap would then keep a
 * writer waiting for ever, so a writer holds the gate while it waits, and resolver threads pass the
 * gate before each supply. The lock of the device (forward) is taken inside this lock, never the
 * other way round.
 */
#ifndef PF_PAGER_H
#define PF_PAGER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/service.h"
#include "pf.h"

/*
 * Supply is quick while it takes less than this, ns: pf_progress calls it itself. Handing the
 * page fault to a resolver thread would take about as long.
 */
#define PAGER_QUICK_NANOSECONDS 20000

/*
 * Have page faults of a range that are not those of a processor (the engine's) reported to
 * libpf, or no longer. Runs under the lock of the pagers for writing.
 */
typedef int (*pagers_forward_fn)(void *arg, uint64_t start, uint64_t length, bool enable);

struct deferred_unit;

/*
 * Have the page of a pager supplied on a thread that may wait, which then calls pagers_supplied. Service
 * thread, without the lock.
 */
typedef void (*pagers_defer_fn)(void *arg, uint64_t page, struct deferred_unit *unit);

struct pagers {
	pf_context *context;     /* argument of supply */
	struct service *service; /* the thread that reads userfault */
	pthread_rwlock_t lock;
	pthread_mutex_t gate;
	LIST_HEAD(, pf_pager) list; /* changed under the lock for writing */
	/*
	 * Whether the list has an entry, to skip the lock where it has none. Relaxed loads are
	 * enough: a thread that may use a pager's memory learned of it after pf_pager_register
	 * returned, and what ordered it behind that orders its load behind the store.
	 */
	_Atomic bool any;
	_Atomic bool open;      /* userfault is open; relaxed as well */
	int userfault;          /* the userfaultfd, opened by the first pager; -1: none yet */
	void *no_access;        /* a page without permissions; set with userfault */
	struct event *readable; /* of userfault; the service thread's */
	/*
	 * [ahead_start, ahead_end) is of one pager, and will be supplied by the event ahead. Set by
	 * the service thread under the lock for reading; end is set to 0 by others under the lock for
	 * writing, when the pager goes or changes.
	 */
	struct event *ahead;
	uint64_t ahead_start, ahead_end;
	pagers_forward_fn forward;
	void *forward_arg;
	pagers_defer_fn defer; /* NULL: the service thread supplies all pages that loads wait for */
	void *defer_arg;
	/* Units that defer was called for. Changed by the service thread under the lock for reading. */
	LIST_HEAD(, deferred_unit) deferred;
};

/* The service is borrowed and must outlive the pagers. */
void pagers_init(struct pagers *pagers, pf_context *context, struct service *service);
/*
 * Call it after service_stop. Frees pagers that were not unregistered; threads that wait for
 * a page of them find zeros.
 */
void pagers_destroy(struct pagers *pagers);

/* Before the first pager. */
void pagers_defer(struct pagers *pagers, pagers_defer_fn defer, void *arg);
/* Any thread, also after service_stop: the page is present, or, with another status than PF_OK, is not. */
void pagers_supplied(struct deferred_unit *unit, int status);

/* The functions of pf.h with these names. Any thread. */
int pager_register(struct pagers *pagers, void *address, size_t length, pf_supply_fn supply,
		   void *arg, struct pf_pager **pager);
int pager_set_unit(struct pf_pager *pager, size_t unit);
int pager_set_ahead(struct pf_pager *pager, size_t most);
int pager_evict(struct pf_pager *pager, void *address, size_t length);
void pager_unregister(struct pf_pager *pager);

/* Any thread: does a pager own the address? If so, *quick: its supply is known to be quick. */
bool pager_owns(struct pagers *pagers, uint64_t address, bool *quick);
/* Any thread: does the pager that owns the address own all of [address, address + length)? */
bool pager_owns_all(struct pagers *pagers, uint64_t address, uint64_t length);
/* Any thread: does a pager own any byte of [address, address + length)? */
bool pagers_own(struct pagers *pagers, uint64_t address, uint64_t length);
/* Any thread: does a pager own the page at the address, and is the page absent? */
bool pager_lacks(struct pagers *pagers, uint64_t address);
/*
 * Any thread: supply the absent pages of [address, address + length), up to the first page
 * that no pager owns. *done: bytes from address on that are present now. *supplied: at
 * least one page was installed. Returns PF_OK, or PF_ERR_FAULT if the page at
 * address + *done cannot be supplied. Waits for supply. gives_way: and for threads that wait to
 * change the list of pagers.
 */
int pager_supply(struct pagers *pagers, uint64_t address, uint64_t length, bool gives_way,
		 uint64_t *done, bool *supplied);
/*
 * Give zeros to the absent pages of [address, address + length), up to the first byte that a
 * pager owns, where page faults are reported to userfault although no pager owns the memory:
 * mremap may grow memory out of a pager's range in place. Does nothing to other memory, also not
 * to that of another userfaultfd. Returns whether such memory has pages now, given by this thread
 * or another. Any thread.
 *
 * It fills (UFFDIO_ZEROPAGE) rather than unregisters (UFFDIO_UNREGISTER). The latter splits
 * mappings, of which a process may have only so many (vm.max_map_count), and older kernels let
 * it undo the registration of another userfaultfd. The device need not be told: when the kernel
 * refuses it such a page, the block parks, the resolver calls pagers_touch, and the block is
 * retransmitted.
 */
bool pagers_fill(struct pagers *pagers, uint64_t address, uint64_t length);
/*
 * As touch_range, of memory that no pager owns; calls pagers_fill where it is needed. Memory of
 * another userfaultfd that does not take page faults of the kernel ends with EFAULT in errno.
 */
int pagers_touch(struct pagers *pagers, uint64_t address, uint64_t length, bool write,
		 uint64_t *failed);
/*
 * Call forward for each range, those of today and later ones. Any thread, once; forward
 * and arg must outlive the pagers.
 */
void pagers_forward(struct pagers *pagers, pagers_forward_fn forward, void *arg);

#endif
