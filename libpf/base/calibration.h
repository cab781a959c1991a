/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calibration file: values of options that pf_perf --calibrate measured on
 * this machine. This is the file and its heading; options.h reads the values.
 */
#ifndef PF_CALIBRATION_H
#define PF_CALIBRATION_H

#include <stdio.h>

#include "pf.h"

#define CALIBRATION_TITLE "# libpf calibration 2"

/* One line that names what the measurements depend on: processor, number of cores, kernel. */
void pf_calibration_machine(char *buffer, size_t size);
/* The processor of a text in the format of /proc/cpuinfo. */
void calibration_processor(FILE *cpuinfo, char *buffer, size_t size);

/*
 * Open the file behind its heading. Returns PF_OK, PF_ERR_SYSTEM (no file; errno is
 * kept), PF_ERR_ARGUMENT (no heading) or PF_ERR_REFUSED (made on another machine).
 */
int calibration_open(FILE **file);

#endif
