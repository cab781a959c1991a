// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../libpf/tests/patience.h"

struct message {
	uint64_t request, a, b, c;
};

#define CONNECT_TRIES 500 /* 10 ms apart */

#define PARTNER_END UINT64_MAX
#define PARTNER_DIE (UINT64_MAX - 1)

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
	case PARTNER_DIE:
		return raise(SIGKILL);
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

/*
 * Partners on another node. There the same program serves, so that addresses of functions are
 * the same, and for each connection it makes a process that is the partner.
 */
static int node_connect(const char *place)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const char *colon = strchr(place, ':');
	char host[INET_ADDRSTRLEN] = "";
	unsigned int tries = 0;
	int fd, one = 1;

	CHECK(colon && (size_t)(colon - place) < sizeof(host));
	memcpy(host, place, colon - place);
	CHECK(inet_pton(AF_INET, host, &address.sin_addr) == 1);
	address.sin_port = htons(atoi(colon + 1));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	/* The program there may not listen yet. */
	while (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		CHECK(errno == ECONNREFUSED && tries++ < CONNECT_TRIES * patience());
		usleep(10000);
	}
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	return fd;
}

/* A process that is the partner at the other end of the socket. Its wait status goes there, too. */
static void node_serve(int socket)
{
	struct device_options options;
	uint64_t status;
	int wait_status;
	pid_t pid;

	CHECK(recv(socket, &options, sizeof(options), MSG_WAITALL) == sizeof(options));
	if (options.fault_eventfd)
		options.fault_eventfd = eventfd(0, EFD_CLOEXEC);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		serve(socket, &options);
	CHECK(waitpid(pid, &wait_status, 0) == pid);
	status = wait_status;
	send(socket, &status, sizeof(status), MSG_NOSIGNAL);
	_exit(0);
}

int partners_serve(unsigned int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, one = 1;

	signal(SIGCHLD, SIG_IGN);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 20)) {
		perror("partners_serve");
		return 1;
	}
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		if (!fork()) {
			signal(SIGCHLD, SIG_DFL);
			close(listener);
			node_serve(fd);
		}
		close(fd);
	}
	perror("partners_serve");
	return 1;
}

bool partner_is_far(const struct partner *partner)
{
	return !partner->pid;
}

static void node_start(struct partner *partner, const struct device_options *options,
		       const char *place)
{
	static const struct device_options defaults;

	partner->pid = 0;
	partner->socket = node_connect(place);
	CHECK(send(partner->socket, options ? options : &defaults, sizeof(*options),
		   MSG_NOSIGNAL) == sizeof(*options));
	partner->address = receive(partner);
}

void partner_start(struct partner *partner, const struct device_options *options)
{
	const char *place = getenv("EXANEST_TEST_PARTNERS");
	int sockets[2];

	if (place) {
		node_start(partner, options, place);
		return;
	}

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

int partner_wait(struct partner *partner)
{
	int status;

	if (partner_is_far(partner))
		return receive(partner);
	CHECK(waitpid(partner->pid, &status, 0) == partner->pid);
	return status;
}

void partner_kill(struct partner *partner)
{
	if (partner_is_far(partner))
		ask(partner, PARTNER_DIE, 0, 0, 0);
	else
		CHECK(!kill(partner->pid, SIGKILL));
	CHECK_EQUAL(partner_wait(partner), SIGKILL);
	close(partner->socket);
}

void partner_stop(struct partner *partner)
{
	ask(partner, PARTNER_END, 0, 0, 0);
	CHECK_EQUAL(partner_wait(partner), 0);
	close(partner->socket);
}
