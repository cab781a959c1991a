/* SPDX-License-Identifier: BSD-3-Clause */
#include "descriptor.h"

#include <errno.h>
#include <sys/resource.h>

/* More than a handshake opens. */
#define ROOM 8
/* The limit grows by this at least, so that a caller that repeats comes to an end. */
#define LEAST 64

static bool raise_limit(void)
{
	struct rlimit limit;
	rlim_t more;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
		return false;
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
