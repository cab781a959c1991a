/* SPDX-License-Identifier: GPL-2.0 */
/* Reserved fields. */
#ifndef SECOND_ZEROS_H
#define SECOND_ZEROS_H

#include <stdbool.h>
#include <stddef.h>

static inline bool are_zeros(const void *memory, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (((const unsigned char *)memory)[i])
			return false;
	return true;
}

#endif
