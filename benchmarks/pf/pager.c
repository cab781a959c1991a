/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time from an access to an evicted page until that access succeeds: an
 * access by a processor that a userfaultfd thread serves, compared with a get
 * whose page fault is forwarded to a pager. Both supply the same contents.
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
/* Measurements of one kind before those of the next. */
#define TURN 50

enum kind { THREAD, SPINNING, FORWARDED, NOTIFIED, SUPPLIED, RETRANSMITTED, COPY, KINDS };

struct paging {
	struct session session;
	uint64_t remote;
	size_t page, length;
	uint8_t *paged;   /* memory of the pager */
	uint8_t *served;  /* memory of the userfaultfd thread */
	uint8_t *content; /* contents of every page */
	pf_pager *pager;
	struct userfault *userfault;
	double called, returned; /* times of the last call of the pager, s */
	unsigned calls;          /* number of calls of the pager */
	double *samples[KINDS];  /* s */
};

static void supply_thread(uint64_t address, void *page, size_t length, void *arg)
{
	(void)address;
	memcpy(page, arg, length);
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
	paging->samples[kind][number] = sample_seconds() - start;
	paging->samples[COPY][number] = userfault_copy_seconds(paging->userfault);
	if (found == *paging->content)
		return 0;
	warnx("wrong contents in a page that the userfaultfd thread supplied");
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
	if (cost_get(&paging->session, page, paging->remote, paging->page))
		return -1;
	end = sample_seconds();
	if (paging->calls != calls + 1) {
		warnx("one get into an evicted page called its pager %u times",
		      paging->calls - calls);
		return -1;
	}
	paging->samples[FORWARDED][number] = end - start;
	paging->samples[NOTIFIED][number] = paging->called - start;
	paging->samples[SUPPLIED][number] = paging->returned - paging->called;
	paging->samples[RETRANSMITTED][number] = end - paging->returned;
	if (pattern_matches(page, paging->page, COST_SEED))
		return 0;
	warnx("wrong contents after a get into an evicted page");
	return -1;
}

static int measure_once(struct paging *paging, size_t number, enum kind kind)
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
			/* The thread, which has the partner's core, has it alone. */
			if (kind == FORWARDED)
				cost_prepare_gets(&paging->session);
			else
				cost_stop_partner(&paging->session);
			for (i = first; i < first + TURN && i < skip + count; i++)
				if (measure_once(paging, i, (enum kind)kind))
					return -1;
		}
	}
	cost_print(paging->samples, KINDS, skip, count);
	return 0;
}

/* A userfaultfd thread that spins must not share a core with the thread that it serves. */
static int start(struct paging *paging, const struct cost *cost)
{
	int status;

	if (cores_shared(cost->cores)) {
		warnx("this test needs two cores");
		return -1;
	}
	paging->userfault = userfault_start(paging->served, paging->length, paging->page,
					    cost->cores->second, supply_thread, paging->content);
	if (!paging->userfault)
		return -1;
	status = pf_pager_register(paging->session.context, paging->paged, paging->length, supply,
				   paging, &paging->pager);
	if (status == PF_OK)
		return 0;
	paging->pager = NULL;
	warnx("pf_pager_register: %s", pf_strerror(status));
	return -1;
}

int cost_pager(const struct cost *cost)
{
	size_t skip = (size_t)cost->warm_up, count = (size_t)cost->iterations;
	struct paging paging = { .page = (size_t)sysconf(_SC_PAGESIZE) };
	int status = -1;

	paging.length = PAGES * paging.page;
	paging.paged = cost_untouched(paging.length);
	paging.served = cost_untouched(paging.length);
	paging.content = session_buffer(paging.page);
	if (!paging.paged || !paging.served || !paging.content)
		goto unmap;
	pattern_fill(paging.content, paging.page, COST_SEED + 1);
	if (cost_samples(paging.samples, KINDS, skip + count) ||
	    cost_open(&paging.session, cost, cost->options, paging.page, &paging.remote))
		goto unmap;
	if (!start(&paging, cost))
		status = measure(&paging, skip, count);
	if (paging.pager)
		pf_pager_unregister(paging.pager);
	if (paging.userfault)
		userfault_stop(paging.userfault);
	if (cost_close(&paging.session))
		status = -1;
unmap:
	free(paging.samples[0]);
	if (paging.paged)
		munmap(paging.paged, paging.length);
	if (paging.served)
		munmap(paging.served, paging.length);
	if (paging.content)
		munmap(paging.content, paging.page);
	return status;
}
