/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements of pf_perf: what one repetition does, and what its time means. */
#ifndef TOOLS_PERF_TESTS_H
#define TOOLS_PERF_TESTS_H

#include "pair.h"
#include "sample.h"

enum measure { MEASURE_LATENCY, MEASURE_BANDWIDTH, MEASURE_RATE };

/* What is sent, put, got or added to, and therefore what there is to verify. */
enum contents { CONTENTS_MESSAGE, CONTENTS_PUT, CONTENTS_GET, CONTENTS_COUNTER };

struct settings {
	size_t smallest, largest;
	uint64_t iterations; /* of a repetition; 0: as many as take seconds */
	double seconds;
	unsigned repetitions;
	uint64_t warm_up; /* iterations before the first repetition; WARM_UP_AUTOMATIC */
	unsigned window;
	bool verify;
	bool registered; /* register the buffers of each put and get */
};

#define WARM_UP_AUTOMATIC UINT64_MAX

struct bench {
	struct pair *pair;
	size_t size;
	unsigned window;
	bool verify, registered;
	uint8_t *local;
	uint64_t remote;
	size_t stride;  /* from slot to slot, of either buffer */
	unsigned slots; /* to verify, the operations of a window have their own */
	uint64_t seed;
	uint64_t wrong; /* what else had wrong contents */
};

struct perf_test {
	const char *name; /* "put-latency" */
	const char *title;
	enum measure measure;
	double divisor; /* of a latency: 2 for half a round trip */
	enum contents contents;
	int (*run)(struct bench *bench, uint64_t iterations);
};

/* Ended by an entry whose name is NULL. */
extern const struct perf_test perf_tests[];

struct row {
	size_t size;
	uint64_t iterations;
	struct summary summary; /* in perf_unit */
};

const char *perf_unit(const struct perf_test *test);
/* The size after this one, or 0 if the test has no more. */
size_t perf_next_size(const struct perf_test *test, const struct settings *settings, size_t size);
/* Measure one size. Returns 0, or -1 after a message on standard error. */
int perf_measure(const struct perf_test *test, const struct settings *settings, struct pair *pair,
		 size_t size, struct row *row);

#endif
