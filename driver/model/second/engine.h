/* SPDX-License-Identifier: GPL-2.0 */
/* The engine: power on, enable, reset. */
#ifndef SECOND_ENGINE_H
#define SECOND_ENGINE_H

#include "state.h"

/* Power on; the memory of the engine is zeros but for that of the node. */
void power_on(struct engine *e);
/* The doorbell CONTROL: section 4.3 of engine.md. */
void run_control(struct engine *e);

#endif
