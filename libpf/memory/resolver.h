/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver makes ranges of own memory present. No transport is known here. Threads of the
 * resolver do all work that may take long, because a page has to be read or a pager is slow. The
 * threads are started when first needed, and sleep while there is nothing to resolve.
 */
#ifndef PF_RESOLVER_H
#define PF_RESOLVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/fault.h"
#include "base/limits.h"
#include "pace.h"
#include "pager.h"
#include <libpf/pf.h>
#include "residency.h"

/* Bytes of one resolution, at most: the longest block. */
#define RESOLVER_LENGTH_MAX BLOCK_SIZE_MAX
#define RESOLVER_THREADS 4

/* A range to make present, and the result. Owned by the caller until submitted. */
struct resolution {
	/* Owned by the resolver, while the resolution is queued. */
	TAILQ_ENTRY(resolution) turn;              /* the first of its asker */
	STAILQ_HEAD(resolutions, resolution) rest; /* the resolutions behind the first */
	STAILQ_ENTRY(resolution) link;             /* behind the first of its asker */

	uint64_t asker;           /* number of the asker, unique; 0: the own process */
	uint64_t address, length; /* the range, bytes */
	bool write;               /* make the range writable too */
	int status;               /* result: PF_OK or PF_ERR_FAULT */
	uint64_t failed;          /* with PF_ERR_FAULT: the first inaccessible address */
	bool dropped;             /* result: not resolved, because the context closes */
	/* Result: kind of the page fault; PF_ERR_FAULT with FAULT_HIDDEN: of the failed address. */
	enum fault_kind kind;
	/* Called once, on the thread that resolved it; owns the resolution from then on. */
	void (*done)(struct resolution *resolution);
};

struct resolver {
	struct pagers *pagers;
	struct residency *residency; /* of the own address space */
	struct pace *pace;
	enum pf_policy policy; /* argument of probes: the submitter has chosen the range by it */
	struct trace *trace;   /* NULL: none */
	pthread_mutex_t lock;
	/* Under the lock: */
	pthread_cond_t work;            /* a resolution was queued, or the threads are to end */
	TAILQ_HEAD(, resolution) turns; /* the first of each asker: the next comes first */
	unsigned queued;                /* resolutions not taken by a thread */
	unsigned idle;                  /* threads that wait for work */
	unsigned started;               /* threads */
	bool stopping;
	pthread_t threads[RESOLVER_THREADS];
};

/* The pagers, the residency and the pace are borrowed and must outlive the resolver. */
void resolver_init(struct resolver *resolver, struct pagers *pagers, struct residency *residency,
		   struct pace *pace, enum pf_policy policy, struct trace *trace);
/* End the threads. Resolutions not begun are done with PF_ERR_FAULT, on the calling thread. */
void resolver_destroy(struct resolver *resolver);
/*
 * Any thread: resolve. done is called before the return if the resolution is quick, else on a
 * resolver thread.
 */
void resolver_submit(struct resolver *resolver, struct resolution *resolution);
/*
 * Any thread: resolve if the kernel has the pages, and only page tables lack them. False: nothing
 * happened, and done is not called.
 */
bool resolver_map(struct resolver *resolver, struct resolution *resolution);

#endif
