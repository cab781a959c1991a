/* SPDX-License-Identifier: BSD-3-Clause */
/* Writer of the file of base/calibration.h. */
#ifndef TOOLS_CALIBRATION_FILE_H
#define TOOLS_CALIBRATION_FILE_H

#include <stdint.h>

#include "base/location.h"
#include <libpf/pf.h>

struct calibration_entry {
	const pf_option_info *info;
	enum distance
		distance; /* distance of the processors; DISTANCE_UNKNOWN: distances without a value */
	uint64_t value;
};

/* Store "share_min" or "share_min.other_node". */
void calibration_entry_name(const struct calibration_entry *entry, char *buffer, size_t size);
/* Check that the file can be written. Returns 0, or -1 with a message on standard error. */
int calibration_writable(void);

/*
 * Replace this machine's file atomically, make missing folders, and print the file's path on
 * standard output. Returns 0, or -1 with a message on standard error.
 */
int calibration_write(const struct calibration_entry *entries, unsigned count);

#endif
