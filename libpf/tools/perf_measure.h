/* SPDX-License-Identifier: BSD-3-Clause */
/* Run a test of pf_perf: warm-up, repetitions, verification. */
#ifndef TOOLS_PERF_MEASURE_H
#define TOOLS_PERF_MEASURE_H

#include "perf_tests.h"
#include "sample.h"

#define WARM_UP_AUTOMATIC UINT64_MAX

struct settings {
	size_t smallest, largest; /* bytes of an operation */
	uint64_t iterations;      /* operations of a repetition; 0: as many as fill seconds */
	double seconds;           /* length of a repetition */
	unsigned repetitions;
	uint64_t warm_up; /* operations before the first repetition, or WARM_UP_AUTOMATIC */
	unsigned window;  /* operations in progress at a time */
	bool verify;
};

struct row {
	size_t size;
	uint64_t iterations;
	struct summary summary; /* in perf_unit */
};

/* Return the size after size; 0: no more. The first size follows 0. */
size_t perf_next_size(const struct perf_test *test, const struct settings *settings, size_t size);
/* Measure a size. Returns 0, or -1 with a message on standard error. */
int perf_measure(const struct perf_test *test, const struct settings *settings,
		 struct session *session, size_t size, struct row *row);

#endif
