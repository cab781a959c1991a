/* SPDX-License-Identifier: BSD-3-Clause */
#include "span.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define STEPS_MOST 100000

static int parse_seconds(const char *text, double *seconds)
{
	char *end;

	errno = 0;
	*seconds = strtod(text, &end);
	return errno || end == text || *end || !isfinite(*seconds) || *seconds <= 0 ? -1 : 0;
}

int span_parse(struct span *span, int count, char **arguments)
{
	double steps;

	if (count != 3 || parse_seconds(arguments[0], &span->begin) ||
	    parse_seconds(arguments[1], &span->end) || parse_seconds(arguments[2], &span->step))
		return -1;
	steps = ceil((span->end - span->begin) / span->step);
	if (steps < 1 || steps > STEPS_MOST)
		return -1;
	span->steps = (int)steps;
	return 0;
}

bool span_contains(const struct span *span, double time)
{
	return time >= span->begin && time < span->end;
}

int span_step(const struct span *span, double time)
{
	return (int)((time - span->begin) / span->step);
}
