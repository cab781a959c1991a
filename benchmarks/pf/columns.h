/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways in which a search gets the columns of a graph that does not have to be in memory. */
#ifndef BENCHMARK_COLUMNS_H
#define BENCHMARK_COLUMNS_H

#include <stdbool.h>

#include "graph_file.h"
#include "paging.h"
#include "session.h"
#include "userfault.h"

/* Pieces that the search asks for before it needs the first one, and bytes of each at most. */
#define COLUMNS_AHEAD 8
#define COLUMNS_PIECE ((size_t)256 << 10)

struct columns;

struct columns_way {
	const char *name, *about;
	/* Each returns 0, or -1 after an error message. NULL: nothing to do. */
	int (*open)(struct columns *columns);
	int (*forget)(struct columns *columns);
};

/* A piece that was asked for. */
struct columns_slot {
	struct columns *columns;
	uint32_t *buffer;
	bool arrived;
};

struct columns {
	const struct columns_way *way;
	const struct graph_file *file;
	size_t limit;     /* bytes of the columns that may be resident; 0: all */
	const char *peer; /* file with the address of the process that has the columns; or NULL */
	/* For loads of this process; NULL: the search gets pieces from remote, an address of peer. */
	const uint32_t *direct;
	uint64_t remote;
	struct columns_slot slots[COLUMNS_AHEAD];
	uint32_t *buffers;
	void *memory; /* of file->length bytes; direct or NULL */
	struct paging paging;
	bool paged;
	struct userfault *userfault;
	struct session session;
	pf_pager *pager;
	bool session_open;
};

/* NULL: no way has this name. */
const struct columns_way *columns_way(const char *name);
/* Print the names and what they mean. */
void columns_print_ways(void);

/* Functions that return int return 0, or -1 after an error message; then, too, close it. */
int columns_open(struct columns *columns, const struct columns_way *way,
		 const struct graph_file *file, size_t limit, const char *peer);
/* Make everything absent that the way brings when it is needed. */
int columns_forget(struct columns *columns);
/* Ask for count columns, at most COLUMNS_PIECE bytes, by a slot whose last piece is not used. */
int columns_ask(struct columns *columns, unsigned slot, uint64_t first, size_t count);
/* Wait until the piece from first on is there. NULL after an error message. */
const uint32_t *columns_wait(struct columns *columns, unsigned slot, uint64_t first);
int columns_close(struct columns *columns);

#endif
