/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of gets into memory whose pages come slowly from a pager: it reads
 * each page from a file, without the system's cache. The arguments for time and
 * the output are those of mpi/flow.
 */
#include <err.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session.h"
#include "pattern.h"
#include "sample.h"
#include "../mpi/span.h"

#define LENGTH ((size_t)256 << 10)
#define WINDOW 4
#define SEED 1
#define FRAGMENTS_MOST 64

struct flow;

struct slot {
	struct flow *flow;
	size_t number;
	bool busy;
};

struct flow {
	struct session session;
	struct span span;
	uint8_t *memory; /* the slots' */
	uint64_t remote; /* address of the partner's slots */
	pf_pager *pager;
	struct slot slots[WINDOW];
	unsigned busy;
	unsigned long long *bytes; /* by step */
	unsigned long long total;  /* bytes, also before and after the span */
	bool failed;
};

/* Where pages come from: each is the exclusive or of some pages of a file, as in an array of disks. */
static struct {
	int file;
	int fragments;
	size_t pages; /* of the file */
	atomic_ulong supplied;
} store;

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	uint8_t *fragment = aligned_alloc(length, length), *bytes = page;
	int i, status = fragment ? PF_OK : PF_ERR_MEMORY;
	size_t at, number;

	(void)context;
	(void)arg;
	memset(page, 0, length);
	for (i = 0; i < store.fragments && status == PF_OK; i++) {
		number = (size_t)(address / length * (uint64_t)store.fragments + (uint64_t)i) %
			 store.pages;
		if (pread(store.file, fragment, length, (off_t)(number * length)) !=
		    (ssize_t)length) {
			warn("the file of pages");
			status = PF_ERR_SYSTEM;
			break;
		}
		for (at = 0; at < length; at++)
			bytes[at] ^= fragment[at];
	}
	free(fragment);
	atomic_fetch_add(&store.supplied, 1);
	return status;
}

static int store_open(const char *name, const char *fragments)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct stat info;

	store.fragments = atoi(fragments);
	if (store.fragments < 1 || store.fragments > FRAGMENTS_MOST) {
		warnx("FRAGMENTS %s: must be 1 to %d", fragments, FRAGMENTS_MOST);
		return -1;
	}
	store.file = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (store.file < 0 || fstat(store.file, &info) < 0) {
		warn("%s", name);
		return -1;
	}
	store.pages = (size_t)info.st_size / page;
	if (!store.pages)
		warnx("%s is shorter than a page", name);
	return store.pages ? 0 : -1;
}

static void fail(struct flow *flow, const char *what, int status)
{
	warnx("%s: %s", what, pf_strerror(status));
	flow->failed = true;
}

static void arrived(struct slot *slot)
{
	struct flow *flow = slot->flow;
	const struct span *span = &flow->span;
	double now = sample_seconds();

	flow->total += LENGTH;
	slot->busy = false;
	flow->busy--;
	if (!pattern_matches(flow->memory + slot->number * LENGTH, LENGTH, SEED + slot->number)) {
		warnx("wrong contents arrived");
		flow->failed = true;
	}
	if (span_contains(span, now))
		flow->bytes[span_step(span, now)] += LENGTH;
}

static void complete(pf_context *context, const pf_completion *completion)
{
	struct slot *slot = completion->arg;

	(void)context;
	if (completion->status != PF_OK) {
		slot->busy = false;
		slot->flow->busy--;
		fail(slot->flow, "pf_get", completion->status);
		return;
	}
	arrived(slot);
}

/* Make the pages of a slot absent, and get their new contents. */
static void post(struct slot *slot)
{
	struct flow *flow = slot->flow;
	uint8_t *memory = flow->memory + slot->number * LENGTH;
	int status = pf_pager_evict(flow->pager, memory, LENGTH);

	if (status != PF_OK) {
		fail(flow, "pf_pager_evict", status);
		return;
	}
	slot->busy = true;
	flow->busy++;
	status = pf_get(flow->session.peer, memory, flow->remote + slot->number * LENGTH, LENGTH,
			complete, slot);
	if (status == PF_OK) {
		arrived(slot);
	} else if (status != PF_PENDING) {
		slot->busy = false;
		flow->busy--;
		fail(flow, "pf_get", status);
	}
}

static void run(struct flow *flow)
{
	size_t i;

	while (!flow->failed && !flow->session.failed) {
		bool more = sample_seconds() < flow->span.end;

		for (i = 0; more && i < WINDOW; i++)
			if (!flow->slots[i].busy)
				post(&flow->slots[i]);
		if (!more && !flow->busy)
			return;
		session_poll(&flow->session);
	}
	flow->failed = true;
}

static int partner_statistic(struct flow *flow, enum pf_stat stat, uint64_t *value)
{
	struct control control = { .kind = CONTROL_STATISTIC, .seed = stat };
	int status = session_ask(&flow->session, &control);

	*value = control.length;
	return status;
}

static int report(struct flow *flow)
{
	uint64_t sent, lost;
	int i;

	if (partner_statistic(flow, PF_STAT_NET_BYTES, &sent) ||
	    partner_statistic(flow, PF_STAT_NET_LOST, &lost))
		return -1;
	printf("# End of the step in s after BEGIN, bytes received in the step\n");
	for (i = 0; i < flow->span.steps; i++)
		printf("%.3f %llu\n", (i + 1) * flow->span.step, flow->bytes[i]);
	printf("# bytes %llu\n", flow->total);
	printf("# pages %lu\n", atomic_load(&store.supplied));
	printf("# net_nacks %llu\n",
	       (unsigned long long)pf_stat(flow->session.context, PF_STAT_NET_NACKS));
	printf("# net_bytes %llu\n# net_lost %llu\n", (unsigned long long)sent,
	       (unsigned long long)lost);
	return 0;
}

static int measure(struct flow *flow, const char *address)
{
	pf_options options;
	int status;
	size_t i;

	pf_options_init(&options, sizeof(options), NULL);
	if (session_connect(&flow->session, &options, address, NULL))
		return -1;
	/* The first transfer determines the path. */
	if (!session_path(&flow->session) ||
	    session_prepare(&flow->session, LENGTH, LENGTH, WINDOW, SEED, false, &flow->remote))
		goto out;
	status = pf_pager_register(flow->session.context, flow->memory, WINDOW * LENGTH, supply,
				   NULL, &flow->pager);
	if (status != PF_OK) {
		fail(flow, "pf_pager_register", status);
		goto out;
	}
	for (i = 0; i < WINDOW; i++)
		flow->slots[i] = (struct slot){ .flow = flow, .number = i };
	run(flow);
	if (!flow->failed && report(flow))
		flow->failed = true;
	pf_pager_unregister(flow->pager);
	return session_close(&flow->session) || flow->failed ? -1 : 0;
out:
	session_close(&flow->session);
	return -1;
}

int main(int argc, char **argv)
{
	static struct flow flow;
	int status;

	if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"))) {
		printf("Usage: paged_flow ADDRESS PAGES FRAGMENTS BEGIN END STEP\n"
		       "Gets %zu KiB at a time, %d times at once, from \"pf_perf --listen ADDRESS\" "
		       "until END, into memory of a\npager that makes each page from FRAGMENTS pages "
		       "of the file PAGES, read with O_DIRECT. Prints the number\nof bytes that "
		       "arrived in each STEP from BEGIN to END; see flow --help.\n",
		       LENGTH >> 10, WINDOW);
		return 0;
	}
	if (argc != 7 || span_parse(&flow.span, argc - 4, argv + 4)) {
		warnx("needs ADDRESS PAGES FRAGMENTS BEGIN END STEP: see --help");
		return 2;
	}
	if (store_open(argv[2], argv[3]))
		return 1;
	flow.bytes = calloc((size_t)flow.span.steps + 1, sizeof(*flow.bytes));
	flow.memory = mmap(NULL, WINDOW * LENGTH, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!flow.bytes || flow.memory == MAP_FAILED) {
		warn("memory");
		return 1;
	}
	status = measure(&flow, argv[1]);
	munmap(flow.memory, WINDOW * LENGTH);
	free(flow.bytes);
	close(store.file);
	return status ? 1 : 0;
}
