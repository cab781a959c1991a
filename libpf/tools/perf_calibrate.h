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
 * Measure between these cores and, if distances is set, also the threshold that depends on it for
 * every other distance between cores of this machine. Print the results, and write the calibration file unless show is set. Leave out an
 * option whose figures other programs have disturbed, unless force is set. Returns 0, or -1 with a
 * message on standard error.
 */
int calibrate(const struct cores *cores, bool distances, bool show, bool force);

#endif
