/* SPDX-License-Identifier: BSD-3-Clause */
#include "capability.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/page.h"
#include "base/structure.h"
#include "device/device.h"
#include "host/copy.h"
#include "host/tracer.h"
#include "memory/collapse.h"
#include "memory/touch.h"
#include "net/interface.h"

struct list {
	char *entries; /* of the caller, each of size bytes */
	size_t size;
	int most;  /* entries with a place */
	int count; /* also entries without a place */
};

static __attribute__((format(printf, 4, 5))) void
capability_add(struct list *list, const char *name, int available, const char *format, ...)
{
	pf_capability entry = { .name = name, .available = available };
	va_list args;

	if (list->count++ >= list->most)
		return;
	va_start(args, format);
	vsnprintf(entry.detail, sizeof(entry.detail), format, args);
	va_end(args);
	structure_give(list->entries + (size_t)(list->count - 1) * list->size, list->size, &entry,
		       sizeof(entry));
}

/*
 * A process may copy from own memory, unless the kernel lacks the system call or a seccomp filter
 * forbids the call: the copy tests both. Between processes of the user the kernel checks two
 * conditions more: PR_SET_DUMPABLE of prctl(2), and Yama's scope. CAP_SYS_PTRACE lifts both, but
 * not scope 3.
 */
static void single_copy(struct list *list)
{
	const uint64_t cookie = 0x5f3759df5f3759df; /* any value that the copy must equal */
	const int error = copy_probe(gettid(), (uint64_t)(uintptr_t)&cookie, cookie);
	const int scope = tracer_scope();
	const bool privileged = tracer_is_privileged();
	pf_options options;

	pf_options_init(&options, sizeof(options), NULL);
	if (error)
		capability_add(
			list, "single copy", 0,
			"process_vm_readv: %s; a seccomp filter or a container may forbid it",
			strerror(error));
	else if (scope > 2 || (scope > 1 && !privileged))
		capability_add(
			list, "single copy", 0,
			"kernel.yama.ptrace_scope is %d: only 0 and 1 let processes permit it",
			scope);
	else if (prctl(PR_GET_DUMPABLE) != 1 && !privileged)
		capability_add(
			list, "single copy", 0,
			"this process is not dumpable (PR_SET_DUMPABLE): its peers may not copy from it");
	else if (options.expose)
		capability_add(
			list, "single copy", 1,
			"by this process alone: the option expose is 1, and its peers go through the ring");
	else if (scope == 1 && !privileged)
		capability_add(
			list, "single copy", 1,
			"kernel.yama.ptrace_scope is 1: each process permits it to the others that its launcher "
			"started (option ptracer)");
	else
		capability_add(
			list, "single copy", 1,
			"process_vm_readv and process_vm_writev work between processes of this user");
}

static void capability_populate(struct list *list)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t failed;
	void *area = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return;
	if (touch_range((uint64_t)(uintptr_t)area, page, true, &failed) == PF_OK)
		capability_add(list, "fault resolution", 1,
			       "madvise(MADV_POPULATE_WRITE) makes absent pages present");
	else
		capability_add(list, "fault resolution", 0,
			       "madvise(MADV_POPULATE_WRITE) fails: Linux 5.14 or later is needed");
	munmap(area, page);
}

/* Without it no context opens, and nothing else tells which file is missing. */
static void capability_identity(struct list *list)
{
	const char *path = address_unreadable();

	if (path)
		capability_add(list, "identity", 0, "%s: %s: mount /proc with all of its files",
			       path, strerror(errno));
	else
		capability_add(list, "identity", 1, "boot and network namespace of this host");
}

static void memory_files(struct list *list)
{
	int fd = file_create("libpf test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0)
		capability_add(list, "shared memory", 1,
			       "memfd_create: rings need no files in /dev/shm");
	else
		capability_add(list, "shared memory", 0, "memfd_create: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void huge_pages(struct list *list)
{
	static const char *const names[] = {
		[COLLAPSE_NEVER] = "never", [COLLAPSE_MADVISE] = "madvise", [COLLAPSE_ALWAYS] = "always"
	};
	uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	enum collapse_setting setting = collapse_setting(size);

	if (access(HUGE_PAGE_FILE, F_OK) < 0)
		capability_add(list, "huge pages", 0, "this kernel has no transparent huge pages");
	else
		capability_add(list, "huge pages", setting != COLLAPSE_NEVER,
			       "transparent_hugepage, %llu KiB: %s", (unsigned long long)size >> 10,
			       names[setting]);
}

static void capability_detection(struct list *list)
{
	int fd = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		capability_add(list, "fault detection", 1,
			       "/proc/PID/pagemap shows absent pages before a copy meets them");
	else
		capability_add(
			list, "fault detection", 0,
			"/proc/self/pagemap: %s; a copy that meets an absent page waits for it",
			strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void capability_pagers(struct list *list)
{
	int fd = (int)syscall(SYS_userfaultfd,
			      O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */);

	if (fd >= 0)
		capability_add(list, "user-space pagers", 1,
			       "userfaultfd in user mode, without privilege");
	else
		capability_add(list, "user-space pagers", 0, "userfaultfd: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void user_interrupts(struct list *list)
{
	bool processor = false;
#ifdef __x86_64__
	unsigned a, b, c, d;

	/* Intel SDM 2A, CPUID.(EAX=07H,ECX=0):EDX[5] */
	processor = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & 1u << 5;
#endif
	capability_add(
		list, "user interrupts", 0, "%s",
		processor ?
			"not used: this processor has them, but no released Linux supports them" :
			"not used: this processor has none");
}

static void capability_device(struct list *list)
{
	char text[192];
	bool available = device_describe(text, sizeof(text));

	capability_add(list, "/dev/exanest", available, "%s", text);
}

/* Describe the first malformed element of a list of interfaces. False: the list is valid. */
static bool option_is_malformed(struct list *list, const char *option, const char *interfaces)
{
	int length;
	const char *element = interfaces ? interfaces_malformed(interfaces, &length) : NULL;

	if (element)
		capability_add(list, "network", 0,
			       "%s: %.*s is neither an interface nor an address nor a network",
			       option, length, element);
	return element;
}

/* Report the interfaces of a context opened now. */
static void capability_network(struct list *list)
{
	struct interface interfaces[INTERFACES_MOST];
	char text[sizeof(((pf_capability *)NULL)->detail)];
	const char *why = "the option network is off";
	struct location here = location_here();
	pf_options options;
	unsigned count = 0;

	pf_options_init(&options, sizeof(options), NULL);
	if (option_is_malformed(list, "if_include", options.if_include) ||
	    option_is_malformed(list, "if_exclude", options.if_exclude))
		return;
	if (options.network != PF_NETWORK_OFF)
		count = interfaces_find(interfaces, INTERFACES_MOST, options.if_include,
					options.if_exclude, &here, &why);
	if (count) {
		interfaces_describe(interfaces, count, &here, text, sizeof(text));
		why = text;
	}
	capability_add(list, "network", count != 0, "%s", why);
}

int capabilities_find(pf_capability *entries, size_t size, int most)
{
	struct list list = { .entries = (char *)entries, .size = size, .most = most };

	capability_identity(&list);
	memory_files(&list);
	single_copy(&list);
	capability_populate(&list);
	huge_pages(&list);
	capability_detection(&list);
	capability_pagers(&list);
	user_interrupts(&list);
	capability_network(&list);
	capability_device(&list);
	return list.count < most ? list.count : most;
}
