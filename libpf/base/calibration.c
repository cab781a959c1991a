/* SPDX-License-Identifier: BSD-3-Clause */
#include "calibration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "options.h"

static void processor_name(char *buffer, size_t size)
{
	FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(buffer, size, "unknown processor");
	if (!cpuinfo)
		return;
	/* Virtual machines show one name for many processors: family and model tell them apart. */
	size_t used = 0;

	while (fgets(line, sizeof(line), cpuinfo) && line[0] != '\n') {
		char *value = strchr(line, ':');

		if (!value || (strncmp(line, "cpu family", 10) && strncmp(line, "model", 5) &&
			       strncmp(line, "vendor_id", 9)))
			continue;
		value += 1 + (value[1] == ' ');
		value[strcspn(value, "\n")] = 0;
		if (used < size)
			used += (size_t)snprintf(buffer + used, size - used, "%s%s",
						 used ? " " : "", value);
	}
	fclose(cpuinfo);
}

void pf_calibration_machine(char *buffer, size_t size)
{
	char processor[192];
	struct utsname system;

	processor_name(processor, sizeof(processor));
	if (uname(&system) < 0)
		snprintf(system.release, sizeof(system.release), "unknown");
	snprintf(buffer, size, "%s, %ld cores, Linux %s", processor, sysconf(_SC_NPROCESSORS_ONLN),
		 system.release);
}

int pf_calibration_path(char *buffer, size_t size)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (cache && cache[0] == '/')
		return snprintf(buffer, size, "%s/libpf/calibration", cache);
	return snprintf(buffer, size, "%s/.cache/libpf/calibration", home ? home : "");
}

/* One "name = value" line into *options; false if it is malformed. */
static bool apply(char *line, pf_options *options)
{
	const pf_option_info *info;
	uint64_t unknown;
	char name[32], text[32], rest[2];

	if (sscanf(line, "%31s = %31s %1s", name, text, rest) != 2)
		return false;
	for (info = pf_option_table(); info->name; info++) {
		if (!strcmp(info->name, name))
			return option_parse(info, text, option_field(options, info));
	}
	/* An option of another version. */
	return number_parse(text, &unknown);
}

int calibration_read(pf_options *options)
{
	char path[4096], machine[320], line[512];
	pf_options read = *options;
	int status = PF_ERR_ARGUMENT;
	FILE *file;

	if ((size_t)pf_calibration_path(path, sizeof(path)) >= sizeof(path))
		return PF_ERR_SYSTEM;
	file = fopen(path, "re");
	if (!file)
		return PF_ERR_SYSTEM;
	if (!fgets(line, sizeof(line), file) ||
	    strncmp(line, CALIBRATION_TITLE "\n", sizeof(CALIBRATION_TITLE)))
		goto out;
	if (!fgets(line, sizeof(line), file) || strncmp(line, "machine = ", 10))
		goto out;
	line[strcspn(line, "\n")] = 0;
	pf_calibration_machine(machine, sizeof(machine));
	if (strcmp(line + 10, machine)) {
		status = PF_ERR_REFUSED;
		goto out;
	}
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!apply(line, &read))
			goto out;
	}
	*options = read;
	status = PF_OK;
out:
	fclose(file);
	return status;
}
