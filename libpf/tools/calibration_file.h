/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing the file that the library's calibration.h reads. */
#ifndef TOOLS_CALIBRATION_FILE_H
#define TOOLS_CALIBRATION_FILE_H

#include <stdint.h>

#include "pf.h"

struct calibration_entry {
	const pf_option_info *info;
	uint64_t value;
};

/* Could calibration_write do its work? Returns 0, or -1 after a message on standard error. */
int calibration_writable(void);

/*
 * Replace this machine's file at once, its folders made if need be, and say
 * on standard output where it is. The same.
 */
int calibration_write(const struct calibration_entry *entries, unsigned count);

#endif
