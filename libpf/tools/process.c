/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"

#define PAGE_LINK "/memfd:" STATISTICS_NAME " (deleted)"

/* Parse a number of digits only; -1: malformed. */
static int process_parse_number(const char *text)
{
	char *end;
	long value;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end || value > INT_MAX ? -1 : (int)value;
}

static FILE *process_open_file(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

static void read_command(int folder, struct process *process)
{
	FILE *file = process_open_file(folder, "comm");
	char line[64] = "";

	if (file && fgets(line, sizeof(line), file))
		line[strcspn(line, "\n")] = 0;
	copy_printable(process->command, sizeof(process->command), line);
	if (file)
		fclose(file);
}

/* Return the number of the process in its innermost PID namespace. */
static int own_pid(int folder)
{
	FILE *file = process_open_file(folder, "status");
	char line[256], *last;
	int pid = -1;

	while (file && pid < 0 && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		last = strrchr(line, '\t');
		pid = last ? process_parse_number(last + 1) : -1;
	}
	if (file)
		fclose(file);
	return pid;
}

static void process_read_environment(int folder, struct process *process)
{
	FILE *file = process_open_file(folder, "environ");
	char *line = NULL;
	size_t size = 0;
	int rank = -1, pmix_rank = -1;

	while (file && getdelim(&line, &size, 0, file) > 0) {
		if (!strncmp(line, "PMIX_NAMESPACE=", 15))
			copy_printable(process->job, sizeof(process->job), line + 15);
		else if (!strncmp(line, "OMPI_COMM_WORLD_RANK=", 21))
			rank = process_parse_number(line + 21);
		else if (!strncmp(line, "PMIX_RANK=", 10))
			pmix_rank = process_parse_number(line + 10);
	}
	process->rank = rank >= 0 ? rank : pmix_rank;
	free(line);
	if (file)
		fclose(file);
}

static bool is_page(int descriptors, const char *name)
{
	char link[sizeof(PAGE_LINK)];
	ssize_t length = readlinkat(descriptors, name, link, sizeof(link));

	return length == sizeof(PAGE_LINK) - 1 && !memcmp(link, PAGE_LINK, sizeof(PAGE_LINK) - 1);
}

/* Map a page; the file may be longer in another version. */
static struct statistics_page *map_page(int fd, ino_t *inode)
{
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);
	void *page;

	/* Without the seal the owner could shrink the file, and a load would raise SIGBUS. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &file) ||
	    file.st_size < (off_t)sizeof(struct statistics_page))
		return NULL;
	*inode = file.st_ino;
	page = mmap(NULL, sizeof(struct statistics_page), PROT_READ, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

enum verdict { USABLE, INHERITED, MALFORMED, OTHER_VERSION };

static enum verdict check_page(const struct statistics_page *page, int pid)
{
	if (page->magic != STATISTICS_MAGIC)
		return MALFORMED;
	atomic_thread_fence(memory_order_acquire);
	if (page->version != STATISTICS_VERSION || page->stats != PF_STAT_COUNT ||
	    page->buckets != PF_RESOLVE_BUCKETS)
		return OTHER_VERSION;
	/* A child inherits the descriptor, but not the context. */
	return page->pid == pid ? USABLE : INHERITED;
}

/* Read the page behind a descriptor of a process into *process. */
static enum verdict read_page(int descriptors, const char *name, int pid, struct process *process)
{
	/* Any file may have the name, even a FIFO: open must not block. */
	int fd = openat(descriptors, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct statistics_page *page;
	enum verdict verdict;

	if (fd < 0)
		return INHERITED;
	page = map_page(fd, &process->page);
	close(fd);
	if (!page)
		return MALFORMED;
	verdict = check_page(page, pid);
	if (verdict == USABLE) {
		process->started = page->started;
		counters_read(&process->total, page);
		process->counters = process->total;
	}
	munmap(page, sizeof(*page));
	return verdict;
}

static bool process_is_known(const struct processes *processes, const struct process *process)
{
	size_t i;

	for (i = processes->count; i > 0 && processes->list[i - 1].pid == process->pid; i--) {
		if (processes->list[i - 1].page == process->page)
			return true;
	}
	return false;
}

static void processes_add(struct processes *processes, const struct process *process)
{
	struct process *list;

	/* Duplicates of a descriptor show one page. */
	if (process_is_known(processes, process))
		return;
	list = realloc(processes->list, (processes->count + 1) * sizeof(*list));
	if (!list)
		err(EXIT_FAILURE, "processes");
	processes->list = list;
	list[processes->count++] = *process;
}

static void process_report(const struct process *process, enum verdict verdict)
{
	if (verdict == MALFORMED)
		warnx("process %d (%s): ignored, its statistics page is malformed",
		      (int)process->pid, process->command);
	else if (verdict == OTHER_VERSION)
		warnx("process %d (%s): ignored, it uses another version of libpf; use the pf_info of "
		      "that version",
		      (int)process->pid, process->command);
}

static void add_pages(struct processes *processes, int folder, pid_t pid, bool complain)
{
	int fd = openat(folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *descriptors = fd < 0 ? NULL : fdopendir(fd);
	struct process process = { .pid = pid, .rank = -1 };
	const struct dirent *entry;
	enum verdict verdict;
	bool first = true;
	int own = -1; /* pid in its own namespace */

	if (!descriptors) {
		processes->closed += errno == EACCES || errno == EPERM;
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(descriptors))) {
		if (!is_page(dirfd(descriptors), entry->d_name))
			continue;
		if (first) {
			own = own_pid(folder);
			read_command(folder, &process);
			process_read_environment(folder, &process);
			first = false;
		}
		verdict = read_page(dirfd(descriptors), entry->d_name, own, &process);
		if (verdict == USABLE)
			processes_add(processes, &process);
		else if (complain)
			process_report(&process, verdict);
	}
	closedir(descriptors);
}

static int process_compare(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	int order;

	if (!x->job[0] != !y->job[0])
		return x->job[0] ? -1 : 1;
	order = strcmp(x->job, y->job);
	if (!order)
		order = (x->rank > y->rank) - (x->rank < y->rank);
	if (!order)
		order = (x->pid > y->pid) - (x->pid < y->pid);
	return order ? order : (x->page > y->page) - (x->page < y->page);
}

int processes_find(struct processes *processes, pid_t only, bool complain)
{
	DIR *all = opendir("/proc");
	const struct dirent *entry;
	struct stat owner;
	int folder, pid;

	*processes = (struct processes){ 0 };
	if (!all) {
		warn("/proc");
		return -1;
	}
	while ((entry = readdir(all))) {
		pid = process_parse_number(entry->d_name);
		if (pid <= 0)
			continue;
		folder = openat(dirfd(all), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (folder < 0)
			continue;
		/* Files of a process that is not dumpable belong to root: skip the process. */
		if (pid == only || (!fstat(folder, &owner) && owner.st_uid == geteuid()))
			add_pages(processes, folder, pid, complain);
		close(folder);
	}
	closedir(all);
	if (processes->count)
		qsort(processes->list, processes->count, sizeof(*processes->list), process_compare);
	return 0;
}

void processes_free(struct processes *processes)
{
	free(processes->list);
	*processes = (struct processes){ 0 };
}
