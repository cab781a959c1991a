/* SPDX-License-Identifier: BSD-3-Clause */
#include "info.h"

#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/calibration.h"
#include "pair.h"
#include "pattern.h"

#define CAP_SYS_PTRACE_BIT 19 /* linux/capability.h */

static bool capable_of(const struct info *info, const char *name)
{
	int i;

	for (i = 0; i < info->capability_count; i++) {
		if (!strcmp(info->capabilities[i].name, name))
			return info->capabilities[i].available;
	}
	return false;
}

/* ---- what the kernel thinks of copying from another process ---- */

static __attribute__((format(printf, 3, 4))) void permission(struct info *info, const char *name,
							     const char *format, ...)
{
	struct permission *entry = &info->permissions[info->permission_count++];
	va_list args;

	entry->name = name;
	va_start(args, format);
	vsnprintf(entry->detail, sizeof(entry->detail), format, args);
	va_end(args);
}

/* The rest of the first line of a file that starts with key; "" if there is none. */
static void read_line(const char *path, const char *key, char *value, size_t size)
{
	FILE *file = fopen(path, "re");
	char line[256];
	size_t length = strlen(key);

	value[0] = 0;
	while (file && !value[0] && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, key, length))
			snprintf(value, size, "%s", line + length + strspn(line + length, " \t"));
	}
	if (file)
		fclose(file);
}

static bool has_ptrace_capability(void)
{
	char text[64];

	read_line("/proc/self/status", "CapEff:", text, sizeof(text));
	return strtoull(text, NULL, 16) >> CAP_SYS_PTRACE_BIT & 1;
}

static void yama(struct info *info)
{
	static const char name[] = "Yama";
	char text[32];
	long scope;

	read_line("/proc/sys/kernel/yama/ptrace_scope", "", text, sizeof(text));
	scope = text[0] ? strtol(text, NULL, 10) : -1;
	switch (scope) {
	case -1:
		permission(info, name, "not in this kernel: it forbids nothing");
		break;
	case 0:
		permission(info, name, "kernel.yama.ptrace_scope = 0: forbids nothing");
		break;
	case 1:
	case 2:
		permission(info, name,
			   "kernel.yama.ptrace_scope = %ld: %s; sysctl kernel.yama.ptrace_scope=0 "
			   "permits it",
			   scope,
			   has_ptrace_capability() ? "forbids nothing to CAP_SYS_PTRACE" :
						     "only CAP_SYS_PTRACE or a debugger may copy");
		break;
	default:
		permission(info, name,
			   "kernel.yama.ptrace_scope = %ld: nobody may copy until the next boot",
			   scope);
	}
}

static void seccomp(struct info *info)
{
	char mode[32];

	read_line("/proc/self/status", "Seccomp:", mode, sizeof(mode));
	if (!strcmp(mode, "0") || !mode[0])
		permission(info, "seccomp", "no filter");
	else if (capable_of(info, "single copy"))
		permission(info, "seccomp", "a filter, which lets process_vm_readv pass");
	else
		permission(info, "seccomp",
			   "a filter, which may forbid process_vm_readv; containers lift it with "
			   "--cap-add=SYS_PTRACE or --security-opt seccomp=unconfined");
}

static void user_namespace(struct info *info)
{
	char map[128], *end;
	unsigned long inside, outside, count;

	/* Only the first one maps all numbers to themselves. */
	read_line("/proc/self/uid_map", "", map, sizeof(map));
	inside = strtoul(map, &end, 10);
	outside = strtoul(end, &end, 10);
	count = strtoul(end, &end, 10);
	if (!inside && !outside && count == UINT32_MAX)
		permission(info, "user namespace", "the first one: forbids nothing");
	else
		permission(
			info, "user namespace",
			"one of its own: processes outside it cannot be copied from, nor those in "
			"another container");
}

static void gather_permissions(struct info *info)
{
	permission(info, "user", "uid %u%s; single copy needs the same uid and gid on both sides",
		   (unsigned)geteuid(), has_ptrace_capability() ? ", with CAP_SYS_PTRACE" : "");
	yama(info);
	seccomp(info);
	user_namespace(info);
}

/* ---- which way bytes will go ---- */

static __attribute__((format(printf, 3, 4))) void path(struct info *info, const char *what,
						       const char *format, ...)
{
	struct path *entry = &info->paths[info->path_count++];
	va_list args;

	entry->what = what;
	va_start(args, format);
	vsnprintf(entry->how, sizeof(entry->how), format, args);
	va_end(args);
}

/* The text of a capability that is missing, or "". */
static const char *why_not(const struct info *info, const char *name)
{
	int i;

	for (i = 0; i < info->capability_count; i++)
		if (!strcmp(info->capabilities[i].name, name))
			return info->capabilities[i].available ? "" : info->capabilities[i].detail;
	return "";
}

static void host_paths(struct info *info, bool permitted)
{
	const pf_options *options = &info->origins.in_force;
	unsigned long long share = options->share_min;

	if (permitted && options->single_copy) {
		path(info, "short transfers",
		     "below %llu bytes: single copy, by the caller at once", share);
		path(info, "long transfers",
		     "from %llu bytes: single copy from both ends while the peer polls, else from one",
		     share);
	} else {
		path(info, "transfers", "through the ring: %s",
		     permitted ? "single_copy is 0" : "single copy is not available");
	}
	path(info, "atomics", "executed by the peer in its pf_progress");
}

static void device_paths(struct info *info, bool copies)
{
	const pf_options *options = &info->origins.in_force;
	unsigned long long block = options->block_size;

	if (copies) {
		path(info, "short transfers",
		     "below %llu bytes: single copy, by the caller at once", block);
		path(info, "long transfers", "from %llu bytes: by the engine of /dev/exanest",
		     block);
	} else {
		path(info, "transfers", "by the engine of /dev/exanest");
	}
	path(info, "atomics", "executed by the engine of /dev/exanest");
}

/* What is between two processes of one job on this host, and why. */
static void gather_paths(struct info *info)
{
	const pf_options *options = &info->origins.in_force;
	unsigned long long ring = options->ring_size;
	bool permitted = capable_of(info, "single copy");
	bool device = capable_of(info, "/dev/exanest");
	bool automatic = options->transport == PF_TRANSPORT_AUTO;

	path(info, "messages",
	     "a ring in shared memory for each direction, which grows up to %llu bytes", ring);
	if (options->transport == PF_TRANSPORT_DEVICE && !device)
		path(info, "transfers", "none: transport is device, and %s",
		     why_not(info, "/dev/exanest"));
	else if (device &&
		 (options->transport == PF_TRANSPORT_DEVICE || (automatic && options->single_copy)))
		device_paths(info, automatic && permitted);
	else
		host_paths(info, permitted);
	if (options->transport == PF_TRANSPORT_HOST)
		path(info, "/dev/exanest", "not used: transport is host");
	else if (!device && automatic)
		path(info, "/dev/exanest", "not used: %s", why_not(info, "/dev/exanest"));
	else if (automatic && !options->single_copy)
		path(info, "/dev/exanest", "not used: single_copy is 0");
	path(info, "faults", "%s",
	     capable_of(info, "fault resolution") ?
		     "resolved by the process that owns the page, then the block is sent again" :
		     "cannot be resolved here: a transfer that meets an absent page fails");
	path(info, "idle processes", "%s",
	     options->idle_polls ? "sleep after idle_polls empty polls" :
				   "poll without sleep, because idle_polls is 0");
	path(info, "other hosts", "not reachable by this version");
}

/* ---- the calibration file ---- */

static __attribute__((format(printf, 3, 4))) void calibration(struct info *info, const char *state,
							      const char *format, ...)
{
	va_list args;

	info->calibration = state;
	va_start(args, format);
	vsnprintf(info->calibration_detail, sizeof(info->calibration_detail), format, args);
	va_end(args);
}

static void gather_calibration(struct info *info)
{
	const struct origins *origins = &info->origins;

	pf_calibration_path(info->calibration_path, sizeof(info->calibration_path));
	pf_calibration_machine(info->machine, sizeof(info->machine));
	switch (origins->calibration) {
	case PF_OK:
		if (origins->in_force.calibrate)
			calibration(info, "in force", "below PF_* environment variables");
		else
			calibration(info, "ignored", "PF_CALIBRATE is 0");
		break;
	case PF_ERR_REFUSED:
		calibration(
			info, "ignored",
			"it was made on another machine or kernel; pf_perf --calibrate replaces it");
		break;
	case PF_ERR_ARGUMENT:
		calibration(info, "ignored", "it is malformed; pf_perf --calibrate replaces it");
		break;
	default:
		if (origins->calibration_errno == ENOENT || !origins->calibration_errno)
			calibration(info, "none", "defaults hold; pf_perf --calibrate makes it");
		else
			calibration(info, "ignored", "it cannot be read: %s",
				    strerror(origins->calibration_errno));
	}
}

/* ---- a real pair of processes ---- */

static int ask_partner(struct pair *pair, struct live *live)
{
	struct control path = { .kind = CONTROL_PATH };
	struct control shared = { .kind = CONTROL_STATISTIC, .seed = PF_STAT_SHARED_BYTES };

	if (pair_ask(pair, &path) || pair_ask(pair, &shared))
		return -1;
	snprintf(live->partner_path, sizeof(live->partner_path), "%s", path.text);
	live->shared_bytes = shared.length;
	return 0;
}

/* One put and one get of length, contents verified on the side where they arrive. */
static int move(struct pair *pair, uint8_t *buffer, size_t length)
{
	uint64_t remote, wrong;

	if (pair_prepare(pair, length, length, 1, 1, false, &remote))
		return -1;
	pattern_fill(buffer, length, 2);
	pair->completed = 0;
	if (pair_posted(pair, "pf_put",
			pf_put(pair->peer, buffer, remote, length, pair_complete, pair)) ||
	    pair_wait(pair, &pair->completed, 1) || pair_check(pair, length, length, 1, 2, &wrong))
		return -1;
	memset(buffer, 0, length);
	if (pair_posted(pair, "pf_get",
			pf_get(pair->peer, buffer, remote, length, pair_complete, pair)) ||
	    pair_wait(pair, &pair->completed, 2))
		return -1;
	if (!wrong && pattern_matches(buffer, length, 2))
		return 0;
	warnx("wrong contents after a %s of %zu bytes", wrong ? "put" : "get", length);
	return -1;
}

static int gather_live(struct info *info)
{
	struct live *live = &info->live;
	struct pair pair;
	uint8_t *buffer;
	int status = -1;

	live->length = 4 << 20;
	if (pair_fork(&pair, &info->origins.in_force, &info->cores))
		return -1;
	buffer = pair_buffer(live->length);
	if (!buffer || move(&pair, buffer, live->length) || ask_partner(&pair, live))
		goto out;
	snprintf(live->path, sizeof(live->path), "%s", pf_peer_path(pair.peer));
	live->single_copy_bytes = pf_stat(pair.context, PF_STAT_SINGLE_COPY_BYTES);
	live->stream_bytes = pf_stat(pair.context, PF_STAT_STREAM_BYTES);
	status = 0;
out:
	if (buffer)
		munmap(buffer, live->length);
	return pair_close(&pair) ? -1 : status;
}

int info_gather(struct info *info, unsigned sections)
{
	const int most = sizeof(info->capabilities) / sizeof(info->capabilities[0]);

	memset(info, 0, sizeof(*info));
	if (sections & (SECTION_CAPABILITIES | SECTION_PERMISSIONS | SECTION_PATHS))
		info->capability_count = pf_capabilities(info->capabilities, most);
	origins_load(&info->origins);
	gather_permissions(info);
	gather_paths(info);
	gather_calibration(info);
	if (sections & SECTION_TOPOLOGY && topology_load(&info->topology))
		return -1;
	if (sections & (SECTION_TOPOLOGY | SECTION_LIVE) && cores_choose(&info->cores))
		return -1;
	if (sections & SECTION_LIVE)
		return gather_live(info);
	return 0;
}
