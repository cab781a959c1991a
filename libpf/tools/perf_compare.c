/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_compare.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "cache_line.h"
#include "pattern.h"
#include "sample.h"

#define REPETITIONS_MAX 7
#define REPETITIONS_MIN 3 /* after COMPARISON_SECONDS, on a busy machine */
#define COMPARISON_SECONDS 3.0
#define CHANGING_SECONDS 12.0 /* with fewer repetitions, as the distance of the cores changes */
#define SLICE_SECONDS 0.007   /* a method, a size, a repetition */
#define BATCH_SECONDS 20e-6   /* long against a clock reading, short against a time slice */
#define BATCHES_MAX 1024
#define BATCHES_MIN 3
#define SEED 7

/* Range of a valid time of an operation. Beyond: the clock jumped or the process was stopped. */
#define OPERATION_SECONDS_MIN 1e-9
#define OPERATION_SECONDS_MAX 1.0

static int operation_get(struct bench *bench)
{
	struct session *session = bench->session;
	unsigned i;

	session->completed = 0;
	for (i = 0; i < bench->window; i++) {
		if (session_posted(session, "pf_get",
				   pf_get(session->peer, bench->local, bench->remote, bench->size,
					  session_complete, session)))
			return -1;
	}
	return session_wait(session, &session->completed, bench->window);
}

/* Send a window of messages; the receiver replies to the last. */
static int operation_send(struct bench *bench)
{
	uint64_t arrived = bench->session->arrived;
	unsigned i;

	for (i = 1; i <= bench->window; i++) {
		if (session_send(bench->session, i < bench->window ? TAG_STORE : TAG_STORE_LAST,
				 bench->local, bench->size))
			return -1;
	}
	return session_wait(bench->session, &bench->session->arrived, arrived + 1);
}

/* Send a window of headers; the receiver calls pf_get for each, and replies, as in a rendezvous. */
static int send_headers(struct bench *bench)
{
	struct fetch fetch = { (uint64_t)(uintptr_t)bench->local, bench->size };
	uint64_t arrived = bench->session->arrived;
	unsigned i;

	for (i = 0; i < bench->window; i++) {
		if (session_send(bench->session, TAG_FETCH, &fetch, sizeof(fetch)))
			return -1;
	}
	return session_wait(bench->session, &bench->session->arrived, arrived + bench->window);
}

static int run_operation(struct bench *bench, enum operation operation)
{
	switch (operation) {
	case OPERATION_STORE:
		return operation_send(bench);
	case OPERATION_FETCH:
		return send_headers(bench);
	default:
		return operation_get(bench);
	}
}

/* Measure count windows. */
static int run_batch(struct bench *bench, enum operation operation, unsigned count, double *seconds)
{
	double start = sample_seconds();
	unsigned i;

	for (i = 0; i < count; i++) {
		if (run_operation(bench, operation))
			return -1;
	}
	*seconds = sample_seconds() - start;
	return 0;
}

/* Measure a size. *result: seconds of an operation. */
static int run_slice(struct bench *bench, enum operation operation, double *result)
{
	double values[BATCHES_MAX], seconds, end;
	unsigned count = 1, batches = 0;

	/* Warm caches and wake processors first. */
	if (run_batch(bench, operation, 4, &seconds))
		return -1;
	for (;; count *= 2) {
		if (run_batch(bench, operation, count, &seconds))
			return -1;
		if (seconds >= BATCH_SECONDS)
			break;
	}
	end = sample_seconds() + SLICE_SECONDS;
	do {
		if (run_batch(bench, operation, count, &seconds))
			return -1;
		values[batches++] = seconds / count;
	} while (batches < BATCHES_MIN || (batches < BATCHES_MAX && sample_seconds() < end));
	/*
	 * Running programs only add time, and delay the partner, on whom the methods depend
	 * differently: use the tenth percentile.
	 */
	sample_summary(values, batches);
	*result = values[batches / 10] / bench->window;
	if (*result >= OPERATION_SECONDS_MIN && *result <= OPERATION_SECONDS_MAX)
		return 0;
	warnx("a measured time of %g s for %zu bytes cannot be right: repeat on an idle machine",
	      *result, bench->size);
	return -1;
}

/* Verify the bytes moved by the operations. */
static int verify_contents(struct bench *bench, enum operation operation)
{
	uint64_t wrong = 0;

	if (operation == OPERATION_GET)
		wrong = !pattern_matches(bench->local, bench->size, SEED);
	else if (session_check(bench->session, bench->size, bench->size, 1, SEED, &wrong))
		return -1;
	if (wrong)
		warnx("wrong contents after %zu bytes", bench->size);
	return wrong ? -1 : 0;
}

static int partner_seconds(struct session *session, double *seconds)
{
	struct control control = { .kind = CONTROL_PROCESSOR };

	if (session_ask(session, &control))
		return -1;
	*seconds = (double)control.length * 1e-9;
	return 0;
}

/* Measure all sizes. *share: the lesser processor time of both processes over elapsed time. */
static int run_slices(struct bench *bench, const struct comparison *comparison,
		      enum operation operation, double *time, double *share)
{
	double start, own, partner, before;
	unsigned i;

	if (partner_seconds(bench->session, &before))
		return -1;
	start = sample_seconds();
	own = sample_processor_seconds();
	for (i = 0; i < comparison->size_count; i++) {
		bench->size = comparison->sizes[i];
		if (run_slice(bench, operation, &time[i]))
			return -1;
	}
	own = sample_processor_seconds() - own;
	if (partner_seconds(bench->session, &partner))
		return -1;
	partner -= before;
	*share = (own < partner ? own : partner) / (sample_seconds() - start);
	return 0;
}

/* Measure all sizes by a method, with two new processes. */
static int run_repetition(const struct comparison *comparison, unsigned method,
			  const struct cores *cores, double *time, double *share)
{
	const struct method *how = &comparison->methods[method];
	size_t largest = comparison->sizes[comparison->size_count - 1];
	bool get = how->operation == OPERATION_GET;
	struct session session;
	struct bench bench = { .session = &session, .size = largest, .window = how->window };
	int status = -1;

	if (session_fork(&session, &how->options, cores))
		return -1;
	bench.local = session_buffer(largest);
	if (!bench.local)
		goto out;
	pattern_fill(bench.local, largest, get ? SEED + 1 : SEED);
	if (session_prepare(&session, largest, largest, 1, get ? SEED : SEED + 1, false,
			    &bench.remote))
		goto out;
	if (run_slices(&bench, comparison, how->operation, time, share))
		goto out;
	status = verify_contents(&bench, how->operation);
out:
	if (bench.local)
		munmap(bench.local, largest);
	return session_close(&session) ? -1 : status;
}

struct repetitions {
	double time[COMPARE_METHODS][COMPARE_SIZES][REPETITIONS_MAX];
	double share[COMPARE_METHODS * REPETITIONS_MAX];
	unsigned count;
};

/* Compute the medians of the repetitions and the noise between them. */
static void repetitions_summarize(struct comparison *comparison, struct repetitions *repetitions)
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

/* Measure all sizes by all methods, as the next repetition. */
static int repetition_measure(struct comparison *comparison, struct repetitions *repetitions,
			      const struct cores *cores, compare_progress_fn progress)
{
	double once[COMPARE_SIZES];
	unsigned method, size, step = repetitions->count * comparison->method_count;

	for (method = 0; method < comparison->method_count; method++, step++) {
		progress(comparison, (double)step / (REPETITIONS_MAX * comparison->method_count));
		if (run_repetition(comparison, method, cores, once, &repetitions->share[step]))
			return -1;
		for (size = 0; size < comparison->size_count; size++)
			repetitions->time[method][size][repetitions->count] = once[size];
	}
	repetitions->count++;
	return 0;
}

/* began_again: the distance changed meanwhile */
static bool is_enough(const struct repetitions *repetitions, bool began_again, double seconds)
{
	if (repetitions->count >= REPETITIONS_MIN)
		return repetitions->count == REPETITIONS_MAX || seconds > COMPARISON_SECONDS;
	return repetitions->count && began_again && seconds > CHANGING_SECONDS;
}

int compare_methods(struct comparison *comparison, const struct cores *cores,
		    compare_progress_fn progress)
{
	/* line: time of a cache line at the first repetition that counts */
	double start = sample_seconds(), line = cache_line_between(cores), now, seconds = 0;
	struct repetitions repetitions = { .count = 0 };
	bool changed = false, began_again = false;

	while (!is_enough(&repetitions, began_again, seconds)) {
		if (repetition_measure(comparison, &repetitions, cores, progress))
			return -1;
		seconds = sample_seconds() - start;
		now = cache_line_between(cores);
		changed = cache_line_differs(line, now);
		if (!changed)
			continue;
		line = now;
		began_again = true;
		/* Without time left, show the results so far. */
		if (seconds <= CHANGING_SECONDS)
			repetitions.count = 0;
	}
	progress(comparison, 1);
	comparison->steady = !changed && repetitions.count >= REPETITIONS_MIN;
	repetitions_summarize(comparison, &repetitions);
	return 0;
}
