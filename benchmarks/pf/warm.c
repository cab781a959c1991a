/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of tolerating page faults in a warm get: residency is checked before
 * every copy, as often as by default, and as rarely as possible.
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

enum { KINDS = 3 };

/* Longer than the default residency: the mean of a batch includes the checks that are due. */
#define BATCH_SECONDS 0.012
#define BURST 64

struct kind {
	struct session session;
	uint64_t remote;
};

static uint64_t longest_residency(void)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++)
		if (info->offset == offsetof(pf_options, residency))
			return info->maximum;
	return 0;
}

/* Return the mean time of a get, s, or less than 0 after an error. */
static double batch(struct kind *kind, uint8_t *local, size_t size)
{
	double start, elapsed;
	unsigned gets = 0, i;

	/* The partners share a core: one runs at a time. */
	cost_prepare_gets(&kind->session);
	start = sample_seconds();
	do {
		for (i = 0; i < BURST; i++)
			if (cost_get(&kind->session, local, kind->remote, size))
				return -1;
		gets += BURST;
		elapsed = sample_seconds() - start;
	} while (elapsed < BATCH_SECONDS);
	cost_stop_partner(&kind->session);
	return elapsed / gets;
}

static int measure(struct kind *kinds, double **samples, const struct cost *cost, uint8_t *local)
{
	int skip = cost->warm_up, i, k;

	for (i = -skip; i < cost->iterations; i++) {
		for (k = 0; k < KINDS; k++) {
			double mean = batch(&kinds[k], local, cost->size);

			if (mean < 0)
				return -1;
			if (i >= 0)
				samples[k][i] = mean;
		}
	}
	if (!pattern_matches(local, cost->size, COST_SEED)) {
		warnx("wrong contents after a get of %zu bytes", cost->size);
		return -1;
	}
	for (k = 0; k < KINDS; k++)
		printf("%20.4f", 1e6 * sample_summary(samples[k], (size_t)cost->iterations).median);
	return 0;
}

int cost_warm(const struct cost *cost)
{
	const uint64_t residency[KINDS] = { 0, cost->options->residency, longest_residency() };
	struct kind kinds[KINDS];
	uint8_t *local = session_buffer(cost->size);
	double *samples[KINDS] = { NULL }; /* mean time of a get, by batch, s */
	int open = 0, status = -1, i;

	memset(kinds, 0, sizeof(kinds));
	if (!local || cost_samples(samples, KINDS, (size_t)cost->iterations))
		goto out;
	for (i = 0; i < KINDS; i++) {
		pf_options options = *cost->options;

		options.residency = residency[i];
		if (cost_open(&kinds[i].session, cost, &options, cost->size, &kinds[i].remote))
			goto out;
		open++;
	}
	status = measure(kinds, samples, cost, local);
out:
	for (i = 0; i < open; i++)
		if (cost_close(&kinds[i].session))
			status = -1;
	free(samples[0]);
	if (local)
		munmap(local, cost->size);
	return status;
}
