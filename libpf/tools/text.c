/* SPDX-License-Identifier: BSD-3-Clause */
#include "text.h"

#include <inttypes.h>
#include <stdio.h>

void size_format(uint64_t value, char *text, size_t size)
{
	static const char *const suffixes[] = { "", "K", "M", "G" };
	unsigned i = 0;

	if (value == UINT64_MAX) {
		snprintf(text, size, "unlimited");
		return;
	}
	while (value && value % 1024 == 0 && i < 3) {
		value /= 1024;
		i++;
	}
	snprintf(text, size, "%" PRIu64 "%s", value, suffixes[i]);
}

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
