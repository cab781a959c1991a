/* SPDX-License-Identifier: BSD-3-Clause */
#include "columns.h"

#include <err.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cost.h"

/* Of a put by which the other process gets the columns. */
#define PUT_PIECE ((size_t)1 << 20)
/* Bytes that libpf's pager brings before loads need them; 16 blocks of the usual size. */
#define PAGED_AHEAD ((size_t)1 << 20)

static void supply_thread(uint64_t address, void *page, size_t length, void *arg)
{
	paging_supply(arg, address, page, length);
}

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	(void)context;
	paging_supply(arg, address, page, length);
	return PF_OK;
}

static int open_memory(struct columns *columns)
{
	columns->memory = graph_memory(columns->file->length);
	columns->direct = columns->memory;
	return columns->memory ?
		       graph_file_read(columns->file, 0, columns->memory, columns->file->length) :
		       -1;
}

static int open_mmap(struct columns *columns)
{
	const struct graph_file *file = columns->file;
	void *memory = mmap(NULL, file->length, PROT_READ, MAP_SHARED, file->rows,
			    (off_t)file->columns_at);

	if (memory == MAP_FAILED) {
		warn("mmap of the graph");
		return -1;
	}
	columns->memory = memory;
	columns->direct = memory;
	return 0;
}

static int forget_mmap(struct columns *columns)
{
	if (!madvise(columns->memory, columns->file->length, MADV_DONTNEED))
		return 0;
	warn("MADV_DONTNEED");
	return -1;
}

static int open_paging(struct columns *columns)
{
	columns->paged = true;
	return paging_open(&columns->paging, columns->file, columns->limit);
}

static int start_userfault(struct columns *columns, size_t unit)
{
	if (open_paging(columns))
		return -1;
	columns->userfault = userfault_start(columns->paging.memory, columns->file->length, unit,
					     CORE_ANY, supply_thread, &columns->paging);
	columns->direct = (const uint32_t *)columns->paging.memory;
	return columns->userfault ? 0 : -1;
}

static int open_userfault(struct columns *columns)
{
	return start_userfault(columns, (size_t)sysconf(_SC_PAGESIZE));
}

static int open_userfault_block(struct columns *columns)
{
	return start_userfault(columns, columns->file->block);
}

/* Have the pages of the memory supplied by libpf's pager, so many bytes at once. */
static int register_pager(struct columns *columns, size_t unit)
{
	pf_options options;
	int status;

	if (open_paging(columns) || cost_load_options(&options) ||
	    session_open(&columns->session, &options))
		return -1;
	columns->session_open = true;
	status = pf_pager_register(columns->session.context, columns->paging.memory,
				   columns->file->length, supply, &columns->paging,
				   &columns->pager);
	if (status == PF_OK)
		status = pf_pager_set_unit(columns->pager, unit);
	if (status == PF_OK)
		return 0;
	warnx("pager: %s", pf_strerror(status));
	return -1;
}

static int start_pager(struct columns *columns, size_t unit)
{
	if (register_pager(columns, unit))
		return -1;
	columns->direct = (const uint32_t *)columns->paging.memory;
	return 0;
}

static int open_pager(struct columns *columns)
{
	return start_pager(columns, (size_t)sysconf(_SC_PAGESIZE));
}

static int open_pager_ahead(struct columns *columns)
{
	size_t most;
	int status;

	if (start_pager(columns, columns->file->block))
		return -1;
	/* Half of the places that are taken again: else what is ahead would be evicted unused. */
	most = columns->paging.recent / 2 * columns->file->block;
	status = pf_pager_set_ahead(columns->pager, most < PAGED_AHEAD ? most : PAGED_AHEAD);
	if (status == PF_OK)
		return 0;
	warnx("pager: %s", pf_strerror(status));
	return -1;
}

static int open_pager_get(struct columns *columns)
{
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	int status;

	if (register_pager(columns, columns->file->block))
		return -1;
	status = pf_address(columns->session.context, address, &length);
	if (status == PF_OK)
		status = pf_peer_open(columns->session.context, address, length, NULL,
				      &columns->session.peer);
	if (status != PF_OK) {
		warnx("connection to this process: %s", pf_strerror(status));
		return -1;
	}
	columns->remote = (uint64_t)(uintptr_t)columns->paging.memory;
	return 0;
}

static int forget_paging(struct columns *columns)
{
	paging_forget(&columns->paging);
	return 0;
}

/* Put the columns to the peer, which has memory for them. */
static int load_peer(struct columns *columns)
{
	struct session *session = &columns->session;
	uint8_t *piece = session_buffer(PUT_PIECE);
	size_t at, length;
	int status = piece ? 0 : -1;

	for (at = 0; at < columns->file->length && !status; at += length) {
		length = columns->file->length - at;
		if (length > PUT_PIECE)
			length = PUT_PIECE;
		session->completed = 0;
		status = graph_file_read(columns->file, at, piece, length) ||
			 session_posted(session, "pf_put",
					pf_put(session->peer, piece, columns->remote + at, length,
					       0, session_complete, session)) ||
			 session_wait(session, &session->completed, 1);
	}
	if (piece)
		munmap(piece, PUT_PIECE);
	return status ? -1 : 0;
}

static int open_remote(struct columns *columns)
{
	struct cores cores;
	pf_options options;
	int status;

	if (cost_load_options(&options))
		return -1;
	if (columns->peer)
		status = session_connect(&columns->session, &options, columns->peer, NULL);
	else
		status = cores_choose(&cores) || session_fork(&columns->session, &options, &cores);
	if (status)
		return -1;
	columns->session_open = true;
	if (!session_path(&columns->session) ||
	    session_prepare(&columns->session, columns->file->length, columns->file->length, 1, 0,
			    false, &columns->remote))
		return -1;
	return load_peer(columns);
}

static const struct columns_way ways[] = {
	{ "memory", "all in memory", open_memory, NULL },
	{ "mmap", "mmap of the file that is not compressed", open_mmap, forget_mmap },
	{ "userfault", "a userfaultfd thread supplies a page for each page fault", open_userfault,
	  forget_paging },
	{ "userfault-block", "the same, but the whole block that has the page",
	  open_userfault_block, forget_paging },
	{ "pager", "a pager of libpf supplies pages for loads", open_pager, forget_paging },
	{ "pager-ahead", "the same, but whole blocks, and ahead of the search", open_pager_ahead,
	  forget_paging },
	{ "pager-get", "the same for gets: the search gets what it will need", open_pager_get,
	  forget_paging },
	{ "remote", "the search gets from the memory of another process", open_remote, NULL },
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

const struct columns_way *columns_way(const char *name)
{
	int i;

	for (i = 0; i < WAYS; i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	return NULL;
}

void columns_print_ways(void)
{
	int i;

	for (i = 0; i < WAYS; i++)
		printf("  %-16s %s\n", ways[i].name, ways[i].about);
}

int columns_open(struct columns *columns, const struct columns_way *way,
		 const struct graph_file *file, size_t limit, const char *peer)
{
	unsigned i;

	memset(columns, 0, sizeof(*columns));
	columns->way = way;
	columns->file = file;
	columns->limit = limit;
	columns->peer = peer;
	if (way->open(columns))
		return -1;
	if (columns->direct)
		return 0;
	columns->buffers = (uint32_t *)(void *)session_buffer(COLUMNS_AHEAD * COLUMNS_PIECE);
	if (!columns->buffers)
		return -1;
	for (i = 0; i < COLUMNS_AHEAD; i++) {
		columns->slots[i].columns = columns;
		columns->slots[i].buffer = columns->buffers +
					   i * (COLUMNS_PIECE / sizeof(uint32_t));
	}
	return 0;
}

int columns_forget(struct columns *columns)
{
	if (columns->way->forget && columns->way->forget(columns))
		return -1;
	graph_file_forget(columns->file);
	return 0;
}

static void complete(pf_context *context, const pf_completion *completion)
{
	struct columns_slot *slot = completion->arg;

	(void)context;
	slot->arrived = completion->status == PF_OK;
	if (slot->arrived || slot->columns->session.failed)
		return;
	warnx("pf_get: %s", pf_strerror(completion->status));
	slot->columns->session.failed = true;
}

int columns_ask(struct columns *columns, unsigned number, uint64_t first, size_t count)
{
	struct columns_slot *slot = &columns->slots[number];
	size_t size = sizeof(*slot->buffer);
	int status;

	if (columns->direct)
		return 0;
	slot->arrived = false;
	do {
		status = pf_get(columns->session.peer, slot->buffer, columns->remote + first * size,
				count * size, complete, slot);
		if (status == PF_ERR_AGAIN)
			session_poll(&columns->session);
	} while (status == PF_ERR_AGAIN && !columns->session.failed);
	slot->arrived = status == PF_OK;
	return session_posted(&columns->session, "pf_get", status);
}

const uint32_t *columns_wait(struct columns *columns, unsigned number, uint64_t first)
{
	const struct columns_slot *slot = &columns->slots[number];

	if (columns->direct)
		return columns->direct + first;
	while (!slot->arrived && !columns->session.failed)
		session_poll(&columns->session);
	return slot->arrived ? slot->buffer : NULL;
}

int columns_close(struct columns *columns)
{
	int status = 0;

	if (columns->userfault)
		userfault_stop(columns->userfault);
	if (columns->pager)
		pf_pager_unregister(columns->pager);
	if (columns->session_open)
		status = session_close(&columns->session);
	if (columns->paged)
		paging_close(&columns->paging);
	if (columns->memory)
		munmap(columns->memory, columns->file->length);
	if (columns->buffers)
		munmap(columns->buffers, COLUMNS_AHEAD * COLUMNS_PIECE);
	return status;
}
