/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_register: buffers made ready before a transfer, as required by networks without page faults.
 * Registrations exist for comparison; no other part of libpf depends on pf_register.
 */
#ifndef PF_REGISTRATION_H
#define PF_REGISTRATION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/statistics.h"
#include "pf.h"

/* Limits of the cache of a context, locked without a user: bytes, ranges. */
#define REGISTRATION_CACHE_BYTES (1ull << 30)
#define REGISTRATION_CACHE_RANGES 1024

struct registrations {
	enum pf_mode mode;
	struct statistics *statistics;
	int pagemap; /* /proc/thread-self/pagemap; -1: not open */
	pthread_mutex_t lock;
	/* Under the lock: */
	TAILQ_HEAD(registration_list, pf_registration) list; /* most recently used first */
	uint64_t cached, cache_bytes;         /* bytes kept without a user, and their limit */
	unsigned cached_ranges, cache_ranges; /* ranges kept without a user, and their limit */
};

/* The statistics are borrowed and must outlive the registrations. */
void registrations_init(struct registrations *registrations, enum pf_mode mode,
			struct statistics *statistics);
/* Unlock the memory of all registrations and free them, also those still in use. */
void registrations_destroy(struct registrations *registrations);
/* Any thread: pf_register and pf_deregister. Both may wait for pages. */
int registration_add(struct registrations *registrations, void *address, size_t length, bool write,
		     pf_registration **registration);
void registration_remove(struct registrations *registrations, pf_registration *registration);

#endif
