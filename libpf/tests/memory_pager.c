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

static int open_userfault(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Faults of the kernel must be handled too, which needs a privilege. */
static const char *has_userfault(void)
{
	int fd = open_userfault();

	if (fd < 0)
		return "userfaultfd is not permitted";
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

			ioctl(own.userfault, UFFDIO_COPY, &copy);
		}
	}
	return NULL;
}

static const char *page_by_thread(struct memory *memory)
{
	struct uffdio_register range = {
		.range = { (uint64_t)(uintptr_t)memory->map, memory->size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	const char *error = keep(memory);

	if (error)
		return error;
	own.userfault = open_userfault();
	if (own.userfault < 0 || pipe2(own.stop, O_CLOEXEC))
		return memory_error("userfaultfd");
	if (ioctl(own.userfault, UFFDIO_REGISTER, &range))
		return memory_error("UFFDIO_REGISTER");
	errno = pthread_create(&own.thread, NULL, serve, memory);
	if (errno)
		return memory_error("a thread");
	own.started = true;
	return memory_advise(memory, MADV_DONTNEED);
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
	{ .name = NULL },
};
