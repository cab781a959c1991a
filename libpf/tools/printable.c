/* SPDX-License-Identifier: BSD-3-Clause */
#include "printable.h"

void copy_printable(char *to, size_t size, const char *from)
{
	size_t i;

	for (i = 0; i + 1 < size && from[i]; i++) {
		to[i] = from[i];
		if (to[i] < 0x20 || to[i] > 0x7e)
			to[i] = '?';
	}
	to[i] = 0;
}
