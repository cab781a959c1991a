/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_TRACE_SVG_H
#define TOOLS_TRACE_SVG_H

#include <stdio.h>

#include "traces.h"

/* Draw the events up to that many; the first ones if there are more, which the picture says. */
#define TRACE_SVG_MOST 5000

void trace_svg_print(const struct traces *traces, FILE *file);

#endif
