/* SPDX-License-Identifier: BSD-3-Clause */
#include "cost.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sample.h"

#define CLOCK_READINGS 1001

int cost_load_options(pf_options *options)
{
	const pf_option_info *culprit = NULL;

	if (pf_options_init(options, sizeof(*options), &culprit) == PF_OK)
		return 0;
	warnx("%s: invalid value: see pf_info --options",
	      culprit ? culprit->name : "LIBPF_ variable");
	return -1;
}

int cost_open(struct session *session, const struct cost *cost, const pf_options *options,
	      size_t length, uint64_t *remote)
{
	if (session_fork(session, options, cost->cores))
		return -1;
	/* The first transfer determines the path. */
	if (session_path(session) &&
	    !session_prepare(session, length, length, 1, COST_SEED, false, remote)) {
		cost_stop_partner(session);
		return 0;
	}
	session_close(session);
	return -1;
}

void cost_stop_partner(const struct session *session)
{
	kill(session->child, SIGSTOP);
}

void cost_continue_partner(const struct session *session)
{
	kill(session->child, SIGCONT);
}

void cost_prepare_gets(const struct session *session)
{
	/* By the first transfer, of session_path: the others take the same path. */
	if (!pf_stat(session->context, PF_STAT_SINGLE_COPY_BYTES) &&
	    !pf_stat(session->context, PF_STAT_DEVICE_BYTES))
		cost_continue_partner(session);
}

int cost_close(struct session *session)
{
	cost_continue_partner(session);
	return session_close(session);
}

int cost_get(struct session *session, void *local, uint64_t remote, size_t length)
{
	int status;

	session->completed = 0;
	status = pf_get(session->peer, local, remote, length, session_complete, session);
	if (session_posted(session, "pf_get", status))
		return -1;
	return session_wait(session, &session->completed, 1);
}

uint8_t *cost_untouched(size_t length)
{
	uint8_t *area = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);

	if (area == MAP_FAILED) {
		warn("%zu bytes of memory", length);
		return NULL;
	}
	/* One page fault then makes one page present, whatever the system's setting. */
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

int cost_samples(double **samples, size_t rows, size_t count)
{
	size_t i;

	samples[0] = calloc(rows * count, sizeof(double));
	if (!samples[0]) {
		warn("memory for %zu samples", rows * count);
		return -1;
	}
	for (i = 1; i < rows; i++)
		samples[i] = samples[0] + i * count;
	return 0;
}

/* Median time between two readings of the clock, s. */
static double clock_cost(void)
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

void cost_print(double **samples, size_t rows, size_t skip, size_t count)
{
	size_t i;

	for (i = 0; i < rows; i++)
		printf("%20.4f",
		       1e6 * (sample_summary(samples[i] + skip, count).median - clock_cost()));
}
