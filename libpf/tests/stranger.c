/* SPDX-License-Identifier: BSD-3-Clause */
#include "stranger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/page.h"
#include "host/inbox.h"
#include "patience.h"

struct observed observed;

/* Time limit for the other end, ms. */
static int limit(void)
{
	return 5000 * (int)patience();
}

int stranger_set_up(void **state)
{
	alarm(100 * patience());
	return sodium_init() < 0 ? -1 : 0;
}

static void on_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	if (reason == PF_PEER_LEFT) {
		observed.left++;
		return;
	}
	observed.errors++;
	observed.status = status;
}

static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	observed.messages++;
}

static void on_pieces(pf_context *context, pf_peer *from, uint32_t tag, const struct iovec *pieces,
		      unsigned count, void *arg)
{
	observed.messages++;
}

pf_context *stranger_context(const pf_options *options)
{
	static const pf_callbacks callbacks = {
		.size = sizeof(callbacks),
		.receive = on_message,
		.receive_pieces = on_pieces,
		.peer_event = on_end,
	};
	pf_context *context;

	memset(&observed, 0, sizeof(observed));
	assert_ok(pf_open(options, &callbacks, &context));
	return context;
}

void stranger_progress(pf_context *context, unsigned milliseconds)
{
	for (; milliseconds; milliseconds--) {
		pf_progress(context);
		usleep(1000);
	}
}

bool stranger_await_error(pf_context *context)
{
	int i;

	for (i = 0; i < limit() && !observed.errors; i++)
		stranger_progress(context, 1);
	return observed.errors;
}

struct address stranger_address_of(pf_context *context)
{
	struct address address;
	size_t length = sizeof(address);

	assert_ok(pf_address(context, &address, &length));
	return address;
}

struct address stranger_address(void)
{
	struct address address;

	assert_ok(address_create(&address));
	return address;
}

/* A socket, and what it is to be bound or connected to. */
static int make_socket(const struct address *address, struct sockaddr_un *name, socklen_t *length)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	*length = address_socket(address, name);
	assert_true(fd >= 0);
	return fd;
}

int stranger_listen(const struct address *address)
{
	struct sockaddr_un name;
	socklen_t length;
	int listener = make_socket(address, &name, &length);

	assert_int_equal(bind(listener, (struct sockaddr *)&name, length), 0);
	assert_int_equal(listen(listener, 16), 0);
	return listener;
}

int stranger_accept(int listener)
{
	struct pollfd ready = { .fd = listener, .events = POLLIN };
	int socket;

	assert_int_equal(poll(&ready, 1, limit()), 1);
	socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(socket >= 0);
	return socket;
}

int stranger_dial(const struct address *to)
{
	struct sockaddr_un name;
	socklen_t length;
	int caller = make_socket(to, &name, &length);

	assert_int_equal(connect(caller, (struct sockaddr *)&name, length), 0);
	return caller;
}

struct connection_message stranger_hello(const struct address *to, const struct address *from)
{
	struct hello hello = { .from = *from };
	struct connection_message message = { 0 };

	connection_message_seal(&message, CONNECTION_HELLO, &hello, to->key);
	return message;
}

struct connection_message stranger_welcome(const struct address *address,
					   const struct connection_message *hello,
					   struct welcome welcome)
{
	struct connection_message message = { 0 };

	memcpy(welcome.nonce, hello->u.handshake.nonce, sizeof(welcome.nonce));
	connection_message_seal(&message, CONNECTION_WELCOME, &welcome, address->key);
	return message;
}

int stranger_inbox(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)page_size()), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
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
	/* The other end may have closed it. */
	if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		fail_msg("sendmsg: %s", strerror(errno));
}

void stranger_say_message(int socket, const struct connection_message *message, const int *fds,
			  unsigned count)
{
	stranger_say(socket, message, connection_message_length(message->kind), fds, count);
}

struct resolve stranger_ask(int socket, struct resolve resolve)
{
	struct connection_message message = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_RESOLVE,
					      .u.resolve = resolve };
	int fd;

	stranger_say_message(socket, &message, NULL, 0);
	assert_ok(stranger_hear(socket, &message, &fd));
	assert_int_equal(message.kind, CONNECTION_RESOLVED);
	assert_int_equal(message.u.resolve.token, resolve.token);
	return message.u.resolve;
}

int stranger_hear(int socket, struct connection_message *message, int *fd)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };
	int fds[CONNECTION_DESCRIPTORS], status;

	if (poll(&ready, 1, limit()) != 1)
		return PF_ERR_AGAIN;
	status = connection_message_receive(socket, message, fds);
	*fd = fds[0];
	if (fds[1] >= 0)
		close(fds[1]);
	return status;
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
	assert_ok(channel_create(&intruder->channel, 65536, &allowance, NULL));
	/* Use the whole ring at once: it need not grow. */
	intruder->channel.ring.lap = intruder->channel.ring.made = intruder->channel.ring.size;
	intruder->channel.ring.allowance = NULL;
	intruder->socket = stranger_dial(&to);
	connection_message_seal(&message, CONNECTION_HELLO, &hello, to.key);
	stranger_say_message(intruder->socket, &message, &intruder->channel.fd, 1);
	assert_ok(stranger_hear(intruder->socket, &message, &fd));
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
