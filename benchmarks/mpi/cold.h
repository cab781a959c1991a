/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers whose pages are absent when a transfer begins, for --cold. */
#ifndef BENCHMARK_COLD_H
#define BENCHMARK_COLD_H

#include <stdbool.h>
#include <stddef.h>

struct cold {
	char *send, *receive;     /* page-aligned buffers */
	size_t length;            /* length of each, bytes */
	bool source, destination; /* send, receive is cold in this process */
	int source_file;          /* memfd of a cold source, or -1 */
	int destination_file;     /* file that the destination maps, or -1 */
};

/*
 * Map the buffers, with all pages present. file: the destination is a private mapping of a file in
 * the current folder. Returns 0, or -1 with errno and nothing to end.
 */
int cold_begin(struct cold *cold, size_t length, bool source, bool destination, bool file);

/*
 * Map the cold buffers anew, possibly at another address. The source keeps its
 * contents. Returns 0, or -1 with errno (EBUSY: pages of the file stay in memory): then only
 * cold_end may follow.
 */
int cold_renew(struct cold *cold);

void cold_end(struct cold *cold);

#endif
