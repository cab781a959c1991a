/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structures of pf.h that later versions extend at the end. The program tells the size that a
 * structure has in the program's pf.h.
 */
#ifndef PF_STRUCTURE_H
#define PF_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Far more than any version of libpf will have: a greater size is not one. */
#define STRUCTURE_SIZE_MOST 4096

/*
 * Copy the program's structure *from, whose first field is the structure's size, a size_t, to *to of
 * size bytes. Fields that the program does not know stay as they are. Returns false if the size is
 * none, or the program sets a field that only a later version has: then *to is unchanged.
 */
static inline bool structure_copy(void *to, size_t size, const void *from)
{
	const unsigned char *bytes = from;
	size_t given, i;

	memcpy(&given, from, sizeof(given));
	if (given < sizeof(given) || given > STRUCTURE_SIZE_MOST)
		return false;
	for (i = size; i < given; i++) {
		if (bytes[i])
			return false;
	}
	memcpy(to, from, given < size ? given : size);
	return true;
}

/*
 * Copy *from, of known bytes, to the program's structure *to of size bytes. Fields that only the
 * program knows become 0.
 */
static inline void structure_give(void *to, size_t size, const void *from, size_t known)
{
	memset(to, 0, size);
	memcpy(to, from, size < known ? size : known);
}

#endif
