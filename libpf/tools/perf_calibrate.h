/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_perf --calibrate: find thresholds by measurements between two cores. A default stays unless
 * another value is better by more than 5 % and the noise.
 */
#ifndef TOOLS_PERF_CALIBRATE_H
#define TOOLS_PERF_CALIBRATE_H

#include <stdbool.h>

#include "topology.h"

/*
 * Measure between the given cores and, if distances is set, the threshold of every further distance
 * between cores of the machine. Print the results, and write the calibration file unless show is
 * set. Without force, leave out an option with figures disturbed by running programs. Returns 0, or
 * -1 with a message on standard error.
 */
int calibrate(const struct cores *cores, bool distances, bool show, bool force);

#endif
