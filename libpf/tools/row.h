/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of pf_info: a name and a sentence. */
#ifndef TOOLS_ROW_H
#define TOOLS_ROW_H

#include <stdbool.h>

/* Print a row as text, or as a member of the open JSON object. */
void row_print(bool json, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
