/* SPDX-License-Identifier: BSD-3-Clause */
#include "graph_file.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_LZ4
#include <lz4.h>
#endif

#define MAGIC 0x3173776f72666270 /* "pbfrows1" */
/* Of the columns in the file: a multiple of every page size. */
#define ALIGNMENT ((size_t)64 << 10)
#define BLOCK_LEAST ((size_t)4 << 10)
#define BLOCK_MOST ((size_t)1 << 20)
/* Bytes of one write or read at most. */
#define PIECE ((size_t)1 << 30)

/* At the start of both files. */
struct header {
	uint64_t magic, seed;
	uint32_t scale, factor;
	uint64_t block;
};

static size_t offsets_length(const struct graph *graph)
{
	return (graph_vertices(graph) + 1) * sizeof(uint64_t);
}

static size_t columns_at(const struct graph *graph)
{
	size_t end = sizeof(struct header) + offsets_length(graph);

	return (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int write_at(int fd, const void *data, size_t length, size_t at)
{
	while (length) {
		ssize_t bytes = pwrite(fd, data, length < PIECE ? length : PIECE, (off_t)at);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0)
			return -1;
		data = (const char *)data + bytes;
		length -= (size_t)bytes;
		at += (size_t)bytes;
	}
	return 0;
}

static int read_at(int fd, void *data, size_t length, size_t at)
{
	while (length) {
		ssize_t bytes = pread(fd, data, length < PIECE ? length : PIECE, (off_t)at);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes <= 0) {
			if (!bytes)
				errno = EIO; /* the file is too short */
			return -1;
		}
		data = (char *)data + bytes;
		length -= (size_t)bytes;
		at += (size_t)bytes;
	}
	return 0;
}

/*
 * Columns of a block as planes: the first bytes of all columns, then the second ones. Those of
 * high value repeat, so that they can be compressed.
 */
static void split(const uint32_t *columns, size_t count, uint8_t *planes)
{
	size_t i;

	for (i = 0; i < count; i++) {
		planes[i] = (uint8_t)columns[i];
		planes[count + i] = (uint8_t)(columns[i] >> 8);
		planes[2 * count + i] = (uint8_t)(columns[i] >> 16);
		planes[3 * count + i] = (uint8_t)(columns[i] >> 24);
	}
}

static void join(const uint8_t *planes, size_t count, uint32_t *columns)
{
	size_t i;

	for (i = 0; i < count; i++)
		columns[i] = (uint32_t)planes[i] | (uint32_t)planes[count + i] << 8 |
			     (uint32_t)planes[2 * count + i] << 16 |
			     (uint32_t)planes[3 * count + i] << 24;
}

/* Returns the length in out, which has room for length bytes: that itself if nothing is saved. */
static size_t compress_block(const uint32_t *columns, size_t length, uint8_t *planes, void *out)
{
	int bytes = 0;

	split(columns, length / sizeof(*columns), planes);
#ifdef HAVE_LZ4
	bytes = LZ4_compress_default((const char *)planes, out, (int)length, (int)length - 1);
#endif
	if (bytes > 0)
		return (size_t)bytes;
	memcpy(out, planes, length);
	return length;
}

/* Returns 0, or -1 with errno. */
static int decompress_block(const void *in, size_t bytes, uint8_t *planes, size_t length)
{
	if (bytes == length) {
		memcpy(planes, in, length);
		return 0;
	}
#ifdef HAVE_LZ4
	if (LZ4_decompress_safe(in, (char *)planes, (int)bytes, (int)length) == (int)length)
		return 0;
	errno = EBADMSG;
#else
	errno = ENOTSUP; /* written by a program with LZ4 */
#endif
	return -1;
}

static int write_rows(int fd, const struct header *header, const struct graph *graph,
		      const struct graph_rows *rows)
{
	return write_at(fd, header, sizeof(*header), 0) ||
	       write_at(fd, rows->offsets, offsets_length(graph), sizeof(*header)) ||
	       write_at(fd, rows->columns, graph_columns(graph) * sizeof(*rows->columns),
			columns_at(graph));
}

static int write_blocks(int fd, const struct header *header, const struct graph *graph,
			const uint32_t *columns, uint64_t *compressed)
{
	size_t block = header->block, length = graph_columns(graph) * sizeof(*columns);
	size_t count = length / block, i, bytes;
	uint64_t *index = calloc(count + 1, sizeof(*index));
	uint8_t *planes = malloc(block), *out = malloc(block);
	int status = index && planes && out ? 0 : -1;

	if (!status)
		index[0] = sizeof(*header) + (count + 1) * sizeof(*index);
	for (i = 0; i < count && !status; i++) {
		bytes = compress_block(columns + i * (block / sizeof(*columns)), block, planes,
				       out);
		status = write_at(fd, out, bytes, index[i]);
		index[i + 1] = index[i] + bytes;
	}
	if (!status) {
		*compressed = index[count] - index[0];
		status = write_at(fd, header, sizeof(*header), 0) ||
			 write_at(fd, index, (count + 1) * sizeof(*index), sizeof(*header));
	}
	free(index);
	free(planes);
	free(out);
	return status;
}

/* The second file has the suffix ".blocks". Returns a descriptor, or -1 after a message. */
static int open_part(const char *name, const char *suffix, int flags)
{
	char path[PATH_MAX];
	int fd = -1;

	if (snprintf(path, sizeof(path), "%s%s", name, suffix) < (int)sizeof(path))
		fd = open(path, flags | O_CLOEXEC, 0666);
	else
		errno = ENAMETOOLONG;
	if (fd < 0)
		warn("%s%s", name, suffix);
	return fd;
}

static bool block_valid(size_t block, size_t length)
{
	return block >= BLOCK_LEAST && block <= BLOCK_MOST && !(block & (block - 1)) &&
	       !(length % block);
}

int graph_file_write(const char *name, const struct graph *graph, const struct graph_rows *rows,
		     size_t block, uint64_t *compressed)
{
	struct header header = { .magic = MAGIC,
				 .seed = graph->seed,
				 .scale = graph->scale,
				 .factor = graph->factor,
				 .block = block };
	int fd, blocks, status = -1;

	if (!block_valid(block, graph_columns(graph) * sizeof(*rows->columns))) {
		warnx("blocks of %zu bytes: must be a power of two from 4 KiB to 1 MiB, and not "
		      "above the graph's size",
		      block);
		return -1;
	}
	fd = open_part(name, "", O_WRONLY | O_CREAT | O_TRUNC);
	blocks = open_part(name, ".blocks", O_WRONLY | O_CREAT | O_TRUNC);
	if (fd >= 0 && blocks >= 0) {
		status = write_rows(fd, &header, graph, rows) ||
			 write_blocks(blocks, &header, graph, rows->columns, compressed);
		/* Pages that are not written yet cannot be dropped from memory. */
		if (status || fdatasync(fd) || fdatasync(blocks)) {
			warn("%s", name);
			status = -1;
		}
	}
	if (fd >= 0)
		close(fd);
	if (blocks >= 0)
		close(blocks);
	return status;
}

static bool offsets_valid(const struct graph_file *file)
{
	uint64_t vertices = graph_vertices(&file->graph), i;

	for (i = 0; i < vertices; i++)
		if (file->offsets[i] > file->offsets[i + 1])
			return false;
	return !file->offsets[0] && file->offsets[vertices] == graph_columns(&file->graph);
}

static bool index_valid(const struct graph_file *file, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (file->index[i] >= file->index[i + 1] ||
		    file->index[i + 1] - file->index[i] > file->block)
			return false;
	return true;
}

/* Returns 0, or -1 with errno. */
static int read_parts(struct graph_file *file)
{
	struct header header, other;
	struct stat rows;
	size_t count;

	if (read_at(file->rows, &header, sizeof(header), 0) ||
	    read_at(file->blocks, &other, sizeof(other), 0))
		return -1;
	errno = EBADMSG;
	if (header.magic != MAGIC || memcmp(&header, &other, sizeof(header)) != 0 ||
	    header.scale > GRAPH_SCALE_MOST || !header.factor || header.factor > UINT8_MAX)
		return -1;
	file->graph = (struct graph){ header.scale, header.factor, header.seed };
	file->length = graph_columns(&file->graph) * sizeof(uint32_t);
	file->block = header.block;
	file->columns_at = columns_at(&file->graph);
	if (!block_valid(file->block, file->length) || fstat(file->rows, &rows) ||
	    (uint64_t)rows.st_size < file->columns_at + file->length)
		return -1;
	count = file->length / file->block;
	file->offsets = graph_memory(offsets_length(&file->graph));
	file->index = malloc((count + 1) * sizeof(*file->index));
	if (!file->offsets || !file->index ||
	    read_at(file->rows, file->offsets, offsets_length(&file->graph), sizeof(header)) ||
	    read_at(file->blocks, file->index, (count + 1) * sizeof(*file->index), sizeof(header)))
		return -1;
	errno = EBADMSG;
	return offsets_valid(file) && index_valid(file, count) ? 0 : -1;
}

int graph_file_open(struct graph_file *file, const char *name)
{
	memset(file, 0, sizeof(*file));
	file->rows = open_part(name, "", O_RDONLY);
	file->blocks = open_part(name, ".blocks", O_RDONLY);
	if (file->rows >= 0 && file->blocks >= 0) {
		if (!read_parts(file))
			return 0;
		warn("%s", name);
	}
	graph_file_close(file);
	return -1;
}

int graph_file_read(const struct graph_file *file, size_t at, void *columns, size_t length)
{
	if (!read_at(file->rows, columns, length, file->columns_at + at))
		return 0;
	warn("the file of the graph");
	return -1;
}

int graph_file_read_block(const struct graph_file *file, size_t number, void *columns)
{
	size_t bytes = file->index[number + 1] - file->index[number];
	uint8_t *in = malloc(file->block), *planes = malloc(file->block);
	int status = -1;

	if (in && planes && !read_at(file->blocks, in, bytes, file->index[number]) &&
	    !decompress_block(in, bytes, planes, file->block)) {
		join(planes, file->block / sizeof(uint32_t), columns);
		status = 0;
	} else {
		warn("block %zu of the file of the graph", number);
	}
	free(in);
	free(planes);
	return status;
}

void graph_file_forget(const struct graph_file *file)
{
	posix_fadvise(file->rows, (off_t)file->columns_at, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(file->blocks, 0, 0, POSIX_FADV_DONTNEED);
}

void graph_file_close(struct graph_file *file)
{
	if (file->rows >= 0)
		close(file->rows);
	if (file->blocks >= 0)
		close(file->blocks);
	if (file->offsets)
		munmap(file->offsets, offsets_length(&file->graph));
	free(file->index);
}
