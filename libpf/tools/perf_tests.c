/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_tests.h"

static int run_echo(struct bench *bench, uint64_t iterations)
{
	struct session *session = bench->session;
	uint64_t i;

	for (i = 0; i < iterations; i++) {
		if (session_send(session, TAG_ECHO, bench->local, bench->size) ||
		    session_wait(session, &session->arrived, session->arrived + 1))
			return -1;
	}
	return 0;
}

static int run_send(struct bench *bench, uint64_t iterations)
{
	struct session *session = bench->session;
	uint64_t i;

	for (i = 1; i <= iterations; i++) {
		bool last = i % bench->window == 0 || i == iterations;

		if (session_send(session, last ? TAG_DISCARD_LAST : TAG_DISCARD, bench->local,
				 bench->size))
			return -1;
		if (last && session_wait(session, &session->arrived, session->arrived + 1))
			return -1;
	}
	return 0;
}

typedef int (*post_fn)(struct bench *bench, uint64_t iteration);

/* Keep a window of operations in progress. */
static int run_window(struct bench *bench, post_fn post, uint64_t iterations)
{
	struct session *session = bench->session;
	uint64_t i;

	session->completed = 0;
	for (i = 0; i < iterations; i++) {
		if (i >= bench->window &&
		    session_wait(session, &session->completed, i - bench->window + 1))
			return -1;
		if (post(bench, i))
			return -1;
	}
	return session_wait(session, &session->completed, iterations);
}

static int post_put(struct bench *bench, uint64_t iteration)
{
	size_t at = iteration % bench->slots * bench->stride;
	int status = pf_put(bench->session->peer, bench->local + at, bench->remote + at,
			    bench->size, 0, session_complete, bench->session);

	return session_posted(bench->session, "pf_put", status);
}

static int post_get(struct bench *bench, uint64_t iteration)
{
	size_t at = iteration % bench->slots * bench->stride;
	int status = pf_get(bench->session->peer, bench->local + at, bench->remote + at,
			    bench->size, session_complete, bench->session);

	return session_posted(bench->session, "pf_get", status);
}

static int post_add(struct bench *bench, uint64_t iteration)
{
	int status = pf_atomic(bench->session->peer, PF_ATOMIC_ADD, (unsigned)bench->size,
			       bench->remote, 1, 0, session_complete, bench->session);

	(void)iteration;
	return session_posted(bench->session, "pf_atomic", status);
}

static int run_put(struct bench *bench, uint64_t iterations)
{
	return run_window(bench, post_put, iterations);
}

static int run_get(struct bench *bench, uint64_t iterations)
{
	return run_window(bench, post_get, iterations);
}

static int run_atomic(struct bench *bench, uint64_t iterations)
{
	return run_window(bench, post_add, iterations);
}

/* Do without a signal: put, await the completion, send. The partner answers likewise. */
static int run_put_send(struct bench *bench, uint64_t iterations)
{
	struct session *session = bench->session;
	uint64_t i;

	session->completed = 0;
	for (i = 0; i < iterations; i++) {
		size_t at = i % bench->slots * bench->stride;
		const struct give back = { bench->remote + at,
					   (uint64_t)(uintptr_t)(bench->local + at), bench->size };

		if (post_put(bench, i) || session_wait(session, &session->completed, i + 1) ||
		    session_send(session, TAG_RETURN, &back, sizeof(back)) ||
		    session_wait(session, &session->arrived, session->arrived + 1))
			return -1;
	}
	return 0;
}

static int run_signal(struct bench *bench, uint64_t iterations)
{
	struct session *session = bench->session;
	uint64_t i;

	session->completed = 0;
	for (i = 0; i < iterations; i++) {
		size_t at = i % bench->slots * bench->stride;
		const pf_signal signal = { PF_SIGNAL_NOTICE, 0,
					   (uint64_t)(uintptr_t)(bench->local + at) };
		int status = pf_put_signal(session->peer, bench->local + at, bench->remote + at,
					   bench->size, &signal, 0, session_complete, session);

		if (session_posted(session, "pf_put_signal", status) ||
		    session_wait(session, &session->arrived, session->arrived + 1))
			return -1;
	}
	return session_wait(session, &session->completed, iterations);
}

/* Only this process adds: each fetched value must exceed the value before by 1. */
static int fetch_add(struct bench *bench, uint64_t iterations)
{
	struct session *session = bench->session;
	uint64_t before = session->value, i;

	session->completed = 0;
	for (i = 0; i < iterations; i++) {
		int status = pf_atomic(session->peer, PF_ATOMIC_ADD, (unsigned)bench->size,
				       bench->remote, 1, 0, session_complete, session);

		if (session_posted(session, "pf_atomic", status) ||
		    session_wait(session, &session->completed, i + 1))
			return -1;
		bench->wrong += i && session->value != before + 1;
		before = session->value;
	}
	return 0;
}

const struct perf_test perf_tests[] = {
	{ "send-latency", "latency of a message, half a round trip", MEASURE_LATENCY, 2,
	  CONTENTS_MESSAGE, run_echo },
	{ "send-bandwidth", "bandwidth of messages", MEASURE_BANDWIDTH, 1, CONTENTS_MESSAGE,
	  run_send },
	{ "send-rate", "message rate", MEASURE_RATE, 1, CONTENTS_MESSAGE, run_send },
	{ "put-latency", "time of a put until it is complete", MEASURE_LATENCY, 1, CONTENTS_PUT,
	  run_put },
	{ "put-bandwidth", "bandwidth of puts", MEASURE_BANDWIDTH, 1, CONTENTS_PUT, run_put },
	{ "signal-latency", "time from a put with signal to its notice, half a round trip",
	  MEASURE_LATENCY, 2, CONTENTS_PUT, run_signal },
	{ "put-send-latency", "time of a put, its completion, then a message, half a round trip",
	  MEASURE_LATENCY, 2, CONTENTS_PUT, run_put_send },
	{ "get-latency", "time of a get until it is complete", MEASURE_LATENCY, 1, CONTENTS_GET,
	  run_get },
	{ "get-bandwidth", "bandwidth of gets", MEASURE_BANDWIDTH, 1, CONTENTS_GET, run_get },
	{ "atomic-latency", "time of a fetching atomic add until it is complete", MEASURE_LATENCY,
	  1, CONTENTS_COUNTER, fetch_add },
	{ "atomic-rate", "rate of atomic adds", MEASURE_RATE, 1, CONTENTS_COUNTER, run_atomic },
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
