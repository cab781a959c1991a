/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIZE_H
#define TOOLS_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* Format a number exactly, a multiple with the suffix K, M or G: "16M", "1000". */
void size_format(uint64_t value, char *text, size_t size);

#endif
