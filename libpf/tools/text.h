/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of the tools: sizes, and names that other processes chose. */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Format a number exactly, a multiple with the suffix K, M or G: "16M", "1000". */
void size_format(uint64_t value, char *text, size_t size);

/*
 * Copy a name from another process, with a question mark for each byte outside printable ASCII:
 * control characters must not reach a terminal, nor malformed UTF-8 a file.
 */
void copy_printable(char *to, size_t size, const char *from);

#endif
