/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calibration file: thresholds measured on this machine by
 * pf_perf --calibrate. A file made on another machine is ignored.
 */
#ifndef PF_CALIBRATION_H
#define PF_CALIBRATION_H

#include "pf.h"

#define CALIBRATION_TITLE "# libpf calibration 1"

/* One line that names what the measurements depend on: processor, cores, kernel. */
void pf_calibration_machine(char *buffer, size_t size);

/*
 * Overwrite the fields of *options that the file names. Returns PF_OK,
 * PF_ERR_SYSTEM when there is no file, PF_ERR_ARGUMENT when it is malformed,
 * PF_ERR_REFUSED when it is another machine's; *options is then unchanged.
 */
int calibration_read(pf_options *options);

#endif
