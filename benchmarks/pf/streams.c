/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The throughput of eight streams of warm gets, alone and during one transfer
 * whose pages become present slowly.
 */
#include "cost.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"
#include "sample.h"

#define STREAMS 8
#define WINDOW 4
#define SLOTS (STREAMS * WINDOW)
#define SLOT_LENGTH ((size_t)64 << 10)
#define WARM_LENGTH (SLOTS * SLOT_LENGTH)

#define PAGER_PAGES 64
#define PAGER_NANOSECONDS 1000000
#define SWAP_LENGTH ((size_t)4 << 20)
/* Least part of the slow transfer's pages that must be swapped out. */
#define SWAPPED_LEAST 0.9
/* Least duration of a slow transfer, s; below it, its pages were present. */
#define SLOW_LEAST 0.001

enum kind { ALONE, BESIDE, DURATION, KINDS }; /* MB/s, MB/s, s */

struct slot {
	struct streams *streams;
	size_t number;
	bool busy;
};

struct streams {
	struct session session;
	uint64_t remote; /* address of the warm slots, and after them of the slow transfer */
	uint8_t *local;  /* the warm slots */
	struct slot slots[SLOTS];
	uint64_t bytes;     /* bytes of warm gets that are complete */
	unsigned busy;      /* number of busy slots */
	uint8_t *slow;      /* memory of the slow transfer */
	size_t slow_length; /* bytes */
	pf_pager *pager;    /* NULL: the slow transfer comes out of swap */
	bool slow_done, failed;
	double *samples[KINDS];
};

static void fail(struct streams *streams, const char *what, int status)
{
	warnx("%s: %s", what, pf_strerror(status));
	streams->failed = true;
}

static void finish(struct slot *slot)
{
	slot->streams->bytes += SLOT_LENGTH;
	slot->streams->busy--;
	slot->busy = false;
}

static void slot_complete(pf_context *context, const pf_completion *completion)
{
	struct slot *slot = completion->arg;

	(void)context;
	finish(slot);
	if (completion->status != PF_OK)
		fail(slot->streams, "warm get", completion->status);
}

static void slow_complete(pf_context *context, const pf_completion *completion)
{
	struct streams *streams = completion->arg;

	(void)context;
	streams->slow_done = true;
	if (completion->status != PF_OK)
		fail(streams, "slow transfer", completion->status);
}

static void post(struct streams *streams, struct slot *slot)
{
	size_t at = slot->number * SLOT_LENGTH;
	int status;

	slot->busy = true;
	streams->busy++;
	status = pf_get(streams->session.peer, streams->local + at, streams->remote + at,
			SLOT_LENGTH, slot_complete, slot);
	if (status == PF_PENDING)
		return;
	finish(slot);
	if (status != PF_OK)
		fail(streams, "pf_get", status);
}

static void post_slow(struct streams *streams)
{
	uint64_t remote = streams->remote + WARM_LENGTH;
	int status;

	streams->slow_done = false;
	if (streams->pager)
		status = pf_get(streams->session.peer, streams->slow, remote, streams->slow_length,
				slow_complete, streams);
	else
		status = pf_put(streams->session.peer, streams->slow, remote, streams->slow_length,
				0, slow_complete, streams);
	if (status == PF_PENDING)
		return;
	streams->slow_done = true;
	if (status != PF_OK)
		fail(streams, "slow transfer", status);
}

/*
 * Return the throughput, MB/s, over the given number of seconds; if it is 0,
 * start the slow transfer and measure until it is done. *taken is the duration.
 */
static double flow(struct streams *streams, double seconds, double *taken)
{
	double start = sample_seconds(), now;
	uint64_t bytes;
	size_t i;

	streams->bytes = 0;
	if (seconds == 0)
		post_slow(streams);
	do {
		for (i = 0; i < SLOTS; i++)
			if (!streams->slots[i].busy)
				post(streams, &streams->slots[i]);
		session_poll(&streams->session);
		now = sample_seconds();
	} while (!streams->failed && !streams->session.failed &&
		 (seconds > 0 ? now - start < seconds : !streams->slow_done));
	*taken = now - start;
	bytes = streams->bytes;
	while (streams->busy && !streams->failed && !streams->session.failed)
		session_poll(&streams->session);
	return (double)bytes / 1e6 / *taken;
}

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	const struct timespec pause = { .tv_nsec = PAGER_NANOSECONDS };

	(void)context;
	(void)address;
	(void)arg;
	nanosleep(&pause, NULL);
	memset(page, 1, length);
	return PF_OK;
}

/* Make the pages of the slow transfer absent. */
static int evict(struct streams *streams)
{
	long present, pages = (long)(streams->slow_length / (size_t)sysconf(_SC_PAGESIZE));
	int status;

	if (streams->pager) {
		status = pf_pager_evict(streams->pager, streams->slow, streams->slow_length);
		if (status == PF_OK)
			return 0;
		fail(streams, "pf_pager_evict", status);
		return -1;
	}
	if (madvise(streams->slow, streams->slow_length, MADV_PAGEOUT)) {
		warn("MADV_PAGEOUT");
		return -1;
	}
	present = cost_present(streams->slow, streams->slow_length);
	if (present >= 0 && (double)present <= (1 - SWAPPED_LEAST) * (double)pages)
		return 0;
	warnx("%ld of %ld pages are still present after MADV_PAGEOUT: is there swap space?",
	      present, pages);
	return -1;
}

static int measure_once(struct streams *streams, int number)
{
	double beside, alone, taken, again;

	if (evict(streams))
		return -1;
	beside = flow(streams, 0, &taken);
	if (taken < SLOW_LEAST) {
		warnx("the slow transfer took only %.0f us: its pages were present", 1e6 * taken);
		return -1;
	}
	alone = flow(streams, taken, &again);
	if (streams->failed || streams->session.failed)
		return -1;
	if (number >= 0) {
		streams->samples[BESIDE][number] = beside;
		streams->samples[ALONE][number] = alone;
		streams->samples[DURATION][number] = taken;
	}
	return 0;
}

static int verify(struct streams *streams)
{
	uint64_t wrong = 0;

	if (!pattern_matches(streams->local, WARM_LENGTH, COST_SEED)) {
		warnx("wrong contents in the warm streams");
		return -1;
	}
	if (streams->pager)
		return 0;
	/* The put wrote the part of the pattern that was there before: check both parts as one. */
	if (session_check(&streams->session, WARM_LENGTH + streams->slow_length,
			  WARM_LENGTH + streams->slow_length, 1, COST_SEED, &wrong))
		return -1;
	if (wrong)
		warnx("wrong contents after a put out of swap");
	return wrong ? -1 : 0;
}

static int measure(struct streams *streams, const struct cost *cost)
{
	size_t count = (size_t)cost->iterations;
	int i;

	for (i = -cost->warm_up; i < cost->iterations; i++)
		if (measure_once(streams, i))
			return -1;
	if (verify(streams))
		return -1;
	printf("%20.2f%20.2f%20.2f", sample_summary(streams->samples[ALONE], count).median,
	       sample_summary(streams->samples[BESIDE], count).median,
	       1e6 * sample_summary(streams->samples[DURATION], count).median);
	return 0;
}

static int start_pager(struct streams *streams)
{
	int status = pf_pager_register(streams->session.context, streams->slow,
				       streams->slow_length, supply, NULL, &streams->pager);

	if (status == PF_OK)
		return 0;
	streams->pager = NULL;
	fail(streams, "pf_pager_register", status);
	return -1;
}

static int fill_swapped(struct streams *streams)
{
	uint8_t *all = session_buffer(WARM_LENGTH + streams->slow_length);

	if (!all)
		return -1;
	pattern_fill(all, WARM_LENGTH + streams->slow_length, COST_SEED);
	memcpy(streams->slow, all + WARM_LENGTH, streams->slow_length);
	munmap(all, WARM_LENGTH + streams->slow_length);
	return 0;
}

static int beside(const struct cost *cost, bool pager, size_t slow_length)
{
	struct streams streams = { .slow_length = slow_length };
	int status = -1, i;

	for (i = 0; i < SLOTS; i++)
		streams.slots[i] = (struct slot){ .streams = &streams, .number = (size_t)i };
	streams.local = session_buffer(WARM_LENGTH);
	streams.slow = cost_untouched(slow_length);
	if (!streams.local || !streams.slow ||
	    cost_samples(streams.samples, KINDS, (size_t)cost->iterations) ||
	    cost_open(&streams.session, cost, cost->options, WARM_LENGTH + slow_length,
		      &streams.remote))
		goto release;
	/* Both processes move long transfers. */
	cost_continue_partner(&streams.session);
	if (!(pager ? start_pager(&streams) : fill_swapped(&streams)))
		status = measure(&streams, cost);
	if (streams.pager)
		pf_pager_unregister(streams.pager);
	if (cost_close(&streams.session))
		status = -1;
release:
	if (streams.slow)
		munmap(streams.slow, slow_length);
	if (streams.local)
		munmap(streams.local, WARM_LENGTH);
	free(streams.samples[0]);
	return status;
}

int cost_beside_pager(const struct cost *cost)
{
	return beside(cost, true, PAGER_PAGES * (size_t)sysconf(_SC_PAGESIZE));
}

int cost_beside_swap(const struct cost *cost)
{
	return beside(cost, false, SWAP_LENGTH);
}
