/* SPDX-License-Identifier: BSD-3-Clause */
#include "row.h"

#include <stdarg.h>
#include <stdio.h>

#include "json.h"

void row_print(bool json, const char *name, const char *format, ...)
{
	char text[4608];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (json)
		json_string(name, text);
	else
		printf("  %-18s %s\n", name, text);
}
