/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory shared with a forked child until one of the two writes. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"

#define CHILD_BYTE 0x77

static bool wait_to_stop(const struct memory *memory, pid_t parent)
{
	while (!atomic_load(memory->stop_child)) {
		if (getppid() != parent)
			return false;
		usleep(100);
	}
	return true;
}

/* Transfers of the parent do not change the child's memory. */
static int check_unchanged(struct memory *memory, pid_t parent)
{
	struct memory whole = *memory;

	if (!wait_to_stop(memory, parent))
		return 1;
	whole.start = whole.map;
	whole.length = whole.size;
	return memory_check(&whole, memory->kind, 0, memory->seed) ? 1 : 0;
}

static int write_new(struct memory *memory, pid_t parent)
{
	size_t i, at = 0;

	/* Slowly, so that a transfer meets shared pages and copied ones. */
	while (!atomic_load(memory->stop_child)) {
		if (getppid() != parent)
			return 1;
		if (at < memory->size) {
			memset(memory->map + at, CHILD_BYTE, PAGE);
			at += PAGE;
			if (at % (16 * PAGE) == 0)
				usleep(1);
		} else {
			usleep(100);
		}
	}
	for (i = 0; i < at; i++) {
		if (memory->map[i] != CHILD_BYTE)
			return 1;
	}
	return 0;
}

static const char *start_child(struct memory *memory, int (*child)(struct memory *, pid_t))
{
	pid_t parent = getpid();

	memory->stop_child = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				  -1, 0);
	if (memory->stop_child == MAP_FAILED)
		return memory_error("mmap");
	memory->child = fork();
	if (!memory->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGALRM, SIG_DFL);
		_exit(child(memory, parent));
	}
	if (memory->child > 0)
		return NULL;
	munmap(memory->stop_child, PAGE);
	return memory_error("fork");
}

static const char *share(struct memory *memory)
{
	return start_child(memory, check_unchanged);
}

static const char *share_with_writer(struct memory *memory)
{
	return start_child(memory, write_new);
}

static int end_child(struct memory *memory)
{
	int status = 0;

	if (memory->child <= 0)
		return 0;
	atomic_store(memory->stop_child, true);
	while (waitpid(memory->child, &status, 0) < 0 && errno == EINTR)
		;
	munmap(memory->stop_child, PAGE);
	memory->child = 0;
	return status;
}

static const char *check_child(struct memory *memory)
{
	int status = end_child(memory);

	errno = 0;
	return status ? memory_error("the child's memory changed, status %#x", status) : NULL;
}

static void unshare_memory(struct memory *memory)
{
	end_child(memory);
	munmap(memory->map, memory->size);
}

const struct memory_kind memory_fork_kinds[] = {
	{ .name = "copy-on-write after fork",
	  .prepare = share,
	  .settle = check_child,
	  .unmap = unshare_memory },
	{ .name = "copy-on-write, the child writing",
	  .prepare = share_with_writer,
	  .settle = check_child,
	  .unmap = unshare_memory },
	{ .name = NULL },
};
