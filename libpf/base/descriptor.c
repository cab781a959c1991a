/* SPDX-License-Identifier: BSD-3-Clause */
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include "check.h"

/* More than a handshake opens. */
#define ROOM 8
/*
 * Descriptors of the program and of libpf below FD_SETSIZE, at most: some 50 peers and the
 * descriptors of a context.
 */
#define LOW 256
/* Least growth of the limit: a caller that repeats comes to an end. */
#define LEAST 64

static bool raise_limit(void)
{
	/* The hard limit, once the calling thread knows of an equal soft limit. */
	static _Thread_local rlim_t reached;
	struct rlimit limit;
	rlim_t more;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	if (limit.rlim_cur >= limit.rlim_max) {
		/* Another thread may have raised the limit after the failed call: once more. */
		if (reached == limit.rlim_cur)
			return false;
		reached = limit.rlim_cur;
		return true;
	}
	/* Twice as many each time: some programs close all descriptors up to the limit. */
	more = limit.rlim_cur < LEAST ? LEAST : limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max - limit.rlim_cur < more ? limit.rlim_max :
								  limit.rlim_cur + more;
	return !setrlimit(RLIMIT_NOFILE, &limit);
}

bool descriptor_limit_raised(int error)
{
	if ((error == EMFILE || error == ETOOMANYREFS) && raise_limit())
		return true;
	errno = error;
	return false;
}

void descriptor_limit_ensure(int newest)
{
	struct rlimit limit;

	/* The kernel gives the lowest number that is free. */
	if (!getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)newest + ROOM >= limit.rlim_cur)
		raise_limit();
}

int descriptor_lift(int fd)
{
	const int error = errno;
	int lifted;

	if (fd < LOW || fd >= FD_SETSIZE)
		return fd;
	do {
		lifted = fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);
		/* EINVAL: the soft limit is not higher. */
	} while (lifted < 0 && (errno == EINVAL || errno == EMFILE) && raise_limit());
	errno = error;
	if (lifted < 0)
		return fd;
	close(fd);
	return lifted;
}

bool descriptor_limit_reserve(unsigned wanted)
{
	int opened[DESCRIPTORS_RESERVED];
	unsigned count, i;

	assert_that(wanted <= DESCRIPTORS_RESERVED);
	for (count = 0; count < wanted; count++) {
		do {
			opened[count] = count ? fcntl(opened[0], F_DUPFD_CLOEXEC, 0) :
						eventfd(0, EFD_CLOEXEC);
		} while (opened[count] < 0 && descriptor_limit_raised(errno));
		if (opened[count] < 0)
			break;
	}
	for (i = 0; i < count; i++)
		close(opened[i]);
	return count == wanted;
}
