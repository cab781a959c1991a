/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a fault on an evicted page to what it stopped going on again: a
 * processor's touch that a userfaultfd thread serves, beside a get whose fault
 * is forwarded to a pager. Both are supplied with the same page.
 */
#include "cost.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"
#include "sample.h"
#include "userfault.h"

#define PAGES 64
/* So many in a row of each way, then the next way has its turn. */
#define TURN 50

enum kind { THREAD, SPINNING, FORWARDED, NOTIFIED, SUPPLIED, RETRANSMITTED, COPY, KINDS };

struct paging {
	struct pair pair;
	uint64_t remote;
	size_t page, length;
	uint8_t *paged, *served; /* by the pager, by the userfaultfd thread */
	uint8_t *content;        /* of every page */
	pf_pager *pager;
	struct userfault *userfault;
	double called, returned; /* the pager */
	unsigned calls;
	double *seconds[KINDS];
};

/* The userfaultfd thread's supply has no argument of its own. */
static const uint8_t *thread_content;

static void supply_thread(uint64_t address, void *page, size_t length)
{
	(void)address;
	memcpy(page, thread_content, length);
}

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	struct paging *paging = arg;

	(void)context;
	(void)address;
	paging->called = sample_seconds();
	memcpy(page, paging->content, length);
	paging->calls++;
	paging->returned = sample_seconds();
	return PF_OK;
}

static int touch(struct paging *paging, size_t number, enum kind kind)
{
	volatile uint8_t *page = paging->served + number % PAGES * paging->page;
	double start;
	uint8_t found;

	if (madvise((void *)(uintptr_t)page, paging->page, MADV_DONTNEED)) {
		warn("MADV_DONTNEED");
		return -1;
	}
	start = sample_seconds();
	found = *page;
	paging->seconds[kind][number] = sample_seconds() - start;
	paging->seconds[COPY][number] = userfault_copy_seconds(paging->userfault);
	if (found == *paging->content)
		return 0;
	warnx("the userfaultfd thread gave a wrong page");
	return -1;
}

static int get(struct paging *paging, size_t number)
{
	uint8_t *page = paging->paged + number % PAGES * paging->page;
	unsigned calls = paging->calls;
	double start, end;
	int status = pf_pager_evict(paging->pager, page, paging->page);

	if (status != PF_OK) {
		warnx("pf_pager_evict: %s", pf_strerror(status));
		return -1;
	}
	start = sample_seconds();
	if (cost_get(&paging->pair, page, paging->remote, paging->page))
		return -1;
	end = sample_seconds();
	if (paging->calls != calls + 1) {
		warnx("one get into an evicted page called its pager %u times",
		      paging->calls - calls);
		return -1;
	}
	paging->seconds[FORWARDED][number] = end - start;
	paging->seconds[NOTIFIED][number] = paging->called - start;
	paging->seconds[SUPPLIED][number] = paging->returned - paging->called;
	paging->seconds[RETRANSMITTED][number] = end - paging->returned;
	if (pattern_matches(page, paging->page, COST_SEED))
		return 0;
	warnx("wrong contents after a get into an evicted page");
	return -1;
}

static int one(struct paging *paging, size_t number, enum kind kind)
{
	return kind == FORWARDED ? get(paging, number) : touch(paging, number, kind);
}

static int measure(struct paging *paging, size_t skip, size_t count)
{
	size_t first, i;
	int kind;

	for (first = 0; first < skip + count; first += TURN) {
		for (kind = THREAD; kind <= FORWARDED; kind++) {
			userfault_spin(paging->userfault, kind == SPINNING);
			for (i = first; i < first + TURN && i < skip + count; i++)
				if (one(paging, i, (enum kind)kind))
					return -1;
		}
	}
	for (kind = 0; kind < KINDS; kind++)
		printf("%20.4f", cost_microseconds(paging->seconds[kind] + skip, count));
	return 0;
}

/* A spinning thread stands in its own way on a core that it shares with the one it serves. */
static int start(struct paging *paging, const struct cost *cost)
{
	int status;

	if (cores_shared(cost->cores)) {
		warnx("this test needs two cores");
		return -1;
	}
	thread_content = paging->content;
	paging->userfault = userfault_start(paging->served, paging->length, cost->cores->second,
					    supply_thread);
	if (!paging->userfault)
		return -1;
	status = pf_pager_register(paging->pair.context, paging->paged, paging->length, supply,
				   paging, &paging->pager);
	if (status == PF_OK || status == PF_DONE)
		return 0;
	paging->pager = NULL;
	warn("pf_pager_register: %s", pf_strerror(status));
	return -1;
}

int cost_pager(const struct cost *cost)
{
	size_t skip = (size_t)cost->warm_up, count = (size_t)cost->iterations;
	struct paging paging = { .page = (size_t)sysconf(_SC_PAGESIZE) };
	int status = -1, kind;

	paging.length = PAGES * paging.page;
	paging.paged = cost_untouched(paging.length);
	paging.served = cost_untouched(paging.length);
	paging.content = pair_buffer(paging.page);
	if (!paging.paged || !paging.served || !paging.content)
		goto unmap;
	pattern_fill(paging.content, paging.page, COST_SEED + 1);
	for (kind = 0; kind < KINDS; kind++) {
		paging.seconds[kind] = calloc(skip + count, sizeof(double));
		if (!paging.seconds[kind]) {
			warn("memory for %zu samples", skip + count);
			goto release;
		}
	}
	if (cost_open(&paging.pair, cost, cost->options, paging.page, &paging.remote))
		goto release;
	if (!start(&paging, cost))
		status = measure(&paging, skip, count);
	if (paging.pager)
		pf_pager_unregister(paging.pager);
	if (paging.userfault)
		userfault_stop(paging.userfault);
	if (cost_close(&paging.pair))
		status = -1;
release:
	for (kind = 0; kind < KINDS; kind++)
		free(paging.seconds[kind]);
unmap:
	if (paging.paged)
		munmap(paging.paged, paging.length);
	if (paging.served)
		munmap(paging.served, paging.length);
	if (paging.content)
		munmap(paging.content, paging.page);
	return status;
}
