/* SPDX-License-Identifier: BSD-3-Clause */
#include "graph.h"

#include <err.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"

/* Thresholds of 32 random bits for the quadrants A, B and C of the adjacency matrix. */
#define A ((uint32_t)(0.57 * UINT32_MAX))
#define B ((uint32_t)(0.76 * UINT32_MAX))
#define C ((uint32_t)(0.95 * UINT32_MAX))

/*
 * The arrays are larger than caches, and accessed at random: what EDGES edges need is fetched
 * first, then used.
 */
#define EDGES 64

/* Levels, beside those of vertices that were reached. */
#define UNKNOWN UINT32_MAX
#define VISITING (UINT32_MAX - 1)

uint64_t graph_vertices(const struct graph *graph)
{
	return (uint64_t)1 << graph->scale;
}

static uint64_t graph_edges(const struct graph *graph)
{
	return graph_vertices(graph) * graph->factor;
}

uint64_t graph_columns(const struct graph *graph)
{
	return 2 * graph_edges(graph);
}

/* A permutation of the vertices: their numbers must not tell their degrees. */
static uint32_t permute(const struct graph *graph, uint64_t seed, uint64_t vertex)
{
	uint64_t mask = graph_vertices(graph) - 1;
	unsigned half = graph->scale / 2 + 1;
	int round;

	for (round = 0; round < 3; round++) {
		seed = pattern_random(seed);
		vertex = (vertex * (seed | 1) + (seed >> 32)) & mask;
		vertex ^= vertex >> half;
	}
	return (uint32_t)vertex;
}

static void graph_edge(const struct graph *graph, uint64_t number, uint32_t *from, uint32_t *to)
{
	uint64_t base = pattern_random(graph->seed), bits = 0, row = 0, column = 0;
	uint32_t level, draw;

	for (level = 0; level < graph->scale; level++) {
		if (!(level % 2))
			bits = pattern_random(base + number * GRAPH_SCALE_MOST + level);
		draw = (uint32_t)bits;
		bits >>= 32;
		/* Without branches, which nothing could predict. */
		row = row << 1 | (draw >= B);
		column = column << 1 | ((draw >= A) ^ (draw >= B) ^ (draw >= C));
	}
	*from = permute(graph, base, row);
	*to = permute(graph, base, column);
}

void *graph_memory(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (memory == MAP_FAILED) {
		warn("%zu bytes of memory", length);
		return NULL;
	}
	madvise(memory, length, MADV_HUGEPAGE);
	return memory;
}

struct edges {
	uint32_t ends[2 * EDGES]; /* two of each edge */
	unsigned count;           /* of ends */
};

/* Make the edges from number on, EDGES at most. */
static void edges_make(const struct graph *graph, uint64_t number, struct edges *edges)
{
	uint64_t end = graph_edges(graph);

	edges->count = 0;
	for (; number < end && edges->count < 2 * EDGES; number++, edges->count += 2)
		graph_edge(graph, number, &edges->ends[edges->count],
			   &edges->ends[edges->count + 1]);
}

/* Count the columns of each row v at degrees[v]. */
static void count(const struct graph *graph, uint64_t *degrees)
{
	struct edges edges;
	uint64_t i;
	unsigned j;

	for (i = 0; i < graph_edges(graph); i += EDGES) {
		edges_make(graph, i, &edges);
		for (j = 0; j < edges.count; j++)
			__builtin_prefetch(&degrees[edges.ends[j]], 1);
		for (j = 0; j < edges.count; j++)
			degrees[edges.ends[j]]++;
	}
}

/* next: the offset of the first empty column of each row. */
static void fill(const struct graph *graph, uint64_t *next, uint32_t *columns)
{
	uint64_t places[2 * EDGES], i;
	struct edges edges;
	unsigned j;

	for (i = 0; i < graph_edges(graph); i += EDGES) {
		edges_make(graph, i, &edges);
		for (j = 0; j < edges.count; j++)
			__builtin_prefetch(&next[edges.ends[j]], 1);
		for (j = 0; j < edges.count; j++) {
			places[j] = next[edges.ends[j]]++;
			__builtin_prefetch(&columns[places[j]], 1);
		}
		/* The column of one end is the other one. */
		for (j = 0; j < edges.count; j++)
			columns[places[j]] = edges.ends[j ^ 1];
	}
}

/* The adjacency matrix is symmetric: it is its own transpose, and transposing sorts the rows. */
static void transpose(const struct graph *graph, const struct graph_rows *rows, uint64_t *next,
		      uint32_t *sorted)
{
	uint64_t most = graph_columns(graph) - 1, v, i, ahead;

	for (v = 0; v < graph_vertices(graph); v++) {
		for (i = rows->offsets[v]; i < rows->offsets[v + 1]; i++) {
			ahead = i + EDGES < most ? i + EDGES : most;
			__builtin_prefetch(&next[rows->columns[ahead]], 1);
			ahead = i + EDGES / 2 < most ? i + EDGES / 2 : most;
			__builtin_prefetch(&sorted[next[rows->columns[ahead]]], 1);
			sorted[next[rows->columns[i]]++] = (uint32_t)v;
		}
	}
}

int graph_build(const struct graph *graph, struct graph_rows *rows)
{
	uint64_t vertices = graph_vertices(graph), i;
	size_t rows_length = (vertices + 1) * sizeof(uint64_t);
	size_t length = graph_columns(graph) * sizeof(uint32_t);
	uint32_t *sorted;
	uint64_t *next;

	rows->offsets = graph_memory(rows_length);
	rows->columns = graph_memory(length);
	next = graph_memory(rows_length);
	sorted = graph_memory(length);
	if (!rows->offsets || !rows->columns || !next || !sorted)
		return -1;
	count(graph, rows->offsets + 1);
	for (i = 0; i < vertices; i++)
		rows->offsets[i + 1] += rows->offsets[i];
	memcpy(next, rows->offsets, rows_length);
	fill(graph, next, rows->columns);
	memcpy(next, rows->offsets, rows_length);
	transpose(graph, rows, next, sorted);
	munmap(rows->columns, length);
	munmap(next, rows_length);
	rows->columns = sorted;
	return 0;
}

void graph_free(const struct graph *graph, struct graph_rows *rows)
{
	munmap(rows->offsets, (graph_vertices(graph) + 1) * sizeof(*rows->offsets));
	munmap(rows->columns, graph_columns(graph) * sizeof(*rows->columns));
}

uint32_t graph_root(const struct graph *graph, const uint64_t *offsets, uint64_t number)
{
	uint64_t draw = pattern_random(graph->seed ^ pattern_random(number)),
		 mask = graph_vertices(graph) - 1;

	while (offsets[draw & mask] == offsets[(draw & mask) + 1])
		draw = pattern_random(draw);
	return (uint32_t)(draw & mask);
}

__attribute__((format(printf, 3, 4))) static int wrong(char *error, size_t size, const char *format,
						       ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(error, size, format, values);
	va_end(values);
	return -1;
}

/* Follow the parents of v up to a vertex of known level, and set the levels on this way. */
static int set_levels(uint64_t vertices, const uint32_t *parents, uint32_t v, uint32_t *levels,
		      char *error, size_t size)
{
	uint32_t at, steps = 0, level;

	for (at = v; levels[at] == UNKNOWN; at = parents[at]) {
		levels[at] = VISITING;
		steps++;
		if (parents[at] >= vertices)
			return wrong(error, size, "vertex %u has no valid parent: %u", at,
				     parents[at]);
	}
	if (levels[at] == VISITING)
		return wrong(error, size, "the tree has a cycle at vertex %u", at);
	level = levels[at] + steps;
	for (at = v; steps--; at = parents[at])
		levels[at] = level--;
	return 0;
}

/* joined: for each vertex, whether an edge to its parent was found. */
static int verify_edge(uint32_t from, uint32_t to, const uint32_t *parents, const uint32_t *levels,
		       bool *joined, char *error, size_t size)
{
	if ((levels[from] == UNKNOWN) != (levels[to] == UNKNOWN))
		return wrong(error, size, "edge %u-%u leaves the tree", from, to);
	if (levels[from] == UNKNOWN)
		return 0;
	if (levels[from] + 1 < levels[to] || levels[to] + 1 < levels[from])
		return wrong(error, size, "edge %u-%u joins levels %u and %u", from, to,
			     levels[from], levels[to]);
	if (parents[from] == to)
		joined[from] = true;
	if (parents[to] == from)
		joined[to] = true;
	return 0;
}

static int verify_edges(const struct graph *graph, uint64_t number, const uint32_t *parents,
			const uint32_t *levels, bool *joined, char *error, size_t size)
{
	struct edges edges;
	unsigned i;

	edges_make(graph, number, &edges);
	for (i = 0; i < edges.count; i++) {
		__builtin_prefetch(&levels[edges.ends[i]]);
		__builtin_prefetch(&parents[edges.ends[i]]);
	}
	for (i = 0; i < edges.count; i += 2) {
		if (verify_edge(edges.ends[i], edges.ends[i + 1], parents, levels, joined, error,
				size))
			return -1;
	}
	return 0;
}

static int verify(const struct graph *graph, uint32_t root, const uint32_t *parents,
		  uint32_t *levels, bool *joined, char *error, size_t size)
{
	uint64_t vertices = graph_vertices(graph), i;

	for (i = 0; i < vertices; i++)
		levels[i] = UNKNOWN;
	if (parents[root] != root)
		return wrong(error, size, "the parent of root %u is %u", root, parents[root]);
	levels[root] = 0;
	joined[root] = true;
	for (i = 0; i < vertices; i++) {
		if (parents[i] != GRAPH_NO_PARENT &&
		    set_levels(vertices, parents, (uint32_t)i, levels, error, size))
			return -1;
	}
	for (i = 0; i < graph_edges(graph); i += EDGES) {
		if (verify_edges(graph, i, parents, levels, joined, error, size))
			return -1;
	}
	for (i = 0; i < vertices; i++) {
		if (levels[i] != UNKNOWN && !joined[i])
			return wrong(error, size, "no edge joins vertex %u and its parent %u",
				     (uint32_t)i, parents[i]);
	}
	return 0;
}

int graph_verify(const struct graph *graph, uint32_t root, const uint32_t *parents, char *error,
		 size_t size)
{
	uint64_t vertices = graph_vertices(graph);
	uint32_t *levels = graph_memory(vertices * sizeof(*levels));
	bool *joined = graph_memory(vertices * sizeof(*joined));
	int status;

	if (levels && joined)
		status = verify(graph, root, parents, levels, joined, error, size);
	else
		status = wrong(error, size, "out of memory");
	if (levels)
		munmap(levels, vertices * sizeof(*levels));
	if (joined)
		munmap(joined, vertices * sizeof(*joined));
	return status;
}
