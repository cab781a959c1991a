/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver makes a range of this process's own memory present. It knows
 * nothing of transports. What may take long, because a page has to be read or
 * a pager is slow, is done on threads of its own, which are started when they
 * are first needed and sleep otherwise.
 */
#ifndef PF_RESOLVER_H
#define PF_RESOLVER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/fault.h"
#include "base/limits.h"
#include "pace.h"
#include "pager.h"
#include "pf.h"
#include "residency.h"

/* Nobody asks for more at a time: the longest block. */
#define RESOLVER_MOST BLOCK_SIZE_MAX
#define RESOLVER_THREADS 4

/* One range to be made present, and what became of it. */
struct resolution {
	struct resolution *next;
	uint64_t address, length;
	bool write;
	int status;      /* PF_OK or PF_ERR_FAULT */
	uint64_t failed; /* the first address that cannot be had */
	enum fault_kind kind;
	/* On the thread that resolved it; owns the resolution from here on. */
	void (*done)(struct resolution *resolution);
};

struct resolver {
	struct pagers *pagers;
	struct residency *residency; /* of this process */
	struct pace *pace;
	enum pf_policy policy; /* for probes */
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct resolution *first, **last;
	pthread_t threads[RESOLVER_THREADS];
	unsigned started, idle;
	bool stopping;
};

/* What it is given belongs to the caller and lives longer. */
void resolver_init(struct resolver *resolver, struct pagers *pagers, struct residency *residency,
		   struct pace *pace, enum pf_policy policy);
/* Ends the threads; resolutions not yet begun are given to done with PF_ERR_FAULT. */
void resolver_destroy(struct resolver *resolver);
/* Here, if it is quick; otherwise on another thread. done is called either way. */
void resolver_submit(struct resolver *resolver, struct resolution *resolution);

#endif
