/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_simulate: the protocol between hosts as it is shipped, in virtual time, with all kinds of
 * disturbance by networks and processes. Runs rounds, each with its own seed, which determines its
 * settings, until a number of packets or of seconds is reached. A round that fails prints its seed
 * and the command that replays it.
 */
#include "load.h"

#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPORT_INTERVAL 10 /* s */

struct arguments {
	unsigned hosts; /* 0: depends on the seed */
	unsigned jobs;
	uint64_t packets, seed, seconds, round;
	bool verbose;
};

/* Of all jobs. */
struct progress {
	_Atomic uint64_t seed, packets, rounds;
	_Atomic uint64_t reported; /* time of the last report, s since the start */
	_Atomic bool failed;
};

static double clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint32_t one_of(struct world *numbers, const uint32_t *values, unsigned count)
{
	return values[world_below(numbers, count)];
}
#define ONE_OF(numbers, ...)                                                                       \
	one_of(numbers, (const uint32_t[]){ __VA_ARGS__ },                                         \
	       sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* The settings of a round, from its seed. */
static void choose_settings(const struct arguments *arguments, uint64_t seed,
			    struct settings *settings, struct load_settings *load)
{
	struct world numbers = { .random = seed * 0xd1342543de82ef95ull };

	settings_init(settings);
	settings->seed = seed;
	settings->hosts = arguments->hosts ? arguments->hosts :
					     ONE_OF(&numbers, 2, 2, 3, 4, 8, 16, 64, 256);
	settings->loss = PER_MILLION(ONE_OF(&numbers, 0, 0, 1000, 10000, 100000));
	settings->duplicate = PER_MILLION(ONE_OF(&numbers, 0, 1000, 50000));
	settings->corrupt = PER_MILLION(ONE_OF(&numbers, 0, 1000, 10000));
	settings->mark = PER_MILLION(ONE_OF(&numbers, 0, 0, 10000));
	settings->reorder = PER_MILLION(ONE_OF(&numbers, 0, 1000, 50000, 500000));
	settings->delay = ONE_OF(&numbers, 2, 10, 50, 1000) * MICROSECOND;
	settings->jitter = ONE_OF(&numbers, 10, 100, 1000, 10000) * MICROSECOND;
	settings->rate = ONE_OF(&numbers, 0, 0, 100, 1000) * 1000000ull;
	settings->queue = ONE_OF(&numbers, 20000, 200000, 2000000);
	settings->interface_mtu = ONE_OF(&numbers, 1472, 1472, 8952, 1232);
	settings->mtu = settings->interface_mtu;
	if (!world_below(&numbers, 4))
		settings->mtu = ONE_OF(&numbers, 1200, 1300, 1472);
	settings->absent = PER_MILLION(ONE_OF(&numbers, 0, 10000, 200000));
	settings->resolve = ONE_OF(&numbers, 2, 50, 1000) * MICROSECOND;
	settings->options.block_size = ONE_OF(&numbers, 4096, 4096, 16384, 65536);
	settings->options.auth = (enum net_auth)ONE_OF(&numbers, NET_AUTH_HEADER, NET_AUTH_HEADER,
						       NET_AUTH_HEADER, NET_AUTH_HEADER,
						       NET_AUTH_HEADER, NET_AUTH_HEADER,
						       NET_AUTH_FULL, NET_AUTH_ENCRYPT);
	/* Hashing and encrypting takes most of the time of a round: long packets in few rounds. */
	if (settings->options.auth != NET_AUTH_HEADER && seed % 8 &&
	    settings->interface_mtu > 1472) {
		settings->interface_mtu = 1472;
		settings->mtu = settings->mtu < 1472 ? settings->mtu : 1472;
	}
	settings->options.fault_mode = (enum net_fault_mode)world_below(&numbers, 2);
	settings->options.backup_ring = ONE_OF(&numbers, 4096, 65536, 262144);
	settings->options.receive_buffer = ONE_OF(&numbers, 65536, 1 << 20);
	settings->options.peer_timeout = 20 * SECOND;
	/* No keepalive, so that idle associations release their memory. */
	settings->options.keepalive = 1000000 * SECOND;
	settings->options.idle_release = ONE_OF(&numbers, 1, 100) * 10 * MILLISECOND;
	load->packets = arguments->round;
	load->depth = ONE_OF(&numbers, 1, 4, 8);
	load->longest = settings->hosts > 64 ? 16384 :
					       ONE_OF(&numbers, 3000, 20000, 100000, 600000);
	load->bad = PER_MILLION(ONE_OF(&numbers, 0, 2000));
	load->crash = ONE_OF(&numbers, 0, 0, 50, 500) * MILLISECOND;
	load->stop = ONE_OF(&numbers, 0, 0, 20, 200) * MILLISECOND;
	load->close = ONE_OF(&numbers, 0, 5, 50) * MILLISECOND;
	settings->paths = ONE_OF(&numbers, 1, 1, 2, 4);
	settings->paths_down = settings->paths > 1 ? ONE_OF(&numbers, 0, 0, 1, 2) : 0;
	load->cut = ONE_OF(&numbers, 0, 0, 500, 2000) * MILLISECOND;
	load->mtu = ONE_OF(&numbers, 0, 0, 50, 500) * MILLISECOND;
	settings->too_big = PER_MILLION(ONE_OF(&numbers, 0, 100000));
	settings->predict = PER_MILLION(ONE_OF(&numbers, 0, 500000, 999999, 999999));
	settings->away = PER_MILLION(ONE_OF(&numbers, 0, 20000, 500000));
	settings->away_time = ONE_OF(&numbers, 2, 20, 200) * MICROSECOND;
	settings->fault = PER_MILLION(ONE_OF(&numbers, 0, 0, 1000));
	settings->no_memory = PER_MILLION(ONE_OF(&numbers, 0, 0, 10000));
	settings->full = PER_MILLION(ONE_OF(&numbers, 0, 1000, 20000));
	settings->no_segments = !world_below(&numbers, 8);
	settings->memory = !world_below(&numbers, 4);
	settings->beyond = load_beyond(load);
	settings->arena = (load_arena(load) + WORLD_PAGE - 1) & ~(size_t)(WORLD_PAGE - 1);
}

static bool run_round(const struct arguments *arguments, uint64_t seed, uint64_t *packets)
{
	struct load_settings load = { 0 };
	struct load_result result;
	struct settings settings;
	struct world *world;
	double start = clock_now();
	bool passed;

	choose_settings(arguments, seed, &settings, &load);
	world = world_create(&settings);
	passed = load_run(world, &load, &result);
	*packets += world->packets;
	if (arguments->verbose || !passed)
		printf("# seed %llu: %u hosts, %llu packets, %llu of them lost, %llu operations, "
		       "%llu messages, %llu atomics, %llu faults, %llu operations with dead peers, "
		       "%llu packets received in place, "
		       "%.3f s of virtual time, %.0f packets/s\n",
		       (unsigned long long)seed, settings.hosts, (unsigned long long)world->packets,
		       (unsigned long long)world->dropped, (unsigned long long)result.operations,
		       (unsigned long long)result.messages, (unsigned long long)result.atomics,
		       (unsigned long long)result.faults, (unsigned long long)result.lost_peers,
		       (unsigned long long)WORLD_SUM(world, data_in_place),
		       (double)world->now / 1e9, (double)world->packets / (clock_now() - start));
	if (!passed) {
		printf("# replay: pf_simulate --seed %llu --packets 1 --round %llu",
		       (unsigned long long)seed, (unsigned long long)arguments->round);
		if (arguments->hosts)
			printf(" --hosts %u", arguments->hosts);
		printf("\n");
	}
	fflush(stdout);
	world_destroy(world);
	return passed;
}

/* Print a line every REPORT_INTERVAL; the first job that gets here does. */
static void report_progress(struct progress *progress, double passed)
{
	uint64_t last = progress->reported;

	if (passed < (double)last + REPORT_INTERVAL ||
	    !atomic_compare_exchange_strong(&progress->reported, &last, (uint64_t)passed))
		return;
	printf("# %llu packets in %llu rounds after %.0f s\n",
	       (unsigned long long)progress->packets, (unsigned long long)progress->rounds, passed);
	fflush(stdout);
}

static void run_rounds(const struct arguments *arguments, double start, struct progress *progress)
{
	uint64_t packets;

	while (!progress->failed && progress->packets < arguments->packets &&
	       clock_now() - start < (double)arguments->seconds) {
		packets = 0;
		if (!run_round(arguments, progress->seed++, &packets))
			progress->failed = true;
		progress->packets += packets;
		progress->rounds++;
		report_progress(progress, clock_now() - start);
	}
}

/* False: a job has failed. */
static bool wait_for_all(void)
{
	bool well = true;
	int status;

	while (wait(&status) > 0)
		well &= status == 0;
	return well;
}

static void usage(FILE *file)
{
	fprintf(file,
		"Usage: pf_simulate [--packets N] [--seconds N] [--seed N] [--hosts N] "
		"[--round N] [--jobs N] [--verbose]\n"
		"  --packets N  end after N packets (default 1000000)\n"
		"  --seconds N  end after N seconds instead\n"
		"  --seed N     seed of the first round, plus 1 for each other (default: the time)\n"
		"  --hosts N    hosts in each round, up to 1024 (default: depends on the seed)\n"
		"  --round N    packets of one round (default 500000)\n"
		"  --jobs N     rounds at a time, each in its own process (default 1)\n"
		"  --verbose    print a line for each round\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "packets", required_argument, NULL, 'p' },
		{ "seconds", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "hosts", required_argument, NULL, 'h' },
		{ "round", required_argument, NULL, 'r' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'H' },
		{ NULL, 0, NULL, 0 },
	};
	struct arguments arguments = { .packets = 1000000,
				       .seed = (uint64_t)time(NULL) * 1000,
				       .seconds = UINT64_MAX,
				       .round = 500000,
				       .jobs = 1 };
	struct progress *progress;
	double start = clock_now(), took;
	unsigned job;
	bool passed;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end = NULL;
		uint64_t value = optarg ? strtoull(optarg, &end, 0) : 0;

		if (optarg && (end == optarg || *end)) {
			fprintf(stderr, "pf_simulate: %s: not a number\n", optarg);
			usage(stderr);
			return 2;
		}
		switch (option) {
		case 'p':
			arguments.packets = value;
			break;
		case 't':
			arguments.seconds = value;
			arguments.packets = UINT64_MAX;
			break;
		case 's':
			arguments.seed = value;
			break;
		case 'h':
			arguments.hosts = (unsigned)value;
			break;
		case 'r':
			arguments.round = value;
			break;
		case 'j':
			arguments.jobs = (unsigned)value;
			break;
		case 'v':
			arguments.verbose = true;
			break;
		case 'H':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "pf_simulate: %s: unexpected argument\n", argv[optind]);
		usage(stderr);
		return 2;
	}
	if (arguments.hosts == 1 || arguments.hosts > 1024 || !arguments.jobs) {
		usage(stderr);
		return 2;
	}
	/* Keep freed memory for the next round: this saves page faults. */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	printf("# first seed %llu\n", (unsigned long long)arguments.seed);
	fflush(stdout);
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (progress == MAP_FAILED) {
		perror("pf_simulate");
		return 1;
	}
	progress->seed = arguments.seed;
	for (job = 1; job < arguments.jobs; job++) {
		pid_t child = fork();

		if (child < 0)
			perror("pf_simulate: fork, so fewer jobs");
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_rounds(&arguments, start, progress);
			exit(0);
		}
	}
	run_rounds(&arguments, start, progress);
	passed = wait_for_all() && !progress->failed;
	took = clock_now() - start;
	printf("%s %llu packets in %llu rounds, %.1f s, %.0f packets/s\n", passed ? "ok" : "not ok",
	       (unsigned long long)progress->packets, (unsigned long long)progress->rounds, took,
	       (double)progress->packets / took);
	return passed ? 0 : 1;
}
