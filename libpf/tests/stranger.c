/* SPDX-License-Identifier: BSD-3-Clause */
#include "stranger.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define WHILE_MS 5000

struct address stranger_address_of(pf_context *context)
{
	struct address address;
	size_t length = sizeof(address);

	assert_int_equal(pf_address(context, &address, &length), PF_OK);
	return address;
}

struct address stranger_address(void)
{
	struct address address;

	assert_int_equal(address_create(&address), PF_OK);
	return address;
}

int stranger_listen(const struct address *address)
{
	struct sockaddr_un name;
	socklen_t length = address_socket(address, &name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(listener >= 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, length), 0);
	assert_int_equal(listen(listener, 16), 0);
	return listener;
}

int stranger_accept(int listener)
{
	struct pollfd ready = { .fd = listener, .events = POLLIN };
	int socket;

	assert_int_equal(poll(&ready, 1, WHILE_MS), 1);
	socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(socket >= 0);
	return socket;
}

int stranger_dial(const struct address *to)
{
	struct sockaddr_un name;
	socklen_t length = address_socket(to, &name);
	int caller = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(caller >= 0);
	assert_int_equal(connect(caller, (struct sockaddr *)&name, length), 0);
	return caller;
}

struct connection_message stranger_hello(const struct address *to, const struct address *from)
{
	struct hello hello = { .from = *from };
	struct connection_message message;

	memset(&message, 0, sizeof(message));
	connection_message_seal(&message, CONNECTION_HELLO, &hello, to->key);
	return message;
}

void stranger_say(int socket, const void *bytes, size_t length, const int *fds, unsigned count)
{
	char control[CMSG_SPACE(16 * sizeof(int))] = { 0 };
	struct iovec piece = { (void *)(uintptr_t)bytes, length };
	struct msghdr packet = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (count) {
		struct cmsghdr *header = (struct cmsghdr *)(void *)control;

		packet.msg_control = control;
		packet.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	/* It may have hung up already. */
	if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		fail_msg("sendmsg: %s", strerror(errno));
}

int stranger_hear(int socket, struct connection_message *message, int *fd)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };

	if (poll(&ready, 1, WHILE_MS) != 1)
		return PF_ERR_AGAIN;
	return connection_message_receive(socket, message, fd);
}

bool stranger_hung_up(int socket)
{
	struct connection_message message;
	int status, fd;

	do {
		status = stranger_hear(socket, &message, &fd);
		if (fd >= 0)
			close(fd);
	} while (status == PF_OK);
	return status == PF_ERR_PEER;
}

void intruder_enter(struct intruder *intruder, pf_context *context)
{
	struct address to = stranger_address_of(context);
	struct connection_message message = { 0 };
	_Atomic int64_t allowance = INT64_MAX;
	struct hello hello;
	int fd;

	intruder->address = stranger_address();
	intruder->cookie = 0x1234567890abcdef;
	hello = (struct hello){ .from = intruder->address,
				.cookie_address = (uint64_t)(uintptr_t)&intruder->cookie,
				.cookie = intruder->cookie };
	assert_int_equal(channel_create(&intruder->channel, 65536, &allowance), PF_OK);
	/* All of the ring from the first lap on: nothing is left to grow by. */
	intruder->channel.ring.lap = intruder->channel.ring.size;
	intruder->channel.ring.allowance = NULL;
	intruder->socket = stranger_dial(&to);
	connection_message_seal(&message, CONNECTION_HELLO, &hello, to.key);
	stranger_say(intruder->socket, &message, connection_message_length(CONNECTION_HELLO),
		     &intruder->channel.fd, 1);
	assert_int_equal(stranger_hear(intruder->socket, &message, &fd), PF_OK);
	assert_int_equal(message.kind, CONNECTION_WELCOME);
	assert_true(fd >= 0);
	close(fd);
}

void intruder_leave(struct intruder *intruder)
{
	close(intruder->socket);
	channel_destroy(&intruder->channel);
}

bool intruder_write(struct intruder *intruder, uint8_t kind, const void *payload, size_t length)
{
	uint8_t *place = ring_reserve(&intruder->channel.ring, length);

	if (!place)
		return false;
	if (length)
		memcpy(place, payload, length);
	ring_commit(&intruder->channel.ring, length, kind, 0);
	return true;
}

unsigned count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}
