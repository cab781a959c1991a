/* SPDX-License-Identifier: BSD-3-Clause */
#include "info.h"

static const char *capability_detail(const struct info *info, const char *name)
{
	const pf_capability *capability = info_capability(info, name);

	return capability ? capability->detail : "libpf does not know it";
}

static void print_short_transfers(bool json, unsigned long long limit)
{
	row_print(json, "short transfers", "below %llu bytes: single copy by the caller", limit);
}

static void print_host_transfers(const struct info *info, bool json, bool copies)
{
	unsigned long long share_min = info->origins.in_force.share_min;

	if (copies) {
		print_short_transfers(json, share_min);
		row_print(
			json, "long transfers",
			"from %llu bytes: single copy by both processes while the peer polls, else "
			"by the caller",
			share_min);
	} else {
		row_print(json, "transfers", "through the ring: %s",
			  info_is_available(info, "single copy") ? "single_copy is 0" :
								   "single copy is not available");
	}
	row_print(json, "atomics", "by the peer, in its calls of pf_progress");
}

static void print_device_transfers(const struct info *info, bool json, bool copies)
{
	unsigned long long block_size = info->origins.in_force.block_size;

	if (copies) {
		print_short_transfers(json, block_size);
		row_print(json, "long transfers", "from %llu bytes: by the engine of /dev/exanest",
			  block_size);
	} else {
		row_print(json, "transfers", "by the engine of /dev/exanest");
	}
	row_print(json, "atomics", "by the engine of /dev/exanest");
}

/* Paths between processes of this host without the network. */
static void print_host(const struct info *info, bool json)
{
	const pf_options *options = &info->origins.in_force;
	bool copies = options->single_copy && info_is_available(info, "single copy");
	bool device = info_is_available(info, "/dev/exanest");
	const char *not_used = NULL;

	row_print(json, "messages",
		  "a ring in shared memory for each direction, of up to %llu bytes",
		  (unsigned long long)options->ring_size);
	if (options->transport == PF_TRANSPORT_HOST)
		not_used = "transport is host";
	else if (!device)
		not_used = capability_detail(info, "/dev/exanest");
	else if (options->transport == PF_TRANSPORT_AUTO && !options->single_copy)
		not_used = "single_copy is 0";

	if (!not_used)
		print_device_transfers(info, json,
				       copies && options->transport == PF_TRANSPORT_AUTO);
	else if (options->transport == PF_TRANSPORT_DEVICE)
		row_print(json, "transfers", "none: transport is device, and %s", not_used);
	else
		print_host_transfers(info, json, copies);
	if (not_used && options->transport != PF_TRANSPORT_DEVICE)
		row_print(json, "/dev/exanest", "not used: %s", not_used);
}

static void print_network(const struct info *info, bool json, const char *name)
{
	row_print(json, name, "messages, transfers and atomics in UDP packets, over %s",
		  capability_detail(info, "network"));
}

void info_print_paths(const struct info *info, bool json)
{
	const pf_options *options = &info->origins.in_force;
	bool network = info_is_available(info, "network");

	if (network && options->network == PF_NETWORK_ALWAYS)
		print_network(info, json, "this host");
	else
		print_host(info, json);
	if (network)
		print_network(info, json, "other hosts");
	else
		row_print(json, "other hosts", "not reachable: %s",
			  capability_detail(info, "network"));
	row_print(
		json, "faults", "%s",
		info_is_available(info, "fault resolution") ?
			"resolved by the process that owns the page; then the block is retransmitted" :
			"cannot be resolved: a transfer that meets an absent page fails");
	row_print(json, "a sleep in pf_wait", "%s",
		  options->wake ? "is ended at once by processes of this host" :
				  "lasts a millisecond at a time: wake is 0");
	row_print(
		json, "Open MPI", "%s",
		"mpirun --mca btl exanest,self; in jobs that name no transport, from Open MPI 5.0 "
		"on: smsc_exanest_priority = 40 in its file of parameters");
}
