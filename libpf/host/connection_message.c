/* SPDX-License-Identifier: BSD-3-Clause */
#include "connection_message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"

static size_t body_length(uint32_t kind)
{
	return kind == CONNECTION_HELLO ? sizeof(struct hello) : sizeof(struct welcome);
}

size_t connection_message_length(uint32_t kind)
{
	switch (kind) {
	case CONNECTION_HELLO:
	case CONNECTION_WELCOME:
		return offsetof(struct connection_message, u.handshake.sealed) +
		       crypto_secretbox_MACBYTES + body_length(kind);
	case CONNECTION_RESOLVE:
	case CONNECTION_RESOLVED:
		return offsetof(struct connection_message, u) + sizeof(struct resolve);
	case CONNECTION_REFUSED:
	case CONNECTION_BYE:
	case CONNECTION_EXHAUSTED:
		return offsetof(struct connection_message, u);
	default:
		return 0;
	}
}

int connection_message_send_with(int socket, const struct connection_message *message,
				 const int *fds, unsigned count)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(CONNECTION_DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec bytes = { (void *)(uintptr_t)message,
			       connection_message_length(message->kind) };
	struct msghdr packet = { .msg_iov = &bytes, .msg_iovlen = 1 };

	if (count) {
		memset(&control, 0, sizeof(control));
		packet.msg_control = &control;
		packet.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	while (sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		/* The sender's limit bounds what all processes of the user have in flight. */
		if (descriptor_limit_raised(errno))
			continue;
		if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
			return PF_ERR_AGAIN;
		if (errno != EINTR)
			return PF_ERR_PEER;
	}
	return PF_OK;
}

int connection_message_send(int socket, const struct connection_message *message, int fd)
{
	return connection_message_send_with(socket, message, &fd, fd >= 0);
}

void connection_message_drop(int fds[CONNECTION_DESCRIPTORS])
{
	unsigned i;

	for (i = 0; i < CONNECTION_DESCRIPTORS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/*
 * Take the descriptors that came with a packet; none if there are too many. The kernel has
 * installed all of the descriptors: each descriptor that is not taken must be closed. Returns how
 * many came.
 */
static unsigned take_descriptors(struct msghdr *packet, int fds[CONNECTION_DESCRIPTORS])
{
	struct cmsghdr *header;
	size_t i, here;
	unsigned count = 0;
	int fd;

	for (i = 0; i < CONNECTION_DESCRIPTORS; i++)
		fds[i] = -1;
	for (header = CMSG_FIRSTHDR(packet); header; header = CMSG_NXTHDR(packet, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < here; i++, count++) {
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (count < CONNECTION_DESCRIPTORS)
				fds[count] = fd;
			else
				close(fd);
		}
	}
	if (count > CONNECTION_DESCRIPTORS)
		connection_message_drop(fds);
	return count;
}

int connection_message_receive(int socket, struct connection_message *message,
			       int fds[CONNECTION_DESCRIPTORS])
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(CONNECTION_DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec bytes = { message, sizeof(*message) };
	struct msghdr packet = { .msg_iov = &bytes,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control.space) };
	unsigned count;
	ssize_t length;

	fds[0] = fds[1] = -1;
	/*
	 * ECONNRESET: the peer closed with messages unread; earlier messages of the peer can still
	 * be read.
	 */
	do {
		length = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (length < 0 && (errno == EINTR || errno == ECONNRESET));
	if (length < 0)
		return errno == EAGAIN ? PF_ERR_AGAIN : PF_ERR_PEER;
	count = take_descriptors(&packet, fds);
	if (!length && !count)
		return PF_ERR_PEER;
	if (!(packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    (size_t)length >= offsetof(struct connection_message, u) &&
	    message->magic == CONNECTION_MAGIC &&
	    (size_t)length == connection_message_length(message->kind))
		return PF_OK;
	connection_message_drop(fds);
	/* The kernel drops descriptors for which this process has no number left. */
	if (packet.msg_flags & MSG_CTRUNC && count < CONNECTION_DESCRIPTORS) {
		errno = EMFILE;
		return PF_ERR_SYSTEM;
	}
	return PF_ERR_REFUSED;
}

void connection_message_seal(struct connection_message *message, enum connection_message_kind kind,
			     const void *body, const uint8_t key[ADDRESS_KEY_BYTES])
{
	message->magic = CONNECTION_MAGIC;
	message->kind = kind;
	randombytes_buf(message->u.handshake.nonce, sizeof(message->u.handshake.nonce));
	crypto_secretbox_easy(message->u.handshake.sealed, body, body_length(kind),
			      message->u.handshake.nonce, key);
}

bool connection_message_unseal(const struct connection_message *message, void *body,
			       const uint8_t key[ADDRESS_KEY_BYTES])
{
	return !crypto_secretbox_open_easy(body, message->u.handshake.sealed,
					   crypto_secretbox_MACBYTES + body_length(message->kind),
					   message->u.handshake.nonce, key);
}
