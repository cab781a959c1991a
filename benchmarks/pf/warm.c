/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What it costs a warm get that it could meet a fault: pages looked for before
 * every copy, as often as by default, and as rarely as can be.
 */
#include "cost.h"

#include <err.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"
#include "sample.h"

enum { LOOKS = 3 };

/* A batch outlasts the default residency, so that its mean holds the looks that are due. */
#define BATCH_SECONDS 0.012
#define BURST 64

struct look {
	struct pair pair;
	uint64_t remote;
	double *means; /* of a get in each batch, seconds */
};

static uint64_t most_residency(void)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++)
		if (info->offset == offsetof(pf_options, residency))
			return info->maximum;
	return 0;
}

/* Mean time of a get, or less than 0. */
static double batch(struct look *look, uint8_t *local, size_t size)
{
	double start = sample_seconds(), elapsed;
	unsigned gets = 0, i;

	do {
		for (i = 0; i < BURST; i++)
			if (cost_get(&look->pair, local, look->remote, size))
				return -1;
		gets += BURST;
		elapsed = sample_seconds() - start;
	} while (elapsed < BATCH_SECONDS);
	return elapsed / gets;
}

static int measure(struct look *looks, const struct cost *cost, uint8_t *local)
{
	int skip = cost->warm_up, i, k;

	for (i = -skip; i < cost->iterations; i++) {
		for (k = 0; k < LOOKS; k++) {
			double mean = batch(&looks[k], local, cost->size);

			if (mean < 0)
				return -1;
			if (i >= 0)
				looks[k].means[i] = mean;
		}
	}
	if (!pattern_matches(local, cost->size, COST_SEED)) {
		warnx("wrong contents after a get of %zu bytes", cost->size);
		return -1;
	}
	for (k = 0; k < LOOKS; k++)
		printf("%20.4f",
		       1e6 * sample_summary(looks[k].means, (size_t)cost->iterations).median);
	return 0;
}

int cost_warm(const struct cost *cost)
{
	const uint64_t residency[LOOKS] = { 0, cost->options->residency, most_residency() };
	struct look looks[LOOKS];
	uint8_t *local = pair_buffer(cost->size);
	int open = 0, status = -1, i;

	memset(looks, 0, sizeof(looks));
	if (!local)
		return -1;
	for (i = 0; i < LOOKS; i++) {
		pf_options options = *cost->options;

		looks[i].means = calloc((size_t)cost->iterations, sizeof(double));
		if (!looks[i].means) {
			warn("memory for %d samples", cost->iterations);
			goto out;
		}
		options.residency = residency[i];
		if (cost_open(&looks[i].pair, cost, &options, cost->size, &looks[i].remote))
			goto out;
		open++;
	}
	status = measure(looks, cost, local);
out:
	for (i = 0; i < LOOKS; i++) {
		if (i < open && cost_close(&looks[i].pair))
			status = -1;
		free(looks[i].means);
	}
	munmap(local, cost->size);
	return status;
}
