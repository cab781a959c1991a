/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of processors by the distance of libpf. */
#ifndef TOOLS_DISTANCE_H
#define TOOLS_DISTANCE_H

#include "base/location.h"
#include "topology.h"

/*
 * Find two usable processors for each distance; CORE_ANY where there are none. Returns 0, or -1
 * with a message on standard error.
 */
int cores_by_distance(struct cores pairs[DISTANCES]);
/* Distance of two processors; neither is CORE_ANY. */
enum distance cores_distance(const struct cores *cores);

#endif
