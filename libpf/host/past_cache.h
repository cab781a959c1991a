/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies whose destination goes past the caches to memory (non-temporal stores), for a reader on
 * another processor: lines in the reader's cache are not fetched to be overwritten, and the reader
 * fetches the lines from memory instead of from this processor's cache.
 */
#ifndef PF_PAST_CACHE_H
#define PF_PAST_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/processor.h"

/* Sanitizers do not see non-temporal stores. */
#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PAST_CACHE
#include <emmintrin.h>
#endif

#define PAST_CACHE_LINE 64

/*
 * Return whether non-temporal copies pay on this kind of processor. Not on Intel's: on a Xeon where
 * a line took 72 ns, streams of 1, 4, 16 and 64 KiB went past the caches at 2.5, 6.3, 10 and 11.7
 * GB/s, and through the caches at 6.6, 13, 16 and 13.4; half a round trip of 64 KiB took 11.7 and
 * 7.6 us, only half a round trip of 16 KiB 3.1 and 3.6 (benchmarks/mpi/bw and latency). arm64's are
 * only a hint, and were not measured.
 */
static inline bool past_cache_pays(void)
{
#ifdef PAST_CACHE
	return !processor_is_intel();
#else
	return false;
#endif
}

/*
 * Copy as memcpy does. Lines filled in part are written as usual. Later stores of the calling
 * thread become visible after the copy: non-temporal stores have no order by themselves, hence the
 * fence.
 */
static inline void past_cache_copy(uint8_t *to, const uint8_t *from, size_t length)
{
#ifdef PAST_CACHE
	size_t lead = -(uintptr_t)to % PAST_CACHE_LINE;

	if (lead > length)
		lead = length;
	memcpy(to, from, lead);
	to += lead;
	from += lead;
	length -= lead;
	while (length >= PAST_CACHE_LINE) {
		const __m128i *source = (const __m128i *)(const void *)from;
		__m128i *line = (__m128i *)(void *)to;
		__m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
		__m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);

		_mm_stream_si128(line, a);
		_mm_stream_si128(line + 1, b);
		_mm_stream_si128(line + 2, c);
		_mm_stream_si128(line + 3, d);
		to += PAST_CACHE_LINE;
		from += PAST_CACHE_LINE;
		length -= PAST_CACHE_LINE;
	}
	memcpy(to, from, length);
	_mm_sfence();
#else
	memcpy(to, from, length);
#endif
}

#endif
