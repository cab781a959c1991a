// SPDX-License-Identifier: GPL-2.0
#include "ivshmem.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PROTOCOL_VERSION 0
#define SHARED_MEMORY (-1)

static bool make_eventfds(int *fds, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (fds[i] < 0)
			return false;
	}
	return true;
}

static void close_all(int *fds, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static bool make_memory(struct ivshmem *ivshmem)
{
	ivshmem->memory = memfd_create("exanest-engine", MFD_CLOEXEC);
	if (ivshmem->memory < 0 || ftruncate(ivshmem->memory, IVSHMEM_SIZE))
		return false;
	ivshmem->registers = mmap(NULL, IVSHMEM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
				  ivshmem->memory, 0);
	return ivshmem->registers != MAP_FAILED;
}

static bool listen_at(struct ivshmem *ivshmem, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(address.sun_path, path, strlen(path));
	ivshmem->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ivshmem->listener < 0)
		return false;
	unlink(path);
	ivshmem->path = path;
	return !bind(ivshmem->listener, (struct sockaddr *)&address, sizeof(address)) &&
	       !listen(ivshmem->listener, 1);
}

bool ivshmem_open(struct ivshmem *ivshmem, const char *path)
{
	unsigned int i;

	*ivshmem = (struct ivshmem){ .listener = -1, .client = -1, .memory = -1 };
	for (i = 0; i < EXANEST_DOORBELLS; i++)
		ivshmem->doorbells[i] = -1;
	for (i = 0; i < EXANEST_VECTORS; i++)
		ivshmem->vectors[i] = -1;
	return make_memory(ivshmem) && make_eventfds(ivshmem->doorbells, EXANEST_DOORBELLS) &&
	       make_eventfds(ivshmem->vectors, EXANEST_VECTORS) && listen_at(ivshmem, path);
}

void ivshmem_close(struct ivshmem *ivshmem)
{
	ivshmem_disconnect(ivshmem);
	close_all(ivshmem->doorbells, EXANEST_DOORBELLS);
	close_all(ivshmem->vectors, EXANEST_VECTORS);
	close_all(&ivshmem->listener, 1);
	close_all(&ivshmem->memory, 1);
	if (ivshmem->path)
		unlink(ivshmem->path);
}

/* A message is a number, with a descriptor or without one (-1). */
static bool send_message(int client, int64_t number, int fd)
{
	int64_t bytes = (int64_t)htole64((uint64_t)number);
	struct iovec part = { .iov_base = &bytes, .iov_len = sizeof(bytes) };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *header;

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	return sendmsg(client, &message, MSG_NOSIGNAL) == sizeof(bytes);
}

static bool send_all(int client, int64_t number, const int *fds, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!send_message(client, number, fds[i]))
			return false;
	return true;
}

static void drain(int *fds, unsigned int count)
{
	uint64_t value;
	unsigned int i;

	for (i = 0; i < count; i++)
		while (read(fds[i], &value, sizeof(value)) == sizeof(value))
			;
}

bool ivshmem_accept(struct ivshmem *ivshmem)
{
	int client = accept4(ivshmem->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (client < 0)
		return false;
	if (ivshmem->client >= 0) {
		close(client);
		return false;
	}
	ivshmem->client = client;
	drain(ivshmem->doorbells, EXANEST_DOORBELLS);
	drain(ivshmem->vectors, EXANEST_VECTORS);
	if (send_message(client, PROTOCOL_VERSION, -1) &&
	    send_message(client, IVSHMEM_MACHINE, -1) &&
	    send_message(client, SHARED_MEMORY, ivshmem->memory) &&
	    send_all(client, IVSHMEM_ENGINE, ivshmem->doorbells, EXANEST_DOORBELLS) &&
	    send_all(client, IVSHMEM_MACHINE, ivshmem->vectors, EXANEST_VECTORS))
		return true;
	ivshmem_disconnect(ivshmem);
	return false;
}

void ivshmem_disconnect(struct ivshmem *ivshmem)
{
	close_all(&ivshmem->client, 1);
}

void ivshmem_interrupt(struct ivshmem *ivshmem, uint32_t vectors)
{
	const uint64_t one = 1;
	unsigned int i;

	for (i = 0; i < EXANEST_VECTORS; i++)
		/* It fails only if the counter is full: then the machine has an interrupt pending. */
		if (vectors >> i & 1 &&
		    write(ivshmem->vectors[i], &one, sizeof(one)) != sizeof(one))
			continue;
}
