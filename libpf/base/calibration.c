/* SPDX-License-Identifier: BSD-3-Clause */
#include "calibration.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/*
 * The lines of /proc/cpuinfo that tell kinds of processors apart: x86, where virtual machines
 * show a single model name for several models, and arm64 (MIDR_EL1).
 */
static const char *const processor_keys[] = {
	"vendor_id",       "cpu family",  "model",    "model name",
	"CPU implementer", "CPU variant", "CPU part", "CPU revision",
};

static bool names_processor(const char *key, size_t length)
{
	size_t i;

	for (i = 0; i < sizeof(processor_keys) / sizeof(processor_keys[0]); i++) {
		if (strlen(processor_keys[i]) == length && !memcmp(processor_keys[i], key, length))
			return true;
	}
	return false;
}

void calibration_processor(FILE *cpuinfo, char *buffer, size_t size)
{
	size_t used = 0, room = 0;
	char *line = NULL;

	snprintf(buffer, size, "unknown processor");
	/* The first processor stands for all. */
	while (getline(&line, &room, cpuinfo) > 0 && line[0] != '\n' && used < size) {
		char *colon = strchr(line, ':'), *value;
		size_t key = strcspn(line, "\t:");

		if (!colon || !names_processor(line, key))
			continue;
		value = colon + 1 + (colon[1] == ' ');
		value[strcspn(value, "\n")] = 0;
		used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? " " : "",
					 value);
	}
	free(line);
}

void pf_calibration_machine(char *buffer, size_t size)
{
	FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
	char processor[192] = "unknown processor";
	struct utsname system;

	if (cpuinfo) {
		calibration_processor(cpuinfo, processor, sizeof(processor));
		fclose(cpuinfo);
	}
	if (uname(&system) < 0)
		snprintf(system.release, sizeof(system.release), "unknown");
	snprintf(buffer, size, "%s, %ld cores, Linux %s", processor, sysconf(_SC_NPROCESSORS_ONLN),
		 system.release);
}

const char *calibration_system = "/etc/libpf/calibration";

int calibration_user_path(char *buffer, size_t size)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (cache && cache[0] == '/')
		return snprintf(buffer, size, "%s/libpf/calibration", cache);
	return snprintf(buffer, size, "%s/.cache/libpf/calibration", home ? home : "");
}

static int check_heading(FILE *file)
{
	char machine[320], line[512];

	if (!fgets(line, sizeof(line), file) ||
	    strncmp(line, CALIBRATION_TITLE "\n", sizeof(CALIBRATION_TITLE)))
		return PF_ERR_ARGUMENT;
	if (!fgets(line, sizeof(line), file) || strncmp(line, "machine = ", 10))
		return PF_ERR_ARGUMENT;
	line[strcspn(line, "\n")] = 0;
	pf_calibration_machine(machine, sizeof(machine));
	return strcmp(line + 10, machine) ? PF_ERR_REFUSED : PF_OK;
}

static int open_path(const char *path, FILE **result)
{
	FILE *file = fopen(path, "re");
	int status;

	if (!file)
		return PF_ERR_SYSTEM;
	status = check_heading(file);
	if (status == PF_OK)
		*result = file;
	else
		fclose(file);
	return status;
}

#define PATH_LONGEST 4096

/*
 * Open the user's file or, if the file is not of the present machine, the system's. path: its
 * path.
 */
static int open_either(char path[PATH_LONGEST], FILE **result)
{
	int status;

	if ((size_t)calibration_user_path(path, PATH_LONGEST) >= PATH_LONGEST)
		return PF_ERR_SYSTEM;
	status = open_path(path, result);
	if (status == PF_OK || open_path(calibration_system, result) != PF_OK)
		return status;
	snprintf(path, PATH_LONGEST, "%s", calibration_system);
	return PF_OK;
}

int calibration_find(char *buffer, size_t size, int *length)
{
	char path[PATH_LONGEST];
	FILE *file;
	int status = open_either(path, &file);

	if (status != PF_OK) {
		*length = calibration_user_path(buffer, size);
		return status;
	}
	fclose(file);
	*length = snprintf(buffer, size, "%s", path);
	return PF_OK;
}

int pf_calibration_path(char *buffer, size_t size)
{
	int length;

	(void)calibration_find(buffer, size, &length);
	return length;
}

int calibration_open(FILE **result)
{
	char path[PATH_LONGEST];

	return open_either(path, result);
}
