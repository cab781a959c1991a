/* SPDX-License-Identifier: BSD-3-Clause */
#include "userfault.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sample.h"
#include "topology.h"

struct userfault {
	int faults, end; /* userfaultfd; eventfd that ends the thread */
	int core;
	size_t unit; /* bytes supplied for a page fault */
	void *staging;
	userfault_supply_fn supply;
	void *arg;
	pthread_t thread;
	atomic_bool spin, stop;
	_Atomic double copy_seconds;
};

static void serve(struct userfault *userfault, uint64_t address)
{
	struct uffdio_copy copy = { .dst = address & ~(uint64_t)(userfault->unit - 1),
				    .src = (uint64_t)(uintptr_t)userfault->staging,
				    .len = userfault->unit };
	double start;

	userfault->supply(copy.dst, userfault->staging, userfault->unit, userfault->arg);
	start = sample_seconds();
	if (ioctl(userfault->faults, UFFDIO_COPY, &copy) && errno != EEXIST)
		err(1, "UFFDIO_COPY");
	userfault->copy_seconds = sample_seconds() - start;
}

static void *handle(void *arg)
{
	struct userfault *userfault = arg;
	struct pollfd files[] = { { .fd = userfault->faults, .events = POLLIN },
				  { .fd = userfault->end, .events = POLLIN } };
	struct uffd_msg message;

	if (core_bind(userfault->core))
		exit(1);
	while (!userfault->stop) {
		if (!userfault->spin)
			poll(files, 2, -1);
		if (read(userfault->faults, &message, sizeof(message)) != sizeof(message))
			continue;
		if (message.event == UFFD_EVENT_PAGEFAULT)
			serve(userfault, message.arg.pagefault.address);
	}
	return NULL;
}

static int open_faults(void *memory, size_t length)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { .start = (uint64_t)(uintptr_t)memory,
						    .len = length },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (faults < 0) {
		warn("userfaultfd");
		return -1;
	}
	if (!ioctl(faults, UFFDIO_API, &api) && !ioctl(faults, UFFDIO_REGISTER, &range))
		return faults;
	warn("UFFDIO_REGISTER");
	close(faults);
	return -1;
}

struct userfault *userfault_start(void *memory, size_t length, size_t unit, int core,
				  userfault_supply_fn supply, void *arg)
{
	struct userfault *userfault = calloc(1, sizeof(*userfault));
	int error;

	if (!userfault) {
		warn("userfaultfd thread");
		return NULL;
	}
	userfault->unit = unit;
	userfault->core = core;
	userfault->supply = supply;
	userfault->arg = arg;
	userfault->end = eventfd(0, EFD_CLOEXEC);
	userfault->staging = aligned_alloc(unit, unit);
	userfault->faults = open_faults(memory, length);
	if (userfault->faults < 0 || userfault->end < 0 || !userfault->staging)
		goto fail;
	error = pthread_create(&userfault->thread, NULL, handle, userfault);
	if (!error)
		return userfault;
	errno = error;
	warn("userfaultfd thread");
fail:
	if (userfault->faults >= 0)
		close(userfault->faults);
	if (userfault->end >= 0)
		close(userfault->end);
	free(userfault->staging);
	free(userfault);
	return NULL;
}

void userfault_spin(struct userfault *userfault, bool spin)
{
	userfault->spin = spin;
}

double userfault_copy_seconds(const struct userfault *userfault)
{
	return userfault->copy_seconds;
}

void userfault_stop(struct userfault *userfault)
{
	uint64_t one = 1;

	userfault->stop = true;
	if (write(userfault->end, &one, sizeof(one)) != sizeof(one))
		err(1, "eventfd");
	pthread_join(userfault->thread, NULL);
	close(userfault->faults);
	close(userfault->end);
	free(userfault->staging);
	free(userfault);
}
