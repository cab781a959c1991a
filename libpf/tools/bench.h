/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands of a measurement's operations. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "session.h"

struct bench {
	struct session *session;
	size_t size;     /* bytes of an operation */
	unsigned window; /* operations in progress at a time */
	bool verify;
	uint8_t *local;
	uint64_t remote; /* the partner's buffer */
	size_t stride;   /* bytes from slot to slot, of both buffers */
	unsigned slots;  /* with verify, each operation of a window has its own slot */
	uint64_t seed;   /* of the next patterns */
	uint64_t wrong;  /* wrong fetched values */
};

#endif
