// SPDX-License-Identifier: GPL-2.0
#include "ram.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool ram_add(struct ram *ram, char *argument)
{
	struct ram_region *region = &ram->regions[ram->count];
	char *at = strrchr(argument, '@');

	if (ram->count == RAM_REGIONS || !*argument)
		return false;
	*region = (struct ram_region){ .path = argument };
	if (at) {
		*at++ = 0;
		region->address = strtoull(at, &at, 0);
		if (*at == '+')
			region->offset = strtoull(at + 1, &at, 0);
		if (*at == ':')
			region->length = strtoull(at + 1, &at, 0);
		if (*at)
			return false;
	}
	ram->count++;
	return true;
}

static const char *map_region(struct ram_region *region)
{
	int fd = open(region->path, O_RDWR | O_CLOEXEC);
	const char *problem = NULL;
	struct stat status;
	void *bytes;

	if (fd < 0)
		return region->path;
	if (fstat(fd, &status)) {
		problem = region->path;
	} else {
		region->mapped = region->length;
		if (!region->length)
			region->mapped = (uint64_t)status.st_size - region->offset;
		if (region->offset > (uint64_t)status.st_size ||
		    region->mapped > (uint64_t)status.st_size - region->offset || !region->mapped) {
			errno = ERANGE;
			problem = region->path;
		}
	}
	if (!problem) {
		bytes = mmap(NULL, region->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			     (off_t)region->offset);
		if (bytes == MAP_FAILED)
			problem = region->path;
		else
			region->bytes = bytes;
	}
	close(fd);
	return problem;
}

const char *ram_map(struct ram *ram)
{
	const char *problem = NULL;
	unsigned int i;

	for (i = 0; i < ram->count && !problem; i++)
		if (!ram->regions[i].bytes)
			problem = map_region(&ram->regions[i]);
	return problem;
}

void ram_unmap(struct ram *ram)
{
	unsigned int i;

	for (i = 0; i < ram->count; i++) {
		if (ram->regions[i].bytes)
			munmap(ram->regions[i].bytes, ram->regions[i].mapped);
		ram->regions[i].bytes = NULL;
	}
}

/* NULL: not all of it is in one region. */
static uint8_t *find(struct ram *ram, uint64_t address, size_t length)
{
	const struct ram_region *region;
	unsigned int i;

	for (i = 0; i < ram->count; i++) {
		region = &ram->regions[i];
		if (region->bytes && address >= region->address && length <= region->mapped &&
		    address - region->address <= region->mapped - length)
			return region->bytes + (address - region->address);
	}
	return NULL;
}

static bool is_aligned(const void *place, size_t size)
{
	return !((uintptr_t)place % size);
}

static bool ram_read(void *context, uint64_t address, void *bytes, size_t length)
{
	uint8_t *place = find(context, address, length);

	if (!place)
		return false;
	if (length == 8 && is_aligned(place, 8)) {
		uint64_t value = __atomic_load_n((uint64_t *)(void *)place, __ATOMIC_ACQUIRE);

		memcpy(bytes, &value, 8);
	} else {
		memcpy(bytes, place, length);
	}
	return true;
}

static bool ram_write(void *context, uint64_t address, const void *bytes, size_t length)
{
	uint8_t *place = find(context, address, length);
	uint64_t wide;
	uint32_t narrow;

	if (!place)
		return false;
	if (length == 8 && is_aligned(place, 8)) {
		memcpy(&wide, bytes, 8);
		__atomic_store_n((uint64_t *)(void *)place, wide, __ATOMIC_RELEASE);
	} else if (length == 4 && is_aligned(place, 4)) {
		memcpy(&narrow, bytes, 4);
		__atomic_store_n((uint32_t *)(void *)place, narrow, __ATOMIC_RELEASE);
	} else {
		memcpy(place, bytes, length);
	}
	return true;
}

static bool ram_compare_swap(void *context, uint64_t address, unsigned int width, uint64_t *value,
			     uint64_t desired)
{
	uint8_t *place = find(context, address, width);
	uint64_t wide = htole64(*value);
	uint32_t narrow = htole32((uint32_t)*value);

	if (!place || !is_aligned(place, width))
		return false;
	if (width == 8) {
		__atomic_compare_exchange_n((uint64_t *)(void *)place, &wide, htole64(desired),
					    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		*value = le64toh(wide);
	} else {
		__atomic_compare_exchange_n((uint32_t *)(void *)place, &narrow,
					    htole32((uint32_t)desired), false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		*value = le32toh(narrow);
	}
	return true;
}

struct memory ram_memory(struct ram *ram)
{
	return (struct memory){
		.context = ram,
		.read = ram_read,
		.write = ram_write,
		.compare_swap = ram_compare_swap,
	};
}
