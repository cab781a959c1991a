/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What networks need that cannot take a fault: buffers made ready before a
 * transfer. It exists to be compared against, and nothing else knows of it.
 */
#ifndef PF_REGISTRATION_H
#define PF_REGISTRATION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/statistics.h"
#include "pf.h"

/* What pin-cache keeps locked for nobody, of one context: bytes, and ranges. */
#define REGISTRATION_CACHE_BYTES (1ull << 30)
#define REGISTRATION_CACHE_RANGES 1024

struct registrations {
	enum pf_mode mode;
	struct statistics *statistics;
	pthread_mutex_t lock;
	int pagemap; /* -1: not to be had */
	/* In use, and those that the cache keeps; the most recently used first. */
	pf_registration *first, *last;
	uint64_t cached, cache_bytes;         /* bytes kept for nobody, and the most of them */
	unsigned cached_ranges, cache_ranges; /* and how many ranges they are */
};

/* The statistics are the caller's and live longer. */
void registrations_init(struct registrations *registrations, enum pf_mode mode,
			struct statistics *statistics);
/* Unlocks what is locked, whether deregistered or not. */
void registrations_destroy(struct registrations *registrations);
/* As pf_register and pf_deregister. */
int registration_add(struct registrations *registrations, void *address, size_t length, bool write,
		     pf_registration **registration);
void registration_remove(struct registrations *registrations, pf_registration *registration);

#endif
