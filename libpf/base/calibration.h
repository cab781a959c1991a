/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calibration file: values of options measured by pf_perf --calibrate on the machine. Here
 * are the file and its heading; options.h reads the values.
 */
#ifndef PF_CALIBRATION_H
#define PF_CALIBRATION_H

#include <stdio.h>

#include <libpf/pf.h>

#define CALIBRATION_TITLE "# libpf calibration 2"

/*
 * The file for all users of a machine, used without a file of the user for the machine; the tests
 * change the path.
 */
extern const char *calibration_system;

/*
 * Store the path of the user's file, written by pf_perf --calibrate, as pf_calibration_path does.
 */
int calibration_user_path(char *buffer, size_t size);
/* Store a line with the conditions of the measurements: processor, number of cores, kernel. */
void pf_calibration_machine(char *buffer, size_t size);
/* The processor of a text in the format of /proc/cpuinfo. */
void calibration_processor(FILE *cpuinfo, char *buffer, size_t size);

/*
 * Open the file behind its heading. Returns PF_OK, PF_ERR_SYSTEM (no file; errno is
 * kept), PF_ERR_ARGUMENT (no heading) or PF_ERR_REFUSED (made on another machine).
 */
int calibration_open(FILE **file);
/*
 * Store the path, and the length in *length, as pf_calibration_path does. Returns as
 * calibration_open does.
 */
int calibration_find(char *buffer, size_t size, int *length);

#endif
