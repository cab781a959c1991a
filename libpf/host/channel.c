/* SPDX-License-Identifier: BSD-3-Clause */
#include "channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pf.h"

#define CHANNEL_MAGIC 0x316c656e6e616863 /* "channel1" */
/* Without these a peer could shrink the file under us, which is a SIGBUS. */
#define CHANNEL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static_assert(sizeof(struct channel_memory) % 4096 == 0, "the ring starts on a page");

static int map(struct channel *channel, size_t ring_size)
{
	size_t header = sizeof(struct channel_memory);
	uint8_t *area;

	channel->mapped = header + 2 * ring_size;
	area = mmap(NULL, channel->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (area == MAP_FAILED)
		return PF_ERR_MEMORY;
	if (mmap(area, header + ring_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 channel->fd, 0) == MAP_FAILED ||
	    mmap(area + header + ring_size, ring_size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, channel->fd, (off_t)header) == MAP_FAILED) {
		munmap(area, channel->mapped);
		return PF_ERR_MEMORY;
	}
	channel->memory = (struct channel_memory *)area;
	channel->ring = (struct ring){
		.base = area + header,
		.size = ring_size,
		.lap = ring_size < RING_LAP_FIRST ? ring_size : RING_LAP_FIRST,
		.tail = &channel->memory->tail,
		.short_most = RING_PREFETCH_MAX,
	};
	return PF_OK;
}

int channel_create(struct channel *channel, size_t ring_size, _Atomic int64_t *allowance)
{
	int status = PF_ERR_SYSTEM;

	channel->fd = memfd_create("libpf channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (channel->fd < 0)
		return status;
	if (ftruncate(channel->fd, (off_t)(sizeof(struct channel_memory) + ring_size)) < 0 ||
	    fcntl(channel->fd, F_ADD_SEALS, CHANNEL_SEALS | F_SEAL_SEAL) < 0)
		goto fail;
	status = map(channel, ring_size);
	if (status != PF_OK)
		goto fail;
	channel->ring.allowance = allowance;
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

	channel->fd = fd;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & CHANNEL_SEALS) != CHANNEL_SEALS || fstat(fd, &file) < 0)
		goto fail;
	if (file.st_size <= (off_t)sizeof(struct channel_memory))
		goto fail;
	ring_size = (uint64_t)file.st_size - sizeof(struct channel_memory);
	if (ring_size < 16384 || ring_size > 1 << 30 || (ring_size & (ring_size - 1)))
		goto fail;
	status = map(channel, ring_size);
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
	if (channel->ring.allowance && channel->ring.lap > RING_LAP_FREE)
		atomic_fetch_add_explicit(channel->ring.allowance,
					  (int64_t)(channel->ring.lap - RING_LAP_FREE),
					  memory_order_relaxed);
	munmap(channel->memory, channel->mapped);
	close(channel->fd);
	channel->memory = NULL;
}

/* The file holds the ring once: where an entry wraps, it is two pieces. */
static size_t copy(const struct channel *channel, const uint8_t *payload, char *memory,
		   size_t length, bool fill)
{
	size_t size = channel->ring.size, done = 0;

	while (done < length) {
		size_t at = (size_t)(payload - channel->ring.base + done) & (size - 1);
		size_t piece = length - done < size - at ? length - done : size - at;
		off_t offset = (off_t)(sizeof(struct channel_memory) + at);
		ssize_t bytes = fill ? pwrite(channel->fd, memory + done, piece, offset) :
				       pread(channel->fd, memory + done, piece, offset);

		if (bytes <= 0)
			break;
		done += (size_t)bytes;
	}
	return done;
}

size_t channel_fill(const struct channel *channel, uint8_t *payload, const void *from,
		    size_t length)
{
	return copy(channel, payload, (char *)(uintptr_t)from, length, true);
}

size_t channel_place(const struct channel *channel, const uint8_t *payload, void *to, size_t length)
{
	return copy(channel, payload, to, length, false);
}
