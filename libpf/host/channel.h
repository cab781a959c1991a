/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One direction between two processes on a host: a sealed memory file made by
 * the sender, mapped by both, holding the ring and the slots for transfers
 * moved from both ends. It has no name, so nothing is left behind however the
 * processes end.
 */
#ifndef PF_CHANNEL_H
#define PF_CHANNEL_H

#include <stdalign.h>

#include "ring.h"
#include "share.h"

#define CHANNEL_SHARES 64

struct channel_memory {
	uint64_t magic;
	uint64_t ring_size;
	/* Written by the reader. */
	alignas(128) _Atomic uint64_t tail;
	alignas(128) _Atomic uint32_t
		polled; /* the reader looks here at every progress: no doorbell needed */
	alignas(4096) struct share shares[CHANNEL_SHARES];
};

struct channel {
	struct ring ring;
	struct channel_memory *memory;
	int fd;
	size_t mapped;
};

/* allowance: see ring.h. Both return PF_OK, PF_ERR_MEMORY, PF_ERR_SYSTEM; channel_map PF_ERR_ARGUMENT for a file not ours. */
int channel_create(struct channel *channel, size_t ring_size, _Atomic int64_t *allowance);
/* Takes over fd, also when it fails. The file is hostile until checked: size, seals and header are. */
int channel_map(struct channel *channel, int fd);
void channel_destroy(struct channel *channel);

/*
 * Copy between the ring and memory that may not be there, by way of the
 * kernel: what would be a signal in a memcpy is a short count here.
 */
size_t channel_fill(const struct channel *channel, uint8_t *payload, const void *from,
		    size_t length);
size_t channel_place(const struct channel *channel, const uint8_t *payload, void *to,
		     size_t length);

#endif
