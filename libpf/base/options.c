/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibration.h"
#include "limits.h"
#include "processor.h"
#include "structure.h"
#include "trace.h"

#define OPTION(field, low, high, lvl, text)                                                        \
	{                                                                                          \
		.name = #field, .help = text, .offset = offsetof(pf_options, field),               \
		.minimum = low, .maximum = high, .level = lvl                                      \
	}

#define CHOICE(field, choices, lvl, text)                                                          \
	{                                                                                          \
		.name = #field, .help = text, .offset = offsetof(pf_options, field), .minimum = 0, \
		.maximum = sizeof(choices) / sizeof((choices)[0]) - 2, .level = lvl,               \
		.names = choices                                                                   \
	}

static const char *const transports[] = { "auto", "host", "device", NULL };
static const char *const policies[] = { "touch", "ahead", "huge", "adaptive", NULL };

static const char *const ptracers[] = { "none", "launcher", "any", NULL };
static const char *const networks[] = { "off", "remote", "always", NULL };
static const char *const auths[] = { "header", "full", "encrypt", NULL };
static const char *const net_faults[] = { "nack", "backup", NULL };

static const pf_option_info table[] = {
	OPTION(ring_size, RING_SIZE_MIN, RING_SIZE_MAX, 5,
	       "Bytes of the ring (shared memory) that carries messages from one process to another, at "
	       "most, a power of two; the ring starts with 8 KiB and grows with traffic"),
	OPTION(ring_memory, 0, 1ull << 40, 9,
	       "Bytes by which all rings of a process together may grow beyond 8 KiB, or twice the longest "
	       "message, of each; a ring that grows takes at most a fourth of what is left; with n > 32 "
	       "rings, 32/n of the bytes; idle rings give back what others need"),
	OPTION(eager_limit, 64, 1 << 24, 4,
	       "Bytes of the longest message that programs send with pf_send, which copies it through "
	       "the ring; they let the receiver get longer ones; pf_query reports it"),
	OPTION(share_min, 4096, UINT64_MAX, 9,
	       "Bytes from which on both processes move a transfer, each from its end"),
	OPTION(run_max, 4096, 1 << 30, 9,
	       "Bytes of one transfer that one call moves, of the progress function or of pf_put and "
	       "pf_get, at most"),
	OPTION(block_size, 4096, BLOCK_SIZE_MAX, 9,
	       "Bytes of a block, the unit of page faults and retransmission, a power of two; between "
	       "hosts at most 64K, and 16K if it is larger"),
	OPTION(operations_max, 0, UINT64_MAX, 6,
	       "Number of puts, gets and atomics that may be unfinished at the same time; more are "
	       "refused until some have ended, which bounds their memory; 0: no limit"),
	OPTION(expose, 0, 1, 5,
	       "1: peers reach only the ranges that the program names with pf_expose, and move "
	       "nothing to or from this process by single copy or /dev/exanest; 0: peers reach "
	       "all memory"),
	OPTION(single_copy, 0, 1, 3,
	       "1: move transfers with process_vm_readv and process_vm_writev where the kernel "
	       "permits it; 0: always move them through the ring"),
	CHOICE(ptracer, ptracers, 5,
	       "Which processes of the user may copy to and from this one where "
	       "kernel.yama.ptrace_scope is 1, which single copy needs: none, launcher (those below "
	       "the process that started this one's process group, as mpirun does), any; see "
	       "SECURITY.md"),
	CHOICE(transport, transports, 3,
	       "How transfers between processes of one host are moved: auto (by /dev/exanest where "
	       "it reaches the peer, otherwise as host), host (by process_vm_readv and "
	       "process_vm_writev, or through the ring), device (by /dev/exanest only)"),
	CHOICE(policy, policies, 9,
	       "How page faults are resolved: touch (the pages of the block), ahead (also pages "
	       "behind it, more each time), huge (huge pages where a transfer covers them), "
	       "adaptive (huge and ahead, by the faults seen before)"),
	OPTION(residency, 0, 1000000, 9,
	       "Microseconds for which memory that was found present is assumed to be present; "
	       "0: check before every copy"),
	OPTION(fault_retries, 1, 1000, 9,
	       "Number of times that a page fault of one block is resolved before its transfer "
	       "fails"),
	OPTION(resolve_share, 1, 100, 9,
	       "Percentage of a processor that resolving page faults may take from a process that "
	       "is moving other blocks; a process without other work gives all of it"),
	OPTION(collapse, 0, UINT64_MAX, 9,
	       "Bytes that this process copies from or to a 2 MiB range of a peer's buffer before "
	       "asking the peer to make the range a huge page, in the background and without "
	       "additional memory; 0: never, also for peers that ask"),
	OPTION(wake, 0, 1, 5,
	       "1: processes of this host wake pf_wait and pf_flush at once, for programs that wait "
	       "and for processes that share processors; 0: messages are a little faster, pf_wait "
	       "looks for them each millisecond, and pf_flush does not sleep"),
	OPTION(threads, 0, 1, 9, "1: several threads may use the context at the same time"),
	OPTION(calibrate, 0, 1, 6,
	       "1: options that are not set otherwise take their values from the calibration file "
	       "of this machine"),
	CHOICE(network, networks, 4,
	       "When the network (UDP) is used: off, remote (to processes that shared memory does "
	       "not reach), always (to all other processes, for comparison)"),
	CHOICE(auth, auths, 4,
	       "How packets between hosts are protected: header (a keyed hash over all but the "
	       "data), full (over the data too), encrypt (and the data is encrypted); all processes "
	       "of a job need the same value"),
	CHOICE(net_fault, net_faults, 9,
	       "What the receiver does with a block from another host whose page is absent: nack "
	       "(drop it and request it again), backup (keep it until the page is present)"),
	OPTION(backup_ring, 0, 1ull << 32, 9,
	       "Bytes of memory for the blocks that net_fault backup keeps, of all peers together"),
	OPTION(socket_buffer, 4096, 1 << 30, 6,
	       "Bytes requested from the kernel for the send buffer and for the receive buffer of each "
	       "UDP socket"),
	OPTION(peer_timeout, 1, 1000000, 4,
	       "Seconds without a packet from a process on another host after which it counts as "
	       "dead; a process that computes still answers, one that is stopped does not"),
	OPTION(contact_timeout, 1, 1000000, 4,
	       "Seconds without any answer from a process on another host after which this is "
	       "reported, as a firewall may block UDP; it is tried until peer_timeout"),
	OPTION(port_min, 0, 65535, 1,
	       "Lowest UDP port that is used, for firewalls; each process of a host needs one from "
	       "port_min to port_max; 0: the system chooses any port"),
	OPTION(port_max, 1, 65535, 1, "Highest UDP port that is used if port_min is not 0"),
	{ .name = NULL },
};
static_assert(sizeof(table) / sizeof(table[0]) <= OPTIONS_MAX, "an entry for every option");

static const pf_text_info text_table[] = {
	{ "if_include",
	  "Network interfaces to use, separated by commas: names, addresses, or networks in CIDR "
	  "notation; if neither this nor if_exclude is set, those that are up and lead to other "
	  "hosts",
	  offsetof(pf_options, if_include), 1 },
	{ "if_exclude",
	  "Network interfaces not to use, in the form of if_include; ignored if that is set",
	  offsetof(pf_options, if_exclude), 1 },
	{ .name = NULL },
};

/*
 * On a Xeon the kernel copies quickly from process to process, and the ring slowly: half a round
 * trip of 32 and 64 KiB takes 5.8 and 9.8 us through the ring, and 7.2 and 8.0 fetched, if the
 * sender writes and the receiver reads the buffer each time. Without writes and reads of the
 * buffer (benchmarks/mpi/latency), the ring takes 4.7 and 7.6, and a fetch 2.8 and 3.5.
 */
#define EAGER_LIMIT_INTEL (32 << 10)

static const pf_options defaults = {
	.size = sizeof(pf_options),
	/*
	 * Twice a second-level cache (1 MiB here): bytes read by the reader have left its cache
	 * when the writer comes round. Windows of 4, 8 and 16 KiB messages: 23, 29 and 37 GB/s
	 * instead of 15, 17 and 25 with 256 KiB (benchmarks/mpi/bw -i 1000; processors with a
	 * common third level; between others, and for single messages, there is no difference).
	 */
	.ring_size = 2 << 20,
	/* Two rings of ring_size, two of half the size, three of a fourth, and further. */
	.ring_memory = 8 << 20,
	/* 64 KiB took 4.9 us through the ring and 6.9 fetched, 128 KiB 8.2 and 6.8 (processors far apart). */
	.eager_limit = 64 << 10, /* but see EAGER_LIMIT_INTEL */
	.share_min = 64 << 10,
	.run_max = 1 << 20,
	.block_size = 16 << 10, /* ExaNeSt's block */
	.single_copy = 1,
	.ptracer = PF_PTRACER_LAUNCHER,
	.transport = PF_TRANSPORT_AUTO,
	.policy = PF_POLICY_ADAPTIVE,
	.residency = 10000,
	.fault_retries = 64,
	.resolve_share = 1,
	.collapse = 32 << 20,
	.wake = 0,
	.threads = 0,
	.calibrate = 1,
	.network = PF_NETWORK_REMOTE,
	.auth = PF_AUTH_HEADER,
	.net_fault = PF_NET_FAULT_NACK,
	.backup_ring = 1 << 20,
	.socket_buffer = 8 << 20,
	.peer_timeout = 120,
	.contact_timeout = 5,
	.port_min = 0,
	.port_max = 65535,
};

const pf_option_info *pf_option_table(void)
{
	return table;
}

const pf_text_info *pf_text_table(void)
{
	return text_table;
}

uint64_t *option_field(pf_options *options, const pf_option_info *info)
{
	return (uint64_t *)((char *)options + info->offset);
}

static bool is_power_of_two(uint64_t value)
{
	return value && !(value & (value - 1));
}

static bool needs_power_of_two(const pf_option_info *info)
{
	return info->offset == offsetof(pf_options, ring_size) ||
	       info->offset == offsetof(pf_options, block_size);
}

bool option_valid(const pf_option_info *info, uint64_t value)
{
	if (value < info->minimum || value > info->maximum)
		return false;
	return !needs_power_of_two(info) || is_power_of_two(value);
}

bool number_parse(const char *text, uint64_t *value)
{
	unsigned shift = 0;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno)
		return false;
	switch (toupper((unsigned char)*end)) {
	case 'K':
		shift = 10;
		break;
	case 'M':
		shift = 20;
		break;
	case 'G':
		shift = 30;
		break;
	}
	if (shift)
		end++;
	if (*end || *value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static bool choice_find(const pf_option_info *info, const char *text, uint64_t *value)
{
	uint64_t i;

	for (i = 0; info->names && info->names[i]; i++) {
		if (strcmp(info->names[i], text))
			continue;
		*value = info->minimum + i;
		return true;
	}
	return false;
}

bool option_parse(const pf_option_info *info, const char *text, uint64_t *value)
{
	uint64_t parsed;

	if (!choice_find(info, text, &parsed) && !number_parse(text, &parsed))
		return false;
	if (!option_valid(info, parsed))
		return false;
	*value = parsed;
	return true;
}

const char *option_value_name(const pf_option_info *info, uint64_t value)
{
	if (!info->names || value < info->minimum || value > info->maximum)
		return NULL;
	return info->names[value - info->minimum];
}

void option_allowed(const pf_option_info *info, char *buffer, size_t size)
{
	const char *const *name;
	size_t used = 0;

	if (!info->names) {
		snprintf(buffer, size, "%sfrom %llu to %llu",
			 needs_power_of_two(info) ? "a power of two " : "",
			 (unsigned long long)info->minimum, (unsigned long long)info->maximum);
		return;
	}
	buffer[0] = 0;
	for (name = info->names; *name && used < size; name++)
		used += (size_t)snprintf(buffer + used, size - used, "%s%s",
					 name == info->names ? "" :
					 name[1]             ? ", " :
							       " or ",
					 *name);
}

const char **option_text(pf_options *options, const pf_text_info *info)
{
	return (const char **)((char *)options + info->offset);
}

#define VARIABLE_PREFIX "LIBPF_"

void option_variable(const char *option, char *buffer, size_t size)
{
	size_t i;

	snprintf(buffer, size, VARIABLE_PREFIX "%s", option);
	for (i = 0; buffer[i]; i++)
		buffer[i] = (char)toupper((unsigned char)buffer[i]);
}

static const char *option_environment(const char *option)
{
	char name[64];

	option_variable(option, name, sizeof(name));
	return getenv(name);
}

static void option_note_origin(enum option_origin *origins, const pf_option_info *info,
			       enum option_origin origin)
{
	if (origins)
		origins[info - table] = origin;
}

void options_read_defaults(pf_options *options, enum option_origin *origins)
{
	const pf_option_info *info;

	*options = defaults;
	if (processor_is_intel())
		options->eager_limit = EAGER_LIMIT_INTEL;
	for (info = table; info->name; info++)
		option_note_origin(origins, info, OPTION_DEFAULT);
}

/* One line "name = value" of a calibration file; false if it is malformed. */
static bool read_line(const char *line, pf_options *options, enum option_origin *origins)
{
	char name[32], text[32], rest[2];
	const pf_option_info *info;
	uint64_t unknown;

	if (line[0] == '#' || line[0] == '\n')
		return true;
	if (sscanf(line, "%31s = %31s %1s", name, text, rest) != 2)
		return false;
	for (info = table; info->name; info++) {
		if (strcmp(info->name, name) != 0)
			continue;
		option_note_origin(origins, info, OPTION_CALIBRATION);
		return option_parse(info, text, option_field(options, info));
	}
	/* Skip an option of another version. */
	return number_parse(text, &unknown);
}

int options_read_calibration(pf_options *options, enum option_origin *origins)
{
	enum option_origin read_origins[OPTIONS_MAX];
	pf_options read = *options;
	char line[512];
	FILE *file;
	int status = calibration_open(&file);

	if (status != PF_OK)
		return status;
	if (origins)
		memcpy(read_origins, origins, sizeof(read_origins));
	while (status == PF_OK && fgets(line, sizeof(line), file)) {
		if (!read_line(line, &read, origins ? read_origins : NULL))
			status = PF_ERR_ARGUMENT;
	}
	fclose(file);
	if (status != PF_OK)
		return status;
	*options = read;
	if (origins)
		memcpy(origins, read_origins, sizeof(read_origins));
	return PF_OK;
}

static const pf_option_info *option_at(size_t offset)
{
	const pf_option_info *info = table;

	while (info->offset != offset)
		info++;
	return info;
}

void options_read_share_min(const pf_options *options, uint64_t share_min[DISTANCES])
{
	uint64_t values[DISTANCES] = { 0 };
	char line[512], name[32], text[32];
	pf_options all = defaults;
	enum distance distance;
	unsigned i;
	FILE *file;

	for (i = 0; i < DISTANCES; i++)
		share_min[i] = options->share_min;
	if (!options->calibrate || calibration_open(&file) != PF_OK)
		return;
	while (fgets(line, sizeof(line), file)) {
		if (!read_line(line, &all, NULL))
			all.share_min = 0;
		if (sscanf(line, "share_min.%31s = %31s", name, text) != 2)
			continue;
		distance = distance_parse(name);
		if (distance)
			option_parse(option_at(offsetof(pf_options, share_min)), text,
				     &values[distance]);
	}
	fclose(file);
	if (all.share_min != options->share_min)
		return;
	for (i = 0; i < DISTANCES; i++)
		share_min[i] = values[i] ? values[i] : share_min[i];
}

/* False: the variable is invalid, and the option is unchanged. */
static bool option_read_environment(pf_options *options, enum option_origin *origins,
				    const pf_option_info *info)
{
	const char *text = option_environment(info->name);

	if (!text)
		return true;
	if (!option_parse(info, text, option_field(options, info)))
		return false;
	option_note_origin(origins, info, OPTION_ENVIRONMENT);
	return true;
}

int options_read_environment(pf_options *options, enum option_origin *origins,
			     const pf_option_info **culprit)
{
	const pf_text_info *text_info;
	const pf_option_info *info;
	int status = PF_OK;

	for (text_info = text_table; text_info->name; text_info++)
		*option_text(options, text_info) = option_environment(text_info->name);
	for (info = table; info->name; info++) {
		if (option_read_environment(options, origins, info))
			continue;
		if (culprit && status == PF_OK)
			*culprit = info;
		status = PF_ERR_ARGUMENT;
	}
	return status;
}

/* pf_options_default, with the origin of each option. */
static void options_load_default(pf_options *options, enum option_origin *origins)
{
	options_read_defaults(options, origins);
	(void)option_read_environment(options, origins, option_at(offsetof(pf_options, calibrate)));
	if (options->calibrate)
		options_read_calibration(options, origins);
}

int options_load(pf_options *options, enum option_origin *origins, const pf_option_info **culprit)
{
	options_load_default(options, origins);
	return options_read_environment(options, origins, culprit);
}

int pf_options_default(pf_options *options, size_t size)
{
	pf_options all;

	if (size < sizeof(options->size))
		return PF_ERR_ARGUMENT;
	options_load_default(&all, NULL);
	all.size = size;
	structure_give(options, size, &all, sizeof(all));
	return PF_OK;
}

int pf_options_init(pf_options *options, size_t size, const pf_option_info **culprit)
{
	pf_options all;
	int status;

	if (size < sizeof(options->size))
		return PF_ERR_ARGUMENT;
	status = options_load(&all, NULL, culprit);
	all.size = size;
	structure_give(options, size, &all, sizeof(all));
	return status;
}

int options_complete(const pf_options *options, pf_options *all)
{
	if (!options)
		return pf_options_init(all, sizeof(*all), NULL);
	if (options->size < sizeof(*all))
		options_load(all, NULL, NULL);
	if (!structure_copy(all, sizeof(*all), options))
		return PF_ERR_ARGUMENT;
	all->size = sizeof(*all);
	return PF_OK;
}

int option_error(const char *name, const char *value, const char *allowed, char *buffer,
		 size_t size)
{
	return snprintf(buffer, size, "%s=%s is invalid: must be %s", name, value, allowed);
}

int options_error(const pf_options *options, char *buffer, size_t size)
{
	const pf_option_info *info;
	pf_options all;

	if (options && options_complete(options, &all) != PF_OK)
		return snprintf(buffer, size,
				"the options are not from pf_options_init, or set one that only a "
				"later version than libpf " PF_VERSION_STRING " has");
	if (options && (all.data_length > PF_DATA_MOST || (all.data_length && !all.data)))
		return snprintf(buffer, size,
				"data_length=%llu is invalid: must be 0 to %d, with data",
				(unsigned long long)all.data_length, PF_DATA_MOST);
	for (info = table; info->name; info++) {
		char name[64], number[32], allowed[128];
		const char *value = number;
		uint64_t parsed;

		if (options) {
			parsed = *option_field(&all, info);
			if (option_valid(info, parsed))
				continue;
			snprintf(name, sizeof(name), "%s", info->name);
			snprintf(number, sizeof(number), "%llu", (unsigned long long)parsed);
		} else {
			value = option_environment(info->name);
			if (!value || option_parse(info, value, &parsed))
				continue;
			option_variable(info->name, name, sizeof(name));
		}
		option_allowed(info, allowed, sizeof(allowed));
		return option_error(name, value, allowed, buffer, size);
	}
	if (size)
		buffer[0] = 0;
	return 0;
}

/* Insertions, deletions and replacements that make b of a, case aside. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned row[64], i, j, length = (unsigned)strnlen(b, 63);

	for (j = 0; j <= length; j++)
		row[j] = j;
	for (i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (j = 1; j <= length; j++) {
			unsigned above = row[j], least;

			least = diagonal + (tolower((unsigned char)a[i - 1]) !=
					    tolower((unsigned char)b[j - 1]));
			if (least > above + 1)
				least = above + 1;
			if (least > row[j - 1] + 1)
				least = row[j - 1] + 1;
			row[j] = least;
			diagonal = above;
		}
	}
	return row[length];
}

/* Return the i-th option of both tables; NULL behind the last. */
static const char *option_name(size_t i)
{
	const size_t numbers = sizeof(table) / sizeof(table[0]) - 1;

	return i < numbers ? table[i].name : text_table[i - numbers].name;
}

/*
 * Return the option with the most similar name (case does not count), or NULL if none is similar.
 */
static const char *option_nearest(const char *name)
{
	/* More than a third of the letters wrong is another word. */
	unsigned least = (unsigned)strlen(name) / 3 + 1;
	const char *nearest = NULL, *option;
	size_t i;

	for (i = 0; (option = option_name(i)); i++) {
		unsigned distance = edit_distance(name, option);

		if (distance >= least)
			continue;
		least = distance;
		nearest = option;
	}
	return nearest;
}

static bool has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

size_t options_unknown(void (*report)(const char *name, const char *nearest, void *arg), void *arg)
{
	char name[64], variable[64];
	size_t count = 0;
	char **entry;

	for (entry = environ; entry && *entry; entry++) {
		size_t length = strcspn(*entry, "=");
		const char *nearest;

		if (!has_prefix(*entry, VARIABLE_PREFIX) || has_prefix(*entry, "LIBPF_TEST_") ||
		    has_prefix(*entry, TRACE_VARIABLE "="))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)length, *entry);
		nearest = option_nearest(name + strlen(VARIABLE_PREFIX));
		if (nearest) {
			option_variable(nearest, variable, sizeof(variable));
			if (!strcmp(variable, name))
				continue;
		}
		report(name, nearest ? variable : NULL, arg);
		count++;
	}
	return count;
}
