/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several methods of doing the same measured against each other, at several
 * sizes, interleaved: what disturbs the machine for a while disturbs all.
 */
#ifndef TOOLS_PERF_COMPARE_H
#define TOOLS_PERF_COMPARE_H

#include "pair.h"

#define COMPARE_METHODS 8
#define COMPARE_SIZES 16

enum operation {
	OPERATION_GET,   /* pf_get while the partner polls */
	OPERATION_TAKE,  /* pf_send, seen by the receiver */
	OPERATION_KEEP,  /* pf_send, copied out by the receiver */
	OPERATION_FETCH, /* a header by pf_send, pf_get by the receiver, and a notice of that */
};

struct method {
	char name[24];
	enum operation operation;
	unsigned window; /* how many follow one another without waiting */
	pf_options options;
};

struct comparison {
	const char *name; /* of the option that it decides */
	struct method methods[COMPARE_METHODS];
	unsigned method_count;
	size_t sizes[COMPARE_SIZES];
	unsigned size_count;
	/* Results: seconds for one operation when nothing disturbs it, */
	double time[COMPARE_METHODS][COMPARE_SIZES];
	double noise; /* median of the cells' relative interquartile range, */
	double share; /* and of its core that the slower process had, 0 to 1 */
};

/* done: how much of the comparison, from 0 to 1 */
typedef void (*compare_progress_fn)(const struct comparison *comparison, double done);

/* Returns 0, or -1 after a message on standard error. */
int compare_methods(struct comparison *comparison, const struct cores *cores,
		    compare_progress_fn progress);

#endif
