/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One direction between two processes on a host: a sealed memory file with the ring and the slots
 * for transfers that both ends move. The sender makes the file and both processes map it. The file
 * has no name: nothing remains when the processes end, in whatever way.
 */
#ifndef PF_CHANNEL_H
#define PF_CHANNEL_H

#include <stdalign.h>
#include <sys/uio.h>

#include "base/limits.h"
#include "base/location.h"
#include "memory/access.h"
#include "ring.h"
#include "share.h"

/* The header has room for no more in a page of 4 KiB. One end moves a transfer without a slot. */
#define CHANNEL_SHARES 28
/* A bit for each. */
#define CHANNEL_SHARES_ALL ((1ull << CHANNEL_SHARES) - 1)
/* Offset of the ring. The file has no memory between the header and the ring. */
#define CHANNEL_RING PAGE_SIZE_MAX

/* The start of the file. */
struct channel_memory {
	uint64_t magic;
	uint64_t ring_size;
	/* Stored by the reader. */
	alignas(128) _Atomic uint64_t tail;   /* see ring.h */
	alignas(128) _Atomic uint32_t polled; /* see inbox.h; 0: ring the doorbell */
	_Atomic uint32_t pieces; /* 1: the reader takes messages in pieces; 0 before it began */
	_Atomic uint32_t blocks; /* 1: the reader takes MESSAGE_PUT_BLOCKS; 0 before it began */
	struct share shares[CHANNEL_SHARES];
};

struct channel {
	struct ring ring;
	struct channel_memory *memory;
	int fd;               /* -1: see channel_drop_file */
	struct access access; /* instead of fd */
	size_t mapped;        /* bytes at memory */
};

/* Return the bytes of a ring of the wanted size, a power of two, with pages of the given length. */
static inline uint64_t channel_ring_size(uint64_t wanted, uint64_t page)
{
	return wanted < page ? page : wanted;
}

/* Can a ring of this size be mapped, with pages of the given length? */
static inline bool channel_ring_valid(uint64_t size, uint64_t page)
{
	return size >= RING_SIZE_MIN && size <= RING_SIZE_MAX && !(size & (size - 1)) &&
	       size >= page;
}

/*
 * Make a channel. ring_size is a power of two; a ring is at least a page. allowance: see ring.h.
 * node: where the pages are to lie; NULL: where the process that touches a page first runs. Returns
 * PF_OK, PF_ERR_MEMORY or PF_ERR_SYSTEM.
 */
int channel_create(struct channel *channel, size_t ring_size, _Atomic int64_t *allowance,
		   const struct location *node);
/*
 * Map a channel that a peer created. Takes over fd, also on failure. The file is not trusted:
 * seals, size and header are checked. Returns as channel_create, and PF_ERR_ARGUMENT for a file
 * that is no channel.
 */
int channel_map(struct channel *channel, int fd);
void channel_destroy(struct channel *channel);
/*
 * Give the descriptor back, where the ring can grow without a descriptor. From then on channel_fill
 * and channel_place copy twice, by a file that the first call makes: for a peer with single copy.
 */
void channel_drop_file(struct channel *channel);

/*
 * Do channel_fill and channel_place have the file for a copy of length bytes? False: there is no
 * descriptor or memory for the file, and the count returned would be 0.
 */
bool channel_can_copy(struct channel *channel, size_t length);

/*
 * Copy between the ring and memory that may be absent or not permitted. The kernel copies: where
 * memcpy would raise a signal, the count returned is short.
 */
size_t channel_fill(struct channel *channel, uint8_t *payload, const void *from, size_t length);
size_t channel_place(struct channel *channel, const uint8_t *payload, void *to, size_t length);
/* Copy length bytes in count pieces of memory, in a row in the ring, likewise. */
size_t channel_gather(struct channel *channel, uint8_t *payload, const struct iovec *from,
		      unsigned count, size_t length);
size_t channel_scatter(struct channel *channel, const uint8_t *payload, const struct iovec *to,
		       unsigned count, size_t length);

#endif
