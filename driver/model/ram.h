/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of a virtual machine: files that it shares, mapped. */
#ifndef MODEL_RAM_H
#define MODEL_RAM_H

#include "memory.h"

#define RAM_REGIONS 4u

struct ram_region {
	const char *path;
	uint64_t address; /* physical, of the machine */
	uint64_t offset;  /* in the file */
	uint64_t length;  /* 0: to the end of the file */
	uint8_t *bytes;   /* NULL: not mapped */
	uint64_t mapped;  /* bytes */
};

struct ram {
	struct ram_region regions[RAM_REGIONS];
	unsigned int count;
};

/*
 * Add a region: PATH, or PATH@ADDRESS, or PATH@ADDRESS+OFFSET:LENGTH. argument is
 * kept. false: it has another form.
 */
bool ram_add(struct ram *ram, char *argument);
/* Map what is not mapped yet. NULL: done; else what went wrong, with errno. */
const char *ram_map(struct ram *ram);
void ram_unmap(struct ram *ram);

/* For an engine. */
struct memory ram_memory(struct ram *ram);

#endif
