/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of QEMU's ivshmem-doorbell device (docs/specs/ivshmem-spec.rst of
 * QEMU), as the server and as the one peer of a single client: the machine.
 */
#ifndef MODEL_IVSHMEM_H
#define MODEL_IVSHMEM_H

#include <stdbool.h>
#include <stdint.h>

#include "../registers.h"

#define IVSHMEM_SIZE 65536u /* of BAR2: a power of two */
#define IVSHMEM_ENGINE 0    /* peer numbers */
#define IVSHMEM_MACHINE 1

struct ivshmem {
	int listener;
	int client; /* -1: no machine */
	int memory; /* memfd of BAR2 */
	void *registers;
	int doorbells[EXANEST_DOORBELLS]; /* eventfds: from the machine */
	int vectors[EXANEST_VECTORS];     /* and to it */
	const char *path;
};

/* false: errno says why. */
bool ivshmem_open(struct ivshmem *ivshmem, const char *path);
void ivshmem_close(struct ivshmem *ivshmem);

/* Take the connection that waits. false: there is a machine already, or it went away. */
bool ivshmem_accept(struct ivshmem *ivshmem);
void ivshmem_disconnect(struct ivshmem *ivshmem);

/* Raise the vectors: bit n is vector n. */
void ivshmem_interrupt(struct ivshmem *ivshmem, uint32_t vectors);

#endif
