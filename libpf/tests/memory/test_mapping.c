/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of an address space, as a kernel before Linux 6.11 tells of them; what mincore may be asked. */
#include "page.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/mapping.h"
#include "memory/residency.h"

/* ns; no list gets so old here */
#define LONG 3600000000000

/* Whether the kernel knows PROCMAP_QUERY; lists read; the number that /proc/self has, 0: the right one. */
static struct {
	bool old;
	unsigned lists;
	pid_t self;
} kernel;

/* The linker puts these in the place of the C library's functions. */
int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_ioctl(int fd, unsigned long request, ...);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __real_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __wrap_readlink(const char *path, char *text, size_t size);
ssize_t __real_readlink(const char *path, char *text, size_t size);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!kernel.old || _IOC_TYPE(request) != 'f')
		return __real_ioctl(fd, request, argument);
	errno = ENOTTY;
	return -1;
}

ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset)
{
	kernel.lists += !offset;
	return __real_pread(fd, data, size, offset);
}

ssize_t __wrap_readlink(const char *path, char *text, size_t size)
{
	if (!kernel.self || strcmp(path, "/proc/self"))
		return __real_readlink(path, text, size);
	return snprintf(text, size, "%d", (int)kernel.self);
}

static uint64_t at(const void *address)
{
	return (uint64_t)(uintptr_t)address;
}

static void *map(int protection, int flags, int fd)
{
	void *memory = mmap(NULL, 4 * PAGE, protection, flags, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* Both ways to ask say the same of all kinds of mappings. */
static void test_kinds(void **state)
{
	const int both = PROT_READ | PROT_WRITE;
	char path[] = "/tmp/pf-mapping-XXXXXX", name[4096];
	int fd = mkostemp(path, O_CLOEXEC), i;
	const char *memory[4];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4 * (off_t)PAGE), 0);
	memory[0] = map(both, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memory[1] = map(both, MAP_SHARED | MAP_ANONYMOUS, -1);
	memory[2] = map(both, MAP_SHARED, fd);
	memory[3] = map(PROT_READ, MAP_PRIVATE, fd);
	for (kernel.old = false;; kernel.old = true) {
		struct mappings *mappings = mappings_open(getpid(), 0, NULL);
		struct mapping found[4];

		assert_non_null(mappings);
		for (i = 0; i < 4; i++) {
			assert_true(mappings_find(mappings, at(memory[i]) + PAGE, &found[i]));
			assert_true(found[i].start <= at(memory[i]));
			assert_true(found[i].end >= at(memory[i]) + 4 * PAGE);
		}
		assert_int_equal(found[0].inode, 0);
		assert_int_not_equal(found[1].inode, 0);
		assert_int_equal(found[2].inode, found[3].inode);
		assert_true(found[2].device == found[3].device);
		assert_true(mapping_writes_file(&found[1]));
		assert_true(mapping_writes_file(&found[2]));
		assert_false(mapping_writes_file(&found[0]));
		assert_false(mapping_writes_file(&found[3]));
		assert_true(
			mappings_find_now(mappings, at(memory[2]), &found[0], name, sizeof(name)));
		assert_string_equal(name, path);
		assert_true(mappings_find_now(mappings, at(memory[3]), &found[0], NULL, 0));
		assert_int_equal(found[0].flags &
					 (MAPPING_READABLE | MAPPING_WRITABLE | MAPPING_SHARED),
				 MAPPING_READABLE);
		mappings_close(mappings);
		if (kernel.old)
			break;
	}
	unlink(path);
	close(fd);
	for (i = 0; i < 4; i++)
		munmap((void *)(uintptr_t)memory[i], 4 * PAGE);
}

/* However many addresses are asked for, one list is read in a lifetime; with none, one each time. */
static void test_lists(void **state)
{
	struct mappings *mappings;
	struct mapping mapping;
	char *later;
	unsigned i;

	(void)state;
	kernel.old = true;
	mappings = mappings_open(getpid(), LONG, NULL);
	kernel.lists = 0;
	for (i = 0; i < 100; i++)
		assert_true(mappings_find(mappings, at(&mapping), &mapping));
	assert_int_equal(kernel.lists, 1);
	/* Not known yet, so it counts as anonymous memory. */
	later = map(PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1);
	assert_true(mappings_find(mappings, at(later), &mapping));
	assert_int_equal(mapping.inode, 0);
	assert_int_equal(kernel.lists, 1);
	mappings_close(mappings);
	mappings = mappings_open(getpid(), 0, NULL);
	assert_true(mappings_find(mappings, at(later), &mapping));
	assert_true(mappings_find(mappings, at(later), &mapping));
	assert_int_not_equal(mapping.inode, 0);
	assert_int_equal(kernel.lists, 3);
	mappings_close(mappings);
	munmap(later, 4 * PAGE);
}

/* The service thread reads a long list, and the caller goes on without. */
static void test_long_list(void **state)
{
	const size_t count = 3000;
	struct mappings *mappings;
	struct mapping mapping;
	struct service service;
	struct task *task;
	char *memory;
	size_t i;

	(void)state;
	memory = mmap(NULL, count * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	for (i = 0; i < count; i += 2)
		mprotect(memory + i * PAGE, PAGE, PROT_READ | PROT_WRITE);
	kernel.old = true;
	assert_int_equal(service_open(&service), PF_OK);
	mappings = mappings_open(getpid(), LONG, &service);
	kernel.lists = 0;
	assert_true(mappings_find(mappings, at(memory), &mapping));
	assert_true(mappings_find(mappings, at(memory), &mapping));
	assert_true(mapping.start == at(memory));
	assert_int_equal(kernel.lists, 1);
	task = STAILQ_FIRST(&service.tasks);
	assert_non_null(task);
	STAILQ_REMOVE_HEAD(&service.tasks, next);
	assert_true(STAILQ_EMPTY(&service.tasks));
	task->run(task, false);
	assert_true(mappings_find(mappings, at(memory), &mapping));
	/* Neighbours that differ in permissions only are one mapping. */
	assert_true(mapping.start <= at(memory) && mapping.end >= at(memory) + count * PAGE);
	assert_int_equal(kernel.lists, 2);
	mappings_close(mappings);
	service_close(&service);
	munmap(memory, count * PAGE);
}

/* A number of another PID namespace may belong to another process here. */
static void test_other_namespace(void **state)
{
	int fd = process_file_open(getppid(), "pagemap");

	(void)state;
	if (fd < 0)
		skip(); /* the kernel does not permit it */
	close(fd);
	kernel.self = getpid() + 1;
	fd = process_file_open(getppid(), "pagemap");
	if (fd >= 0)
		close(fd);
	kernel.self = 0;
	assert_int_equal(fd, -1);
	kernel.self = getpid() + 1;
	fd = process_file_open(getpid(), "pagemap");
	kernel.self = 0;
	assert_true(fd >= 0);
	close(fd);
}

/* Is a page in the page cache seen as that: before and after the process found out whether it may ask? */
static int seen_as(int fd, int protection, int flags)
{
	char *memory = map(protection, flags, fd);
	struct residency residency;
	int seen;

	residency_open(&residency, getpid(), 10000, NULL);
	seen = residency_cached(&residency, at(memory), PAGE) == PAGE;
	residency_learn(&residency, at(memory));
	seen |= (residency_cached(&residency, at(memory), PAGE) == PAGE) << 1;
	residency_close(&residency);
	munmap(memory, 4 * PAGE);
	return seen;
}

static void test_cached(void **state)
{
	char path[] = "/tmp/pf-mapping-XXXXXX", page[4096] = { 1 };
	int fd = mkostemp(path, O_CLOEXEC), other, status;
	pid_t child;

	(void)state;
	kernel.old = false;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
	assert_int_equal(seen_as(fd, PROT_READ | PROT_WRITE, MAP_SHARED), 3);
	assert_int_equal(seen_as(fd, PROT_READ, MAP_PRIVATE), 2);
	assert_int_equal(fchmod(fd, 0444), 0);
	other = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(other >= 0);
	child = fork();
	if (!child) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(100);
		_exit(seen_as(other, PROT_READ, MAP_SHARED));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(path);
	close(other);
	close(fd);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 100)
		skip(); /* another user needs root */
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* The first, because the kernel is asked once whether it knows PROCMAP_QUERY. */
		cmocka_unit_test(test_cached),          cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_lists),           cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_other_namespace),
	};

	return cmocka_run_group_tests_name("mapping", tests, NULL, NULL);
}
