/* SPDX-License-Identifier: GPL-2.0 */
/* The operations of an engine in hardware; its private data is a struct device_engine. */
#ifndef EXANEST_ENGINE_REGISTERS_H
#define EXANEST_ENGINE_REGISTERS_H

#include "engine.h"

extern const struct exanest_engine_operations exanest_registers_operations;

#endif
