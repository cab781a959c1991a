/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of bytes, in order and exactly once, from a process to another: the
 * sending end and the receiving end. Positions count bytes from the start of the
 * association. The ring of the sender keeps bytes until the receiver acknowledges
 * the bytes, the ring of the receiver until the user takes the bytes.
 */
#ifndef PF_NET_STREAM_H
#define PF_NET_STREAM_H

#include <stddef.h>
#include <sys/uio.h>

#include "ranges.h"

struct stream_out {
	uint8_t *ring;
	uint32_t size, spare; /* spare: bytes behind the ring, for pieces across the end */
	uint64_t base;        /* position of the first byte not acknowledged */
	uint64_t sent;        /* position of the first byte not sent */
	uint64_t end;         /* position behind the last byte written */
	uint64_t limit;       /* end of the room of the receiver */
	struct ranges lost, acknowledged; /* acknowledged: behind base */
	const uint8_t *lent; /* bytes [lent_start, lent_end), not yet in the ring; NULL: none */
	uint64_t lent_start, lent_end;
};

struct stream_in {
	uint8_t *ring;
	uint32_t size, spare;
	uint64_t taken;      /* position of the first byte not consumed */
	uint64_t next;       /* position of the first byte not here */
	struct ranges ahead; /* bytes here behind next */
};

/*
 * Begin at position, the end of the last use. size is a power of two. The ring is allocated
 * at first use.
 */
void stream_out_init(struct stream_out *out, uint32_t size, uint32_t spare, uint64_t position);
void stream_out_destroy(struct stream_out *out);
/* Double the size of the ring. False: no memory. */
bool stream_out_grow(struct stream_out *out);
/* Return a place for length <= spare bytes; NULL: no room now, or (*memory) no memory. */
uint8_t *stream_out_reserve(struct stream_out *out, size_t length, bool *memory);
/* Append the length bytes written to the reserved place. */
void stream_out_commit(struct stream_out *out, size_t length);
/*
 * Return the number of bytes from *position on to send next, at most most; 0: none. The
 * bytes are contiguous in the ring.
 */
uint32_t stream_out_next(const struct stream_out *out, uint32_t most, uint64_t *position);
/* Find the pieces of memory with length bytes from position on. Returns the number of pieces. */
#define STREAM_PIECES_MOST 3
unsigned stream_out_pieces(const struct stream_out *out, uint64_t position, uint32_t length,
			   struct iovec pieces[STREAM_PIECES_MOST]);
/* Leave length bytes of the next commit outside the ring until stream_out_keep. */
void stream_out_lend(struct stream_out *out, uint64_t position, const void *bytes, size_t length);
/* Copy the lent bytes into the ring. */
void stream_out_keep(struct stream_out *out);
/* Length bytes from position on were sent, are lost, or are acknowledged. */
void stream_out_sent(struct stream_out *out, uint64_t position, uint32_t length);
void stream_out_lost(struct stream_out *out, uint64_t position, uint32_t length);
void stream_out_acknowledged(struct stream_out *out, uint64_t position, uint32_t length);

void stream_in_init(struct stream_in *in, uint32_t size, uint32_t spare, uint64_t position);
void stream_in_destroy(struct stream_in *in);
/* Allocate the ring, if need be. False: no memory. */
bool stream_in_prepare(struct stream_in *in);
/* Grow the ring to have room up to end, to at most most bytes. False: no room or no memory. */
bool stream_in_grow(struct stream_in *in, uint64_t end, uint32_t most);
/* Take bytes of the stream. False: no room or no memory. */
bool stream_in_add(struct stream_in *in, uint64_t position, const uint8_t *bytes, uint32_t length);
/* Return length <= spare bytes from taken on, contiguous. All of the bytes must be here. */
uint8_t *stream_in_peek(struct stream_in *in, size_t length);

static inline bool stream_out_empty(const struct stream_out *out)
{
	return out->base == out->end;
}

#endif
