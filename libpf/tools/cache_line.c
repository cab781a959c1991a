/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache_line.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample.h"

#define ROUND_TRIPS 200 /* of a batch: long against a clock reading, short against a time slice */
#define BATCHES_MAX 101
#define BATCHES_MIN 3
#define MEASURE_SECONDS 0.03  /* then no further batch begins */
#define TIMEOUT_SECONDS 5.0   /* silence after which the partner counts as not running */
#define POLLS_PER_CLOCK 65536 /* polls between two looks at the clock */

/* The time varies by less within one state; as in benchmarks/pfbench/cache_line.py. */
#define CHANGED 1.5

/* Value of the line at the end of the measurement. */
#define ENDED UINT32_MAX

/* Wait for the partner's store. Returns -1 if no store comes, and at the last store. */
static int wait_for(_Atomic uint32_t *line, uint32_t value)
{
	double deadline = 0;
	unsigned polls = 0;
	uint32_t found;

	while ((found = atomic_load_explicit(line, memory_order_acquire)) != value) {
		if (found == ENDED)
			return -1;
		if (++polls % POLLS_PER_CLOCK)
			continue;
		if (deadline == 0)
			deadline = sample_seconds() + TIMEOUT_SECONDS;
		else if (sample_seconds() > deadline)
			return -1;
	}
	return 0;
}

void cache_line_answer(_Atomic uint32_t *line)
{
	uint32_t value;

	for (value = 1; !wait_for(line, value); value += 2)
		atomic_store_explicit(line, value + 1, memory_order_release);
}

double cache_line_measure(_Atomic uint32_t *line, double longest)
{
	double values[BATCHES_MAX], begin = sample_seconds(), start;
	uint32_t value = 1;
	size_t batches = 0, i;

	while (batches < BATCHES_MAX &&
	       (batches < BATCHES_MIN || sample_seconds() < begin + longest)) {
		start = sample_seconds();
		for (i = 0; i < ROUND_TRIPS; i++, value += 2) {
			atomic_store_explicit(line, value, memory_order_release);
			if (wait_for(line, value + 1))
				return -1;
		}
		values[batches++] = (sample_seconds() - start) / (2 * ROUND_TRIPS);
	}
	atomic_store_explicit(line, ENDED, memory_order_release);
	return sample_summary(values, batches).median;
}

/* Partner: answer until the measurement ends or a signal kills this process. */
static void answer_on(_Atomic uint32_t *line, int core)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || core_bind(core))
		return;
	cache_line_answer(line);
}

double cache_line_between(const struct cores *cores)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic uint32_t *line = mmap(NULL, size, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double seconds = -1;
	pid_t child;

	if (line == MAP_FAILED)
		return -1;
	child = fork();
	if (!child) {
		answer_on(line, cores->second);
		_exit(1);
	}
	if (child > 0) {
		if (!core_bind(cores->first))
			seconds = cache_line_measure(line, MEASURE_SECONDS);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	munmap(line, size);
	return seconds;
}

bool cache_line_differs(double before, double after)
{
	if (before < 0 || after < 0)
		return true;
	return before > CHANGED * after || after > CHANGED * before;
}

void cache_line_describe(const struct cores *cores, char *text, size_t size)
{
	double seconds;

	if (cores->first == CORE_ANY || cores_shared(cores)) {
		snprintf(text, size, "not measured: the processes are not bound to two cores");
		return;
	}
	seconds = cache_line_between(cores);
	if (seconds < 0)
		snprintf(text, size, "not measured: no second process runs on core %d",
			 cores->second);
	else
		snprintf(text, size, "%.0f ns from one core to the other", seconds * 1e9);
}
