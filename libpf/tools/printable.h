/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_PRINTABLE_H
#define TOOLS_PRINTABLE_H

#include <stddef.h>

/*
 * Copy a name from another process, with a question mark for each byte outside printable ASCII:
 * control characters must not reach a terminal, nor malformed UTF-8 a file.
 */
void copy_printable(char *to, size_t size, const char *from);

#endif
