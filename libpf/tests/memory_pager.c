/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory whose pages the program supplies: by a pager of libpf, or by its own userfaultfd. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine.h"
#include "memory.h"

const struct memory_pager *memory_pager;

/* Keep the contents for the pages that will be supplied. */
static const char *keep(struct memory *memory)
{
	memory->other = malloc(memory->size);
	if (!memory->other)
		return memory_error("%zu bytes", memory->size);
	memcpy(memory->other, memory->map, memory->size);
	return NULL;
}

static const char *has_pager(void)
{
	return memory_pager ? NULL : "no pager in this program";
}

static const char *page_by_engine(struct memory *memory)
{
	const char *error = keep(memory);

	if (!error)
		error = memory_pager->start(memory);
	return error ? error : memory_advise(memory, MADV_DONTNEED);
}

static const char *keep_evicting(struct memory *memory, unsigned turn)
{
	usleep(turn % 200);
	return memory_advise(memory, MADV_DONTNEED);
}

/* Pages that the kernel swapped out are absent and not supplied by the pager. */
static const char *page_and_swap_out(struct memory *memory)
{
	const char *error = page_by_engine(memory);
	volatile uint8_t *byte = memory->map;
	size_t i;

	if (error)
		return error;
	for (i = 0; i < memory->size; i += PAGE)
		(void)byte[i];
	return memory_advise(memory, MADV_PAGEOUT);
}

static const char *has_pager_and_swap(void)
{
	const char *reason = has_pager();

	return reason ? reason : machine_swap(512 * MIB);
}

static void unmap_engine(struct memory *memory)
{
	memory_pager->stop(memory);
	munmap(memory->map, memory->size);
	free(memory->other);
}

/* The userfaultfd of this process, and the thread that serves it. */
static struct {
	int userfault, stop[2];
	pthread_t thread;
	bool started;
} own = { .userfault = -1, .stop = { -1, -1 } };

/* Of Linux 5.11; the headers of the build may be older. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static int open_userfault(int flags, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Faults of the kernel must be handled too, which needs a privilege. */
static const char *has_userfault(void)
{
	int fd = open_userfault(0, 0);

	if (fd < 0)
		return "userfaultfd is not permitted";
	close(fd);
	return NULL;
}

static const char *has_user_userfault(void)
{
	int fd = open_userfault(UFFD_USER_MODE_ONLY, UFFD_FEATURE_PAGEFAULT_FLAG_WP);

	if (fd < 0)
		return "userfaultfd in user mode, with write protection, is not there";
	close(fd);
	return NULL;
}

static void *serve(void *arg)
{
	struct memory *memory = arg;
	struct pollfd polled[2] = { { own.userfault, POLLIN, 0 }, { own.stop[0], POLLIN, 0 } };
	struct uffd_msg message;

	while (poll(polled, 2, -1) >= 0 && !polled[1].revents) {
		while (read(own.userfault, &message, sizeof(message)) == sizeof(message)) {
			uint64_t page = message.arg.pagefault.address & ~(PAGE - 1);
			uint64_t at = page - (uint64_t)(uintptr_t)memory->map;
			struct uffdio_copy copy = { .dst = page,
						    .src = (uint64_t)(uintptr_t)memory->other + at,
						    .len = PAGE };
			struct uffdio_writeprotect open = { .range = { page, PAGE } };

			if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)
				ioctl(own.userfault, UFFDIO_WRITEPROTECT, &open);
			else
				ioctl(own.userfault, UFFDIO_COPY, &copy);
		}
	}
	return NULL;
}

/* flags: of userfaultfd; mode: UFFDIO_REGISTER_MODE_ */
static const char *start_thread(struct memory *memory, int flags, uint64_t mode)
{
	struct uffdio_register range = {
		.range = { (uint64_t)(uintptr_t)memory->map, memory->size },
		.mode = mode,
	};
	const char *error = keep(memory);

	if (error)
		return error;
	own.userfault = open_userfault(
		flags, mode == UFFDIO_REGISTER_MODE_WP ? UFFD_FEATURE_PAGEFAULT_FLAG_WP : 0);
	if (own.userfault < 0 || pipe2(own.stop, O_CLOEXEC))
		return memory_error("userfaultfd");
	if (ioctl(own.userfault, UFFDIO_REGISTER, &range))
		return memory_error("UFFDIO_REGISTER");
	errno = pthread_create(&own.thread, NULL, serve, memory);
	if (errno)
		return memory_error("a thread");
	own.started = true;
	return NULL;
}

static const char *page_by_thread(struct memory *memory)
{
	const char *error = start_thread(memory, 0, UFFDIO_REGISTER_MODE_MISSING);

	return error ? error : memory_advise(memory, MADV_DONTNEED);
}

/* System calls do not wait for such a page: they end with EFAULT. */
static const char *page_by_thread_for_user(struct memory *memory)
{
	const char *error = start_thread(memory, UFFD_USER_MODE_ONLY, UFFDIO_REGISTER_MODE_MISSING);

	return error ? error : memory_advise(memory, MADV_DONTNEED);
}

static const char *protect_for_user(struct memory *memory)
{
	struct uffdio_writeprotect protect = {
		.range = { (uint64_t)(uintptr_t)memory->map, memory->size },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	const char *error = start_thread(memory, UFFD_USER_MODE_ONLY, UFFDIO_REGISTER_MODE_WP);

	if (error)
		return error;
	return ioctl(own.userfault, UFFDIO_WRITEPROTECT, &protect) ?
		       memory_error("UFFDIO_WRITEPROTECT") :
		       NULL;
}

static void unmap_thread(struct memory *memory)
{
	if (own.userfault >= 0) {
		close(own.stop[1]);
		if (own.started)
			pthread_join(own.thread, NULL);
		close(own.stop[0]);
		close(own.userfault);
	}
	own.userfault = -1;
	own.started = false;
	munmap(memory->map, memory->size);
	free(memory->other);
}

const struct memory_kind memory_pager_kinds[] = {
	{ .name = "given by a pager",
	  .engine = true,
	  .machine = has_pager,
	  .prepare = page_by_engine,
	  .unmap = unmap_engine },
	{ .name = "given by a pager, then swapped out",
	  .engine = true,
	  .machine = has_pager_and_swap,
	  .prepare = page_and_swap_out,
	  .unmap = unmap_engine },
	{ .name = "given by a pager, evicted during",
	  .engine = true,
	  .source_only = true,
	  .machine = has_pager,
	  .prepare = page_by_engine,
	  .disturb = keep_evicting,
	  .unmap = unmap_engine },
	{ .name = "given by the program's own userfaultfd",
	  .machine = has_userfault,
	  .prepare = page_by_thread,
	  .unmap = unmap_thread },
	{ .name = "given by its own userfaultfd, user mode only",
	  .machine = has_user_userfault,
	  .prepare = page_by_thread_for_user,
	  .unmap = unmap_thread },
	{ .name = "write-protected by its own userfaultfd, user mode only",
	  .machine = has_user_userfault,
	  .prepare = protect_for_user,
	  .unmap = unmap_thread },
	{ .name = NULL },
};
