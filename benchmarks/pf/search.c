/* SPDX-License-Identifier: BSD-3-Clause */
#include "search.h"

#include <string.h>
#include <sys/mman.h>

#define WORD_BITS 64
#define NO_VERTEX UINT64_MAX
/* Columns between two rows that are asked for together with them, rather than left out. */
#define GAP 1024

/* The columns [first, end) are of the rows of vertex and of vertices of the level behind it. */
struct piece {
	uint64_t vertex, first, end;
};

/* What was not asked for yet: row vertex from at on. */
struct plan {
	uint64_t vertex, at;
};

int search_open(struct search *search, const struct graph_file *file, struct columns *columns)
{
	uint64_t vertices = graph_vertices(&file->graph);

	search->graph = &file->graph;
	search->offsets = file->offsets;
	search->columns = columns;
	search->words = (vertices + WORD_BITS - 1) / WORD_BITS;
	search->parents = graph_memory(vertices * sizeof(*search->parents));
	search->current = graph_memory(search->words * sizeof(*search->current));
	search->next = graph_memory(search->words * sizeof(*search->next));
	return search->parents && search->current && search->next ? 0 : -1;
}

void search_close(struct search *search)
{
	munmap(search->parents, graph_vertices(search->graph) * sizeof(*search->parents));
	munmap(search->current, search->words * sizeof(*search->current));
	munmap(search->next, search->words * sizeof(*search->next));
}

/* The first vertex of the level from vertex on; NO_VERTEX. */
static inline uint64_t level_vertex(const struct search *search, uint64_t vertex)
{
	size_t word = vertex / WORD_BITS;
	uint64_t bits;

	if (word >= search->words)
		return NO_VERTEX;
	bits = search->current[word] & UINT64_MAX << vertex % WORD_BITS;
	while (!bits) {
		if (++word == search->words)
			return NO_VERTEX;
		bits = search->current[word];
	}
	return word * WORD_BITS + (uint64_t)__builtin_ctzll(bits);
}

static void plan_row(const struct search *search, struct plan *plan, uint64_t vertex)
{
	plan->vertex = level_vertex(search, vertex);
	if (plan->vertex != NO_VERTEX)
		plan->at = search->offsets[plan->vertex];
}

/* Take the next piece; there must be a row. */
static void plan_piece(const struct search *search, struct plan *plan, struct piece *piece)
{
	uint64_t most = plan->at + COLUMNS_PIECE / sizeof(uint32_t);

	*piece = (struct piece){ .vertex = plan->vertex, .first = plan->at };
	do {
		piece->end = search->offsets[plan->vertex + 1];
		if (piece->end > most) {
			piece->end = plan->at = most;
			return;
		}
		plan_row(search, plan, plan->vertex + 1);
	} while (plan->vertex != NO_VERTEX && plan->at < most && plan->at <= piece->end + GAP);
}

/* columns: those of the piece. */
static void scan(struct search *search, const struct piece *piece, const uint32_t *columns)
{
	uint32_t mask = (uint32_t)(graph_vertices(search->graph) - 1);
	uint64_t vertex = piece->vertex, at = piece->first, end;

	for (;;) {
		end = search->offsets[vertex + 1];
		if (end > piece->end)
			end = piece->end;
		for (; at < end; at++) {
			/* The mask keeps an invalid column inside the arrays. */
			uint32_t neighbour = columns[at - piece->first] & mask;

			if (search->parents[neighbour] != GRAPH_NO_PARENT)
				continue;
			search->parents[neighbour] = (uint32_t)vertex;
			search->next[neighbour / WORD_BITS] |= (uint64_t)1 << neighbour % WORD_BITS;
		}
		if (end == piece->end)
			return;
		vertex = level_vertex(search, vertex + 1);
		at = search->offsets[vertex];
	}
}

static int search_level(struct search *search)
{
	struct piece pieces[COLUMNS_AHEAD];
	unsigned long asked = 0, done = 0;
	const uint32_t *columns;
	struct piece *piece;
	struct plan plan = { .vertex = NO_VERTEX };

	plan_row(search, &plan, 0);
	while (plan.vertex != NO_VERTEX || done < asked) {
		if (plan.vertex != NO_VERTEX && asked < done + COLUMNS_AHEAD) {
			piece = &pieces[asked % COLUMNS_AHEAD];
			plan_piece(search, &plan, piece);
			if (columns_ask(search->columns, asked++ % COLUMNS_AHEAD, piece->first,
					piece->end - piece->first))
				return -1;
			continue;
		}
		piece = &pieces[done % COLUMNS_AHEAD];
		columns = columns_wait(search->columns, done++ % COLUMNS_AHEAD, piece->first);
		if (!columns)
			return -1;
		scan(search, piece, columns);
	}
	return 0;
}

int search_run(struct search *search, uint32_t root)
{
	size_t length = search->words * sizeof(*search->current);
	uint64_t *level;

	memset(search->parents, 0xff, graph_vertices(search->graph) * sizeof(*search->parents));
	memset(search->current, 0, length);
	search->parents[root] = root;
	search->current[root / WORD_BITS] |= (uint64_t)1 << root % WORD_BITS;
	while (level_vertex(search, 0) != NO_VERTEX) {
		memset(search->next, 0, length);
		if (search_level(search))
			return -1;
		level = search->current;
		search->current = search->next;
		search->next = level;
	}
	return 0;
}

uint64_t search_edges(const struct search *search, uint64_t *reached)
{
	uint64_t vertices = graph_vertices(search->graph), columns = 0, v;

	*reached = 0;
	for (v = 0; v < vertices; v++) {
		if (search->parents[v] == GRAPH_NO_PARENT)
			continue;
		++*reached;
		columns += search->offsets[v + 1] - search->offsets[v];
	}
	return columns / 2;
}
