/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Kronecker graph with the parameters of Graph500 (A = 0.57, B = C = 0.19), and the
 * verification of a breadth-first search by Graph500's rules. Each edge is a function of the
 * seed and its number, so that the list of edges is made again, and never stored.
 */
#ifndef BENCHMARK_GRAPH_H
#define BENCHMARK_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#define GRAPH_SCALE_MOST 28
/* Of a vertex that the search did not reach. */
#define GRAPH_NO_PARENT UINT32_MAX

struct graph {
	uint32_t scale;  /* the graph has 2^scale vertices */
	uint32_t factor; /* edges for each vertex */
	uint64_t seed;
};

/*
 * Compressed sparse rows: the neighbours of vertex v are columns[offsets[v]] up to
 * columns[offsets[v + 1]], in order. Each edge is in two rows; an edge from a vertex to
 * itself is twice in its row.
 */
struct graph_rows {
	uint64_t *offsets;
	uint32_t *columns;
};

uint64_t graph_vertices(const struct graph *graph);
/* Number of columns: two for each edge. */
uint64_t graph_columns(const struct graph *graph);

/* Returns 0, or -1 after an error message. graph_free frees the rows. */
int graph_build(const struct graph *graph, struct graph_rows *rows);
void graph_free(const struct graph *graph, struct graph_rows *rows);
/* A random vertex that has an edge. */
uint32_t graph_root(const struct graph *graph, const uint64_t *offsets, uint64_t number);

/*
 * Verify the tree of a search: parents has the parent of each vertex, of the root itself,
 * GRAPH_NO_PARENT of vertices that were not reached. The rules:
 * - the tree has no cycle, and all its vertices are below the root;
 * - the levels of a vertex and of its parent differ by one;
 * - the levels of the ends of each edge of the graph differ by at most one;
 * - the tree spans the component of the root: no edge has one end in it only;
 * - each vertex and its parent are joined by an edge of the graph.
 * Returns 0, or -1 with the reason in error.
 */
int graph_verify(const struct graph *graph, uint32_t root, const uint32_t *parents, char *error,
		 size_t size);

/* Map anonymous memory, in huge pages if there are any; munmap unmaps it. NULL after a message. */
void *graph_memory(size_t length);

#endif
