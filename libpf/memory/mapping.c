/* SPDX-License-Identifier: BSD-3-Clause */
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/descriptor.h"

/* From linux/fs.h of 6.11; the headers of the build may be older. */
struct procmap_query {
	uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size;
	uint64_t vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)

/* Longest text of a first list read by the caller, bytes: some 700 mappings, 0.3 ms. */
#define FIRST_TEXT_MOST ((uint64_t)64 << 10)
/* Longest time for a list read by the caller, ns: later lists are read by the service thread. */
#define CALLER_NANOSECONDS_MOST 300000
/* After a list, libpf reads no list for REST_FACTOR times the time of the last list. */
#define REST_FACTOR 32

/* Nothing was asked yet: most peers only ever copy pages that are present. */
#define FD_NOT_OPENED (-2)

struct mappings {
	pid_t pid;
	_Atomic int fd; /* /proc/PID/maps; FD_NOT_OPENED, or -1: it cannot be read */
	uint64_t lifetime;
	struct service *service;
	_Atomic unsigned users; /* the owner, and a task */
	pthread_mutex_t lock;
	/* Under the lock, before Linux 6.11 only: */
	struct mapping *list; /* in the order of addresses; NULL: none yet */
	size_t count;
	uint64_t due;  /* time of the next list, ns */
	uint64_t cost; /* of the last list, ns */
	bool asked;    /* a task is to read the next list */
};

/* The kernel does not know PROCMAP_QUERY. Set once. */
static _Atomic bool query_unknown;
/* Time before which no list of any process is read again, ns. */
static _Atomic uint64_t rest_end;

/* Does /proc belong to the PID namespace of the calling process? */
static bool proc_is_own(void)
{
	char text[24];
	ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

	if (length <= 0)
		return false;
	text[length] = '\0';
	return strtol(text, NULL, 10) == getpid();
}

int process_file_open(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	/* An ended main thread has no memory: the calling thread opens its own file. */
	if (pid == getpid())
		snprintf(path, sizeof(path), "/proc/thread-self/%s", name);
	else if (proc_is_own())
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	else
		return -1;
	do {
		fd = open(path, O_RDONLY | O_CLOEXEC);
	} while (fd < 0 && descriptor_limit_raised(errno));
	return descriptor_lift(fd);
}

struct mappings *mappings_open(pid_t pid, uint64_t lifetime, struct service *service)
{
	struct mappings *mappings = calloc(1, sizeof(*mappings));

	if (!mappings)
		return NULL;
	mappings->pid = pid;
	/*
	 * Before Linux 6.11 the file needs a thread with the lifetime of the descriptor; without
	 * the thread, all memory counts as absent from the list.
	 */
	atomic_init(&mappings->fd, pid == getpid() ? open("/proc/self/maps", O_RDONLY | O_CLOEXEC) :
						     FD_NOT_OPENED);
	mappings->lifetime = lifetime;
	mappings->service = service;
	mappings->users = 1;
	pthread_mutex_init(&mappings->lock, NULL);
	if (mappings->fd != -1)
		return mappings;
	mappings_close(mappings);
	return NULL;
}

/* Can it be read? Opens the file of another process at the first question. */
static bool mappings_are_open(struct mappings *mappings)
{
	int fd = atomic_load_explicit(&mappings->fd, memory_order_acquire);

	if (fd != FD_NOT_OPENED)
		return fd >= 0;
	pthread_mutex_lock(&mappings->lock);
	fd = atomic_load_explicit(&mappings->fd, memory_order_relaxed);
	if (fd == FD_NOT_OPENED) {
		fd = process_file_open(mappings->pid, "maps");
		atomic_store_explicit(&mappings->fd, fd, memory_order_release);
	}
	pthread_mutex_unlock(&mappings->lock);
	return fd >= 0;
}

void mappings_close(struct mappings *mappings)
{
	if (!mappings || atomic_fetch_sub(&mappings->users, 1) > 1)
		return;
	if (mappings->fd >= 0)
		close(mappings->fd);
	pthread_mutex_destroy(&mappings->lock);
	free(mappings->list);
	free(mappings);
}

/* Parse "START-END rwxp OFFSET MAJOR:MINOR INODE PATH"; false for anything else. */
static bool mapping_parse(const char *line, struct mapping *mapping)
{
	unsigned major, minor;
	const char *mode;
	char *at;

	mapping->start = strtoull(line, &at, 16);
	if (*at != '-')
		return false;
	mapping->end = strtoull(at + 1, &at, 16);
	if (strnlen(at, 6) < 6)
		return false;
	mode = at + 1;
	mapping->flags = (mode[0] == 'r' ? MAPPING_READABLE : 0) |
			 (mode[1] == 'w' ? MAPPING_WRITABLE : 0) |
			 (mode[3] == 's' ? MAPPING_SHARED : 0);
	strtoull(mode + 4, &at, 16);
	major = (unsigned)strtoul(at, &at, 16);
	if (*at != ':')
		return false;
	minor = (unsigned)strtoul(at + 1, &at, 16);
	mapping->device = makedev(major, minor);
	mapping->inode = strtoull(at, &at, 10);
	return true;
}

struct list {
	struct mapping *mappings;
	size_t count, room;
};

static bool list_add(struct list *list, const struct mapping *mapping)
{
	struct mapping *last = list->count ? &list->mappings[list->count - 1] : NULL;

	if (last && last->end == mapping->start && last->inode == mapping->inode &&
	    last->device == mapping->device &&
	    mapping_writes_file(last) == mapping_writes_file(mapping)) {
		last->end = mapping->end;
		return true;
	}
	if (!list->mappings || list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 256;

		last = realloc(list->mappings, room * sizeof(*last));
		if (!last)
			return false;
		list->mappings = last;
		list->room = room;
	}
	list->mappings[list->count++] = *mapping;
	return true;
}

/*
 * Read all of the file. False: the text is longer than most bytes, or malformed, or memory is
 * short.
 */
static bool list_read(struct list *list, int fd, uint64_t most)
{
	char text[4097], *line, *next;
	struct mapping mapping;
	uint64_t offset = 0;
	size_t kept = 0;
	ssize_t bytes;

	*list = (struct list){ 0 };
	while ((bytes = pread(fd, text + kept, sizeof(text) - 1 - kept, (off_t)offset)) > 0) {
		offset += (uint64_t)bytes;
		text[kept + (size_t)bytes] = '\0';
		for (line = text; (next = strchr(line, '\n')); line = next + 1) {
			if (!mapping_parse(line, &mapping) || !list_add(list, &mapping))
				break;
		}
		if (next || offset > most)
			break;
		kept = strlen(line);
		memmove(text, line, kept);
	}
	if (!bytes && list->count)
		return true;
	free(list->mappings);
	return false;
}

/*
 * Read a new list, without the lock, or with the lock by a caller that may read. Returns whether
 * there is a new list.
 */
static bool list_renew(struct mappings *mappings, struct list *list, uint64_t most, uint64_t *cost)
{
	uint64_t before = clock_nanoseconds(CLOCK_MONOTONIC), now, rest;
	bool done = list_read(list, mappings->fd, most);

	now = clock_nanoseconds(CLOCK_MONOTONIC);
	*cost = now - before;
	rest = *cost * REST_FACTOR;
	atomic_store_explicit(&rest_end,
			      now + (rest > mappings->lifetime ? rest : mappings->lifetime),
			      memory_order_relaxed);
	return done;
}

/* Under the lock. */
static void list_install(struct mappings *mappings, const struct list *list, uint64_t cost)
{
	assert_locked(&mappings->lock, true);
	free(mappings->list);
	mappings->list = list->mappings;
	mappings->count = list->count;
	mappings->cost = cost;
	mappings->due = clock_nanoseconds(CLOCK_MONOTONIC) + mappings->lifetime;
}

struct mappings_task {
	struct task task;
	struct mappings *mappings;
};

/* Service thread. */
static void mappings_run(struct task *task, bool dropped)
{
	struct mappings *mappings = ((struct mappings_task *)task)->mappings;
	struct list list;
	uint64_t cost;
	bool done = !dropped && list_renew(mappings, &list, UINT64_MAX, &cost);

	pthread_mutex_lock(&mappings->lock);
	if (done)
		list_install(mappings, &list, cost);
	mappings->asked = false;
	pthread_mutex_unlock(&mappings->lock);
	mappings_close(mappings);
	free(task);
}

/*
 * Under the lock: give the next list to the service thread. Without memory for the task the list
 * stays as before.
 */
static void mappings_ask(struct mappings *mappings)
{
	struct mappings_task *work = calloc(1, sizeof(*work));

	assert_locked(&mappings->lock, true);
	if (!work)
		return;
	work->task.run = mappings_run;
	work->mappings = mappings;
	atomic_fetch_add(&mappings->users, 1);
	mappings->asked = true;
	service_run(mappings->service, &work->task);
}

/* Under the lock: renew the list if its lifetime is over. */
static void mappings_renew(struct mappings *mappings)
{
	uint64_t now = clock_nanoseconds(CLOCK_MONOTONIC), most = UINT64_MAX, cost;
	struct list list;

	assert_locked(&mappings->lock, true);
	if (mappings->asked || now < mappings->due)
		return;
	if (mappings->lifetime && mappings->list &&
	    now < atomic_load_explicit(&rest_end, memory_order_relaxed))
		return;
	if (mappings->service && mappings->cost > CALLER_NANOSECONDS_MOST) {
		mappings_ask(mappings);
		return;
	}
	if (mappings->service && !mappings->list)
		most = FIRST_TEXT_MOST;
	if (list_renew(mappings, &list, most, &cost))
		list_install(mappings, &list, cost);
	else if (most != UINT64_MAX)
		mappings_ask(mappings);
}

static void mappings_find_listed(struct mappings *mappings, uint64_t address,
				 struct mapping *mapping)
{
	size_t low = 0, high;
	uint64_t end;

	pthread_mutex_lock(&mappings->lock);
	mappings_renew(mappings);
	/* Find the first mapping with its end behind the address. */
	for (high = mappings->count; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (mappings->list[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	if (low < mappings->count && mappings->list[low].start <= address) {
		*mapping = mappings->list[low];
	} else {
		/* Newer than the list, or not mapped: most new mappings are anonymous memory. */
		end = low < mappings->count ? mappings->list[low].start : UINT64_MAX;
		*mapping = (struct mapping){ .start = address, .end = end };
	}
	pthread_mutex_unlock(&mappings->lock);
}

/* Ask the kernel. False with ENOTTY: the kernel does not know PROCMAP_QUERY. */
static bool mappings_query(struct mappings *mappings, struct procmap_query *query)
{
	query->size = sizeof(*query);
	if (atomic_load_explicit(&query_unknown, memory_order_relaxed))
		errno = ENOTTY;
	else if (!ioctl(mappings->fd, PROCMAP_QUERY, query))
		return true;
	if (errno == ENOTTY)
		atomic_store_explicit(&query_unknown, true, memory_order_relaxed);
	return false;
}

static struct mapping mapping_told(const struct procmap_query *query)
{
	return (struct mapping){ .start = query->vma_start,
				 .end = query->vma_end,
				 .inode = query->inode,
				 .device = makedev(query->dev_major, query->dev_minor),
				 .flags = query->vma_flags };
}

bool mappings_find(struct mappings *mappings, uint64_t address, struct mapping *mapping)
{
	struct procmap_query query = { .query_addr = address };

	if (!mappings || !mappings_are_open(mappings))
		return false;
	if (mappings_query(mappings, &query)) {
		*mapping = mapping_told(&query);
		return true;
	}
	if (errno != ENOTTY)
		return false;
	mappings_find_listed(mappings, address, mapping);
	return true;
}

/*
 * Find the mapping as mappings_find_now, in a file like /proc/self/maps. *ended: the file reached
 * the address.
 */
static bool mappings_search(const char *file, uint64_t address, struct mapping *mapping, char *path,
			    size_t size, bool *ended)
{
	FILE *maps = fopen(file, "re");
	const char *name = NULL;
	char *line = NULL;
	bool found = false;
	size_t room = 0;

	*ended = false;
	while (maps && !*ended && getline(&line, &room, maps) > 0) {
		*ended = !mapping_parse(line, mapping) || address < mapping->end;
		found = *ended && address < mapping->end && address >= mapping->start;
		name = strchr(line, '/');
	}
	if (path)
		snprintf(path, size, "%.*s", found && name ? (int)strcspn(name, "\n") : 0,
			 name ? name : "");
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

bool mappings_find_now(struct mappings *mappings, uint64_t address, struct mapping *mapping,
		       char *path, size_t size)
{
	struct procmap_query query = { .query_addr = address,
				       .vma_name_size = path ? (uint32_t)size : 0,
				       .vma_name_addr = (uint64_t)(uintptr_t)path };
	bool ended;

	if (!mappings || !mappings_are_open(mappings))
		return false;
	if (path)
		path[0] = '\0';
	if (mappings_query(mappings, &query)) {
		*mapping = mapping_told(&query);
		return true;
	}
	if (errno != ENOTTY)
		return false;
	/*
	 * Emulators know the first name; the second file is not empty if the main thread has
	 * ended.
	 */
	return mappings_search("/proc/self/maps", address, mapping, path, size, &ended) ||
	       (!ended &&
		mappings_search("/proc/thread-self/maps", address, mapping, path, size, &ended));
}
