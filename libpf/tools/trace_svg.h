/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_TRACE_SVG_H
#define TOOLS_TRACE_SVG_H

#include <stdio.h>

#include "traces.h"

/* Draw the events, at most the given number: of more events the first, and the picture says so. */
#define TRACE_SVG_MOST 5000

void trace_svg_print(const struct traces *traces, FILE *file);

#endif
