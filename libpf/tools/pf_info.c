/* SPDX-License-Identifier: BSD-3-Clause */
/* pf_info: what this machine offers, which paths will be used, and why. */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "info.h"
#include "job.h"

#define EXIT_USAGE 2

static const char usage_text[] =
	"Usage: pf_info [OPTION]...\n"
	"\n"
	"Shows what libpf finds on this machine. Without options: all but --live and --job.\n"
	"\n"
	"      --capabilities  what the kernel offers\n"
	"      --permissions   what decides whether processes may copy from one another\n"
	"      --paths         which way bytes will go, and why\n"
	"      --options       options in force, where each value came from, its range\n"
	"                      and meaning\n"
	"      --calibration   the calibration file and whether it holds\n"
	"      --topology      cores and caches\n"
	"      --live          connect two processes and show the path that they get\n"
	"      --calibrated    print nothing; exit with 0 if this machine's calibration\n"
	"                      is in force, else with 1\n"
	"      --job [PID]     the statistics of this user's running processes, by job; with\n"
	"                      PID only those of that process and its job\n"
	"      --interval SECONDS\n"
	"                      with --job: again and again, what was counted meanwhile\n"
	"  -j, --json          print JSON\n"
	"  -h, --help          print this text\n"
	"  -V, --version       print the version\n"
	"\n"
	"Exit status: 0, 1 if something failed or a PF_* environment variable is invalid,\n"
	"2 for a mistake in the command line.\n";

enum {
	OPTION_SECTION = 256,
	OPTION_CALIBRATED = OPTION_SECTION + 2 * SECTION_LIVE,
	OPTION_JOB,
	OPTION_INTERVAL,
};

static const struct option long_options[] = {
	{ "capabilities", no_argument, NULL, OPTION_SECTION + SECTION_CAPABILITIES },
	{ "permissions", no_argument, NULL, OPTION_SECTION + SECTION_PERMISSIONS },
	{ "paths", no_argument, NULL, OPTION_SECTION + SECTION_PATHS },
	{ "options", no_argument, NULL, OPTION_SECTION + SECTION_OPTIONS },
	{ "calibration", no_argument, NULL, OPTION_SECTION + SECTION_CALIBRATION },
	{ "topology", no_argument, NULL, OPTION_SECTION + SECTION_TOPOLOGY },
	{ "live", no_argument, NULL, OPTION_SECTION + SECTION_LIVE },
	{ "calibrated", no_argument, NULL, OPTION_CALIBRATED },
	{ "job", optional_argument, NULL, OPTION_JOB },
	{ "interval", required_argument, NULL, OPTION_INTERVAL },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static int calibrated(void)
{
	struct origins origins;

	origins_load(&origins);
	return origins.calibration == PF_OK && origins.in_force.calibrate ? EXIT_SUCCESS :
									    EXIT_FAILURE;
}

static pid_t parse_pid(const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < 1 || value > INT_MAX)
		errx(EXIT_USAGE, "--job %s: not a process number", text);
	return (pid_t)value;
}

static double parse_interval(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0.01 && value <= 1e6))
		errx(EXIT_USAGE, "--interval %s: not a number of seconds from 0.01 to 1000000",
		     text);
	return value;
}

int main(int argc, char **argv)
{
	static struct info info;
	unsigned sections = 0;
	bool json = false, job = false, details;
	double interval = 0;
	pid_t pid = 0;
	int option, status = 0;

	while ((option = getopt_long(argc, argv, "jhV", long_options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("pf_info %d.%d\n", PF_VERSION_MAJOR, PF_VERSION_MINOR);
			return EXIT_SUCCESS;
		case OPTION_CALIBRATED:
			return calibrated();
		case OPTION_JOB:
			job = true;
			/* "--job PID": getopt knows optional arguments only after '='. */
			if (!optarg && optind < argc && argv[optind][0] != '-')
				optarg = argv[optind++];
			if (optarg)
				pid = parse_pid(optarg);
			break;
		case OPTION_INTERVAL:
			interval = parse_interval(optarg);
			break;
		case '?':
			fputs("See pf_info --help\n", stderr);
			return EXIT_USAGE;
		default:
			sections |= (unsigned)(option - OPTION_SECTION);
		}
	}
	if (optind < argc)
		errx(EXIT_USAGE, "argument %s: only options are known; see pf_info --help",
		     argv[optind]);
	if (interval > 0 && !job)
		errx(EXIT_USAGE, "--interval is for --job");
	if (job && sections)
		errx(EXIT_USAGE, "--job shows processes, not the machine: ask for either");
	if (job)
		return job_show(pid, interval, json) ? EXIT_FAILURE : EXIT_SUCCESS;
	details = sections & SECTION_OPTIONS;
	if (!sections)
		sections = SECTION_LIVE - 1;
	if (info_gather(&info, sections))
		return EXIT_FAILURE;
	if (json)
		info_print_json(&info, sections);
	else
		info_print_text(&info, sections, details);
	if (fflush(stdout) || ferror(stdout)) {
		warn("standard output");
		status = -1;
	}
	if (origins_check_environment(&info.origins))
		status = -1;
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
