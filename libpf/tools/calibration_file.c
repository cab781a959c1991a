/* SPDX-License-Identifier: BSD-3-Clause */
#include "calibration_file.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/calibration.h"

static int make_folders(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST) {
			warn("%s", path);
			return -1;
		}
		*slash = '/';
	}
	return 0;
}

/* Open a temporary file to replace path. Returns the descriptor, or -1 after a message. */
static int open_temporary(char path[PATH_MAX], char temporary[PATH_MAX + 8])
{
	int descriptor;

	if (calibration_user_path(path, PATH_MAX) >= PATH_MAX) {
		warnx("the calibration file's path is too long");
		return -1;
	}
	if (make_folders(path))
		return -1;
	snprintf(temporary, PATH_MAX + 8, "%s.XXXXXX", path);
	descriptor = mkostemp(temporary, O_CLOEXEC);
	if (descriptor < 0)
		warn("%s", temporary);
	return descriptor;
}

int calibration_writable(void)
{
	char path[PATH_MAX], temporary[PATH_MAX + 8];
	int descriptor = open_temporary(path, temporary);

	if (descriptor < 0)
		return -1;
	close(descriptor);
	unlink(temporary);
	return 0;
}

void calibration_entry_name(const struct calibration_entry *entry, char *buffer, size_t size)
{
	const char *distance = distance_name(entry->distance);

	snprintf(buffer, size, "%s%s%s", entry->info->name, distance ? "." : "",
		 distance ? distance : "");
}

static int calibration_print(FILE *file, const struct calibration_entry *entries, unsigned count)
{
	char machine[512], name[64];
	unsigned i;

	pf_calibration_machine(machine, sizeof(machine));
	fprintf(file, "%s\nmachine = %s\n", CALIBRATION_TITLE, machine);
	fprintf(file,
		"# Measured by pf_perf --calibrate. Without this file libpf uses its defaults.\n");
	for (i = 0; i < count; i++) {
		calibration_entry_name(&entries[i], name, sizeof(name));
		fprintf(file, "%s = %llu\n", name, (unsigned long long)entries[i].value);
	}
	return fflush(file) || ferror(file) || fsync(fileno(file)) || fchmod(fileno(file), 0644) ?
		       -1 :
		       0;
}

int calibration_write(const struct calibration_entry *entries, unsigned count)
{
	char path[PATH_MAX], temporary[PATH_MAX + 8];
	int descriptor = open_temporary(path, temporary), status = -1;
	FILE *file;

	if (descriptor < 0)
		return -1;
	file = fdopen(descriptor, "w");
	if (file) {
		status = calibration_print(file, entries, count);
		fclose(file);
	} else {
		close(descriptor);
	}
	if (!status)
		status = rename(temporary, path);
	if (status) {
		warn("%s", path);
		unlink(temporary);
		return -1;
	}
	printf("\nwritten to %s\n", path);
	return 0;
}
