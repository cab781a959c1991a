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
	[COLD_FILE] = "file",
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

/* Read a decimal number with an optional K, M or G; *end is the first character after it. */
static int parse_number(const char *text, char **end, unsigned long long *number)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	unsigned long long scale;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*number = strtoull(text, end, 10);
	if (errno)
		return -1;
	suffix = **end ? strchr(suffixes, **end) : NULL;
	if (!suffix)
		return 0;
	scale = 1ull << 10 * (suffix - suffixes + 1);
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

static int parse_iterations(const char *text, struct options *options)
{
	if (parse_count(text, 1, INT_MAX, &options->small.iterations))
		return -1;
	options->large.iterations = options->small.iterations;
	return 0;
}

static int parse_warm_up(const char *text, struct options *options)
{
	if (parse_count(text, 0, INT_MAX, &options->small.skip))
		return -1;
	options->large.skip = options->small.skip;
	return 0;
}

static int parse_window(const char *text, struct options *options)
{
	return parse_count(text, 1, WINDOW_MAX, &options->window);
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

static int parse_sync(const char *text, struct options *options)
{
	int choice = parse_name(text, sync_names, SYNC_FENCE + 1);

	options->sync = (enum rma_sync)choice;
	return choice < 0 ? -1 : 0;
}

static int parse_create(const char *text, struct options *options)
{
	int choice = parse_name(text, create_names, CREATE_FROM_MEMORY + 1);

	options->create = (enum rma_create)choice;
	return choice < 0 ? -1 : 0;
}

/* Names separated by commas, each at most once. */
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

/* Options without a letter of their own. */
enum {
	OPTION_CPU = UCHAR_MAX + 1,
	OPTION_COLD,
	OPTION_UDP,
	OPTION_FIRST,
	OPTION_LINE,
	OPTION_WAITS,
};

static const struct entry {
	int letter;
	const char *name;
	unsigned group; /* 0: all benchmarks take it */
	/* With a value: returns 0, or -1 if it is none of those that expected names. */
	int (*parse)(const char *value, struct options *options);
	const char *expected;
	size_t flag; /* without a value: offset of the bool that it sets */
} entries[] = {
	{ 'm', "message-size", TAKES_SIZES, parse_sizes,
	  "MIN:MAX or MAX in bytes (K, M and G may follow), MIN not above MAX and MAX below 2G" },
	{ 'i', "iterations", 0, parse_iterations, "a number from 1 to 2147483647" },
	{ 'x', "warmup", 0, parse_warm_up, "a number from 0 to 2147483647" },
	{ 'W', "window-size", TAKES_WINDOW, parse_window, "a number from 1 to 65536" },
	{ 's', "sync-option", TAKES_RMA, parse_sync, "flush, lock or fence" },
	{ 'w', "win-option", TAKES_RMA, parse_create, "allocate or create" },
	{ OPTION_COLD, "cold", TAKES_COLD, parse_cold,
	  "none, source, destination, both, file, or several of them separated by commas" },
	{ OPTION_CPU, "cpu", TAKES_CPU, .flag = offsetof(struct options, cpu) },
	{ OPTION_UDP, "udp", TAKES_UDP, .flag = offsetof(struct options, udp) },
	{ OPTION_FIRST, "first", TAKES_FIRST, .flag = offsetof(struct options, first) },
	{ 'f', "full", TAKES_FULL, .flag = offsetof(struct options, full) },
	{ OPTION_WAITS, "waits", TAKES_WAITS, .flag = offsetof(struct options, waits) },
	{ OPTION_LINE, "line", .flag = offsetof(struct options, line) },
	{ 'c', "validate", .flag = offsetof(struct options, validate) },
	{ 'h', "help", .flag = offsetof(struct options, help) },
};

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

/* The entries as getopt_long takes them. */
static void describe(struct option *long_options, char *letters)
{
	int i;

	for (i = 0; i < ENTRIES; i++) {
		const struct entry *entry = &entries[i];

		long_options[i] = (struct option){ entry->name,
						   entry->parse ? required_argument : no_argument,
						   NULL, entry->letter };
		if (entry->letter > UCHAR_MAX)
			continue;
		*letters++ = (char)entry->letter;
		if (entry->parse)
			*letters++ = ':';
	}
	long_options[ENTRIES] = (struct option){ NULL, 0, NULL, 0 };
	*letters = '\0';
}

int options_parse(struct options *options, unsigned groups, int argc, char **argv, char *error,
		  size_t error_size)
{
	struct option long_options[ENTRIES + 1];
	char letters[2 * ENTRIES + 1], name[16];
	int letter;

	describe(long_options, letters);
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		const struct entry *entry = entries;

		while (entry < entries + ENTRIES && entry->letter != letter)
			entry++;
		if (entry == entries + ENTRIES) {
			snprintf(error, error_size,
				 "%s: unknown option, or its value is missing: see --help",
				 argv[optind - 1]);
			return -1;
		}
		if (letter > UCHAR_MAX)
			snprintf(name, sizeof(name), "--%s", entry->name);
		else
			snprintf(name, sizeof(name), "-%c", letter);
		if (entry->group & ~groups) {
			snprintf(error, error_size, "this benchmark does not take %s: see --help",
				 name);
			return -1;
		}
		if (!entry->parse) {
			*(bool *)((char *)options + entry->flag) = true;
		} else if (entry->parse(optarg, options)) {
			snprintf(error, error_size, "%s %s: give %s", name, optarg,
				 entry->expected);
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
		       "                                per 10^9 bytes moved\n");
	if (groups & TAKES_COLD)
		printf("      --cold LIST               add a column for each of none, source, "
		       "destination, both,\n"
		       "                                file: the buffers that are cold, that is, absent "
		       "from the page\n"
		       "                                table of their process. A cold destination is "
		       "newly mapped\n"
		       "                                memory that was never touched. A cold source "
		       "is a newly mapped\n"
		       "                                memfd: its pages exist. Both are mapped before "
		       "each iteration\n"
		       "                                and before a barrier, after which the clock "
		       "starts. Each message\n"
		       "                                of a window has its own memory, also in the "
		       "column none, where\n"
		       "                                the same touched pages are used in each "
		       "iteration. file: the\n"
		       "                                destination is a private mapping of a file in "
		       "the current folder,\n"
		       "                                none of whose pages is in memory: each has to "
		       "be read from the disk\n");
	if (groups & TAKES_WAITS)
		printf("      --waits                   add two columns, for each message: blocks "
		       "that waited for an absent\n"
		       "                                page, and those that were asked for again "
		       "(NACK); only exanest counts\n"
		       "                                them\n");
	if (groups & TAKES_UDP)
		printf("      --udp                     move the messages over a pair of UDP sockets "
		       "instead of MPI, which\n"
		       "                                only exchanges the addresses: the first IPv4 "
		       "address of each host.\n"
		       "                                If packets are lost, the round (a message and "
		       "its answer, or a\n"
		       "                                window) is started again, and neither its time "
		       "nor its bytes are\n"
		       "                                counted; the number of such rounds is "
		       "reported\n");
	if (groups & TAKES_UDP && groups & TAKES_WINDOW)
		printf("                                One thread at each side; up to 65,000 bytes a "
		       "system call (UDP_SEGMENT,\n"
		       "                                UDP_GRO), up to 2 MiB under way. A message "
		       "that fits into a packet\n"
		       "                                has a packet of its own; longer messages fill "
		       "packets. Each window\n"
		       "                                is acknowledged, as with MPI. So it is the most "
		       "that a transport\n"
		       "                                over UDP reaches which sends no two messages in "
		       "one packet\n");
	if (groups & TAKES_FIRST)
		printf("      --first                   time the first 1, 10, 100 and 1000 calls after "
		       "MPI_Init, between ranks\n"
		       "                                that have exchanged nothing before, and count "
		       "the page faults of all\n"
		       "                                ranks in them. %sRepeat the "
		       "job for more samples\n",
		       groups & TAKES_SIZES ? "One size for each job (-m N:N). " : "");
	if (groups & TAKES_FULL)
		printf("  -f, --full                    add minimum and maximum over the ranks\n");
	printf("      --line                    add two columns: the time of a cache line from one "
	       "rank to the other,\n"
	       "                                ns, before and after each size; two ranks of one "
	       "host\n"
	       "  -c, --validate                check what arrives, before each timed loop\n"
	       "  -h, --help                    print this text\n");
}
