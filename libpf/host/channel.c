/* SPDX-License-Identifier: BSD-3-Clause */
#include "channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/page.h"
#include "memory/touch.h"
#include <libpf/pf.h>

#define CHANNEL_MAGIC 0x356c656e6e616863 /* "channel5" */
/* If the peer shrank the file, an access behind its end would raise SIGBUS. */
#define CHANNEL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static_assert(sizeof(struct channel_memory) <= 4096, "the header takes one page");

static int channel_map_memory(struct channel *channel, size_t ring_size)
{
	uint8_t *area;

	channel->mapped = CHANNEL_RING + 2 * ring_size;
	/* The addresses behind the end of the file are those of the second view. */
	area = mmap(NULL, channel->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, channel->fd, 0);
	if (area == MAP_FAILED)
		return PF_ERR_MEMORY;
	if (mmap(area + CHANNEL_RING + ring_size, ring_size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, channel->fd, CHANNEL_RING) == MAP_FAILED) {
		munmap(area, channel->mapped);
		return PF_ERR_MEMORY;
	}
	/* A core file would have both views of each ring. No effect where madvise fails. */
	madvise(area, channel->mapped, MADV_DONTDUMP);
	channel->memory = (struct channel_memory *)area;
	channel->ring = (struct ring){
		.base = area + CHANNEL_RING,
		.size = ring_size,
		.lap = ring_lap_first(ring_size),
		.file = channel->fd,
		.start = CHANNEL_RING,
		.tail = &channel->memory->tail,
		.entries = RING_LAP_ENTRIES,
	};
	channel->ring.made = channel->ring.taken = channel->ring.lap;
	access_open(&channel->access);
	/* The file also reaches memory that is hidden from the calls for single copy. */
	channel->access.by_file = true;
	return PF_OK;
}

int channel_create(struct channel *channel, size_t ring_size, _Atomic int64_t *allowance,
		   const struct location *node)
{
	int status = PF_ERR_SYSTEM;

	ring_size = channel_ring_size(ring_size, page_size());
	do {
		channel->fd = file_create("libpf channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	} while (channel->fd < 0 && descriptor_limit_raised(errno));
	if (channel->fd < 0)
		return status;
	channel->fd = descriptor_lift(channel->fd);
	if (!file_size_permitted(CHANNEL_RING + ring_size) ||
	    ftruncate(channel->fd, (off_t)(CHANNEL_RING + ring_size)) < 0 ||
	    fcntl(channel->fd, F_ADD_SEALS, CHANNEL_SEALS | F_SEAL_SEAL) < 0)
		goto fail;
	status = channel_map_memory(channel, ring_size);
	if (status != PF_OK)
		goto fail;
	channel->ring.allowance = allowance;
	/*
	 * Set for the file once: the preference holds for both views, for writes to the file, and
	 * for the reader.
	 */
	if (node)
		location_prefer(node, channel->memory, CHANNEL_RING + ring_size);
	if (!file_allocate(channel->fd, 0, sizeof(*channel->memory)) ||
	    !file_allocate(channel->fd, CHANNEL_RING, (off_t)channel->ring.made)) {
		munmap(channel->memory, channel->mapped);
		status = PF_ERR_MEMORY;
		goto fail;
	}
	channel->memory->magic = CHANNEL_MAGIC;
	channel->memory->ring_size = ring_size;
	return PF_OK;
fail:
	close(channel->fd);
	return status;
}

int channel_map(struct channel *channel, int fd)
{
	int status = PF_ERR_ARGUMENT;
	uint64_t ring_size;
	struct stat file;
	int seals;

	fd = descriptor_lift(fd);
	channel->fd = fd;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & CHANNEL_SEALS) != CHANNEL_SEALS || fstat(fd, &file) < 0)
		goto fail;
	if (file.st_size < CHANNEL_RING)
		goto fail;
	ring_size = (uint64_t)file.st_size - CHANNEL_RING;
	if (!channel_ring_valid(ring_size, page_size()))
		goto fail;
	status = channel_map_memory(channel, ring_size);
	if (status != PF_OK)
		goto fail;
	if (channel->memory->magic == CHANNEL_MAGIC && channel->memory->ring_size == ring_size)
		return PF_OK;
	status = PF_ERR_ARGUMENT;
	munmap(channel->memory, channel->mapped);
fail:
	close(fd);
	return status;
}

void channel_destroy(struct channel *channel)
{
	if (channel->ring.allowance)
		ring_give_back(&channel->ring);
	munmap(channel->memory, channel->mapped);
	if (channel->fd >= 0)
		close(channel->fd);
	access_close(&channel->access);
	channel->memory = NULL;
}

void channel_drop_file(struct channel *channel)
{
	uint64_t failed;

	/* Before Linux 5.14 a ring grows by its file alone. */
	if (touch_range((uint64_t)(uintptr_t)channel->memory, 1, true, &failed) != PF_OK)
		return;
	close(channel->fd);
	channel->fd = channel->ring.file = -1;
}

bool channel_can_copy(struct channel *channel, size_t length)
{
	return channel->fd >= 0 || access_prepare(&channel->access, length);
}

/* The file holds the ring once: an entry that wraps is copied in two pieces. */
static size_t channel_copy(const struct channel *channel, const uint8_t *payload, char *memory,
			   size_t length, bool fill)
{
	size_t size = channel->ring.size, done = 0;

	if (fill && !file_size_permitted(CHANNEL_RING + size))
		return 0;
	while (done < length) {
		size_t at = (size_t)(payload - channel->ring.base + done) & (size - 1);
		size_t piece = length - done < size - at ? length - done : size - at;
		off_t offset = (off_t)(CHANNEL_RING + at);
		ssize_t bytes = fill ? pwrite(channel->fd, memory + done, piece, offset) :
				       pread(channel->fd, memory + done, piece, offset);

		if (bytes <= 0)
			break;
		done += (size_t)bytes;
	}
	return done;
}

/* Copy by way of access.h, which needs no file of the channel. */
static size_t channel_copy_twice(struct channel *channel, uint8_t *payload, uint64_t memory,
				 size_t length, bool fill)
{
	uint64_t bad = memory;
	int status = fill ? access_read(&channel->access, memory, payload, length, &bad) :
			    access_write(&channel->access, memory, payload, length, &bad);

	return status == PF_OK ? length : status == PF_ERR_FAULT ? bad - memory : 0;
}

size_t channel_fill(struct channel *channel, uint8_t *payload, const void *from, size_t length)
{
	if (channel->fd < 0)
		return channel_copy_twice(channel, payload, (uint64_t)(uintptr_t)from, length,
					  true);
	return channel_copy(channel, payload, (char *)(uintptr_t)from, length, true);
}

size_t channel_place(struct channel *channel, const uint8_t *payload, void *to, size_t length)
{
	if (channel->fd < 0)
		return channel_copy_twice(channel, (uint8_t *)(uintptr_t)payload,
					  (uint64_t)(uintptr_t)to, length, false);
	return channel_copy(channel, payload, to, length, false);
}

/* Copy pieces of memory, in a row in the ring. An entry that wraps is copied piece by piece. */
static size_t channel_copy_vectors(struct channel *channel, uint8_t *payload,
				   const struct iovec *vectors, unsigned count, size_t length,
				   bool fill)
{
	size_t at = (size_t)(payload - channel->ring.base) & (channel->ring.size - 1);
	size_t done = 0, moved;
	ssize_t bytes;
	unsigned i;

	if (channel->fd >= 0 && at + length <= channel->ring.size) {
		if (fill && !file_size_permitted(CHANNEL_RING + channel->ring.size))
			return 0;
		/* Bare: see memory/access.c. */
		bytes = syscall(fill ? SYS_pwritev : SYS_preadv, channel->fd, vectors,
				(unsigned long)count, (unsigned long)(CHANNEL_RING + at), 0ul);
		return bytes < 0 ? 0 : (size_t)bytes;
	}
	for (i = 0; i < count; i++, payload += moved) {
		const size_t piece = vectors[i].iov_len;

		moved = fill ? channel_fill(channel, payload, vectors[i].iov_base, piece) :
			       channel_place(channel, payload, vectors[i].iov_base, piece);
		done += moved;
		if (moved < piece)
			break;
	}
	return done;
}

size_t channel_gather(struct channel *channel, uint8_t *payload, const struct iovec *from,
		      unsigned count, size_t length)
{
	return channel_copy_vectors(channel, payload, from, count, length, true);
}

size_t channel_scatter(struct channel *channel, const uint8_t *payload, const struct iovec *to,
		       unsigned count, size_t length)
{
	return channel_copy_vectors(channel, (uint8_t *)(uintptr_t)payload, to, count, length,
				    false);
}
