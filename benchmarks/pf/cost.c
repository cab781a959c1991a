/* SPDX-License-Identifier: BSD-3-Clause */
#include "cost.h"

#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sample.h"

#define CLOCK_READINGS 1001

int cost_open(struct pair *pair, const struct cost *cost, const pf_options *options, size_t length,
	      uint64_t *remote)
{
	if (pair_fork(pair, options, cost->cores))
		return -1;
	/* The first transfer finds out the way. */
	if (pair_path(pair) && !pair_prepare(pair, length, length, 1, COST_SEED, false, remote) &&
	    !kill(pair->child, SIGSTOP))
		return 0;
	pair_close(pair);
	return -1;
}

void cost_wake_partner(const struct pair *pair)
{
	kill(pair->child, SIGCONT);
}

int cost_close(struct pair *pair)
{
	cost_wake_partner(pair);
	return pair_close(pair);
}

int cost_get(struct pair *pair, void *local, uint64_t remote, size_t length)
{
	int status;

	pair->completed = 0;
	status = pf_get(pair->peer, local, remote, length, pair_complete, pair);
	if (pair_posted(pair, "pf_get", status))
		return -1;
	return pair_wait(pair, &pair->completed, 1);
}

uint8_t *cost_untouched(size_t length)
{
	uint8_t *area = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);

	if (area == MAP_FAILED) {
		warn("%zu bytes of memory", length);
		return NULL;
	}
	/* So that one page is what one fault brings, whatever the system's setting. */
	madvise(area, length, MADV_NOHUGEPAGE);
	return area;
}

long cost_present(const void *address, size_t length)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (length + page - 1) / page, i;
	unsigned char *present = malloc(pages);
	long count = 0;

	if (!present || mincore((void *)(uintptr_t)address, length, present)) {
		warn("mincore");
		free(present);
		return -1;
	}
	for (i = 0; i < pages; i++)
		count += present[i] & 1;
	free(present);
	return count;
}

double cost_of_clock(void)
{
	static double median;
	double readings[CLOCK_READINGS];
	size_t i;

	if (median > 0)
		return median;
	for (i = 0; i < CLOCK_READINGS; i++) {
		double start = sample_seconds();

		readings[i] = sample_seconds() - start;
	}
	median = sample_summary(readings, CLOCK_READINGS).median;
	return median;
}

double cost_microseconds(double *seconds, size_t count)
{
	return 1e6 * (sample_summary(seconds, count).median - cost_of_clock());
}
