/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of the driver: engine.md, section 7.1. */
#ifndef MODEL_COMMAND_H
#define MODEL_COMMAND_H

#include "core.h"

struct exanest_engine_command;

/* Returns an enum exanest_command_status. */
uint32_t command_execute(struct core *core, const struct exanest_engine_command *command,
			 uint64_t now);

#endif
