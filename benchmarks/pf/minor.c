/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time that minor page faults at the destination add to a get, compared
 * with the time of a processor's own access to such pages.
 */
#include "cost.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"
#include "sample.h"

enum kind { TOUCH, WARM, COLD, KINDS };

struct minor {
	struct session session;
	uint64_t remote;
	size_t size, page;
	size_t places;             /* number of transfers that a buffer holds, a power of two */
	uint8_t *gotten, *touched; /* the destination of gets, the memory that is touched */
	double *samples[KINDS];    /* s */
};

static size_t power_of_two(size_t least)
{
	size_t power = 1;

	while (power < least)
		power *= 2;
	return power;
}

/*
 * Use every place once, and neighbours at different times: pages that the
 * kernel or libpf makes present ahead of a transfer are then not the next ones.
 */
static size_t place(const struct minor *minor, size_t number)
{
	return (number * 0x9e3779b1u & (minor->places - 1)) * minor->size;
}

static void touch(struct minor *minor, size_t number)
{
	volatile uint8_t *area = minor->touched + place(minor, number);
	double start = sample_seconds();
	size_t at;

	for (at = 0; at < minor->size; at += minor->page)
		area[at] = 1;
	minor->samples[TOUCH][number] = sample_seconds() - start;
}

static int get(struct minor *minor, size_t number, enum kind kind)
{
	uint8_t *local = minor->gotten + place(minor, number);
	double start = sample_seconds();
	int status = cost_get(&minor->session, local, minor->remote, minor->size);

	minor->samples[kind][number] = sample_seconds() - start;
	return status;
}

static int measure_once(struct minor *minor, size_t number)
{
	if (cost_present(minor->gotten + place(minor, number), minor->size)) {
		warnx("untouched pages are present: this is not a cold transfer");
		return -1;
	}
	if (number % 2)
		touch(minor, number);
	if (get(minor, number, COLD) || get(minor, number, WARM))
		return -1;
	if (number % 2 == 0)
		touch(minor, number);
	return 0;
}

static int verify(const struct minor *minor, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (pattern_matches(minor->gotten + place(minor, i), minor->size, COST_SEED))
			continue;
		warnx("wrong contents after a get of %zu bytes", minor->size);
		return -1;
	}
	return 0;
}

static int measure(struct minor *minor, const struct cost *cost)
{
	size_t skip = (size_t)cost->warm_up, count = (size_t)cost->iterations, i;

	cost_prepare_gets(&minor->session);
	for (i = 0; i < skip + count; i++)
		if (measure_once(minor, i))
			return -1;
	if (verify(minor, skip + count))
		return -1;
	cost_print(minor->samples, KINDS, skip, count);
	return 0;
}

/*
 * Use memory and free it, so that the system allocates it again: under a
 * hypervisor the first use of a page is also a page fault of the host.
 */
static int warm_allocator(size_t length)
{
	uint8_t *area = session_buffer(length);

	if (!area)
		return -1;
	munmap(area, length);
	return 0;
}

int cost_minor(const struct cost *cost)
{
	size_t total = (size_t)cost->iterations + (size_t)cost->warm_up;
	struct minor minor = { .size = cost->size, .page = (size_t)sysconf(_SC_PAGESIZE) };
	size_t length;
	int status = -1;

	minor.places = power_of_two(total);
	length = minor.places * minor.size;
	if (warm_allocator(2 * length))
		return -1;
	minor.gotten = cost_untouched(length);
	minor.touched = cost_untouched(length);
	if (!minor.gotten || !minor.touched)
		goto unmap;
	if (cost_samples(minor.samples, KINDS, total) ||
	    cost_open(&minor.session, cost, cost->options, minor.size, &minor.remote))
		goto unmap;
	status = measure(&minor, cost);
	if (cost_close(&minor.session))
		status = -1;
unmap:
	free(minor.samples[0]);
	if (minor.gotten)
		munmap(minor.gotten, length);
	if (minor.touched)
		munmap(minor.touched, length);
	return status;
}
