/* SPDX-License-Identifier: GPL-2.0 */
/* Commands: section 7.1 of engine.md. */
#ifndef SECOND_COMMAND_H
#define SECOND_COMMAND_H

#include "state.h"

void run_command_doorbell(struct engine *e);

#endif
