/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare several methods of moving bytes, at several sizes. The methods take turns: a disturbance
 * of the machine affects all methods.
 */
#ifndef TOOLS_PERF_COMPARE_H
#define TOOLS_PERF_COMPARE_H

#include "session.h"

#define COMPARE_METHODS 8
#define COMPARE_SIZES 16

enum operation {
	OPERATION_GET,   /* pf_get while the partner polls */
	OPERATION_STORE, /* pf_send; the receiver copies the payload out of the ring */
	OPERATION_FETCH, /* a header by pf_send, pf_get by the receiver, and its reply */
};

struct method {
	char name[24];
	enum operation operation;
	unsigned window; /* operations in progress at a time */
	pf_options options;
};

struct comparison {
	const char *name; /* option to decide */
	struct method methods[COMPARE_METHODS];
	unsigned method_count;
	size_t sizes[COMPARE_SIZES];
	unsigned size_count;
	/* Results: */
	double time[COMPARE_METHODS][COMPARE_SIZES]; /* seconds of an undisturbed operation */
	double noise; /* interquartile range over median: the median of all methods and sizes */
	double share; /* lesser share of a core of both processes, 0 to 1 */
	bool steady;  /* the distance between the cores was constant for long enough */
};

/* done: complete share of the comparison, from 0 to 1 */
typedef void (*compare_progress_fn)(const struct comparison *comparison, double done);

/*
 * Run the comparison in 3 s. If the time of a cache line between the cores changes meanwhile, up to
 * 12 s: repetitions of two states of the machine are not compared. Returns 0, or -1 with a message
 * on standard error.
 */
int compare_methods(struct comparison *comparison, const struct cores *cores,
		    compare_progress_fn progress);

#endif
