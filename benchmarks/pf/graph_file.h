/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of a graph in two files: NAME has them as they are in memory, NAME.blocks has the
 * columns in compressed blocks. Functions that return int return 0, or -1 after an error
 * message.
 */
#ifndef BENCHMARK_GRAPH_FILE_H
#define BENCHMARK_GRAPH_FILE_H

#include "graph.h"

struct graph_file {
	struct graph graph;
	uint64_t *offsets;
	int rows, blocks;  /* file descriptors of the two files */
	size_t columns_at; /* place of the columns in NAME; a multiple of the page size */
	size_t length;     /* bytes of all columns, a multiple of block */
	size_t block;      /* bytes of the columns that a compressed block holds */
	uint64_t *index;   /* place of each compressed block in NAME.blocks, and the end */
};

/* *compressed: bytes of all compressed blocks. */
int graph_file_write(const char *name, const struct graph *graph, const struct graph_rows *rows,
		     size_t block, uint64_t *compressed);
/* Open the files and read the offsets. */
int graph_file_open(struct graph_file *file, const char *name);
/* Read length bytes of the columns from NAME. */
int graph_file_read(const struct graph_file *file, size_t at, void *columns, size_t length);
/* Read a block and decompress it. Thread safe. */
int graph_file_read_block(const struct graph_file *file, size_t number, void *columns);
/* Ask the system to drop what it has of the files in memory. */
void graph_file_forget(const struct graph_file *file);
void graph_file_close(struct graph_file *file);

#endif
