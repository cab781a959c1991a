/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of processors by their distance, as libpf sees it. */
#ifndef TOOLS_DISTANCE_H
#define TOOLS_DISTANCE_H

#include "base/location.h"
#include "topology.h"

/*
 * For each distance, two processors that are so far apart, of those that this process may use;
 * CORE_ANY where there are none. Returns 0, or -1 with a message on standard error.
 */
int cores_by_distance(struct cores pairs[DISTANCES]);
/* Between the two processors, which are not CORE_ANY. */
enum distance cores_distance(const struct cores *cores);

#endif
