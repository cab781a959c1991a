/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MAX 65536

static const char *const sync_names[] = {
	[SYNC_FLUSH] = "flush",
	[SYNC_LOCK] = "lock",
	[SYNC_FENCE] = "fence",
};

static const char *const create_names[] = {
	[CREATE_ALLOCATE] = "allocate",
	[CREATE_FROM_MEMORY] = "create",
};

static const char *const cold_names[COLD_CHOICES] = {
	[0] = "none",
	[COLD_SOURCE] = "source",
	[COLD_DESTINATION] = "destination",
	[COLD_SOURCE | COLD_DESTINATION] = "both",
};

static const struct option long_options[] = {
	{ "message-size", required_argument, NULL, 'm' },
	{ "iterations", required_argument, NULL, 'i' },
	{ "warmup", required_argument, NULL, 'x' },
	{ "window-size", required_argument, NULL, 'W' },
	{ "validate", no_argument, NULL, 'c' },
	{ "cpu", no_argument, NULL, 'C' },
	{ "cold", required_argument, NULL, 'o' },
	{ "full", no_argument, NULL, 'f' },
	{ "sync-option", required_argument, NULL, 's' },
	{ "win-option", required_argument, NULL, 'w' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

const char *rma_sync_name(enum rma_sync sync)
{
	return sync_names[sync];
}

const char *rma_create_name(enum rma_create create)
{
	return create_names[create];
}

const char *cold_name(unsigned cold)
{
	return cold_names[cold];
}

/* A decimal number with an optional K, M or G; *end is where it stops. */
static int parse_number(const char *text, char **end, unsigned long long *number)
{
	unsigned long long scale = 1;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*number = strtoull(text, end, 10);
	if (errno)
		return -1;
	switch (**end) {
	case 'K':
		scale = 1ull << 10;
		break;
	case 'M':
		scale = 1ull << 20;
		break;
	case 'G':
		scale = 1ull << 30;
		break;
	default:
		return 0;
	}
	if (*number > ULLONG_MAX / scale)
		return -1;
	*number *= scale;
	(*end)++;
	return 0;
}

static int parse_count(const char *text, unsigned long long least, unsigned long long most,
		       int *count)
{
	unsigned long long number;
	char *end;

	if (parse_number(text, &end, &number) || *end || number < least || number > most)
		return -1;
	*count = (int)number;
	return 0;
}

/* OSU's forms: MAX, MIN:MAX, MIN: and :MAX. */
static int parse_sizes(const char *text, struct options *options)
{
	unsigned long long low = options->min_size, high = options->max_size;
	const char *colon = strchr(text, ':');
	char *end = (char *)text;

	if (colon && colon != text && (parse_number(text, &end, &low) || end != colon))
		return -1;
	text = colon ? colon + 1 : text;
	if ((*text || !colon) && (parse_number(text, &end, &high) || *end))
		return -1;
	if (low > high || high > INT_MAX)
		return -1;
	options->min_size = low;
	options->max_size = high;
	return 0;
}

static int parse_name(const char *text, const char *const *names, int count)
{
	int i;

	for (i = 0; i < count; i++)
		if (!strcmp(text, names[i]))
			return i;
	return -1;
}

/* Names separated by commas, none of them twice. */
static int parse_cold(const char *text, struct options *options)
{
	char name[16];
	int choice, i;

	options->colds = 0;
	for (;; text++) {
		size_t length = strcspn(text, ",");

		snprintf(name, sizeof(name), "%.*s", (int)length, text);
		choice = parse_name(name, cold_names, COLD_CHOICES);
		if (choice < 0)
			return -1;
		for (i = 0; i < options->colds; i++)
			if (options->cold[i] == (unsigned)choice)
				return -1;
		options->cold[options->colds++] = (unsigned)choice;
		text += length;
		if (!*text)
			return 0;
	}
}

static unsigned group_of(int letter)
{
	switch (letter) {
	case 'm':
		return TAKES_SIZES;
	case 'W':
		return TAKES_WINDOW;
	case 'C':
		return TAKES_CPU;
	case 'o':
		return TAKES_COLD;
	case 'f':
		return TAKES_FULL;
	case 's':
	case 'w':
		return TAKES_RMA;
	default:
		return 0;
	}
}

int options_parse(struct options *options, unsigned groups, int argc, char **argv, char *error,
		  size_t error_size)
{
	int letter, choice;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "m:i:x:W:cfs:w:h", long_options, NULL)) != -1) {
		if (group_of(letter) & ~groups) {
			char name[] = { '-', (char)letter, '\0' };

			snprintf(error, error_size, "this benchmark has no use for %s: see --help",
				 letter == 'C' ? "--cpu" :
				 letter == 'o' ? "--cold" :
						 name);
			return -1;
		}
		switch (letter) {
		case 'm':
			if (parse_sizes(optarg, options)) {
				snprintf(error, error_size,
					 "-m %s: give MIN:MAX or MAX in bytes (K, M and G may "
					 "follow), MIN not above MAX and MAX below 2G",
					 optarg);
				return -1;
			}
			break;
		case 'i':
			if (parse_count(optarg, 1, INT_MAX, &options->small.iterations)) {
				snprintf(error, error_size, "-i %s: give a number from 1 to %d",
					 optarg, INT_MAX);
				return -1;
			}
			options->large.iterations = options->small.iterations;
			break;
		case 'x':
			if (parse_count(optarg, 0, INT_MAX, &options->small.skip)) {
				snprintf(error, error_size, "-x %s: give a number from 0 to %d",
					 optarg, INT_MAX);
				return -1;
			}
			options->large.skip = options->small.skip;
			break;
		case 'W':
			if (parse_count(optarg, 1, WINDOW_MAX, &options->window)) {
				snprintf(error, error_size, "-W %s: give a number from 1 to %d",
					 optarg, WINDOW_MAX);
				return -1;
			}
			break;
		case 's':
			choice = parse_name(optarg, sync_names, SYNC_FENCE + 1);
			if (choice < 0) {
				snprintf(error, error_size, "-s %s: give flush, lock or fence",
					 optarg);
				return -1;
			}
			options->sync = (enum rma_sync)choice;
			break;
		case 'w':
			choice = parse_name(optarg, create_names, CREATE_FROM_MEMORY + 1);
			if (choice < 0) {
				snprintf(error, error_size, "-w %s: give allocate or create",
					 optarg);
				return -1;
			}
			options->create = (enum rma_create)choice;
			break;
		case 'c':
			options->validate = true;
			break;
		case 'C':
			options->cpu = true;
			break;
		case 'o':
			if (parse_cold(optarg, options)) {
				snprintf(error, error_size,
					 "--cold %s: give none, source, destination, both, or "
					 "several of them separated by commas",
					 optarg);
				return -1;
			}
			break;
		case 'f':
			options->full = true;
			break;
		case 'h':
			options->help = true;
			break;
		default:
			snprintf(error, error_size,
				 "%s: unknown option, or its value is missing: see --help",
				 argv[optind - 1]);
			return -1;
		}
	}
	if (optind < argc) {
		snprintf(error, error_size, "%s: not an option: see --help", argv[optind]);
		return -1;
	}
	return 0;
}

void options_help(const struct options *options, unsigned groups, const char *program,
		  const char *about)
{
	printf("Usage: mpirun [...] %s [options]\n%s\n\n", program, about);
	if (groups & TAKES_SIZES)
		printf("  -m, --message-size [MIN:]MAX  sizes in bytes, doubled from MIN to MAX "
		       "(%zu:%zu)\n",
		       options->min_size, options->max_size);
	printf("  -i, --iterations N            timed iterations at every size (%d",
	       options->small.iterations);
	if (groups & TAKES_SIZES)
		printf("; above %d bytes %d", LARGE_MESSAGE, options->large.iterations);
	printf(")\n  -x, --warmup N                iterations before them (%d",
	       options->small.skip);
	if (groups & TAKES_SIZES)
		printf("; above %d bytes %d", LARGE_MESSAGE, options->large.skip);
	printf(")\n");
	if (groups & TAKES_WINDOW)
		printf("  -W, --window-size N           messages in flight (%d)\n",
		       options->window);
	if (groups & TAKES_RMA)
		printf("  -s, --sync-option NAME        flush, lock or fence (flush)\n"
		       "  -w, --win-option NAME         allocate or create (allocate)\n");
	if (groups & TAKES_CPU)
		printf("      --cpu                     add a column: CPU seconds, user and system, "
		       "of all ranks\n"
		       "                                for each 10^9 bytes moved\n");
	if (groups & TAKES_COLD)
		printf("      --cold LIST               a column for each of none, source, destination "
		       "and both,\n"
		       "                                that is, of the buffers that are cold: absent "
		       "from the page\n"
		       "                                tables of their process. A cold destination is "
		       "memory mapped\n"
		       "                                anew and never touched; a cold source is a "
		       "file in memory\n"
		       "                                (memfd) mapped anew, so that its pages exist. "
		       "That is done\n"
		       "                                before every iteration and is not timed: a "
		       "barrier follows,\n"
		       "                                then the clock starts. Every message of a "
		       "window has a\n"
		       "                                place of its own; so it has with none, where "
		       "the same pages,\n"
		       "                                touched before, are used again\n");
	if (groups & TAKES_FULL)
		printf("  -f, --full                    add minimum and maximum over the ranks\n");
	printf("  -c, --validate                check what arrives, before each timed loop\n"
	       "  -h, --help                    this text\n");
}
