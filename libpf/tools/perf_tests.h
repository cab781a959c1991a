/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of pf_perf: operations and unit of the results. */
#ifndef TOOLS_PERF_TESTS_H
#define TOOLS_PERF_TESTS_H

#include "bench.h"

enum measure { MEASURE_LATENCY, MEASURE_BANDWIDTH, MEASURE_RATE };

/* Contents moved or changed by an operation, for --verify. */
enum contents { CONTENTS_MESSAGE, CONTENTS_PUT, CONTENTS_GET, CONTENTS_COUNTER };

struct perf_test {
	const char *name; /* "put-latency" */
	const char *title;
	enum measure measure;
	double divisor; /* of a latency: 2 for half a round trip */
	enum contents contents;
	int (*run)(struct bench *bench, uint64_t iterations);
};

/* An entry with name NULL ends the list. */
extern const struct perf_test perf_tests[];

const char *perf_unit(const struct perf_test *test);

#endif
