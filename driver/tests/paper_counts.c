// SPDX-License-Identifier: GPL-2.0
/*
 * What a transfer to another node costs the processors of both, by how it deals
 * with absent pages: paper_counts [ROUNDS]. For driver/tests/paper, which makes a table
 * of what it prints, and boots machines whose clocks count instructions (one a
 * nanosecond) and whose engines have a link.
 *
 * On each node a thread that runs when nothing else does (SCHED_IDLE) counts how
 * often it went round its loop. What it did not get is the work of everything
 * else: processes, system calls, interrupts, the module. The same messages
 * between the nodes without a transfer are measured, too, and taken off.
 *
 * A line for each size, absent side, kind of page fault and way, with medians:
 *
 *	bytes absent kind way instructions spread packets again interrupts faults
 */
#include "device.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LENGTH_MAX (4ul << 20)
#define ROUNDS_MAX 101

enum way {
	NOTHING, /* no transfer: what the measurement costs */
	WARM,    /* as after pinning once: all is there, and the engine knows it */
	PIN,     /* mlock(2), transfer, munlock(2) */
	PREFAULT,
	FAULT_TOUCH, /* by the driver's policies */
	FAULT_AHEAD,
	FAULT_HUGE,
	WAYS
};
enum absent { NEITHER, SOURCE, DESTINATION, BOTH };
enum kind {
	PRESENT,
	MINOR, /* a page that was never there */
	MAJOR, /* one that is in swap */
};

static const char *const way_names[WAYS] = {
	[WARM] = "warm",         [PIN] = "pin",           [PREFAULT] = "prefault",
	[FAULT_TOUCH] = "touch", [FAULT_AHEAD] = "ahead", [FAULT_HUGE] = "huge",
};
static const char *const absent_names[] = { [NEITHER] = "neither",
					    [SOURCE] = "source",
					    [DESTINATION] = "destination",
					    [BOTH] = "both" };
static const char *const kind_names[] = { [PRESENT] = "none", [MINOR] = "minor", [MAJOR] = "major" };
static const unsigned int policies[WAYS] = {
	[FAULT_TOUCH] = EXANEST_POLICY_TOUCH,
	[FAULT_AHEAD] = EXANEST_POLICY_AHEAD,
	[FAULT_HUGE] = EXANEST_POLICY_HUGE,
};
static const size_t lengths[] = { 4096, 65536, 1048576, LENGTH_MAX };

enum count { PACKETS, AGAIN, INTERRUPTS, FAULTS_LOCAL, FAULTS_REMOTE, COUNTS };
static const char *const count_names[COUNTS] = {
	[PACKETS] = "packets_sent",        [AGAIN] = "blocks_again",
	[INTERRUPTS] = "interrupts",       [FAULTS_LOCAL] = "faults_local",
	[FAULTS_REMOTE] = "faults_remote",
};

static unsigned int rounds = 7;

/*
 * What runs on both nodes, here and by PARTNER_CALL.
 */
static volatile uint64_t turns;
static double turn_ns; /* instructions of a turn */
static unsigned char *memory;

static void *spin(void *unused)
{
	const struct sched_param parameter = { 0 };

	CHECK(!sched_setscheduler(0, SCHED_IDLE, &parameter));
	for (;;)
		turns = turns + 1;
	return unused;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Start the thread, and see what a turn costs while nothing else runs: with its share of the clock
 * ticks, which are not work, however long a transfer takes.
 */
static uint64_t spin_start(uint64_t unused, uint64_t unused2)
{
	enum { WINDOWS = 5 };
	double each[WINDOWS];
	uint64_t start, before;
	pthread_t thread;
	unsigned int i;

	CHECK(!pthread_create(&thread, NULL, spin, NULL));
	while (!turns)
		usleep(1000);
	for (i = 0; i < WINDOWS; i++) {
		start = clock_ns(CLOCK_MONOTONIC);
		before = turns;
		usleep(200000);
		each[i] = (double)(clock_ns(CLOCK_MONOTONIC) - start) / (double)(turns - before);
	}
	qsort(each, WINDOWS, sizeof(*each), ascending);
	turn_ns = each[WINDOWS / 2];
	(void)unused, (void)unused2;
	return 0;
}

/* Instructions that were neither turns nor clock ticks. */
static uint64_t work_done(uint64_t unused, uint64_t unused2)
{
	(void)unused, (void)unused2;
	return clock_ns(CLOCK_MONOTONIC) - (uint64_t)(turns * turn_ns);
}

static uint64_t memory_make(uint64_t huge, uint64_t unused)
{
	const size_t align = 2ul << 20;
	char *start = map_private(LENGTH_MAX + align, huge);

	start += -(uintptr_t)start % align;
	if (huge)
		CHECK(!madvise(start, LENGTH_MAX, MADV_HUGEPAGE));
	memory = (unsigned char *)start;
	(void)unused;
	return (uintptr_t)start;
}

static bool all_swapped(size_t length)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	const uint64_t swapped = 1ull << 62;
	uint64_t entry;
	bool all = true;
	size_t i;

	CHECK(fd >= 0);
	for (i = 0; i < length && all; i += PAGE) {
		CHECK(pread(fd, &entry, sizeof(entry),
			    ((uintptr_t)memory + i) / PAGE * sizeof(entry)) == sizeof(entry));
		all = entry & swapped;
	}
	close(fd);
	return all;
}

/* Which pages are absent when the transfer begins. */
static uint64_t memory_prepare(uint64_t length, uint64_t kind)
{
	unsigned int i;

	CHECK(!madvise(memory, LENGTH_MAX, MADV_DONTNEED));
	if (kind == MINOR)
		return 0;
	memset(memory, 1, length);
	if (kind != MAJOR)
		return 0;
	/* MADV_PAGEOUT skips pages that are in lists of a processor for a moment. */
	for (i = 0; i < 100 && !all_swapped(length); i++)
		CHECK(!madvise(memory, length, MADV_PAGEOUT));
	CHECK(all_swapped(length));
	return 0;
}

static uint64_t before_transfer(uint64_t length, uint64_t way)
{
	size_t i;

	if (way == PIN)
		CHECK(!mlock(memory, length));
	if (way == PREFAULT)
		for (i = 0; i < length; i += PAGE)
			*(volatile unsigned char *)(memory + i) |= 0;
	return 0;
}

static uint64_t after_transfer(uint64_t length, uint64_t way)
{
	if (way == PIN)
		CHECK(!munlock(memory, length));
	return 0;
}

static uint64_t engine_counted(uint64_t what, uint64_t unused)
{
	struct device device;
	static char engine[64];

	if (!engine[0]) {
		device_open(&device, NULL);
		snprintf(engine, sizeof(engine), "%s", device_engine(&device));
		device_close(&device);
	}
	(void)unused;
	return engine_count(engine, count_names[what]);
}

/*
 * The measurement.
 */
struct pair {
	struct partner partner;
	struct device device;
	uint64_t remote;
};

struct sample {
	double instructions; /* first: measure sorts by it */
	double counts[COUNTS];
};

static uint64_t there(struct pair *pair, uint64_t (*function)(uint64_t, uint64_t), uint64_t a,
		      uint64_t b)
{
	return partner_ask(&pair->partner, PARTNER_CALL, (uintptr_t)function, a, b);
}

static void put(struct pair *pair, size_t length)
{
	device_post(&pair->device, EXANEST_OP_PUT, pair->partner.address, memory, pair->remote,
		    length);
	device_wait_asleep(&pair->device);
}

static void count(struct pair *pair, struct sample *sample, int sign)
{
	unsigned int i;

	for (i = 0; i < COUNTS; i++)
		sample->counts[i] +=
			sign * (double)(engine_counted(i, 0) + there(pair, engine_counted, i, 0));
}

static void pair_open(struct pair *pair, enum way way)
{
	const struct device_options options = { .policy = policies[way] };
	const bool huge = way == FAULT_HUGE;

	partner_start(&pair->partner, &options);
	CHECK(partner_is_far(&pair->partner));
	device_open(&pair->device, &options);
	pair->remote = there(pair, memory_make, huge, 0);
	there(pair, spin_start, 0, 0);
	memory_make(huge, 0);
}

static void pair_close(struct pair *pair)
{
	device_close(&pair->device);
	partner_stop(&pair->partner);
}

static void measure_once(struct pair *pair, size_t length, enum absent absent, enum kind kind,
			 enum way way, struct sample *sample)
{
	uint64_t here_before, there_before;

	memset(sample, 0, sizeof(*sample));
	memory_prepare(length, absent & SOURCE ? kind : PRESENT);
	there(pair, memory_prepare, length, absent & DESTINATION ? kind : PRESENT);
	if (way == WARM)
		put(pair, length);
	count(pair, sample, -1);
	there_before = there(pair, work_done, 0, 0);
	here_before = work_done(0, 0);
	there(pair, before_transfer, length, way);
	before_transfer(length, way);
	if (way != NOTHING)
		put(pair, length);
	after_transfer(length, way);
	there(pair, after_transfer, length, way);
	sample->instructions = (int64_t)(work_done(0, 0) - here_before);
	sample->instructions += (int64_t)(there(pair, work_done, 0, 0) - there_before);
	count(pair, sample, 1);
}

/* By instructions: the median with its counts, and the spread. */
static struct sample measure(struct pair *pair, size_t length, enum absent absent, enum kind kind,
			     enum way way, double *spread)
{
	struct sample samples[ROUNDS_MAX];
	unsigned int i;

	for (i = 0; i < rounds; i++)
		measure_once(pair, length, absent, kind, way, &samples[i]);
	qsort(samples, rounds, sizeof(*samples), ascending);
	*spread = samples[rounds - 1].instructions - samples[0].instructions;
	return samples[rounds / 2];
}

static void show(struct pair *pair, size_t length, enum absent absent, enum kind kind, enum way way,
		 double nothing)
{
	double spread, *counts;
	struct sample median;

	median = measure(pair, length, absent, kind, way, &spread);
	counts = median.counts;
	printf("%zu %s %s %s %.0f %.0f %.0f %.0f %.0f %.0f\n", length, absent_names[absent],
	       kind_names[kind], way_names[way], median.instructions - nothing, spread,
	       counts[PACKETS], counts[AGAIN], counts[INTERRUPTS],
	       counts[FAULTS_LOCAL] + counts[FAULTS_REMOTE]);
	fflush(stdout);
}

static void measure_way(enum way way)
{
	double spread, nothing;
	enum absent absent;
	struct pair pair;
	enum kind kind;
	size_t i;

	pair_open(&pair, way);
	nothing = measure(&pair, LENGTH_MAX, NEITHER, PRESENT, NOTHING, &spread).instructions;
	printf("# %s: without a transfer %.0f instructions, spread %.0f; a turn has %.3f\n",
	       way_names[way], nothing, spread, turn_ns);
	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		if (way == WARM) {
			show(&pair, lengths[i], NEITHER, PRESENT, way, nothing);
			continue;
		}
		for (kind = MINOR; kind <= MAJOR; kind++)
			for (absent = SOURCE; absent <= BOTH; absent++)
				show(&pair, lengths[i], absent, kind, way, nothing);
	}
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	enum way way;

	if (argc == 3 && !strcmp(argv[1], "--partners"))
		return partners_serve(atoi(argv[2]));
	if (argc > 1)
		rounds = atoi(argv[1]);
	CHECK(rounds > 0 && rounds <= ROUNDS_MAX);
	spin_start(0, 0);
	for (way = WARM; way < WAYS; way++)
		measure_way(way);
	return 0;
}
