/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shows statistics pages that libpf did not make, for at most a minute. pf_info
 * --job must ignore them, or read them correctly.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/statistics.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void fill(struct statistics_page *page)
{
	page->magic = STATISTICS_MAGIC;
	page->version = STATISTICS_VERSION;
	page->stats = PF_STAT_COUNT;
	page->buckets = PF_RESOLVE_BUCKETS;
	page->pid = getpid();
}

/* Page faults whose percentiles are known. */
static void count(struct statistics_page *page)
{
	page->value[PF_STAT_LOCAL_MINOR] = 90;
	page->concurrent[PF_STAT_LOCAL_MINOR] = 8;
	page->concurrent[PF_STAT_REMOTE_PAGER] = 1;
	page->concurrent[PF_STAT_REMOTE_MAJOR] = 1;
	page->value[PF_STAT_RETRANSMITS] = 100;
	page->value[PF_STAT_STREAM_BYTES] = 3 << 20;
	page->resolve[1] = 98;
	page->resolve[10] = 1;
	page->resolve[PF_RESOLVE_BUCKETS - 1] = 1;
}

static int show(const void *bytes, size_t length, int seals)
{
	int fd = memfd_create(STATISTICS_NAME, MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, bytes, length) != (ssize_t)length ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals)))
		perror("forge");
	return fd;
}

int main(int argc, char **argv)
{
	static union {
		struct statistics_page page;
		char bytes[STATISTICS_SIZE];
	} forged;
	const char *what = argc > 1 ? argv[1] : "";
	struct statistics_page *page = &forged.page;
	size_t length = sizeof(forged);
	int i, fd, seals = SEALS;

	fill(page);
	count(page);
	if (!strcmp(what, "empty")) {
		length = 0;
	} else if (!strcmp(what, "short")) {
		length = 100;
	} else if (!strcmp(what, "unsealed")) {
		seals = 0;
	} else if (!strcmp(what, "noise")) {
		memset(forged.bytes, 0xa5, length);
	} else if (!strcmp(what, "version")) {
		page->version++;
	} else if (!strcmp(what, "counts")) {
		page->stats = page->buckets = UINT32_MAX;
	} else if (!strcmp(what, "inherited")) {
		page->pid++;
	} else if (!strcmp(what, "wild")) {
		memset(forged.bytes, 0xff, length);
		fill(page);
	} else if (strcmp(what, "counted") != 0 && strcmp(what, "twice") != 0) {
		return 2;
	}
	fd = show(&forged, length, seals);
	for (i = 0; !strcmp(what, "twice") && i < 100; i++)
		dup(fd);
	if (!strcmp(what, "twice"))
		show(&forged, length, seals);
	puts("ready");
	fflush(stdout);
	alarm(60);
	pause();
	return 0;
}
