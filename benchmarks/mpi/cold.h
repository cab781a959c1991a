/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers whose pages are absent when a transfer begins, for --cold. */
#ifndef BENCHMARK_COLD_H
#define BENCHMARK_COLD_H

#include <stdbool.h>
#include <stddef.h>

struct cold {
	char *send, *receive; /* page aligned, length bytes each */
	size_t length;
	bool source, destination; /* which of them are cold here */
	int file;                 /* behind a cold source; else -1 */
};

/*
 * The buffers, all pages present. Returns 0, or -1 with errno: then there is
 * nothing to end.
 */
int cold_begin(struct cold *cold, size_t length, bool source, bool destination);

/*
 * Make the cold ones cold again, at an address that may be another one. What
 * was written to the source is in it. Returns 0, or -1 with errno: then only
 * cold_end is possible.
 */
int cold_renew(struct cold *cold);

void cold_end(struct cold *cold);

#endif
