/* SPDX-License-Identifier: BSD-3-Clause */
/* pf_trace: run a command, and write the libpf events of its processes, with times. */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpf/pf.h>
#include "trace_json.h"
#include "trace_svg.h"
#include "traces.h"

#define EXIT_USAGE 2
/* Exit status of a shell. */
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

static const char usage_text[] =
	"Usage: pf_trace [OPTION]... [--] COMMAND [ARGUMENT]...\n"
	"\n"
	"Runs the command and writes every transfer, block moved, page fault, resolution and\n"
	"retransmission of its processes that use libpf, with its time.\n"
	"\n"
	"  -o, --output FILE  the trace, for Perfetto (ui.perfetto.dev) and Chrome\n"
	"                     (chrome://tracing); default: trace.json\n"
	"      --svg FILE     draw the trace, too\n"
	"  -h, --help         print this text\n"
	"  -V, --version      print the version\n"
	"\n"
	"Processes on other hosts need the variable LIBPF_TRACE (mpirun -x LIBPF_TRACE) and must\n"
	"reach the folder of FILE.\n"
	"\n"
	"Exit status: that of the command, 128 and the signal if one ended it, 127 if it cannot\n"
	"be run; 1 if the command succeeded but a file cannot be written, 2 for a wrong command\n"
	"line.\n";

enum { OPTION_SVG = 256 };

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "svg", required_argument, NULL, OPTION_SVG },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct command {
	const char *output, *svg;
	char **arguments;
};

static volatile sig_atomic_t child;

static void trace_parse(struct command *command, int argc, char **argv)
{
	int option;

	/* "+": arguments behind the command belong to the command. */
	while ((option = getopt_long(argc, argv, "+o:hV", long_options, NULL)) != -1) {
		switch (option) {
		case 'o':
			command->output = optarg;
			break;
		case OPTION_SVG:
			command->svg = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		case 'V':
			puts("pf_trace " PF_VERSION_STRING);
			exit(EXIT_SUCCESS);
		default:
			fputs("See pf_trace --help\n", stderr);
			exit(EXIT_USAGE);
		}
	}
	if (optind == argc)
		errx(EXIT_USAGE, "a command is missing; see pf_trace --help");
	command->arguments = argv + optind;
}

/*
 * Make the folder for the records beside the output: there the hosts of a cluster share files, and
 * there is room for the trace. Mode 0700.
 */
static void make_folder(const char *output, char folder[PATH_MAX])
{
	char *copy = strdup(output), absolute[PATH_MAX];

	if (!copy || !realpath(dirname(copy), absolute))
		err(EXIT_FAILURE, "the folder of %s", output);
	free(copy);
	if (snprintf(folder, PATH_MAX, "%s/.pf_trace-XXXXXX", absolute) >= PATH_MAX)
		errx(EXIT_FAILURE, "%s: the name is too long", output);
	if (!mkdtemp(folder))
		err(EXIT_FAILURE, "%s", folder);
}

static void remove_folder(const char *folder)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	if (rmdir(folder))
		warn("%s: not deleted", folder);
}

static void signal_forward(int number)
{
	if (child > 0)
		kill((pid_t)child, number);
}

/* Returns the exit status. */
static int program_run(char **arguments)
{
	struct sigaction action = { .sa_handler = signal_forward, .sa_flags = SA_RESTART };
	int status;
	pid_t pid = fork();

	if (pid < 0)
		err(EXIT_FAILURE, "fork");
	if (!pid) {
		execvp(arguments[0], arguments);
		warn("%s", arguments[0]);
		_exit(EXIT_NOT_FOUND);
	}
	child = pid;
	/*
	 * The terminal sends the signals to the command as well; the trace must be written all the
	 * same.
	 */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			err(EXIT_FAILURE, "waitpid");
	}
	child = 0;
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static void traces_report(const struct traces *traces)
{
	char title[128];
	size_t i;

	if (!traces->count)
		warnx("no process recorded anything: none opened a context of libpf, or " TRACE_VARIABLE
		      " did not reach it (mpirun -x " TRACE_VARIABLE ")");
	for (i = 0; i < traces->count; i++) {
		if (traces->list[i].lost)
			warnx("%s: %" PRIu64 " events lost: its record keeps the last %d",
			      trace_title(&traces->list[i], title, sizeof(title)),
			      traces->list[i].lost, TRACE_EVENTS);
	}
}

static int write_files(const struct command *command, const struct traces *traces)
{
	int status = 0;
	FILE *file;

	if (command->svg) {
		file = fopen(command->svg, "we");
		if (file)
			trace_svg_print(traces, file);
		if (!file || fflush(file) || ferror(file)) {
			warn("%s", command->svg);
			status = -1;
		}
		if (file)
			fclose(file);
	}
	/* The command has ended, and JSON is written to standard output. */
	if (!freopen(command->output, "we", stdout)) {
		warn("%s", command->output);
		return -1;
	}
	trace_json_print(traces);
	if (fflush(stdout) || ferror(stdout)) {
		warn("%s", command->output);
		return -1;
	}
	return status;
}

int main(int argc, char **argv)
{
	struct command command = { .output = "trace.json" };
	char folder[PATH_MAX];
	struct traces traces;
	int status, failed;

	trace_parse(&command, argc, argv);
	make_folder(command.output, folder);
	if (setenv(TRACE_VARIABLE, folder, 1))
		err(EXIT_FAILURE, "environment");
	status = program_run(command.arguments);
	failed = traces_read(&traces, folder);
	if (!failed) {
		traces_report(&traces);
		failed = write_files(&command, &traces);
		traces_free(&traces);
	}
	remove_folder(folder);
	return status || !failed ? status : EXIT_FAILURE;
}
