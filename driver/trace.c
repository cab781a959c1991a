// SPDX-License-Identifier: GPL-2.0
#include "context.h"
#include "transfer.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
