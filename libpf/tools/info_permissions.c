/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "info.h"

#define CAP_SYS_PTRACE_BIT 19 /* linux/capability.h */

/* Copy the rest of the first line that begins with key; "" without such a line. */
static void permissions_read_line(const char *path, const char *key, char *value, size_t size)
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

	permissions_read_line("/proc/self/status", "CapEff:", text, sizeof(text));
	return strtoull(text, NULL, 16) >> CAP_SYS_PTRACE_BIT & 1;
}

static void print_yama(bool json)
{
	char text[32];
	long scope;

	permissions_read_line("/proc/sys/kernel/yama/ptrace_scope", "", text, sizeof(text));
	scope = strtol(text, NULL, 10);
	if (!text[0])
		row_print(json, "Yama", "not in this kernel: no restriction");
	else if (scope == 0)
		row_print(json, "Yama", "kernel.yama.ptrace_scope = 0: no restriction");
	else if (scope > 2)
		row_print(json, "Yama",
			  "kernel.yama.ptrace_scope = %ld: no process may copy until the next boot",
			  scope);
	else if (has_ptrace_capability())
		row_print(json, "Yama",
			  "kernel.yama.ptrace_scope = %ld: no restriction with CAP_SYS_PTRACE",
			  scope);
	else if (scope == 1)
		row_print(
			json, "Yama",
			"kernel.yama.ptrace_scope = 1: each process permits copies to those that its "
			"launcher started (option ptracer)");
	else
		row_print(json, "Yama",
			  "kernel.yama.ptrace_scope = %ld: only a process with CAP_SYS_PTRACE may "
			  "copy; with 0 or 1 processes of the user may",
			  scope);
}

static void print_seccomp(const struct info *info, bool json)
{
	char mode[32];

	permissions_read_line("/proc/self/status", "Seccomp:", mode, sizeof(mode));
	if (!strcmp(mode, "0") || !mode[0])
		row_print(json, "seccomp", "no filter");
	else if (info_is_available(info, "single copy"))
		row_print(json, "seccomp", "a filter, which permits process_vm_readv");
	else
		row_print(json, "seccomp",
			  "a filter, which may forbid process_vm_readv; start the container with "
			  "--cap-add=SYS_PTRACE or --security-opt seccomp=unconfined");
}

static void print_user_namespace(bool json)
{
	char map[128], *end;
	unsigned long inside, outside, count;

	/* Only the initial namespace maps all user ids to themselves. */
	permissions_read_line("/proc/self/uid_map", "", map, sizeof(map));
	inside = strtoul(map, &end, 10);
	outside = strtoul(end, &end, 10);
	count = strtoul(end, &end, 10);
	row_print(json, "user namespace", "%s",
		  !inside && !outside && count == UINT32_MAX ?
			  "the initial one: no restriction" :
			  "not the initial one: processes of other user namespaces, for example of "
			  "another container, cannot be copied from");
}

void info_print_permissions(const struct info *info, bool json)
{
	row_print(json, "user", "uid %u%s; single copy needs the same uid and gid on both sides",
		  (unsigned)geteuid(), has_ptrace_capability() ? ", with CAP_SYS_PTRACE" : "");
	print_yama(json);
	print_seccomp(info, json);
	print_user_namespace(json);
}
