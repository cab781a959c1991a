/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the tree of a small graph, damages it in the way that the argument names, and prints
 * what graph_verify says of it. Exit codes: 0 correct, 1 wrong, 2 the tree was not damaged.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../pf/graph.h"

#define SCALE 10
#define VERTICES (1U << SCALE)

static const struct graph graph = { .scale = SCALE, .factor = 16, .seed = 1 };
static struct graph_rows rows;
static uint32_t parents[VERTICES], root;

static uint32_t level(uint32_t v)
{
	uint32_t steps = 0;

	for (; v != root; v = parents[v])
		steps++;
	return steps;
}

static bool reached(uint32_t v)
{
	return parents[v] != GRAPH_NO_PARENT;
}

static bool joined(uint32_t from, uint32_t to)
{
	uint64_t i;

	for (i = rows.offsets[from]; i < rows.offsets[from + 1]; i++)
		if (rows.columns[i] == to)
			return true;
	return false;
}

static bool is_parent(uint32_t v)
{
	uint32_t child;

	for (child = 0; child < VERTICES; child++)
		if (child != v && parents[child] == v)
			return true;
	return false;
}

/* By a queue, or by a stack: then a tree of the component that is not of least depth. */
static void search(bool by_stack)
{
	uint32_t list[VERTICES], first = 0, last = 0, v, neighbour;
	uint64_t i;

	memset(parents, 0xff, sizeof(parents));
	parents[root] = root;
	list[last++] = root;
	while (first < last) {
		v = by_stack ? list[--last] : list[first++];
		for (i = rows.offsets[v]; i < rows.offsets[v + 1]; i++) {
			neighbour = rows.columns[i];
			if (reached(neighbour))
				continue;
			parents[neighbour] = v;
			list[last++] = neighbour;
		}
	}
}

/* A vertex of this level of the tree; leaf: one that is no other's parent. */
static uint32_t pick(uint32_t wanted, bool leaf)
{
	uint32_t v;

	for (v = 0; v < VERTICES; v++)
		if (reached(v) && level(v) == wanted && (!leaf || !is_parent(v)))
			return v;
	errx(2, "no such vertex at level %u", wanted);
}

static uint32_t pick_unreached(void)
{
	uint32_t v;

	for (v = 0; v < VERTICES; v++)
		if (!reached(v))
			return v;
	errx(2, "all vertices were reached");
}

/* The parent of a vertex becomes one of the right level, to which it has no edge. */
static void adopt(void)
{
	uint32_t v, parent;

	for (v = 0; v < VERTICES; v++) {
		if (!reached(v) || level(v) != 2)
			continue;
		for (parent = 0; parent < VERTICES; parent++) {
			if (reached(parent) && level(parent) == 1 && !joined(v, parent)) {
				parents[v] = parent;
				return;
			}
		}
	}
	errx(2, "no vertex without an edge to one of level 1");
}

static void damage(const char *how)
{
	uint32_t v = pick(2, true);

	if (!strcmp(how, "root"))
		parents[root] = pick(1, false);
	else if (!strcmp(how, "itself"))
		parents[v] = v;
	else if (!strcmp(how, "cycle"))
		parents[parents[v]] = v;
	else if (!strcmp(how, "range"))
		parents[v] = VERTICES;
	else if (!strcmp(how, "unreached"))
		parents[v] = pick_unreached();
	else if (!strcmp(how, "missing"))
		parents[v] = GRAPH_NO_PARENT;
	else if (!strcmp(how, "more"))
		parents[pick_unreached()] = pick(1, false);
	else if (!strcmp(how, "depth"))
		search(true);
	else if (!strcmp(how, "stranger"))
		adopt();
	else if (strcmp(how, "not") != 0)
		errx(2, "%s: no such damage", how);
}

int main(int argc, char **argv)
{
	char error[128];
	int status;

	if (argc != 2)
		errx(2, "needs the damage");
	if (graph_build(&graph, &rows))
		return 2;
	root = graph_root(&graph, rows.offsets, 0);
	search(false);
	damage(argv[1]);
	status = graph_verify(&graph, root, parents, error, sizeof(error));
	printf("%s\n", status ? error : "correct");
	graph_free(&graph, &rows);
	return status ? 1 : 0;
}
