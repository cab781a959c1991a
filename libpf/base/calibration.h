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

/* The file for all users of a machine, for those who have none of this machine; the tests change it. */
extern const char *calibration_system;

/* Store the path of the user's file, which pf_perf --calibrate writes, as pf_calibration_path does. */
int calibration_user_path(char *buffer, size_t size);
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
