/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_measure.h"

#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pattern.h"

#define SLOTS_BYTES_MAX ((size_t)64 << 20)

static double value_convert(const struct perf_test *test, size_t size, uint64_t iterations,
			    double seconds)
{
	switch (test->measure) {
	case MEASURE_BANDWIDTH:
		return (double)size * (double)iterations / seconds * 1e-6;
	case MEASURE_RATE:
		return (double)iterations / seconds * 1e-6;
	default:
		return seconds / (double)iterations / test->divisor * 1e6;
	}
}

size_t perf_next_size(const struct perf_test *test, const struct settings *settings, size_t size)
{
	if (test->contents == CONTENTS_COUNTER)
		return size == 0 ? 4 : size == 4 ? 8 : 0;
	if (!size)
		return settings->smallest;
	if (size == settings->largest)
		return 0;
	return size > settings->largest / 2 ? settings->largest : size * 2;
}

static void bench_fill(struct bench *bench, uint64_t seed)
{
	unsigned slot;

	for (slot = 0; slot < bench->slots; slot++)
		pattern_fill(bench->local + slot * bench->stride, bench->size, seed + slot);
}

static uint64_t bench_mismatches(const struct bench *bench, uint64_t slots, uint64_t seed)
{
	uint64_t count = 0, slot;

	for (slot = 0; slot < slots; slot++)
		count += !pattern_matches(bench->local + slot * bench->stride, bench->size,
					  seed + slot);
	return count;
}

static int prepare_counter(struct bench *bench)
{
	uint64_t zero = 0;

	if (session_prepare(bench->session, sizeof(zero), sizeof(zero), 1, 0, false,
			    &bench->remote))
		return -1;
	bench->session->completed = 0;
	if (session_posted(bench->session, "pf_put",
			   pf_put(bench->session->peer, &zero, bench->remote, sizeof(zero), 0,
				  session_complete, bench->session)))
		return -1;
	return session_wait(bench->session, &bench->session->completed, 1);
}

/* Give the new contents a seed of their own, unlike that of the overwritten contents. */
static int bench_prepare(const struct perf_test *test, struct bench *bench)
{
	uint64_t arriving = bench->seed, overwritten = bench->seed + bench->slots;
	uint64_t there = test->contents == CONTENTS_PUT ? overwritten : arriving;
	uint64_t here = test->contents == CONTENTS_GET ? overwritten : arriving;

	if (test->contents == CONTENTS_COUNTER)
		return prepare_counter(bench);
	bench->seed += 2 * bench->slots;
	bench_fill(bench, here);
	return session_prepare(bench->session, bench->size, bench->stride, bench->slots, there,
			       bench->verify && test->contents == CONTENTS_MESSAGE, &bench->remote);
}

/* Verify the contents after bench_prepare and a run of iterations. */
static int bench_verify(const struct perf_test *test, struct bench *bench, uint64_t iterations)
{
	/* A run shorter than the window leaves the remaining slots unchanged. */
	uint64_t slots = iterations < bench->slots ? iterations : bench->slots;
	uint64_t seed = bench->seed - 2 * bench->slots, wrong = 0, counter = 0;
	struct session *session = bench->session;

	if (test->contents == CONTENTS_GET) {
		wrong = bench_mismatches(bench, slots, seed);
	} else if (test->contents == CONTENTS_COUNTER) {
		session->completed = 0;
		if (session_posted(session, "pf_get",
				   pf_get(session->peer, &counter, bench->remote, bench->size,
					  session_complete, session)) ||
		    session_wait(session, &session->completed, 1))
			return -1;
		wrong = counter != (bench->size == 4 ? (uint32_t)iterations : iterations);
	} else if (session_check(session, bench->size, bench->stride, slots, seed, &wrong)) {
		return -1;
	}
	wrong += session->wrong + bench->wrong;
	if (!wrong)
		return 0;
	warnx("%s, %zu bytes: contents WRONG in %llu places", test->name, bench->size,
	      (unsigned long long)wrong);
	return -1;
}

static int run_timed(const struct perf_test *test, struct bench *bench, uint64_t iterations,
		     double *seconds)
{
	double start = sample_seconds();
	int status = test->run(bench, iterations);

	*seconds = sample_seconds() - start;
	return status;
}

/*
 * Run more and more iterations to find the number that fills a repetition. Use the fastest run: a
 * slower run may have been preempted.
 */
static int iterations_estimate(const struct perf_test *test, const struct settings *settings,
			       struct bench *bench, uint64_t *iterations)
{
	double seconds, each, fastest = INFINITY, total = 0;
	uint64_t count;

	for (count = 1; total < 20 * settings->seconds; count *= 2) {
		if (run_timed(test, bench, count, &seconds))
			return -1;
		total += seconds;
		each = seconds / (double)count;
		if (each < fastest)
			fastest = each;
		if (fastest * (double)count > settings->seconds / 4)
			break;
	}
	*iterations = (uint64_t)(settings->seconds / fastest) + 1;
	return 0;
}

/* Run the warm-up. *iterations: of each repetition. */
static int warm_up(const struct perf_test *test, const struct settings *settings,
		   struct bench *bench, uint64_t *iterations)
{
	uint64_t count = settings->warm_up;

	*iterations = settings->iterations;
	if (count == WARM_UP_AUTOMATIC)
		count = *iterations ? *iterations / 10 + 1 : 0;
	if (count && test->run(bench, count))
		return -1;
	return *iterations ? 0 : iterations_estimate(test, settings, bench, iterations);
}

static int bench_repeat(const struct perf_test *test, const struct settings *settings,
			struct bench *bench, struct row *row)
{
	double seconds, *values = calloc(settings->repetitions, sizeof(*values));
	unsigned i;
	int status = -1;

	if (!values) {
		warn("repetitions");
		return -1;
	}
	if (bench_prepare(test, bench) || warm_up(test, settings, bench, &row->iterations))
		goto out;
	for (i = 0; i < settings->repetitions; i++) {
		if (bench->verify && bench_prepare(test, bench))
			goto out;
		if (run_timed(test, bench, row->iterations, &seconds))
			goto out;
		if (bench->verify && bench_verify(test, bench, row->iterations))
			goto out;
		values[i] = value_convert(test, bench->size, row->iterations, seconds);
	}
	row->size = bench->size;
	row->summary = sample_summary(values, settings->repetitions);
	status = 0;
out:
	free(values);
	return status;
}

/* Slots for the operations of a window, within SLOTS_BYTES_MAX. */
static unsigned count_slots(const struct perf_test *test, const struct settings *settings,
			    size_t stride)
{
	size_t max = SLOTS_BYTES_MAX / stride;

	if (!max || (test->contents != CONTENTS_PUT && test->contents != CONTENTS_GET))
		return 1;
	return max < settings->window ? (unsigned)max : settings->window;
}

int perf_measure(const struct perf_test *test, const struct settings *settings,
		 struct session *session, size_t size, struct row *row)
{
	struct bench bench = { .session = session,
			       .size = size,
			       .window = test->measure == MEASURE_LATENCY ? 1 : settings->window,
			       .verify = settings->verify,
			       .slots = 1,
			       .seed = size };
	size_t length;
	int status;

	bench.stride = (size + 63) & ~(size_t)63;
	if (settings->verify)
		bench.slots = count_slots(test, settings, bench.stride);
	length = bench.stride * bench.slots;
	bench.local = session_buffer(length);
	if (!bench.local)
		return -1;
	session->wrong = 0;
	session->expected = NULL;
	if (bench.verify && test->contents == CONTENTS_MESSAGE) {
		session->expected = bench.local;
		session->expected_length = size;
	}
	status = bench_repeat(test, settings, &bench, row);
	session->expected = NULL;
	munmap(bench.local, length);
	return status;
}
