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
#define REPETITIONS_LEAST 3 /* on a machine so busy that they take longer than */
#define PATIENCE_SECONDS 3.0
#define SLICE_SECONDS 0.007 /* one method, one size, one repetition */
#define BATCH_SECONDS 20e-6 /* long against the clock, short against a time slice */
#define BATCHES_MOST 1024
#define BATCHES_LEAST 3
#define SEED 7

/* What no machine does: whoever reads this knows that the clock jumped or the process was stopped. */
#define SECONDS_LEAST 1e-9
#define SECONDS_MOST 1.0

static int get(struct bench *bench, unsigned window)
{
	struct pair *pair = bench->pair;
	unsigned i;

	pair->completed = 0;
	for (i = 0; i < window; i++) {
		if (pair_posted(pair, "pf_get",
				pf_get(pair->peer, bench->local, bench->remote, bench->size,
				       pair_complete, pair)))
			return -1;
	}
	return pair_wait(pair, &pair->completed, window);
}

/* A window of messages; the receiver says when the last of them is done. */
static int send_messages(struct bench *bench, enum tag tag, enum tag last, unsigned window)
{
	uint64_t arrived = bench->pair->arrived;
	unsigned i;

	for (i = 1; i <= window; i++) {
		if (pair_send(bench->pair, i < window ? tag : last, bench->local, bench->size))
			return -1;
	}
	return pair_wait(bench->pair, &bench->pair->arrived, arrived + 1);
}

/* The same by pf_get: as in a rendezvous, the sender is told of each. */
static int send_headers(struct bench *bench, unsigned window)
{
	struct fetch fetch = { (uint64_t)(uintptr_t)bench->local, bench->size };
	uint64_t arrived = bench->pair->arrived;
	unsigned i;

	for (i = 0; i < window; i++) {
		if (pair_send(bench->pair, TAG_FETCH, &fetch, sizeof(fetch)))
			return -1;
	}
	return pair_wait(bench->pair, &bench->pair->arrived, arrived + window);
}

static int operate(struct bench *bench, enum operation operation)
{
	switch (operation) {
	case OPERATION_TAKE:
		return send_messages(bench, TAG_TAKE, TAG_TAKE_LAST, bench->window);
	case OPERATION_KEEP:
		return send_messages(bench, TAG_KEEP, TAG_KEEP_LAST, bench->window);
	case OPERATION_FETCH:
		return send_headers(bench, bench->window);
	default:
		return get(bench, bench->window);
	}
}

/* Seconds for count windows. */
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
	/*
	 * Whatever else runs here only adds time, and takes away the partner, of
	 * whom the methods make different use: the undisturbed batches count.
	 */
	sample_summary(values, batches);
	*result = values[batches / 10] / bench->window;
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
	else if (operation != OPERATION_TAKE &&
		 pair_check(bench->pair, bench->size, bench->size, 1, SEED, &wrong))
		return -1;
	if (wrong)
		warnx("wrong contents after %zu bytes", bench->size);
	return wrong ? -1 : 0;
}

static int partner_seconds(struct pair *pair, double *seconds)
{
	struct control control = { .kind = CONTROL_PROCESSOR };

	if (pair_ask(pair, &control))
		return -1;
	*seconds = (double)control.length * 1e-9;
	return 0;
}

/* All sizes, in time[]; *share: of its core that the slower process had meanwhile. */
static int slices(struct bench *bench, const struct comparison *comparison,
		  enum operation operation, double *time, double *share)
{
	double start, own, partner, before;
	unsigned i;

	if (partner_seconds(bench->pair, &before))
		return -1;
	start = sample_seconds();
	own = sample_processor_seconds();
	for (i = 0; i < comparison->size_count; i++) {
		bench->size = comparison->sizes[i];
		if (slice(bench, operation, &time[i]))
			return -1;
	}
	own = sample_processor_seconds() - own;
	if (partner_seconds(bench->pair, &partner))
		return -1;
	partner -= before;
	*share = (own < partner ? own : partner) / (sample_seconds() - start);
	return 0;
}

/* All sizes by one method, once, by a new pair of processes. */
static int repetition(const struct comparison *comparison, unsigned method,
		      const struct cores *cores, double *time, double *share)
{
	const struct method *how = &comparison->methods[method];
	size_t largest = comparison->sizes[comparison->size_count - 1];
	bool get = how->operation == OPERATION_GET;
	struct pair pair;
	struct bench bench = { .pair = &pair, .size = largest, .window = how->window };
	int status = -1;

	if (pair_fork(&pair, &how->options, cores))
		return -1;
	bench.local = pair_buffer(largest);
	if (!bench.local)
		goto out;
	pattern_fill(bench.local, largest, get ? SEED + 1 : SEED);
	if (pair_prepare(&pair, largest, largest, 1, get ? SEED : SEED + 1, false, &bench.remote))
		goto out;
	if (slices(&bench, comparison, how->operation, time, share))
		goto out;
	status = check(&bench, how->operation);
out:
	if (bench.local)
		munmap(bench.local, largest);
	return pair_close(&pair) ? -1 : status;
}

struct repetitions {
	double time[COMPARE_METHODS][COMPARE_SIZES][REPETITIONS];
	double share[COMPARE_METHODS * REPETITIONS];
	unsigned count;
};

/* Medians of the repetitions, and the noise between them. */
static void summarize(struct comparison *comparison, struct repetitions *repetitions)
{
	double noise[COMPARE_METHODS * COMPARE_SIZES];
	unsigned method, size, cells = 0, count = repetitions->count;

	for (method = 0; method < comparison->method_count; method++) {
		for (size = 0; size < comparison->size_count; size++) {
			double *values = repetitions->time[method][size];
			double median = sample_summary(values, count).median;

			comparison->time[method][size] = median;
			noise[cells++] = (values[count - 1 - count / 4] - values[count / 4]) /
					 median;
		}
	}
	comparison->noise = sample_summary(noise, cells).median;
	comparison->share =
		sample_summary(repetitions->share, count * comparison->method_count).median;
}

int compare_methods(struct comparison *comparison, const struct cores *cores,
		    compare_progress_fn progress)
{
	double once[COMPARE_SIZES], start = sample_seconds();
	struct repetitions repetitions = { .count = 0 };
	unsigned method, size, steps = 0;

	while (repetitions.count < REPETITIONS) {
		if (repetitions.count >= REPETITIONS_LEAST &&
		    sample_seconds() - start > PATIENCE_SECONDS)
			break;
		for (method = 0; method < comparison->method_count; method++) {
			progress(comparison,
				 (double)steps / (REPETITIONS * comparison->method_count));
			if (repetition(comparison, method, cores, once,
				       &repetitions.share[steps++]))
				return -1;
			for (size = 0; size < comparison->size_count; size++)
				repetitions.time[method][size][repetitions.count] = once[size];
		}
		repetitions.count++;
	}
	progress(comparison, 1);
	summarize(comparison, &repetitions);
	return 0;
}
