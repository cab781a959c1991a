/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_incast: how flows of the protocol as it is shipped share the port of a switch, in virtual
 * time. See --help.
 */
#include <getopt.h>
#include <malloc.h>
#include <time.h>

#include "cubic.h"
#include "world.h"
#include "protocol/wire.h"

#define ARENA ((size_t)512 << 10)
#define DEPTH 4 /* puts that a pair has posted */

enum pattern { INCAST, ALL, BESIDE, FAULTS };
static const char *const patterns[] = { "incast", "all", "beside", "faults" };

struct arguments {
	enum pattern pattern;
	unsigned senders, partners, trace;
	double rate; /* Gbit/s */
	uint64_t queue, mark, warm_up, time, idle, start;
	uint32_t mtu, length;
	double delay, stagger; /* us */
	double page;           /* us */
	uint64_t seed;
	enum net_fault_mode fault_mode;
	bool heads;
};

/* Of one flow, by host that sends it. */
struct flow {
	struct host *host;
	unsigned to;
	uint32_t sent;   /* peers so far */
	uint64_t bytes;  /* that arrived */
	uint64_t before; /* ... before the time that counts */
};

static struct arguments arguments = { .pattern = INCAST,
				      .senders = 8,
				      .partners = 8,
				      .rate = 100,
				      .queue = 1000000,
				      .warm_up = 20000,
				      .time = 100000,
				      .mtu = 8952,
				      .length = 128 << 10,
				      .delay = 5,
				      .page = 1000,
				      .seed = 1 };
static struct flow *flows;
static unsigned flows_count;
static unsigned finished;
static struct cubic *cubic;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_reached(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		       size_t length)
{
	(void)world;
	(void)to;
	if (length > WIRE_HEADER + WIRE_DATA && (bytes[16] & 15) == WIRE_DATA_PUT)
		flows[from].bytes += length - WIRE_HEADER - WIRE_DATA;
}

static void post(struct flow *flow)
{
	struct host *host = flow->host;
	unsigned hosts = host->world->settings.hosts;
	size_t offset = world_below(host->world, (ARENA - arguments.length) / WORLD_PAGE + 1) *
			WORLD_PAGE;

	if (arguments.pattern == ALL) {
		if (++flow->sent >= hosts) {
			finished++;
			return;
		}
		flow->to = (host->number + flow->sent) % hosts;
	}
	host_put(host, offset, flow->to, offset, arguments.length, flow);
	/* A pager's pages do not stay. */
	if (arguments.pattern == FAULTS && flow->to == 1)
		host_evict(&host->world->hosts[1], 0, ARENA);
}

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	if (completion->status != PF_OK)
		world_fail(host->world, "a put failed: %d", completion->status);
	post(arg);
}

static void start(struct world *world, void *arg)
{
	unsigned depth = arguments.pattern == ALL ? arguments.partners : DEPTH;

	(void)world;
	while (depth--)
		post(arg);
}

static void start_cubic(struct world *world, void *arg)
{
	cubic = cubic_start(world, world->hosts[0].port, arguments.mtu + 48);
	(void)arg;
}

static bool all_finished(struct world *world)
{
	return finished >= world->settings.hosts * arguments.partners;
}

static struct world *create(void)
{
	struct settings settings;
	unsigned i;
	struct world *world;

	settings_init(&settings);
	settings.hosts = arguments.senders + 1;
	settings.seed = arguments.seed;
	settings.rate = (uint64_t)(arguments.rate * 1e9 / 8);
	settings.queue = arguments.queue;
	settings.mark_above = arguments.mark;
	settings.framing = 66; /* IPv4, UDP, Ethernet with its gap and preamble */
	settings.uplinks = true;
	settings.delay = (uint64_t)(arguments.delay * 1e3);
	settings.mtu = settings.interface_mtu = arguments.mtu;
	settings.arena = ARENA;
	settings.options.fault_mode = arguments.fault_mode;
	if (arguments.pattern == ALL)
		settings.hosts = arguments.senders;
	if (arguments.pattern == FAULTS) {
		/* 0 and 1 share a port; 1 has the pager. */
		settings.hosts = 4;
		settings.together = 2;
		settings.resolve = (uint64_t)(arguments.page * 1e3);
	}
	world = world_create(&settings);
	world->reached = on_reached;
	flows = calloc(settings.hosts, sizeof(*flows));
	if (!flows)
		abort();
	flows_count = settings.hosts;
	for (i = arguments.pattern == ALL    ? 0 :
		 arguments.pattern == FAULTS ? 2 :
					       1;
	     i < settings.hosts; i++) {
		flows[i].host = &world->hosts[i];
		flows[i].to = arguments.pattern == FAULTS ? i - 2 : 0;
		world->hosts[i].complete = on_complete;
		world_call(world,
			   SECOND + world_below(world, (uint64_t)(arguments.stagger * 1e3) + 1),
			   start, &flows[i]);
	}
	if (arguments.pattern == BESIDE)
		world_call(world, SECOND + arguments.start * MICROSECOND, start_cubic, NULL);
	return world;
}

/* Jain's index of what the flows transferred, and their sum. */
static double share(double *sum)
{
	double squares = 0;
	unsigned i, count = 0;

	*sum = 0;
	for (i = 0; i < flows_count; i++) {
		double bytes = (double)(flows[i].bytes - flows[i].before);

		if (!flows[i].host)
			continue;
		count++;
		*sum += bytes;
		squares += bytes * bytes;
	}
	return squares > 0 ? *sum * *sum / (count * squares) : 0;
}

static void trace_line(struct world *world, uint64_t *last, uint64_t *last_cubic)
{
	struct port *port = world->hosts[0].port;
	uint64_t now = world->now - SECOND, bytes = 0;
	unsigned i;

	for (i = 0; i < flows_count; i++)
		bytes += flows[i].bytes;
	printf("%.6f\t%.3f\t%llu\t%llu", (double)now / 1e9,
	       (double)(bytes - *last) * 8 / (arguments.trace * 1e3),
	       (unsigned long long)(port->busy > world->now ?
					    (port->busy - world->now) * world->settings.rate /
						    SECOND :
					    0),
	       (unsigned long long)port->dropped);
	if (cubic) {
		printf("\t%.3f",
		       (double)(cubic_bytes(cubic) - *last_cubic) * 8 / (arguments.trace * 1e3));
		*last_cubic = cubic_bytes(cubic);
	}
	printf("\n");
	*last = bytes;
}

static void run(struct world *world, uint64_t time)
{
	static uint64_t last, last_cubic;
	uint64_t until = world->now + time * MICROSECOND;

	if (!arguments.trace) {
		world_run(world, until, NULL);
		return;
	}
	while (world->now < until && !world->failed) {
		world_pass(world, arguments.trace * MICROSECOND);
		trace_line(world, &last, &last_cubic);
	}
}

static void measure_all(struct world *world, double cpu)
{
	const struct settings *settings = &world->settings;
	uint64_t bytes = (uint64_t)arguments.length * (settings->hosts - 1), longest = 0,
		 dropped = 0, time, used;
	unsigned i;

	world_run(world, 1000 * SECOND, all_finished);
	time = world->now - SECOND;
	for (i = 0; i < settings->hosts; i++) {
		dropped += world->ports[i].dropped;
		if (world->ports[i].longest > longest)
			longest = world->ports[i].longest;
	}
	used = mallinfo2().uordblks + mallinfo2().hblkhd -
	       settings->hosts * (ARENA + settings->hosts * 12ull);
	if (arguments.heads)
		printf("pattern\thosts\tgbit\tqueue\tmark\tmtu\tms\tgoodput\tlongest\tloss\t"
		       "kib_host\tcpu_ms_host\n");
	printf("all\t%u\t%g\t%llu\t%llu\t%u\t%.3f\t%.4f\t%llu\t%.6f\t%.1f\t%.3f\n", settings->hosts,
	       arguments.rate, (unsigned long long)arguments.queue,
	       (unsigned long long)arguments.mark, arguments.mtu, (double)time / 1e6,
	       (double)bytes * 1e9 / (double)time / (double)settings->rate,
	       (unsigned long long)longest, (double)dropped / (double)world->packets,
	       (double)used / settings->hosts / 1024, (seconds() - cpu) * 1e3 / settings->hosts);
}

static void measure(struct world *world, double cpu)
{
	struct port *port = world->hosts[0].port;
	uint64_t longest, dropped, packets, cubic_before;
	double sum, jain, all, rate = (double)world->settings.rate, time;
	unsigned i;

	run(world, arguments.warm_up);
	longest = port->longest;
	dropped = port->dropped;
	packets = port->packets;
	cubic_before = cubic ? cubic_bytes(cubic) : 0;
	port->longest = 0;
	for (i = 0; i < flows_count; i++)
		flows[i].before = flows[i].bytes;
	run(world, arguments.time - arguments.warm_up);
	time = (double)(arguments.time - arguments.warm_up) / 1e6;
	jain = share(&sum);
	if (arguments.trace)
		return;
	for (i = 0; i < flows_count; i++)
		flows[i].before = 0;
	share(&all);
	if (arguments.heads)
		printf("pattern\tsenders\tgbit\tqueue\tmark\tmtu\tms\tgoodput\tgoodput_later\t"
		       "jain_later\tlongest\tlongest_later\tloss\tloss_later\tmarked\tother\tcpu_s\n");
	printf("%s\t%u\t%g\t%llu\t%llu\t%u\t%g\t%.4f\t%.4f\t%.4f\t%llu\t%llu\t%.6f\t%.6f\t%.4f\t%.4f\t"
	       "%.2f\n",
	       patterns[arguments.pattern], arguments.senders, arguments.rate,
	       (unsigned long long)arguments.queue, (unsigned long long)arguments.mark,
	       arguments.mtu, (double)arguments.time / 1e3,
	       all / rate / ((double)arguments.time / 1e6), sum / rate / time, jain,
	       (unsigned long long)longest, (unsigned long long)port->longest,
	       (double)port->dropped / (double)(port->packets + port->dropped),
	       (double)(port->dropped - dropped) /
		       (double)(port->packets + port->dropped - packets - dropped),
	       (double)port->marked / (double)port->packets,
	       cubic ? (double)(cubic_bytes(cubic) - cubic_before) / rate / time :
		       (arguments.pattern == FAULTS ?
				(double)(flows[3].bytes) / rate / ((double)arguments.time / 1e6) :
				0),
	       seconds() - cpu);
}

static void usage(FILE *file)
{
	fprintf(file,
		"Usage: pf_incast [OPTION...]\n"
		"Simulates flows through the port of a switch and prints a line of tab-separated\n"
		"figures: goodput as a part of the link's rate; Jain's index of the senders; the\n"
		"longest queue, bytes; lost packets as a part of all. \"later\": after the warm-up.\n"
		"  --pattern P      incast: all senders put to one host; beside: and a TCP flow with\n"
		"                   cubic; all: each host puts to each other; faults: one of two\n"
		"                   hosts at the port has pages that come slowly (default incast)\n"
		"  --senders N      (default 8); all: hosts\n"
		"  --rate G         of links, Gbit/s (default 100)\n"
		"  --queue BYTES    of the port (default 1000000)\n"
		"  --mark BYTES     mark packets that find more in the queue (default 0: none)\n"
		"  --mtu BYTES      longest UDP payload (default 8952)\n"
		"  --delay US       from a host to another (default 5)\n"
		"  --time US        (default 100000), of which the\n"
		"  --warm-up US     (default 20000)\n"
		"  --stagger US     senders start within this time (default 0)\n"
		"  --start US       when the TCP flow starts (default 0)\n"
		"  --length BYTES   of a put (default 131072)\n"
		"  --partners N     all: to which a host puts at a time (default 8)\n"
		"  --page US        faults: mean time for a block (default 1000)\n"
		"  --backup         faults: keep packets in the backup ring\n"
		"  --trace US       print instead, at this interval: time, goodput, queue, drops\n"
		"  --seed N         (default 1)\n"
		"  --heads          print the names of the figures first\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "pattern", required_argument, NULL, 'p' },
		{ "senders", required_argument, NULL, 'n' },
		{ "rate", required_argument, NULL, 'r' },
		{ "queue", required_argument, NULL, 'q' },
		{ "mark", required_argument, NULL, 'm' },
		{ "mtu", required_argument, NULL, 'u' },
		{ "delay", required_argument, NULL, 'd' },
		{ "time", required_argument, NULL, 't' },
		{ "warm-up", required_argument, NULL, 'w' },
		{ "stagger", required_argument, NULL, 'S' },
		{ "start", required_argument, NULL, 'c' },
		{ "length", required_argument, NULL, 'l' },
		{ "partners", required_argument, NULL, 'k' },
		{ "page", required_argument, NULL, 'g' },
		{ "backup", no_argument, NULL, 'b' },
		{ "trace", required_argument, NULL, 'T' },
		{ "seed", required_argument, NULL, 's' },
		{ "heads", no_argument, NULL, 'H' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct world *world;
	double cpu;
	bool failed;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end = NULL;
		double value = optarg ? strtod(optarg, &end) : 0;
		unsigned i;

		if (option != 'p' && optarg && (end == optarg || *end || value < 0)) {
			fprintf(stderr, "pf_incast: %s: not a number\n", optarg);
			return 2;
		}
		switch (option) {
		case 'p':
			for (i = 0; i < 4 && strcmp(optarg, patterns[i]); i++)
				;
			if (i == 4) {
				fprintf(stderr, "pf_incast: %s: no pattern; see --help\n", optarg);
				return 2;
			}
			arguments.pattern = (enum pattern)i;
			break;
		case 'n':
			arguments.senders = (unsigned)value;
			break;
		case 'r':
			arguments.rate = value;
			break;
		case 'q':
			arguments.queue = (uint64_t)value;
			break;
		case 'm':
			arguments.mark = (uint64_t)value;
			break;
		case 'u':
			arguments.mtu = (uint32_t)value;
			break;
		case 'd':
			arguments.delay = value;
			break;
		case 't':
			arguments.time = (uint64_t)value;
			break;
		case 'w':
			arguments.warm_up = (uint64_t)value;
			break;
		case 'S':
			arguments.stagger = value;
			break;
		case 'c':
			arguments.start = (uint64_t)value;
			break;
		case 'l':
			arguments.length = (uint32_t)value;
			break;
		case 'k':
			arguments.partners = (unsigned)value;
			break;
		case 'g':
			arguments.page = value;
			break;
		case 'b':
			arguments.fault_mode = NET_FAULT_BACKUP;
			break;
		case 'T':
			arguments.trace = (unsigned)value;
			break;
		case 's':
			arguments.seed = (uint64_t)value;
			break;
		case 'H':
			arguments.heads = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc || !arguments.senders || arguments.senders > 4096 ||
	    arguments.rate <= 0 || arguments.length > ARENA || !arguments.length ||
	    arguments.mtu < NET_PACKET_LEAST || arguments.warm_up >= arguments.time) {
		usage(stderr);
		return 2;
	}
	cpu = seconds();
	world = create();
	if (arguments.pattern == ALL)
		measure_all(world, cpu);
	else
		measure(world, cpu);
	failed = world->failed;
	world_destroy(world);
	if (cubic)
		cubic_free(cubic);
	free(flows);
	return failed;
}
