/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of bytes, in order and exactly once, from one process to another:
 * its sending and its receiving end. Positions are counted from the
 * association's start; bytes are kept in a ring from when they are written
 * until they are acknowledged, and from when they come until they are taken.
 */
#ifndef PF_NET_STREAM_H
#define PF_NET_STREAM_H

#include <stddef.h>
#include <sys/uio.h>

#include "ranges.h"

struct stream_out {
	uint8_t *ring;
	uint32_t size, spare; /* spare: behind the ring, so that a piece is written in one */
	uint64_t base;        /* all before it is acknowledged */
	uint64_t sent;        /* all from here on was never sent */
	uint64_t end;         /* of what was written */
	uint64_t limit;       /* up to which the receiver has room */
	struct ranges lost, acknowledged;
	const uint8_t *lent; /* not NULL: has [lent_start, lent_end), which the ring has not yet */
	uint64_t lent_start, lent_end;
};

struct stream_in {
	uint8_t *ring;
	uint32_t size, spare;
	uint64_t taken; /* all before it was consumed */
	uint64_t next;  /* all before it is here */
	struct ranges ahead;
};

/* Positions start where the last use ended. Rings, of a power of two, are made at first use. */
void stream_out_init(struct stream_out *out, uint32_t size, uint32_t spare, uint64_t position);
void stream_out_destroy(struct stream_out *out);
/* Twice the size. False: no memory. */
bool stream_out_grow(struct stream_out *out);
/* A place for length <= spare bytes; NULL: no room now. *memory: because there is none. */
uint8_t *stream_out_reserve(struct stream_out *out, size_t length, bool *memory);
void stream_out_commit(struct stream_out *out, size_t length);
/*
 * How many bytes from *position on to send next, at most most; 0: none. They lie
 * in one piece.
 */
uint32_t stream_out_next(const struct stream_out *out, uint32_t most, uint64_t *position);
/* Bytes sent before, or to be sent next: as many pieces as they lie in. */
#define STREAM_PIECES_MOST 3
unsigned stream_out_pieces(const struct stream_out *out, uint64_t position, uint32_t length,
			   struct iovec pieces[STREAM_PIECES_MOST]);
/* Of what is committed next, length bytes from position on lie elsewhere until stream_out_keep. */
void stream_out_lend(struct stream_out *out, uint64_t position, const void *bytes, size_t length);
void stream_out_keep(struct stream_out *out);
void stream_out_sent(struct stream_out *out, uint64_t position, uint32_t length);
void stream_out_lost(struct stream_out *out, uint64_t position, uint32_t length);
void stream_out_acknowledged(struct stream_out *out, uint64_t position, uint32_t length);

void stream_in_init(struct stream_in *in, uint32_t size, uint32_t spare, uint64_t position);
void stream_in_destroy(struct stream_in *in);
/* Have the ring; false: no memory. */
bool stream_in_prepare(struct stream_in *in);
/* Have a ring of at most most bytes with room up to this end. False: no room or no memory. */
bool stream_in_grow(struct stream_in *in, uint64_t end, uint32_t most);
/* False: no room or memory for them. */
bool stream_in_add(struct stream_in *in, uint64_t position, const uint8_t *bytes, uint32_t length);
/* length <= spare bytes from taken on, in one piece. They must be here. */
uint8_t *stream_in_peek(struct stream_in *in, size_t length);

static inline bool stream_out_empty(const struct stream_out *out)
{
	return out->base == out->end;
}

#endif
