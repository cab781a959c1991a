// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct message {
	uint64_t request, a, b, c;
};

#define PARTNER_END UINT64_MAX

struct device partner_device;

static uint64_t map_file(size_t length, bool shared, int protection)
{
	char name[] = "/tmp/exanest-XXXXXX";
	int fd = mkstemp(name);
	void *memory;

	CHECK(fd >= 0);
	unlink(name);
	CHECK(ftruncate(fd, length) == 0);
	memory = mmap(NULL, length, protection, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	CHECK(memory != MAP_FAILED);
	close(fd);
	return (uintptr_t)memory;
}

static uint64_t sleeping_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static uint64_t answer(const struct message *m)
{
	void *memory = (void *)(uintptr_t)m->a;

	switch (m->request) {
	case PARTNER_MAP:
		return (uintptr_t)mmap(NULL, m->a, m->b, m->c ? m->c : MAP_PRIVATE | MAP_ANONYMOUS,
				       -1, 0);
	case PARTNER_UNMAP:
		return munmap(memory, m->b);
	case PARTNER_PROTECT:
		return mprotect(memory, m->b, m->c);
	case PARTNER_ADVISE:
		return madvise(memory, m->b, m->c) ? -errno : 0;
	case PARTNER_FILL:
		pattern_fill(memory, m->b, m->c);
		return 0;
	case PARTNER_DIFFERS:
		return pattern_differs(memory, m->b, m->c);
	case PARTNER_FORK:
		return sleeping_child();
	case PARTNER_FILE:
		return map_file(m->a, m->b, m->c);
	case PARTNER_CALL:
		return ((uint64_t(*)(uint64_t, uint64_t))memory)(m->b, m->c);
	}
	return -EINVAL;
}

static void serve(int socket, const struct device_options *options)
{
	struct message m;
	uint64_t result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	device_open(&partner_device, options);
	result = partner_device.address;
	do {
		CHECK(send(socket, &result, sizeof(result), MSG_NOSIGNAL) == sizeof(result));
		if (recv(socket, &m, sizeof(m), MSG_WAITALL) != sizeof(m))
			_exit(0);
		result = answer(&m);
	} while (m.request != PARTNER_END);
	device_close(&partner_device);
	_exit(0);
}

static uint64_t receive(struct partner *partner)
{
	uint64_t result;

	CHECK(recv(partner->socket, &result, sizeof(result), MSG_WAITALL) == sizeof(result));
	return result;
}

void partner_start(struct partner *partner, const struct device_options *options)
{
	int sockets[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
	fflush(stdout);
	partner->pid = fork();
	CHECK(partner->pid >= 0);
	if (partner->pid == 0) {
		close(sockets[0]);
		serve(sockets[1], options);
	}
	close(sockets[1]);
	partner->socket = sockets[0];
	partner->address = receive(partner);
}

static void ask(struct partner *partner, uint64_t request, uint64_t a, uint64_t b, uint64_t c)
{
	struct message m = { request, a, b, c };

	CHECK(send(partner->socket, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m));
}

uint64_t partner_ask(struct partner *partner, unsigned int request, uint64_t a, uint64_t b,
		     uint64_t c)
{
	ask(partner, request, a, b, c);
	return receive(partner);
}

void partner_stop(struct partner *partner)
{
	int status;

	ask(partner, PARTNER_END, 0, 0, 0);
	CHECK(waitpid(partner->pid, &status, 0) == partner->pid);
	CHECK_EQUAL(status, 0);
	close(partner->socket);
}
