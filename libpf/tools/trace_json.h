/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_TRACE_JSON_H
#define TOOLS_TRACE_JSON_H

#include "traces.h"

/* Write to standard output, in the trace event format of Perfetto and Chrome. */
void trace_json_print(const struct traces *traces);

#endif
