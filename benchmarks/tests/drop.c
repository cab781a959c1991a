/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a benchmark, drops one of DROP_ONE_OF messages that sendmsg
 * would send over a UDP socket. MPI uses TCP sockets.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

static size_t bytes(const struct msghdr *message)
{
	size_t i, sum = 0;

	for (i = 0; i < message->msg_iovlen; i++)
		sum += message->msg_iov[i].iov_len;
	return sum;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static ssize_t (*next)(int fd, const struct msghdr *message, int flags);
	static int calls;
	const char *one_of = getenv("DROP_ONE_OF");
	socklen_t length = sizeof(int);
	int type = 0;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
	if (one_of && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) && type == SOCK_DGRAM &&
	    ++calls % atoi(one_of) == 0)
		return (ssize_t)bytes(message);
	return next(fd, message, flags);
}
