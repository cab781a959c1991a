/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/calibration.h"
#include "info.h"

/* Return the state of the calibration file. detail: its meaning or the remedy. */
static const char *calibration_describe(const struct origins *origins, char *detail, size_t size)
{
	switch (origins->calibration) {
	case PF_OK:
		if (origins->in_force.calibrate) {
			snprintf(detail, size, "LIBPF_* environment variables override it");
			return "in force";
		}
		snprintf(detail, size, "LIBPF_CALIBRATE is 0");
		break;
	case PF_ERR_REFUSED:
		snprintf(
			detail, size,
			"it was made on another machine or kernel; pf_perf --calibrate replaces it");
		break;
	case PF_ERR_ARGUMENT:
		snprintf(detail, size, "it is malformed; pf_perf --calibrate replaces it");
		break;
	default:
		if (origins->calibration_errno == ENOENT || !origins->calibration_errno) {
			snprintf(detail, size,
				 "the defaults are in force; pf_perf --calibrate makes the file");
			return "none";
		}
		snprintf(detail, size, "it cannot be read: %s",
			 strerror(origins->calibration_errno));
	}
	return "ignored";
}

void info_print_calibration(const struct info *info, bool json)
{
	char path[4096], machine[512], detail[256];
	const char *state = calibration_describe(&info->origins, detail, sizeof(detail));

	pf_calibration_path(path, sizeof(path));
	pf_calibration_machine(machine, sizeof(machine));
	row_print(json, "file", "%s", path);
	if (json) {
		row_print(json, "state", "%s", state);
		row_print(json, "detail", "%s", detail);
		row_print(json, "machine", "%s", machine);
	} else {
		row_print(json, "state", "%s: %s", state, detail);
		row_print(json, "this machine", "%s", machine);
	}
}
