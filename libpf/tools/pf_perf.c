/* SPDX-License-Identifier: BSD-3-Clause */
/* pf_perf: measure latency, bandwidth and rates between two processes, and calibrate libpf. */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "cache_line.h"
#include "distance.h"
#include "environment.h"
#include "net/interface.h"
#include "partner.h"
#include "perf_calibrate.h"
#include "perf_output.h"
#include "perf_tests.h"

#define EXIT_USAGE 2     /* exit status */
#define WINDOW_MAX 65536 /* operations in progress at a time */

static const char usage_text[] =
	"Usage: pf_perf [OPTION]...\n"
	"       pf_perf --calibrate[=show] [--force] [--cores A,B|NAME]\n"
	"\n"
	"Measures libpf between this process and a partner, which it forks.\n"
	"\n"
	"  -t, --test NAME[,NAME...]  tests to run (default: all); --test help lists them\n"
	"  -s, --sizes MIN[:MAX]      bytes, doubled from MIN to MAX (default 1:4M)\n"
	"  -n, --iterations N         operations in a repetition (default: see --seconds)\n"
	"  -d, --seconds S            duration of a repetition (default 0.02)\n"
	"  -r, --repetitions N        repetitions, whose median is shown (default 7)\n"
	"  -w, --warm-up N            operations before the first repetition\n"
	"  -W, --window N             operations in progress at a time in bandwidth and rate\n"
	"                             tests (default 64)\n"
	"  -c, --cores A,B|NAME|none  bind this process to core A and its partner to core B,\n"
	"                             or both to cores at a distance: same_core, shared_cache,\n"
	"                             same_node or other_node (default: two cores that share\n"
	"                             the nearest cache)\n"
	"  -v, --verify               verify the contents\n"
	"      --csv                  print comma-separated values\n"
	"      --listen FILE          be the partner of another process; write the address\n"
	"                             to FILE, which must not exist\n"
	"      --connect FILE         use the process that listens with FILE as the partner\n"
	"      --secret FILE          with both: join the protection domain of the secret in\n"
	"                             FILE, as /dev/exanest needs it between hosts\n"
	"      --calibrate[=show]     measure libpf's thresholds and write the calibration\n"
	"                             file; show: do not write it\n"
	"      --force                calibrate even if the machine is busy, or its cores move\n"
	"  -h, --help                 print this text\n"
	"  -V, --version              print the version\n"
	"\n"
	"Numbers accept the suffixes K, M and G (powers of 1024). LIBPF_* environment\n"
	"variables set libpf's options: see pf_info --options. Exit status: 0 on success,\n"
	"1 if a measurement failed or contents were wrong, 2 for a wrong command line.\n";

enum {
	OPTION_CSV = 256,
	OPTION_LISTEN,
	OPTION_CONNECT,
	OPTION_SECRET,
	OPTION_CALIBRATE,
	OPTION_FORCE
};

static const struct option long_options[] = {
	{ "test", required_argument, NULL, 't' },
	{ "sizes", required_argument, NULL, 's' },
	{ "iterations", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 'd' },
	{ "repetitions", required_argument, NULL, 'r' },
	{ "warm-up", required_argument, NULL, 'w' },
	{ "window", required_argument, NULL, 'W' },
	{ "cores", required_argument, NULL, 'c' },
	{ "verify", no_argument, NULL, 'v' },
	{ "csv", no_argument, NULL, OPTION_CSV },
	{ "listen", required_argument, NULL, OPTION_LISTEN },
	{ "connect", required_argument, NULL, OPTION_CONNECT },
	{ "secret", required_argument, NULL, OPTION_SECRET },
	{ "calibrate", optional_argument, NULL, OPTION_CALIBRATE },
	{ "force", no_argument, NULL, OPTION_FORCE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct command {
	struct settings settings;
	const char *tests; /* NULL: all */
	const char *cores; /* NULL: see cores_choose */
	const char *listen, *connect, *secret;
	bool csv, calibrate, show, force;
};

static __attribute__((noreturn)) void option_reject(const char *option, const char *text,
						    const char *expected)
{
	errx(EXIT_USAGE, "%s %s: %s; see pf_perf --help", option, text, expected);
}

static uint64_t perf_parse_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char expected[96];
	uint64_t value;

	if (number_parse(text, &value) && value >= min && value <= max)
		return value;
	snprintf(expected, sizeof(expected), "must be a number from %llu to %llu",
		 (unsigned long long)min, (unsigned long long)max);
	option_reject(option, text, expected);
}

static void parse_sizes(struct settings *settings, const char *text)
{
	static const char expected[] = "must be MIN[:MAX], in bytes, from 1 to 1024G";
	const uint64_t max = 1ull << 40;
	const char *colon = strchr(text, ':');
	char first[32];
	uint64_t smallest, largest;

	if (!colon)
		colon = text + strlen(text);
	if ((size_t)(colon - text) >= sizeof(first))
		option_reject("--sizes", text, expected);
	memcpy(first, text, (size_t)(colon - text));
	first[colon - text] = 0;
	if (!number_parse(first, &smallest) ||
	    !number_parse(*colon ? colon + 1 : first, &largest) || !smallest ||
	    smallest > largest || largest > max)
		option_reject("--sizes", text, expected);
	settings->smallest = smallest;
	settings->largest = largest;
}

static double parse_seconds(const char *text)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end || !(value >= 0.001 && value <= 60))
		option_reject("--seconds", text, "must be a number from 0.001 to 60");
	return value;
}

static void show_tests(void)
{
	const struct perf_test *test;

	for (test = perf_tests; test->name; test++)
		printf("%-16s %s, %s\n", test->name, test->title, perf_unit(test));
}

/* True when name is an element of the list "a,b,c". */
static bool is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (!strncmp(list, name, length) && (!list[length] || list[length] == ','))
			return true;
	}
	return false;
}

static void check_tests(const char *list)
{
	const struct perf_test *test;
	char *copy = strdup(list), *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		for (test = perf_tests; test->name && strcmp(test->name, name); test++)
			;
		if (!test->name)
			option_reject("--test", name,
				      "no test has this name; --test help lists them");
	}
	free(copy);
}

static void perf_parse(struct command *command, int argc, char **argv)
{
	struct settings *settings = &command->settings;
	int option;

	*settings = (struct settings){ .smallest = 1,
				       .largest = 4 << 20,
				       .seconds = 0.02,
				       .repetitions = 7,
				       .warm_up = WARM_UP_AUTOMATIC,
				       .window = 64 };
	while ((option = getopt_long(argc, argv, "t:s:n:d:r:w:W:c:vhV", long_options, NULL)) !=
	       -1) {
		const char *text = optarg ? optarg : "";

		switch (option) {
		case 't':
			if (!strcmp(text, "help")) {
				show_tests();
				exit(EXIT_SUCCESS);
			}
			check_tests(text);
			command->tests = text;
			break;
		case 's':
			parse_sizes(settings, text);
			break;
		case 'n':
			settings->iterations = perf_parse_number("--iterations", text, 1,
								 1ull << 40);
			break;
		case 'd':
			settings->seconds = parse_seconds(text);
			break;
		case 'r':
			settings->repetitions = (unsigned)perf_parse_number("--repetitions", text,
									    1, 10000);
			break;
		case 'w':
			settings->warm_up = perf_parse_number("--warm-up", text, 0, 1ull << 40);
			break;
		case 'W':
			settings->window = (unsigned)perf_parse_number("--window", text, 1,
								       WINDOW_MAX);
			break;
		case 'c':
			command->cores = text;
			break;
		case 'v':
			settings->verify = true;
			break;
		case OPTION_CSV:
			command->csv = true;
			break;
		case OPTION_LISTEN:
			command->listen = text;
			break;
		case OPTION_CONNECT:
			command->connect = text;
			break;
		case OPTION_SECRET:
			command->secret = text;
			break;
		case OPTION_CALIBRATE:
			command->calibrate = true;
			command->show = !strcmp(text, "show");
			if (optarg && !command->show)
				option_reject("--calibrate", text,
					      "must be --calibrate or --calibrate=show");
			break;
		case OPTION_FORCE:
			command->force = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		case 'V':
			puts("pf_perf " PF_VERSION_STRING);
			exit(EXIT_SUCCESS);
		default:
			fputs("See pf_perf --help\n", stderr);
			exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		option_reject("argument", argv[optind], "pf_perf has only options");
	if (!!command->listen + !!command->connect + command->calibrate > 1)
		errx(EXIT_USAGE, "use only one of --listen, --connect and --calibrate");
	if (command->secret && !command->listen && !command->connect)
		errx(EXIT_USAGE, "--secret is for --listen and --connect");
}

static int load_options(pf_options *options, const struct cores *cores)
{
	if (environment_check())
		return -1;
	pf_options_init(options, sizeof(*options), NULL);
	/* Two polling processes on one core would wait for the ends of time slices. */
	if (cores_shared(cores) && !getenv("LIBPF_WAKE"))
		options->wake = 1;
	return 0;
}

static int measure_test(const struct command *command, const struct perf_test *test,
			struct session *session)
{
	const struct settings *settings = &command->settings;
	size_t size = 0;
	struct row row;

	output_test(command->csv, test);
	while ((size = perf_next_size(test, settings, size))) {
		if (test->contents == CONTENTS_MESSAGE && size > session->send_max) {
			output_note(command->csv, "longer messages: see send_max in pf_open(3)");
			break;
		}
		if (perf_measure(test, settings, session, size, &row))
			return -1;
		output_row(command->csv, test, settings, &row);
	}
	return 0;
}

/* Fail when the network was asked for and is not used: shared memory would be measured instead. */
static int check_network(const pf_options *options, const struct session *session, const char *path)
{
	struct interface interfaces[INTERFACES_MOST];
	const char *why = "no UDP socket could be opened";
	struct location here = location_here();

	if (options->network != PF_NETWORK_ALWAYS || pf_stat(session->context, PF_STAT_NET_SENT))
		return 0;
	interfaces_find(interfaces, INTERFACES_MOST, options->if_include, options->if_exclude,
			&here, &why);
	warnx("LIBPF_NETWORK=always, but the network is not used: %s; the path would be: %s", why,
	      path);
	return -1;
}

static int perf_measure_sizes(const struct command *command, const struct cores *cores,
			      const pf_options *options)
{
	char cache_line[96] = "not measured: the partner is not a child of this process";
	const struct perf_test *test;
	const char *path;
	struct session session;
	int status = -1;

	if (!command->connect)
		cache_line_describe(cores, cache_line, sizeof(cache_line));
	if (command->connect ?
		    core_bind(cores->first) ||
			    session_connect(&session, options, command->connect, command->secret) :
		    session_fork(&session, options, cores))
		return -1;
	path = session_path(&session);
	if (!path || check_network(options, &session, path))
		goto out;
	output_start(command->csv, &command->settings, cores, cache_line, path);
	for (test = perf_tests; test->name; test++) {
		if (command->tests && !is_listed(command->tests, test->name))
			continue;
		if (measure_test(command, test, &session))
			goto out;
	}
	status = 0;
out:
	return session_close(&session) ? -1 : status;
}

/* Two processors, the name of a distance, or none. */
static int parse_cores(struct cores *cores, const char *text)
{
	const enum distance distance = distance_parse(text);
	struct cores pairs[DISTANCES];

	if (!distance)
		return cores_parse(cores, text);
	if (cores_by_distance(pairs))
		return -1;
	*cores = pairs[distance];
	if (cores->first != CORE_ANY)
		return 0;
	warnx("--cores %s: this process may use no two processors at that distance", text);
	return -1;
}

int main(int argc, char **argv)
{
	struct command command = { .tests = NULL };
	struct cores cores;
	pf_options options;
	int status;

	perf_parse(&command, argc, argv);
	if (command.cores ? parse_cores(&cores, command.cores) : cores_choose(&cores))
		return command.cores ? EXIT_USAGE : EXIT_FAILURE;
	if (load_options(&options, &cores))
		return EXIT_FAILURE;
	if (command.calibrate)
		status = calibrate(&cores, !command.cores, command.show, command.force);
	else if (command.listen)
		status = core_bind(cores.second) ||
			 partner_listen(&options, command.listen, command.secret);
	else
		status = perf_measure_sizes(&command, &cores, &options);
	if (fflush(stdout) || ferror(stdout)) {
		warn("standard output");
		status = -1;
	}
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
