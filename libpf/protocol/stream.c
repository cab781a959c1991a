/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static uint32_t ring_offset(uint64_t position, uint32_t size)
{
	/* A ring is found by a mask. */
	assert_that(size && !(size & (size - 1)));
	return (uint32_t)(position & (size - 1));
}

void stream_out_init(struct stream_out *out, uint32_t size, uint32_t spare, uint64_t position)
{
	*out = (struct stream_out){ .size = size,
				    .spare = spare,
				    .base = position,
				    .sent = position,
				    .end = position,
				    .limit = position + size };
}

void stream_out_destroy(struct stream_out *out)
{
	free(out->ring);
	ranges_destroy(&out->lost);
	ranges_destroy(&out->acknowledged);
}

/* Replace *ring with a ring of twice the size that has the bytes at positions [start, end). */
static bool stream_grow(uint8_t **ring, uint32_t *size, uint32_t spare, uint64_t start,
			uint64_t end)
{
	uint8_t *grown = malloc(2 * (size_t)*size + spare);
	uint64_t at, length;

	assert_that(*ring && start <= end && end - start <= *size);
	if (!grown)
		return false;
	for (at = start; at < end; at += length) {
		length = *size - ring_offset(at, *size);
		if (length > end - at)
			length = end - at;
		memcpy(grown + ring_offset(at, 2 * *size), *ring + ring_offset(at, *size), length);
	}
	free(*ring);
	*ring = grown;
	*size *= 2;
	return true;
}

bool stream_out_grow(struct stream_out *out)
{
	return stream_grow(&out->ring, &out->size, out->spare, out->base, out->end);
}

uint8_t *stream_out_reserve(struct stream_out *out, size_t length, bool *memory)
{
	assert_that(length <= out->spare);
	*memory = false;
	if (out->end - out->base + length > out->size)
		return NULL;
	if (!out->ring) {
		out->ring = malloc((size_t)out->size + out->spare);
		if (!out->ring) {
			*memory = true;
			return NULL;
		}
	}
	return out->ring + ring_offset(out->end, out->size);
}

void stream_out_commit(struct stream_out *out, size_t length)
{
	size_t end = ring_offset(out->end, out->size) + length;

	assert_that(out->ring && length <= out->spare &&
		    out->end - out->base + length <= out->size);
	if (end > out->size)
		memcpy(out->ring, out->ring + out->size, end - out->size);
	out->end += length;
}

uint32_t stream_out_next(const struct stream_out *out, uint32_t most, uint64_t *position)
{
	uint64_t length, behind;

	assert_that(out->base <= out->sent && out->sent <= out->end);
	if (out->lost.count) {
		*position = out->lost.list[0].start;
		length = out->lost.list[0].end - *position;
	} else {
		uint64_t end = out->end < out->limit ? out->end : out->limit;

		*position = out->sent;
		length = end > out->sent ? end - out->sent : 0;
	}
	behind = out->size - ring_offset(*position, out->size);
	if (length > behind)
		length = behind;
	return length < most ? (uint32_t)length : most;
}

static void add_piece(struct iovec *pieces, unsigned *count, const uint8_t *bytes, uint64_t from,
		      uint64_t to)
{
	if (from < to)
		pieces[(*count)++] = (struct iovec){ (uint8_t *)(uintptr_t)bytes, to - from };
}

unsigned stream_out_pieces(const struct stream_out *out, uint64_t position, uint32_t length,
			   struct iovec pieces[STREAM_PIECES_MOST])
{
	const uint8_t *bytes = out->ring + ring_offset(position, out->size);
	uint64_t end = position + length, start = end, stop = end;
	unsigned count = 0;

	assert_that(out->ring && position >= out->base && end <= out->end);
	if (out->lent && out->lent_start < end && out->lent_end > position) {
		start = out->lent_start > position ? out->lent_start : position;
		stop = out->lent_end < end ? out->lent_end : end;
	}
	add_piece(pieces, &count, bytes, position, start);
	if (start < stop)
		add_piece(pieces, &count, out->lent + (start - out->lent_start), start, stop);
	add_piece(pieces, &count, bytes + (stop - position), stop, end);
	return count;
}

void stream_out_lend(struct stream_out *out, uint64_t position, const void *bytes, size_t length)
{
	/* Bytes are lent once at a time, for a message reserved and not yet committed. */
	assert_that(!out->lent && position >= out->end);
	out->lent = bytes;
	out->lent_start = position;
	out->lent_end = position + length;
}

void stream_out_keep(struct stream_out *out)
{
	uint32_t start = ring_offset(out->lent_start, out->size);
	size_t length = (size_t)(out->lent_end - out->lent_start), first = out->size - start;

	if (!out->lent)
		return;
	if (first > length)
		first = length;
	memcpy(out->ring + start, out->lent, first);
	memcpy(out->ring, out->lent + first, length - first);
	out->lent = NULL;
}

void stream_out_sent(struct stream_out *out, uint64_t position, uint32_t length)
{
	assert_that(position >= out->base && position + length <= out->end);
	if (position < out->sent)
		ranges_remove(&out->lost, position, position + length);
	if (position + length > out->sent)
		out->sent = position + length;
}

void stream_out_lost(struct stream_out *out, uint64_t position, uint32_t length)
{
	uint64_t end = position + length;
	uint32_t i;

	assert_that(end <= out->end);
	if (end > out->sent)
		end = out->sent;
	if (position < out->base)
		position = out->base;
	/* Bytes that arrived in another packet are not lost. */
	for (i = 0; i < out->acknowledged.count && position < end; i++) {
		const struct range *here = &out->acknowledged.list[i];

		if (here->end <= position)
			continue;
		if (here->start >= end)
			break;
		if (here->start > position && !ranges_add(&out->lost, position, here->start))
			goto rewind;
		position = here->end;
	}
	if (position >= end || ranges_add(&out->lost, position, end))
		return;
rewind:
	/* No memory for a record of the loss: send all bytes from position on again. */
	out->sent = position;
	ranges_trim(&out->lost, 0);
	while (out->lost.count && out->lost.list[out->lost.count - 1].start >= position)
		out->lost.count--;
	if (out->lost.count && out->lost.list[out->lost.count - 1].end > position)
		out->lost.list[out->lost.count - 1].end = position;
}

/*
 * All bytes before end are here: remove the intervals that begin at or before end from
 * the set. A retransmitted piece may cover several intervals. Returns the new end.
 */
static uint64_t stream_join(struct ranges *ranges, uint64_t end)
{
	while (ranges->count && ranges->list[0].start <= end) {
		if (ranges->list[0].end > end)
			end = ranges->list[0].end;
		ranges_trim(ranges, end);
	}
	return end;
}

void stream_out_acknowledged(struct stream_out *out, uint64_t position, uint32_t length)
{
	uint64_t end = position + length;

	if (end <= out->base || end > out->end)
		return;
	if (position < out->base)
		position = out->base;
	if (position > out->base) {
		/* Without memory for a record, send the bytes once more. */
		if (!ranges_add(&out->acknowledged, position, end)) {
			stream_out_lost(out, position, length);
			return;
		}
		ranges_remove(&out->lost, position, end);
		return;
	}
	out->base = stream_join(&out->acknowledged, end);
	ranges_trim(&out->lost, out->base);
	if (out->sent < out->base)
		out->sent = out->base;
}

void stream_in_init(struct stream_in *in, uint32_t size, uint32_t spare, uint64_t position)
{
	*in = (struct stream_in){
		.size = size, .spare = spare, .taken = position, .next = position
	};
}

void stream_in_destroy(struct stream_in *in)
{
	free(in->ring);
	ranges_destroy(&in->ahead);
}

bool stream_in_prepare(struct stream_in *in)
{
	if (!in->ring)
		in->ring = malloc((size_t)in->size + in->spare);
	return in->ring != NULL;
}

bool stream_in_grow(struct stream_in *in, uint64_t end, uint32_t most)
{
	uint64_t last = in->ahead.count ? in->ahead.list[in->ahead.count - 1].end : in->next;

	if (end > in->taken + most)
		return false;
	while (end > in->taken + in->size) {
		if (!in->ring)
			in->size *= 2;
		else if (!stream_grow(&in->ring, &in->size, in->spare, in->taken, last))
			return false;
	}
	return true;
}

bool stream_in_add(struct stream_in *in, uint64_t position, const uint8_t *bytes, uint32_t length)
{
	uint64_t end = position + length;
	uint32_t start, first;

	if (end <= in->next)
		return true;
	if (end > in->taken + in->size)
		return false;
	if (position < in->next) {
		bytes += in->next - position;
		position = in->next;
		length = (uint32_t)(end - position);
	}
	if (!stream_in_prepare(in))
		return false;
	if (position > in->next && !ranges_add(&in->ahead, position, end))
		return false;
	start = ring_offset(position, in->size);
	first = length < in->size - start ? length : in->size - start;
	memcpy(in->ring + start, bytes, first);
	memcpy(in->ring, bytes + first, length - first);
	if (position == in->next) {
		in->next = stream_join(&in->ahead, end);
		assert_that(in->next - in->taken <= in->size);
	}
	return true;
}

uint8_t *stream_in_peek(struct stream_in *in, size_t length)
{
	size_t start = ring_offset(in->taken, in->size);

	assert_that(in->ring && length <= in->spare && in->next - in->taken >= length);
	if (start + length > in->size)
		memcpy(in->ring + in->size, in->ring, start + length - in->size);
	return in->ring + start;
}
