/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_tests.h"

#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"
#include "registered.h"

static int send_latency(struct bench *bench, uint64_t iterations)
{
	struct pair *pair = bench->pair;
	uint64_t i;

	for (i = 0; i < iterations; i++) {
		if (pair_send(pair, TAG_ECHO, bench->local, bench->size) ||
		    pair_wait(pair, &pair->arrived, pair->arrived + 1))
			return -1;
	}
	return 0;
}

static int send_window(struct bench *bench, uint64_t iterations)
{
	struct pair *pair = bench->pair;
	uint64_t i;

	for (i = 1; i <= iterations; i++) {
		bool last = i % bench->window == 0 || i == iterations;

		if (pair_send(pair, last ? TAG_TAKE_LAST : TAG_TAKE, bench->local, bench->size))
			return -1;
		if (last && pair_wait(pair, &pair->arrived, pair->arrived + 1))
			return -1;
	}
	return 0;
}

typedef int (*post_fn)(struct bench *bench, uint64_t iteration);

/* Keep window operations under way. */
static int windowed(struct bench *bench, post_fn post, uint64_t iterations, unsigned window)
{
	struct pair *pair = bench->pair;
	uint64_t i;

	pair->completed = 0;
	for (i = 0; i < iterations; i++) {
		if (i >= window && pair_wait(pair, &pair->completed, i - window + 1))
			return -1;
		if (post(bench, i))
			return -1;
	}
	return pair_wait(pair, &pair->completed, iterations);
}

static int post_put(struct bench *bench, uint64_t iteration)
{
	size_t at = iteration % bench->slots * bench->stride;
	int status = pf_put(bench->pair->peer, bench->local + at, bench->remote + at, bench->size,
			    pair_complete, bench->pair);

	return pair_posted(bench->pair, "pf_put", status);
}

static int post_get(struct bench *bench, uint64_t iteration)
{
	size_t at = iteration % bench->slots * bench->stride;
	int status = pf_get(bench->pair->peer, bench->local + at, bench->remote + at, bench->size,
			    pair_complete, bench->pair);

	return pair_posted(bench->pair, "pf_get", status);
}

static int post_add(struct bench *bench, uint64_t iteration)
{
	int status = pf_atomic(bench->pair->peer, PF_ADD, (unsigned)bench->size, 0, bench->remote,
			       1, 0, pair_complete, bench->pair);

	(void)iteration;
	return pair_posted(bench->pair, "pf_atomic", status);
}

static int puts_of(struct bench *bench, uint64_t iterations, unsigned window)
{
	return bench->registered ? registered_puts(bench, iterations, window) :
				   windowed(bench, post_put, iterations, window);
}

static int gets_of(struct bench *bench, uint64_t iterations, unsigned window)
{
	return bench->registered ? registered_gets(bench, iterations, window) :
				   windowed(bench, post_get, iterations, window);
}

static int put_latency(struct bench *bench, uint64_t iterations)
{
	return puts_of(bench, iterations, 1);
}

static int put_window(struct bench *bench, uint64_t iterations)
{
	return puts_of(bench, iterations, bench->window);
}

static int get_latency(struct bench *bench, uint64_t iterations)
{
	return gets_of(bench, iterations, 1);
}

static int get_window(struct bench *bench, uint64_t iterations)
{
	return gets_of(bench, iterations, bench->window);
}

static int add_window(struct bench *bench, uint64_t iterations)
{
	return windowed(bench, post_add, iterations, bench->window);
}

/* Nobody else adds: each fetched value is one more than the one before. */
static int add_latency(struct bench *bench, uint64_t iterations)
{
	struct pair *pair = bench->pair;
	uint64_t before = pair->value, i;

	pair->completed = 0;
	for (i = 0; i < iterations; i++) {
		int status = pf_atomic(pair->peer, PF_ADD, (unsigned)bench->size, 1, bench->remote,
				       1, 0, pair_complete, pair);

		if (pair_posted(pair, "pf_atomic", status) ||
		    pair_wait(pair, &pair->completed, i + 1))
			return -1;
		bench->wrong += i && pair->value != before + 1;
		before = pair->value;
	}
	return 0;
}

const struct perf_test perf_tests[] = {
	{ "send-latency", "latency of a message, half a round trip", MEASURE_LATENCY, 2,
	  CONTENTS_MESSAGE, send_latency },
	{ "send-bandwidth", "bandwidth of messages", MEASURE_BANDWIDTH, 1, CONTENTS_MESSAGE,
	  send_window },
	{ "send-rate", "message rate", MEASURE_RATE, 1, CONTENTS_MESSAGE, send_window },
	{ "put-latency", "time of a put until it is complete", MEASURE_LATENCY, 1, CONTENTS_PUT,
	  put_latency },
	{ "put-bandwidth", "bandwidth of puts", MEASURE_BANDWIDTH, 1, CONTENTS_PUT, put_window },
	{ "get-latency", "time of a get until it is complete", MEASURE_LATENCY, 1, CONTENTS_GET,
	  get_latency },
	{ "get-bandwidth", "bandwidth of gets", MEASURE_BANDWIDTH, 1, CONTENTS_GET, get_window },
	{ "atomic-latency", "time of a fetching atomic add until it is complete", MEASURE_LATENCY,
	  1, CONTENTS_COUNTER, add_latency },
	{ "atomic-rate", "rate of atomic adds", MEASURE_RATE, 1, CONTENTS_COUNTER, add_window },
	{ .name = NULL },
};

const char *perf_unit(const struct perf_test *test)
{
	switch (test->measure) {
	case MEASURE_BANDWIDTH:
		return "MB/s";
	case MEASURE_RATE:
		return "million/s";
	default:
		return "us";
	}
}

static double in_unit(const struct perf_test *test, size_t size, uint64_t iterations,
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

static void fill(struct bench *bench, uint64_t seed)
{
	unsigned slot;

	for (slot = 0; slot < bench->slots; slot++)
		pattern_fill(bench->local + slot * bench->stride, bench->size, seed + slot);
}

static uint64_t mismatches(const struct bench *bench, uint64_t slots, uint64_t seed)
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

	if (pair_prepare(bench->pair, sizeof(zero), sizeof(zero), 1, 0, false, &bench->remote))
		return -1;
	bench->pair->completed = 0;
	if (pair_posted(bench->pair, "pf_put",
			pf_put(bench->pair->peer, &zero, bench->remote, sizeof(zero), pair_complete,
			       bench->pair)))
		return -1;
	return pair_wait(bench->pair, &bench->pair->completed, 1);
}

/* What is to arrive has this seed, and what it arrives at another. */
static int prepare(const struct perf_test *test, struct bench *bench)
{
	uint64_t arriving = bench->seed, overwritten = bench->seed + bench->slots;
	uint64_t there = test->contents == CONTENTS_PUT ? overwritten : arriving;
	uint64_t here = test->contents == CONTENTS_GET ? overwritten : arriving;

	if (test->contents == CONTENTS_COUNTER)
		return prepare_counter(bench);
	bench->seed += 2 * bench->slots;
	fill(bench, here);
	return pair_prepare(bench->pair, bench->size, bench->stride, bench->slots, there,
			    bench->verify && test->contents == CONTENTS_MESSAGE, &bench->remote);
}

/* After prepare and a run; iterations is how many that run had. */
static int verify(const struct perf_test *test, struct bench *bench, uint64_t iterations)
{
	/* Slots that no operation came to stay as they were. */
	uint64_t slots = iterations < bench->slots ? iterations : bench->slots;
	uint64_t seed = bench->seed - 2 * bench->slots, wrong = 0, counter = 0;
	struct pair *pair = bench->pair;

	if (test->contents == CONTENTS_GET) {
		wrong = mismatches(bench, slots, seed);
	} else if (test->contents == CONTENTS_COUNTER) {
		pair->completed = 0;
		if (pair_posted(pair, "pf_get",
				pf_get(pair->peer, &counter, bench->remote, bench->size,
				       pair_complete, pair)) ||
		    pair_wait(pair, &pair->completed, 1))
			return -1;
		wrong = counter != (bench->size == 4 ? (uint32_t)iterations : iterations);
	} else if (pair_check(pair, bench->size, bench->stride, slots, seed, &wrong)) {
		return -1;
	}
	wrong += pair->wrong + bench->wrong;
	if (!wrong)
		return 0;
	warnx("%s, %zu bytes: contents WRONG in %llu places", test->name, bench->size,
	      (unsigned long long)wrong);
	return -1;
}

static int timed(const struct perf_test *test, struct bench *bench, uint64_t iterations,
		 double *seconds)
{
	double start = sample_seconds();
	int status = test->run(bench, iterations);

	*seconds = sample_seconds() - start;
	return status;
}

/*
 * Run more and more iterations until a repetition's worth is known. What
 * counts is the fastest: the processor may have been taken away meanwhile.
 */
static int estimate(const struct perf_test *test, const struct settings *settings,
		    struct bench *bench, uint64_t *iterations)
{
	double seconds, each, fastest = INFINITY, all = 0;
	uint64_t count;

	for (count = 1; all < 20 * settings->seconds; count *= 2) {
		if (timed(test, bench, count, &seconds))
			return -1;
		all += seconds;
		each = seconds / (double)count;
		if (each < fastest)
			fastest = each;
		if (fastest * (double)count > settings->seconds / 4)
			break;
	}
	*iterations = (uint64_t)(settings->seconds / fastest) + 1;
	return 0;
}

static int warm_up(const struct perf_test *test, const struct settings *settings,
		   struct bench *bench, uint64_t *iterations)
{
	uint64_t count = settings->warm_up;

	*iterations = settings->iterations;
	if (count == WARM_UP_AUTOMATIC)
		count = *iterations ? *iterations / 10 + 1 : 0;
	if (count && test->run(bench, count))
		return -1;
	return *iterations ? 0 : estimate(test, settings, bench, iterations);
}

static int repeat(const struct perf_test *test, const struct settings *settings,
		  struct bench *bench, struct row *row)
{
	double seconds, *values = calloc(settings->repetitions, sizeof(*values));
	unsigned i;
	int status = -1;

	if (!values) {
		warn("repetitions");
		return -1;
	}
	if (prepare(test, bench) || warm_up(test, settings, bench, &row->iterations))
		goto out;
	for (i = 0; i < settings->repetitions; i++) {
		if (bench->verify && prepare(test, bench))
			goto out;
		if (timed(test, bench, row->iterations, &seconds))
			goto out;
		if (bench->verify && verify(test, bench, row->iterations))
			goto out;
		values[i] = in_unit(test, bench->size, row->iterations, seconds);
	}
	row->size = bench->size;
	row->summary = sample_summary(values, settings->repetitions);
	status = 0;
out:
	free(values);
	return status;
}

/* As many as the window has operations, while that is no great deal of memory. */
static unsigned slots_of(const struct perf_test *test, const struct settings *settings,
			 size_t stride)
{
	size_t most = (64 << 20) / stride;

	if (!most || (test->contents != CONTENTS_PUT && test->contents != CONTENTS_GET))
		return 1;
	return most < settings->window ? (unsigned)most : settings->window;
}

int perf_measure(const struct perf_test *test, const struct settings *settings, struct pair *pair,
		 size_t size, struct row *row)
{
	struct bench bench = { .pair = pair,
			       .size = size,
			       .window = settings->window,
			       .verify = settings->verify,
			       .registered = settings->registered,
			       .slots = 1,
			       .seed = size };
	size_t length;
	int status;

	bench.stride = (size + 63) & ~(size_t)63;
	if (settings->verify)
		bench.slots = slots_of(test, settings, bench.stride);
	length = bench.stride * bench.slots;
	bench.local = pair_buffer(length);
	if (!bench.local)
		return -1;
	pair->wrong = 0;
	pair->expected = NULL;
	if (bench.verify && test->contents == CONTENTS_MESSAGE) {
		pair->expected = bench.local;
		pair->expected_length = size;
	}
	status = repeat(test, settings, &bench, row);
	pair->expected = NULL;
	munmap(bench.local, length);
	return status;
}
