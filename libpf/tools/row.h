/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of pf_info that consist of a name and a sentence. */
#ifndef TOOLS_ROW_H
#define TOOLS_ROW_H

#include <stdbool.h>

/* Print a row as text, or as a member of the JSON object that is open. */
void row_print(bool json, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
