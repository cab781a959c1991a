/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Breadth-first search, level by level. The vertices of a level are taken in order, so that
 * the columns are read in order too.
 */
#ifndef BENCHMARK_SEARCH_H
#define BENCHMARK_SEARCH_H

#include "columns.h"

struct search {
	const struct graph *graph;
	const uint64_t *offsets;
	struct columns *columns;
	uint32_t *parents;        /* the result: see graph_verify */
	uint64_t *current, *next; /* a bit for each vertex: the level, and the one below */
	size_t words;             /* of each */
};

/* Functions that return int return 0, or -1 after an error message. */
int search_open(struct search *search, const struct graph_file *file, struct columns *columns);
/* Make the tree of the root. */
int search_run(struct search *search, uint32_t root);
/* Edges between vertices that the last search reached. *reached: their number. */
uint64_t search_edges(const struct search *search, uint64_t *reached);
void search_close(struct search *search);

#endif
