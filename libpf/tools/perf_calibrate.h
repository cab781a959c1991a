/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pf_perf --calibrate: thresholds from measurements between two cores. A
 * default is left as it is unless another value is better by more than 5 %
 * and the noise.
 */
#ifndef TOOLS_PERF_CALIBRATE_H
#define TOOLS_PERF_CALIBRATE_H

#include <stdbool.h>

#include "topology.h"

/*
 * Measure, print, and unless show, write the file. An option whose figures the
 * rest of the machine's work has spoilt is left out, unless force. Returns 0,
 * or -1 after a message on standard error.
 */
int calibrate(const struct cores *cores, bool show, bool force);

#endif
