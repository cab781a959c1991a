/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Moving bytes by a processor: between the pages of both sides of a descriptor,
 * through the kernel's own mapping of all memory.
 */
#ifndef EXANEST_MOVE_H
#define EXANEST_MOVE_H

struct exanest_descriptor;
struct exanest_result;

/* Move what can be moved. The result is as engine.h says, without a tag. Does not sleep. */
void exanest_move(const struct exanest_descriptor *descriptor, struct exanest_result *result);

#endif
