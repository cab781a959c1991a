/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_compare.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"
#include "perf_tests.h"
#include "sample.h"

#define REPETITIONS 7
#define SLICE_SECONDS 0.010     /* one method, one size, one repetition */
#define BATCH_SECONDS 20e-6     /* long against the clock, short against a time slice */
#define BATCHES_MOST 1024
#define BATCHES_LEAST 3
#define STREAM_WINDOW 64
#define SEED 7

/* What no machine does: whoever reads this knows that the clock jumped or the process was stopped. */
#define SECONDS_LEAST 1e-9
#define SECONDS_MOST 1.0

static int operate(struct bench *bench, enum operation operation)
{
	struct pair *pair = bench->pair;
	struct fetch fetch = { (uint64_t)(uintptr_t)bench->local, bench->size };
	unsigned i;

	switch (operation) {
	case OPERATION_GET:
		pair->completed = 0;
		if (pair_posted(pair, "pf_get", pf_get(pair->peer, bench->local, bench->remote,
						       bench->size, pair_complete, pair)))
			return -1;
		return pair_wait(pair, &pair->completed, 1);
	case OPERATION_KEEP:
		if (pair_send(pair, TAG_KEEP, bench->local, bench->size))
			return -1;
		break;
	case OPERATION_FETCH:
		if (pair_send(pair, TAG_FETCH, &fetch, sizeof(fetch)))
			return -1;
		break;
	case OPERATION_STREAM:
		for (i = 1; i <= STREAM_WINDOW; i++) {
			if (pair_send(pair, i < STREAM_WINDOW ? TAG_TAKE : TAG_TAKE_LAST,
				      bench->local, bench->size))
				return -1;
		}
		break;
	}
	return pair_wait(pair, &pair->arrived, pair->arrived + 1);
}

static int batch(struct bench *bench, enum operation operation, unsigned count, double *seconds)
{
	double start = sample_seconds();
	unsigned i;

	for (i = 0; i < count; i++) {
		if (operate(bench, operation))
			return -1;
	}
	*seconds = sample_seconds() - start;
	return 0;
}

static int slice(struct bench *bench, enum operation operation, double *result)
{
	double values[BATCHES_MOST], seconds, end;
	unsigned count = 1, batches = 0;

	/* The first one meets cold caches and sleeping processors. */
	if (batch(bench, operation, 4, &seconds))
		return -1;
	for (;; count *= 2) {
		if (batch(bench, operation, count, &seconds))
			return -1;
		if (seconds >= BATCH_SECONDS)
			break;
	}
	end = sample_seconds() + SLICE_SECONDS;
	do {
		if (batch(bench, operation, count, &seconds))
			return -1;
		values[batches++] = seconds / count;
	} while (batches < BATCHES_LEAST || (batches < BATCHES_MOST && sample_seconds() < end));
	*result = sample_summary(values, batches).median;
	if (operation == OPERATION_STREAM)
		*result /= STREAM_WINDOW;
	if (*result >= SECONDS_LEAST && *result <= SECONDS_MOST)
		return 0;
	warnx("a measured time of %g s for %zu bytes cannot be right: is the machine busy?",
	      *result, bench->size);
	return -1;
}

/* Have the bytes been where the method says that it brings them? */
static int check(struct bench *bench, enum operation operation)
{
	uint64_t wrong = 0;

	if (operation == OPERATION_GET)
		wrong = !pattern_matches(bench->local, bench->size, SEED);
	else if (operation != OPERATION_STREAM &&
		 pair_check(bench->pair, bench->size, bench->size, 1, SEED, &wrong))
		return -1;
	if (wrong)
		warnx("wrong contents after %zu bytes", bench->size);
	return wrong ? -1 : 0;
}

/* All sizes by one method, once. */
static int repetition(const struct comparison *comparison, unsigned method,
		      const struct cores *cores, double time[COMPARE_SIZES])
{
	const struct method *how = &comparison->methods[method];
	size_t largest = comparison->sizes[comparison->size_count - 1];
	bool get = how->operation == OPERATION_GET;
	struct pair pair;
	struct bench bench = { .pair = &pair, .size = largest };
	int status = -1;
	unsigned i;

	if (pair_fork(&pair, &how->options, cores))
		return -1;
	bench.local = bench_allocate(largest);
	if (!bench.local)
		goto out;
	pattern_fill(bench.local, largest, get ? SEED + 1 : SEED);
	if (pair_prepare(&pair, largest, largest, 1, get ? SEED : SEED + 1, false, &bench.remote))
		goto out;
	for (i = 0; i < comparison->size_count; i++) {
		bench.size = comparison->sizes[i];
		if (slice(&bench, how->operation, &time[i]))
			goto out;
	}
	status = check(&bench, how->operation);
out:
	if (bench.local)
		munmap(bench.local, largest);
	return pair_close(&pair) ? -1 : status;
}

/* Medians of the repetitions, and the noise between them. */
static void summarize(struct comparison *comparison,
		      double time[COMPARE_METHODS][COMPARE_SIZES][REPETITIONS])
{
	double noise[COMPARE_METHODS * COMPARE_SIZES];
	unsigned method, size, cells = 0;

	for (method = 0; method < comparison->method_count; method++) {
		for (size = 0; size < comparison->size_count; size++) {
			double *values = time[method][size];
			double median = sample_summary(values, REPETITIONS).median;

			comparison->time[method][size] = median;
			noise[cells++] = (values[REPETITIONS - 1 - REPETITIONS / 4] -
					  values[REPETITIONS / 4]) / median;
		}
	}
	comparison->noise = sample_summary(noise, cells).median;
}

int compare_methods(struct comparison *comparison, const struct cores *cores,
		    compare_progress_fn progress)
{
	double time[COMPARE_METHODS][COMPARE_SIZES][REPETITIONS], once[COMPARE_SIZES];
	unsigned repeat, method, size, steps = 0;

	for (repeat = 0; repeat < REPETITIONS; repeat++) {
		for (method = 0; method < comparison->method_count; method++) {
			progress(comparison, (double)steps++ /
						     (REPETITIONS * comparison->method_count));
			if (repetition(comparison, method, cores, once))
				return -1;
			for (size = 0; size < comparison->size_count; size++)
				time[method][size][repeat] = once[size];
		}
	}
	progress(comparison, 1);
	summarize(comparison, time);
	return 0;
}
