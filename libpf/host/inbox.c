/* SPDX-License-Identifier: BSD-3-Clause */
#include "inbox.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/page.h"
#include <libpf/pf.h>

static_assert(sizeof(struct inbox_memory) + LIFE_BYTES == 4096, "a page, whatever its size");
static_assert(offsetof(struct inbox_memory, moving) % INBOX_LINE == 0, "a line of its own");

static int inbox_map_page(struct inbox *inbox, int fd)
{
	inbox->memory = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return inbox->memory == MAP_FAILED ? PF_ERR_MEMORY : PF_OK;
}

/* With the private page that life_begin needs. */
static int map_own(struct inbox *inbox)
{
	uint8_t *pages = mmap(NULL, 2 * page_size(), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return PF_ERR_MEMORY;
	inbox->memory = mmap(pages, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			     inbox->fd, 0);
	if (inbox->memory != MAP_FAILED)
		return PF_OK;
	munmap(pages, 2 * page_size());
	return PF_ERR_MEMORY;
}

int inbox_create(struct inbox *inbox, enum inbox_sleeper sleeper)
{
	int status = PF_ERR_SYSTEM;

	inbox->fd = file_create("libpf inbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (inbox->fd < 0)
		return status;
	if (!file_size_permitted(page_size()) || ftruncate(inbox->fd, (off_t)page_size()) < 0 ||
	    fcntl(inbox->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		goto fail;
	status = file_allocate(inbox->fd, 0, (off_t)page_size()) ? map_own(inbox) : PF_ERR_MEMORY;
	if (status == PF_OK) {
		atomic_init(&inbox->memory->sleeper, sleeper);
		return PF_OK;
	}
fail:
	close(inbox->fd);
	return status;
}

int inbox_view(struct inbox *inbox, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	int status = PF_ERR_ARGUMENT;
	struct stat file;

	if (seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &file) &&
	    file.st_size == (off_t)page_size())
		status = inbox_map_page(inbox, fd);
	inbox->fd = -1;
	return status;
}

int inbox_map(struct inbox *inbox, int fd)
{
	int status = inbox_view(inbox, fd);

	close(fd);
	return status;
}

void inbox_destroy(struct inbox *inbox)
{
	munmap(inbox->memory, inbox->fd >= 0 ? 2 * page_size() : page_size());
	if (inbox->fd >= 0)
		close(inbox->fd);
	inbox->memory = NULL;
}

static void wake_all(struct inbox_memory *memory)
{
	syscall(SYS_futex, &memory->sleeping, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void inbox_wake_sleeper(struct inbox_memory *memory)
{
	if (atomic_exchange_explicit(&memory->sleeping, 0, memory_order_relaxed))
		wake_all(memory);
}

void inbox_end_sleeps(struct inbox *inbox)
{
	inbox_stay_awake(inbox);
	wake_all(inbox->memory);
}

void inbox_announce_sleep(struct inbox *inbox)
{
	atomic_store_explicit(&inbox->memory->sleeping, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

enum slept inbox_wait(struct inbox *inbox, uint64_t microseconds)
{
	struct timespec timeout = { .tv_sec = (time_t)(microseconds / 1000000),
				    .tv_nsec = (long)(microseconds % 1000000) * 1000 };
	int error = syscall(SYS_futex, &inbox->memory->sleeping, FUTEX_WAIT, 1, &timeout, NULL, 0) ?
			    errno :
			    0;

	if (error == ETIMEDOUT)
		return SLEPT_TIMED_OUT;
	/* EAGAIN: a writer woke the sleeper after the announcement, before the sleep. */
	return error == EAGAIN ? SLEPT_NOT : SLEPT_WOKEN;
}

void inbox_stay_awake(struct inbox *inbox)
{
	atomic_store_explicit(&inbox->memory->sleeping, 0, memory_order_relaxed);
}
