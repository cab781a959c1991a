/* SPDX-License-Identifier: BSD-3-Clause */
/* bfs: breadth-first search in a graph whose pages are brought in several ways. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "columns.h"
#include "graph_file.h"
#include "sample.h"
#include "search.h"

#define FACTOR 16 /* edges for each vertex, as in Graph500 */
#define SCALE_LEAST 10

struct arguments {
	uint64_t scale, seed, block, roots, resident;
	const struct columns_way *way;
	const char *peer;
};

/* What a search used. */
struct usage {
	double seconds, user, system;
	long minor, major; /* page faults */
};

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

static struct usage usage_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct usage){ sample_seconds(), seconds(usage.ru_utime), seconds(usage.ru_stime),
			       usage.ru_minflt, usage.ru_majflt };
}

static struct usage usage_since(struct usage before)
{
	struct usage now = usage_now();

	return (struct usage){ now.seconds - before.seconds, now.user - before.user,
			       now.system - before.system, now.minor - before.minor,
			       now.major - before.major };
}

/* Reset VmHWM (proc(5), clear_refs). If that fails, the peak is that of the whole process. */
static void peak_reset(void)
{
	int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (file < 0)
		return;
	if (write(file, "5", 1) != 1)
		warn("/proc/self/clear_refs");
	close(file);
}

static int make(const char *name, const struct arguments *arguments)
{
	struct graph graph = { (uint32_t)arguments->scale, FACTOR, arguments->seed };
	struct graph_rows rows;
	double start = sample_seconds(), built;
	uint64_t compressed;

	if (graph_build(&graph, &rows))
		return -1;
	built = sample_seconds();
	if (graph_file_write(name, &graph, &rows, arguments->block, &compressed))
		return -1;
	printf("# vertices %llu\n# columns %llu\n# bytes %llu\n# compressed %llu\n",
	       (unsigned long long)graph_vertices(&graph),
	       (unsigned long long)graph_columns(&graph),
	       (unsigned long long)graph_columns(&graph) * sizeof(*rows.columns),
	       (unsigned long long)compressed);
	printf("# build_seconds %.3f\n# write_seconds %.3f\n", built - start,
	       sample_seconds() - built);
	graph_free(&graph, &rows);
	return 0;
}

/* Search from one root, print a line, and verify the result. */
static int search_once(struct search *search, uint32_t root)
{
	const struct paging *paging = &search->columns->paging;
	struct usage usage;
	long most;
	uint64_t edges, reached;
	char error[128];

	if (columns_forget(search->columns))
		return -1;
	peak_reset();
	usage = usage_now();
	if (search_run(search, root))
		return -1;
	usage = usage_since(usage);
	most = process_status(getpid(), "VmHWM");
	edges = search_edges(search, &reached);
	printf("%u %llu %llu %.6f %.6f %.6f %ld %ld %llu %llu %llu %ld\n", root,
	       (unsigned long long)reached, (unsigned long long)edges, usage.seconds, usage.user,
	       usage.system, usage.minor, usage.major, (unsigned long long)paging->supplied,
	       (unsigned long long)paging->read, (unsigned long long)paging->evicted, most);
	fflush(stdout);
	/* The verification needs memory, too. */
	if (columns_forget(search->columns))
		return -1;
	if (!graph_verify(search->graph, root, search->parents, error, sizeof(error)))
		return 0;
	warnx("the tree of root %u is wrong: %s", root, error);
	return -1;
}

static int run_searches(const struct graph_file *file, struct columns *columns, uint64_t roots)
{
	struct search search;
	uint64_t i;
	int status = 0;

	if (search_open(&search, file, columns))
		return -1;
	printf("# Root, vertices and edges reached, seconds, user and system time (s), minor and "
	       "major page faults,\n# supplies, blocks read, blocks evicted, peak resident (KiB)\n");
	for (i = 0; i < roots && !status; i++)
		status = search_once(&search, graph_root(&file->graph, file->offsets, i));
	search_close(&search);
	return status;
}

static int search(const char *name, const struct arguments *arguments)
{
	static struct columns columns;
	struct graph_file file;
	double start;
	int status;

	if (graph_file_open(&file, name))
		return -1;
	start = sample_seconds();
	status = columns_open(&columns, arguments->way, &file, arguments->resident,
			      arguments->peer);
	if (!status) {
		printf("# open_seconds %.3f\n", sample_seconds() - start);
		if (columns.session.peer)
			printf("# path %s\n", pf_peer_path(columns.session.peer));
		status = run_searches(&file, &columns, arguments->roots);
	}
	if (columns_close(&columns))
		status = -1;
	graph_file_close(&file);
	if (!status)
		printf("# verified %llu\n", (unsigned long long)arguments->roots);
	return status;
}

static void help(void)
{
	printf("Usage: bfs make FILE [--scale N] [--seed N] [--block BYTES]\n"
	       "       bfs search FILE --way WAY [--roots N] [--resident BYTES] [--peer FILE]\n\n"
	       "make writes a Kronecker graph with 2^N vertices (default 22) and %d edges for each, "
	       "as rows in FILE,\nand with its columns compressed%s, in blocks of BYTES (default "
	       "65536), in FILE.blocks. search makes\nthe trees of N roots (default 4) and verifies "
	       "them by Graph500's rules. Nothing that a way brings is\nresident before a search. "
	       "Ways:\n\n",
	       FACTOR,
#ifdef HAVE_LZ4
	       " (LZ4)"
#else
	       " (not at all: built without liblz4)"
#endif
	);
	columns_print_ways();
	printf("\n--resident limits the columns that userfault and pager keep in memory. --peer names "
	       "the file with the\naddress of \"pf_perf --listen FILE\", whose memory remote uses; "
	       "otherwise remote forks a process.\n");
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < least || value > most)
		errx(2, "%s: give a number from %llu to %llu", text, (unsigned long long)least,
		     (unsigned long long)most);
	return value;
}

static const struct columns_way *way(const char *name)
{
	const struct columns_way *found = columns_way(name);

	if (!found)
		errx(2, "%s: no such way: see --help", name);
	return found;
}

static void parse(struct arguments *arguments, int argc, char **argv)
{
	static const struct option options[] = { { "scale", required_argument, NULL, 's' },
						 { "seed", required_argument, NULL, 'n' },
						 { "block", required_argument, NULL, 'b' },
						 { "way", required_argument, NULL, 'w' },
						 { "roots", required_argument, NULL, 'r' },
						 { "resident", required_argument, NULL, 'm' },
						 { "peer", required_argument, NULL, 'p' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 's')
			arguments->scale = number(optarg, SCALE_LEAST, GRAPH_SCALE_MOST);
		else if (option == 'n')
			arguments->seed = number(optarg, 0, UINT64_MAX);
		else if (option == 'b')
			arguments->block = number(optarg, 1, UINT32_MAX);
		else if (option == 'w')
			arguments->way = way(optarg);
		else if (option == 'r')
			arguments->roots = number(optarg, 1, UINT32_MAX);
		else if (option == 'm')
			arguments->resident = number(optarg, 1, UINT64_MAX);
		else if (option == 'p')
			arguments->peer = optarg;
		else if (option == 'h') {
			help();
			exit(0);
		} else
			exit(2);
	}
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .scale = 22, .seed = 1, .block = 65536, .roots = 4 };
	const char *command;

	parse(&arguments, argc, argv);
	if (argc - optind != 2)
		errx(2, "needs make or search, and a FILE: see --help");
	command = argv[optind];
	if (!strcmp(command, "make"))
		return make(argv[optind + 1], &arguments) ? 1 : 0;
	if (strcmp(command, "search") != 0)
		errx(2, "%s: neither make nor search", command);
	if (!arguments.way)
		errx(2, "search needs --way: see --help");
	return search(argv[optind + 1], &arguments) ? 1 : 0;
}
