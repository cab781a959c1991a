/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANGES 16
/* A file that exists on every machine, to lock. */
#define LOCK "/proc/sys/vm/nr_hugepages"
#define GROUP "pf-matrix"

enum change_kind { CHANGE_FILE, CHANGE_SWAP, CHANGE_GROUP };

struct change {
	enum change_kind kind;
	char path[160];
	char before[64];
};

static struct changes {
	struct change list[CHANGES];
	unsigned count;
} * changes; /* shared with the keeper */

static pid_t keeper;
static int keeper_end = -1; /* the keeper ends when all processes have closed it */

static const char *because(const char *what)
{
	static char text[480];

	snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));
	return text;
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return written;
}

bool machine_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = 0;
	text[strcspn(text, "\n")] = 0;
	return length > 0;
}

/* Processes need a moment to leave a group, and udev to close a device. */
static bool undo(const struct change *change)
{
	int tries;

	for (tries = 0; tries < 300; tries++) {
		bool done = change->kind == CHANGE_SWAP  ? !swapoff(change->path) :
			    change->kind == CHANGE_GROUP ? !rmdir(change->path) :
							   write_file(change->path, change->before);

		if (done)
			return true;
		if (errno != EBUSY && errno != EINTR)
			break;
		usleep(10000);
	}
	return false;
}

/*
 * Reclaim uses statistics of the group that the kernel updates only every two seconds: a group that
 * replaces all its memory faster is killed for lack of memory (seen with Linux 6.18). Reading the
 * statistics updates them. The reader must be outside the group, where it does not wait for the
 * group's memory, and have priority over the processes in it.
 */
static void read_statistics(const char *group, int end)
{
	const struct sched_param first = { .sched_priority = 1 };
	const struct timespec between = { .tv_nsec = 200000 };
	struct pollfd ended = { .fd = end, .events = POLLIN };
	char path[sizeof(changes->list[0].path) + 20], byte;
	int fd;

	snprintf(path, sizeof(path), "%s/memory.stat", group);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		setpriority(PRIO_PROCESS, 0, -20);
	while (fd >= 0 && pread(fd, &byte, 1, 0) == 1 && ppoll(&ended, 1, &between, NULL) <= 0)
		;
	if (fd >= 0)
		close(fd);
}

/* A byte from end: the last change is a group. End of file: all users have ended. */
static _Noreturn void keep(int ready, int end)
{
	int lock = open(LOCK, O_RDONLY | O_CLOEXEC);
	int status = 0;
	ssize_t length;
	char byte = 0;

	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR)
		;
	if (write(ready, &byte, 1) != 1)
		_exit(0);
	while ((length = read(end, &byte, 1)) > 0 || (length < 0 && errno == EINTR))
		if (length > 0)
			read_statistics(changes->list[changes->count - 1].path, end);
	while (changes->count) {
		if (!undo(&changes->list[changes->count - 1]) && !status)
			status = (int)changes->count;
		changes->count--;
	}
	_exit(status);
}

static const char *begin(void)
{
	int ready[2], end[2];
	char byte;

	if (keeper)
		return NULL;
	if (geteuid())
		return "needs root";
	if (!changes) {
		changes = mmap(NULL, sizeof(*changes), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (changes == MAP_FAILED) {
			changes = NULL;
			return because("mmap");
		}
	}
	changes->count = 0;
	if (pipe2(ready, O_CLOEXEC))
		return because("pipe2");
	if (pipe2(end, O_CLOEXEC)) {
		close(ready[0]);
		close(ready[1]);
		return because("pipe2");
	}
	fflush(NULL);
	keeper = fork();
	if (!keeper) {
		close(end[1]);
		close(ready[0]);
		keep(ready[1], end[0]);
	}
	close(ready[1]);
	close(end[0]);
	keeper_end = end[1];
	if (keeper < 0 || read(ready[0], &byte, 1) != 1) {
		close(ready[0]);
		machine_restore();
		return "no process to undo changes";
	}
	close(ready[0]);
	return NULL;
}

const char *machine_restore(void)
{
	static char text[480];
	pid_t process = keeper;
	int status;

	if (keeper_end >= 0)
		close(keeper_end);
	keeper_end = -1;
	keeper = 0;
	if (process <= 0)
		return NULL;
	while (waitpid(process, &status, 0) < 0 && errno == EINTR)
		;
	if (!status)
		return NULL;
	if (!WIFEXITED(status) || WEXITSTATUS(status) > CHANGES)
		return "the process that undoes changes has died";
	snprintf(text, sizeof(text), "%s could not be restored",
		 changes->list[WEXITSTATUS(status) - 1].path);
	return text;
}

static struct change *add(enum change_kind kind, const char *path)
{
	struct change *change = &changes->list[changes->count];

	if (changes->count == CHANGES)
		return NULL;
	change->kind = kind;
	change->before[0] = 0;
	snprintf(change->path, sizeof(change->path), "%s", path);
	return change;
}

const char *machine_write(const char *path, const char *text)
{
	const char *reason = begin();
	struct change *change;

	if (reason)
		return reason;
	change = add(CHANGE_FILE, path);
	if (!change)
		return "too many changes";
	if (!machine_read(path, change->before, sizeof(change->before)))
		return because(path);
	/* List it first: it is undone also if this process is killed before it is made. */
	changes->count++;
	return write_file(path, text) ? NULL : because(path);
}

/* What mkswap writes: union swap_header in include/linux/swap.h. */
static bool make_swap(const char *path, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *header = calloc(1, page);
	uint32_t numbers[2] = { 1, (uint32_t)(size / page) - 1 };
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = false;

	if (header && fd >= 0) {
		memcpy(header + 1024, numbers, sizeof(numbers));
		memcpy(header + page - 10, "SWAPSPACE2", 10);
		written = pwrite(fd, header, page, 0) == (ssize_t)page;
	}
	if (fd >= 0)
		close(fd);
	free(header);
	return written;
}

const char *machine_swap(size_t size)
{
	const char *reason = begin();
	char path[64], number[16], text[32];
	struct change *change;

	if (reason)
		return reason;
	if (changes->count + 2 > CHANGES)
		return "too many changes";
	/* Reading this file creates a device and returns its number. */
	if (!machine_read("/sys/class/zram-control/hot_add", number, sizeof(number)))
		return because("/sys/class/zram-control/hot_add");
	change = add(CHANGE_FILE, "/sys/class/zram-control/hot_remove");
	snprintf(change->before, sizeof(change->before), "%s", number);
	changes->count++;
	snprintf(path, sizeof(path), "/sys/block/zram%s/disksize", number);
	snprintf(text, sizeof(text), "%zu", size);
	if (!write_file(path, text))
		return because(path);
	snprintf(path, sizeof(path), "/dev/zram%s", number);
	if (!make_swap(path, size) || swapon(path, 0))
		return because(path);
	add(CHANGE_SWAP, path);
	changes->count++;
	return NULL;
}

/* Find the folder of the memory controller, of either version. */
static bool find_controller(char *folder, size_t size, bool *unified)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[600], where[200], type[40], options[200], path[260], enabled[200];
	bool found = false;

	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		if (sscanf(line, "%*s %199s %39s %199s", where, type, options) != 3)
			continue;
		*unified = !strcmp(type, "cgroup2");
		snprintf(path, sizeof(path), "%s/cgroup.subtree_control", where);
		if (*unified)
			found = machine_read(path, enabled, sizeof(enabled)) &&
				strstr(enabled, "memory");
		else
			found = !strcmp(type, "cgroup") && strstr(options, "memory");
	}
	if (mounts)
		fclose(mounts);
	if (found)
		snprintf(folder, size, "%s", where);
	return found;
}

const char *machine_group(size_t limit)
{
	const char *reason = begin();
	char folder[200], path[240], file[300], text[32];
	bool unified;

	if (reason)
		return reason;
	if (!find_controller(folder, sizeof(folder), &unified))
		return "there is no memory control group";
	if (changes->count == CHANGES)
		return "too many changes";
	snprintf(path, sizeof(path), "%s/" GROUP, folder);
	if (strlen(path) >= sizeof(changes->list[0].path))
		return "the path of the control groups is too long";
	if (mkdir(path, 0755) && errno != EEXIST)
		return because(path);
	add(CHANGE_GROUP, path);
	changes->count++;
	snprintf(file, sizeof(file), "%s/%s", path,
		 unified ? "memory.max" : "memory.limit_in_bytes");
	snprintf(text, sizeof(text), "%zu", limit);
	if (!write_file(file, text))
		return because(file);
	return write(keeper_end, "", 1) == 1 ? NULL : because("the process that undoes changes");
}

/* The cgroup.procs file of the group that this process came from. */
static char home[400];

static bool find_home(const char *folder, bool unified)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[300], *controllers, *path;

	home[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		if (unified ? !controllers[1] : strstr(controllers + 1, "memory") != NULL)
			snprintf(home, sizeof(home), "%s%s/cgroup.procs", folder, path);
	}
	if (file)
		fclose(file);
	return home[0];
}

const char *machine_enter(void)
{
	char folder[200], path[260];
	bool unified;

	if (!find_controller(folder, sizeof(folder), &unified) || !find_home(folder, unified))
		return "there is no memory control group";
	snprintf(path, sizeof(path), "%s/" GROUP "/cgroup.procs", folder);
	return write_file(path, "0") ? NULL : because(path);
}

const char *machine_leave(void)
{
	if (!home[0] || write_file(home, "0")) {
		home[0] = 0;
		return NULL;
	}
	return because(home);
}
