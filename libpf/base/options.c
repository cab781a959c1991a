/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "memory/resolver.h"

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

static const char *const modes[] = { "fault", "prefault", "pin", "pin-cache", NULL };
static const char *const transports[] = { "auto", "host", "device", NULL };
static const char *const policies[] = { "touch", "ahead", "huge", "adaptive", NULL };

static const char *const networks[] = { "off", "remote", "always", NULL };
static const char *const auths[] = { "header", "full", "encrypt", NULL };
static const char *const net_faults[] = { "nack", "backup", NULL };

static const pf_option_info table[] = {
	OPTION(ring_size, 16384, 1 << 30, 5,
	       "Most bytes of shared memory for messages from one process to another, a power of "
	       "two; grows with traffic from 8 KiB on first use"),
	OPTION(ring_memory, 0, 1ull << 40, 5,
	       "Bytes that all rings together may grow by with their traffic, beyond the first 32 KiB "
	       "of each"),
	OPTION(eager_limit, 64, 1 << 24, 4,
	       "Messages up to this many bytes are copied through the ring; longer ones are fetched "
	       "by the receiver"),
	OPTION(share_min, 4096, UINT64_MAX, 5,
	       "Transfers of at least this many bytes are moved from both ends by both processes"),
	OPTION(run_max, 4096, 1 << 30, 7,
	       "Most bytes of one transfer moved by one call of the progress function"),
	OPTION(block_size, 4096, RESOLVER_MOST, 7,
	       "Bytes of a block, the unit of faults and retransmission; a power of two"),
	OPTION(single_copy, 0, 1, 3,
	       "1: move transfers with process_vm_readv/writev where the kernel permits it; "
	       "0: always through the ring"),
	CHOICE(transport, transports, 3,
	       "What moves transfers: auto (/dev/exanest where it reaches the peer, else host), host "
	       "(process_vm_readv/writev or the ring), device (/dev/exanest or nothing)"),
	CHOICE(mode, modes, 4,
	       "What is done to a buffer before a transfer: fault (nothing), prefault (touch it), "
	       "pin (lock it in memory for the transfer), pin-cache (and leave it locked); for "
	       "comparison"),
	CHOICE(policy, policies, 5,
	       "How absent pages are brought in: touch (the block), ahead (and a growing window "
	       "behind it), huge (as huge pages where a transfer covers them), adaptive"),
	OPTION(residency, 0, 1000000, 6,
	       "Microseconds for which memory that was found present is trusted to be so; 0: look "
	       "before every copy"),
	OPTION(fault_retries, 1, 1000, 6,
	       "How often one block's fault is resolved before its transfer fails"),
	OPTION(resolve_share, 1, 100, 6,
	       "Percent of a processor that bringing pages in may take from a process that keeps "
	       "moving other blocks; one that has nothing else to do gives all"),
	OPTION(collapse, 0, UINT64_MAX, 5,
	       "Bytes moved within 2 MiB of a buffer before those are made one huge page, in the "
	       "background and without more memory; 0: never"),
	OPTION(idle_polls, 0, UINT64_MAX, 5,
	       "Empty calls of the progress function in a row, without work of the application "
	       "between them, before it sleeps until a message arrives; 0: never sleep"),
	OPTION(idle_sleep, 1, 10000000, 6, "Longest such sleep in microseconds"),
	OPTION(threads, 0, 1, 9, "1: several threads may use the context at the same time"),
	OPTION(calibrate, 0, 1, 6,
	       "1: thresholds not set otherwise come from this machine's calibration file"),
	CHOICE(network, networks, 4,
	       "When the network (UDP) is used: off, remote (to processes that shared memory does "
	       "not reach), always (for comparison)"),
	CHOICE(auth, auths, 4,
	       "What protects packets between hosts: header (a keyed hash over all but the moved "
	       "bytes), full (over those too), encrypt; the same for all processes of a job"),
	CHOICE(net_fault, net_faults, 6,
	       "What becomes of a block from another host whose page is absent: nack (it is asked "
	       "for again), backup (it is kept meanwhile)"),
	OPTION(backup_ring, 0, 1ull << 32, 6,
	       "Bytes of memory in which blocks are kept that wait for their pages, with net_fault "
	       "backup"),
	OPTION(socket_buffer, 4096, 1 << 30, 6,
	       "Bytes that the system is asked to keep of packets sent and received, for each "
	       "network address and direction"),
	OPTION(peer_timeout, 1, 1000000, 4,
	       "Seconds of silence after which a process on another host is taken for dead; one "
	       "that computes is not silent, one that is stopped is"),
	{ .name = NULL },
};

static const pf_text_info text_table[] = {
	{ "if_include",
	  "Network interfaces to use: names and networks in CIDR notation, separated by commas; "
	  "none: those that are up and lead to other hosts",
	  offsetof(pf_options, if_include), 2 },
	{ "if_exclude",
	  "Network interfaces not to use, as in if_include; of no effect together with it",
	  offsetof(pf_options, if_exclude), 2 },
	{ .name = NULL },
};

static const pf_options defaults = {
	.ring_size = 256 << 10,
	.ring_memory = 4 << 20,
	.eager_limit = 4096,
	.share_min = 64 << 10,
	.run_max = 512 << 10,
	.block_size = 16 << 10, /* ExaNeSt's block */
	.single_copy = 1,
	.transport = PF_TRANSPORT_AUTO,
	.mode = PF_MODE_FAULT,
	.policy = PF_POLICY_ADAPTIVE,
	.residency = 10000,
	.fault_retries = 64,
	.resolve_share = 1,
	.collapse = 32 << 20,
	.idle_polls = 0,
	.idle_sleep = 1000,
	.threads = 0,
	.calibrate = 1,
	.network = PF_NETWORK_REMOTE,
	.auth = PF_AUTH_HEADER,
	.net_fault = PF_NET_FAULT_NACK,
	.backup_ring = 1 << 20,
	.socket_buffer = 8 << 20,
	.peer_timeout = 120,
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

static bool find_name(const pf_option_info *info, const char *text, uint64_t *value)
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

	if (!find_name(info, text, &parsed) && !number_parse(text, &parsed))
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
		snprintf(buffer, size, "from %llu to %llu", (unsigned long long)info->minimum,
			 (unsigned long long)info->maximum);
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

static const char *environment(const char *option)
{
	char name[64];
	size_t i;

	snprintf(name, sizeof(name), "PF_%s", option);
	for (i = 0; name[i]; i++)
		name[i] = (char)toupper((unsigned char)name[i]);
	return getenv(name);
}

/* The first variable in error is the culprit; none keeps the others from counting. */
static int read_environment(pf_options *options, const pf_option_info **culprit)
{
	const pf_text_info *text_info;
	const pf_option_info *info;
	int status = PF_OK;

	for (text_info = text_table; text_info->name; text_info++)
		*option_text(options, text_info) = environment(text_info->name);
	for (info = table; info->name; info++) {
		const char *text = environment(info->name);

		if (!text || option_parse(info, text, option_field(options, info)))
			continue;
		if (culprit && status == PF_OK)
			*culprit = info;
		status = PF_ERR_ARGUMENT;
	}
	return status;
}

int pf_options_init(pf_options *options, const pf_option_info **culprit)
{
	int status;

	*options = defaults;
	status = read_environment(options, culprit);
	/* Calibration lies below the environment, which alone says whether to look at it. */
	if (options->calibrate && calibration_read(options) == PF_OK)
		status = read_environment(options, culprit);
	return status;
}
