/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers made ready before a transfer, as required by networks without page faults. Compiled with
 * configure --enable-comparison, for benchmarks alone: libpf needs no registration, and transfers
 * take page faults whether or not a buffer is registered.
 */
#ifndef PF_REGISTRATION_H
#define PF_REGISTRATION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Limits of the cache, locked without a user: bytes, ranges. */
#define REGISTRATION_CACHE_BYTES (1ull << 30)
#define REGISTRATION_CACHE_RANGES 1024

enum registration_mode {
	REGISTRATION_FAULT,     /* nothing: a page fault is resolved when a block meets it */
	REGISTRATION_PREFAULT,  /* touch every page */
	REGISTRATION_PIN,       /* lock the pages in memory until registration_remove */
	REGISTRATION_PIN_CACHE, /* lock; registration_remove leaves the pages locked */
};

struct registration;

struct registrations {
	enum registration_mode mode;
	int pagemap; /* /proc/thread-self/pagemap; -1: not open */
	pthread_mutex_t lock;
	/* Under the lock: */
	TAILQ_HEAD(registration_list, registration) list; /* most recently used first */
	uint64_t cached, cache_bytes;         /* bytes kept without a user, and their limit */
	unsigned cached_ranges, cache_ranges; /* ranges kept without a user, and their limit */
};

void registrations_init(struct registrations *registrations, enum registration_mode mode);
/* Unlock the memory of all registrations, and free also registrations in use. */
void registrations_destroy(struct registrations *registrations);
/*
 * Any thread: make [address, address + length) ready as the mode says. write: transfers will write
 * there. *registration is for registration_remove, NULL if there is nothing to undo. Returns PF_OK;
 * PF_ERR_FAULT for a page that is not mapped or not permitted; PF_ERR_MEMORY when the limit of locked
 * memory (ulimit -l) is reached; PF_ERR_SYSTEM. May wait for pages.
 */
int registration_add(struct registrations *registrations, void *address, size_t length, bool write,
		     struct registration **registration);
/* Any thread: undo registration_add and free the registration; NULL is allowed. */
void registration_remove(struct registrations *registrations, struct registration *registration);

#endif
