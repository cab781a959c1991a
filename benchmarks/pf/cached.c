/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The latency of a get of a page that is in the page cache, but not mapped at the owner, which polls:
 * a page fault for which the kernel only has to map the page.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cost.h"
#include "pattern.h"
#include "sample.h"

#define PAGE ((size_t)4096)
/* Farther than the kernel maps pages around a page fault. */
#define STRIDE ((size_t)2 << 20)
#define PAGES 200
/* The owner has to learn first that it may ask the kernel about the file. */
#define WARM_UP 2

/* Not unlinked before the end: libpf finds by the path whether it may ask about pages in the cache. */
static char path[] = "./cached-XXXXXX";

/* A file with a page every STRIDE bytes, in the page cache, and mapped, but for the page tables. */
static uint8_t *map_file(void)
{
	uint8_t page[PAGE], *map = MAP_FAILED;
	int fd = mkstemp(path), i;

	if (fd < 0 || ftruncate(fd, (off_t)(PAGES * STRIDE))) {
		warn("%s", path);
		return NULL;
	}
	for (i = 0; i < PAGES; i++) {
		pattern_fill(page, PAGE, (uint64_t)i);
		if (pwrite(fd, page, PAGE, (off_t)((size_t)i * STRIDE)) != (ssize_t)PAGE) {
			warn("%s", path);
			return NULL;
		}
	}
	map = mmap(NULL, PAGES * STRIDE, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		warn("mmap");
	return map == MAP_FAILED ? NULL : map;
}

/* The partner was forked, and has the mapping at the same address. Return the number of page faults. */
static int measure(struct session *session, const uint8_t *map, uint8_t *local, double *samples)
{
	uint64_t before;
	double start;
	int count = 0, i;

	for (i = 0; i < PAGES; i++) {
		before = pf_stat(session->context, PF_STAT_REMOTE_FAULTS);
		start = sample_seconds();
		if (cost_get(session, local, (uintptr_t)map + (size_t)i * STRIDE, PAGE))
			return -1;
		if (pf_stat(session->context, PF_STAT_REMOTE_FAULTS) > before && i >= WARM_UP)
			samples[count++] = sample_seconds() - start;
		if (!pattern_matches(local, PAGE, (uint64_t)i)) {
			warnx("wrong contents of page %d", i);
			return -1;
		}
	}
	return count;
}

int main(int argc, char **argv)
{
	static struct session session;
	static double samples[PAGES];
	uint8_t *local = session_buffer(PAGE), *map;
	struct cores cores;
	pf_options options;
	struct cost cost = { .cores = &cores, .options = &options };
	uint64_t remote;
	int count;

	if (argc > 1) {
		printf("Usage: %s\n\nMeasure gets of pages of a file in the current folder that are in the\n"
		       "page cache, but not mapped at their owner. LIBPF_* environment variables set\n"
		       "libpf's options.\n",
		       argv[0]);
		return strcmp(argv[1], "--help") && strcmp(argv[1], "-h") ? 2 : 0;
	}
	if (cost_load_options(&options))
		return 2;
	map = map_file();
	if (!map || !local || cores_choose(&cores) ||
	    cost_open(&session, &cost, &options, PAGE, &remote)) {
		unlink(path);
		return 1;
	}
	cost_continue_partner(&session);
	count = measure(&session, map, local, samples);
	unlink(path);
	if (cost_close(&session) || count < 0)
		return 1;
	if (!count)
		errx(1, "no page fault: is the file on a disk?");
	printf("# %d page faults of the owner, which polls\nlatency %.2f\n", count,
	       1e6 * sample_summary(samples, (size_t)count).median);
	return 0;
}
