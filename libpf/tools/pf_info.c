/* SPDX-License-Identifier: BSD-3-Clause */
/* pf_info: show the offers of the machine to libpf, the way of bytes, and the reasons. */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "environment.h"
#include "info.h"
#include "json.h"
#include "watch.h"

#define EXIT_USAGE 2

static const char usage_text[] =
	"Usage: pf_info [OPTION]...\n"
	"\n"
	"Shows what libpf finds on this machine. Without options: all but --live and --job.\n"
	"\n"
	"      --capabilities  what the kernel offers\n"
	"      --permissions   what decides whether processes may copy from each other\n"
	"      --paths         which way bytes will go, and why\n"
	"      --options       the options in force: origin, permitted values, meaning\n"
	"      --calibration   the calibration file, and whether it is in force\n"
	"      --topology      cores and caches\n"
	"      --pages         page sizes that are enabled, and what each brings here\n"
	"      --live          connect two processes and show the path between them\n"
	"      --calibrated    print nothing; exit with 0 if this machine's calibration\n"
	"                      is in force, else with 1\n"
	"      --job [PID]     the statistics of this user's running processes, by job; with\n"
	"                      PID, of that process and its job only\n"
	"      --interval SECONDS\n"
	"                      with --job: repeat, and show what was counted in between\n"
	"  -j, --json          print JSON\n"
	"  -h, --help          print this text\n"
	"  -V, --version       print the version\n"
	"\n"
	"Exit status: 0 on success, 1 if something failed or a LIBPF_* environment variable\n"
	"is invalid, 2 for a wrong command line.\n";

enum section {
	CAPABILITIES,
	PERMISSIONS,
	PATHS,
	OPTIONS,
	CALIBRATION,
	TOPOLOGY,
	PAGES,
	LIVE,
	SECTIONS
};

static const struct {
	const char *key; /* in JSON */
	char bracket;    /* in JSON */
	const char *title;
	void (*print)(const struct info *info, bool json);
} sections[SECTIONS] = {
	[CAPABILITIES] = { "capabilities", '[', "Capabilities", info_print_capabilities },
	[PERMISSIONS] = { "permissions", '{', "Permission to copy from another process",
			  info_print_permissions },
	[PATHS] = { "paths", '{', "Paths", info_print_paths },
	[OPTIONS] = { "options", '[', "Options", info_print_options },
	[CALIBRATION] = { "calibration", '{', "Calibration", info_print_calibration },
	[TOPOLOGY] = { "topology", '{', "Topology", info_print_topology },
	[PAGES] = { "pages", '{', "Page sizes", info_print_pages },
	[LIVE] = { "live", '{', "Live: two processes", info_print_live },
};

enum {
	OPTION_SECTION = 256,
	OPTION_CALIBRATED = OPTION_SECTION + SECTIONS,
	OPTION_JOB,
	OPTION_INTERVAL,
};

static const struct option long_options[] = {
	{ "capabilities", no_argument, NULL, OPTION_SECTION + CAPABILITIES },
	{ "permissions", no_argument, NULL, OPTION_SECTION + PERMISSIONS },
	{ "paths", no_argument, NULL, OPTION_SECTION + PATHS },
	{ "options", no_argument, NULL, OPTION_SECTION + OPTIONS },
	{ "calibration", no_argument, NULL, OPTION_SECTION + CALIBRATION },
	{ "topology", no_argument, NULL, OPTION_SECTION + TOPOLOGY },
	{ "pages", no_argument, NULL, OPTION_SECTION + PAGES },
	{ "live", no_argument, NULL, OPTION_SECTION + LIVE },
	{ "calibrated", no_argument, NULL, OPTION_CALIBRATED },
	{ "job", optional_argument, NULL, OPTION_JOB },
	{ "interval", required_argument, NULL, OPTION_INTERVAL },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct command {
	unsigned sections; /* 1 << enum section */
	bool json, job;
	pid_t pid;       /* 0: all processes */
	double interval; /* seconds; 0: once */
};

static int info_load(struct info *info, unsigned wanted)
{
	info->capability_count =
		pf_capabilities(info->capabilities, sizeof(info->capabilities[0]),
				sizeof(info->capabilities) / sizeof(info->capabilities[0]));
	origins_load(&info->origins);
	if (wanted & 1 << TOPOLOGY &&
	    (topology_load(&info->topology) || cores_by_distance(info->pairs)))
		return -1;
	if (wanted & (1 << TOPOLOGY | 1 << LIVE) && cores_choose(&info->cores))
		return -1;
	return wanted & 1 << LIVE ? info_load_live(info) : 0;
}

void row_print(bool json, const char *name, const char *format, ...)
{
	char text[4608];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (json)
		json_string(name, text);
	else
		printf("  %-18s %s\n", name, text);
}

static void info_print_text(const struct info *info, unsigned wanted)
{
	const char *separator = "";
	unsigned i;

	for (i = 0; i < SECTIONS; i++) {
		if (!(wanted & 1u << i))
			continue;
		printf("%s%s\n", separator, sections[i].title);
		sections[i].print(info, false);
		separator = "\n";
	}
}

static void info_print_json(const struct info *info, unsigned wanted)
{
	unsigned i;

	json_start(NULL, '{');
	json_version();
	for (i = 0; i < SECTIONS; i++) {
		if (!(wanted & 1u << i))
			continue;
		json_start(sections[i].key, sections[i].bracket);
		sections[i].print(info, true);
		json_end(sections[i].bracket == '{' ? '}' : ']');
	}
	json_end('}');
	json_finish();
}

static int show_machine(const struct command *command)
{
	static struct info info;
	unsigned wanted = command->sections;
	int status = 0;

	info.details = wanted & 1 << OPTIONS;
	if (!wanted)
		wanted = (1 << LIVE) - 1;
	if (info_load(&info, wanted))
		return -1;
	if (command->json)
		info_print_json(&info, wanted);
	else
		info_print_text(&info, wanted);
	if (fflush(stdout) || ferror(stdout)) {
		warn("standard output");
		status = -1;
	}
	return environment_check() ? -1 : status;
}

static bool is_calibrated(void)
{
	struct origins origins;

	origins_load(&origins);
	return origins.calibration == PF_OK && origins.in_force.calibrate;
}

static pid_t parse_pid(const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 1 || value > INT_MAX)
		errx(EXIT_USAGE, "--job %s: must be a process number", text);
	return (pid_t)value;
}

static double parse_interval(const char *text)
{
	char *end;
	/* getopt_long sets optarg; the analyzer does not know. */
	double value = strtod(text, &end); /* NOLINT(clang-analyzer-core.NonNullParamChecker) */

	if (end == text || *end || !(value >= 0.01 && value <= 1e6))
		errx(EXIT_USAGE, "--interval %s: must be a number of seconds from 0.01 to 1000000",
		     text);
	return value;
}

static void info_parse(struct command *command, int argc, char **argv)
{
	const char *number;
	int option;

	while ((option = getopt_long(argc, argv, "jhV", long_options, NULL)) != -1) {
		switch (option) {
		case 'j':
			command->json = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		case 'V':
			puts("pf_info " PF_VERSION_STRING);
			exit(EXIT_SUCCESS);
		case OPTION_CALIBRATED:
			exit(is_calibrated() ? EXIT_SUCCESS : EXIT_FAILURE);
		case OPTION_JOB:
			command->job = true;
			/* getopt_long finds an optional argument only in "--job=PID". */
			number = optarg;
			if (!number && optind < argc && argv[optind][0] != '-')
				number = argv[optind++];
			if (number)
				command->pid = parse_pid(number);
			break;
		case OPTION_INTERVAL:
			command->interval = parse_interval(optarg);
			break;
		case '?':
			fputs("See pf_info --help\n", stderr);
			exit(EXIT_USAGE);
		default:
			command->sections |= 1u << (option - OPTION_SECTION);
		}
	}
	if (optind < argc)
		errx(EXIT_USAGE, "argument %s: pf_info has only options; see pf_info --help",
		     argv[optind]);
	if (command->interval > 0 && !command->job)
		errx(EXIT_USAGE, "--interval is for --job");
	if (command->job && command->sections)
		errx(EXIT_USAGE, "--job shows processes, not the machine: ask for either");
}

int main(int argc, char **argv)
{
	struct command command = { 0 };
	int status;

	info_parse(&command, argc, argv);
	status = command.job ? watch(command.pid, command.interval, command.json) :
			       show_machine(&command);
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
