/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranges of own memory in reach of peers, with the option expose: pf_expose and pf_unexpose
 * change the ranges, and transports ask before each access by a peer. Without the option there are
 * no ranges, and peers reach all memory.
 */
#ifndef PF_EXPOSURE_H
#define PF_EXPOSURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/statistics.h"
#include <libpf/pf.h>

/* Rights needed by an atomic operation or a signal of a peer. */
#define EXPOSURE_ATOMIC (PF_EXPOSE_READ | PF_EXPOSE_WRITE)

struct exposed_range {
	uint64_t start, end; /* addresses: [start, end) */
	unsigned rights;     /* PF_EXPOSE_*, not 0 */
};

struct exposure {
	bool limited; /* the option expose; constant */
	struct statistics *statistics;
	/* Innermost. Readers are progress, the driving thread and the service thread. */
	pthread_rwlock_t lock;
	/* Under the lock: in order, without overlaps; neighbours without a gap have different rights. */
	struct exposed_range *ranges;
	size_t count;
};

void exposure_init(struct exposure *exposure, bool limited, struct statistics *statistics);
void exposure_destroy(struct exposure *exposure);

/*
 * Any thread: give the range the rights in place of earlier rights; 0: none. PF_OK,
 * PF_ERR_ARGUMENT or PF_ERR_MEMORY.
 */
int exposure_set(struct exposure *exposure, uint64_t start, uint64_t length, unsigned rights);

/* Implement exposure_permits with the option. */
bool exposure_find(struct exposure *exposure, uint64_t address, uint64_t length, unsigned rights,
		   uint64_t *bad);

/*
 * Any thread: may a peer access the range with the rights? If not, *bad is the first address of
 * the range without, and the refusal is counted.
 */
static inline bool exposure_permits(struct exposure *exposure, uint64_t address, uint64_t length,
				    unsigned rights, uint64_t *bad)
{
	return __builtin_expect(!exposure->limited, 1) ||
	       exposure_find(exposure, address, length, rights, bad);
}

#endif
