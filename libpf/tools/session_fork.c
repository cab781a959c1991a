/* SPDX-License-Identifier: BSD-3-Clause */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session.h"
#include "partner.h"

/* Open a context, send its address to the parent, then serve the parent. */
static int partner_serve_parent(const pf_options *options, int socket)
{
	struct partner *partner = partner_open(options);
	unsigned char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	int status;

	if (!partner)
		return -1;
	if (pf_address(partner_context(partner), address, &length) != PF_OK ||
	    send(socket, address, length, MSG_NOSIGNAL) != (ssize_t)length) {
		warn("address of the partner");
		return -1;
	}
	close(socket);
	status = partner_serve(partner, NULL);
	if (status)
		return status;
	partner_close(partner);
	return 0;
}

static int run_child(const pf_options *options, int core, int socket, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) {
		warnx("the partner ends: process %d is gone", (int)parent);
		return -1;
	}
	if (core_bind(core))
		return -1;
	return partner_serve_parent(options, socket);
}

/* Connect to the child; the socket delivers the child's address. */
static int connect_child(struct session *session, const pf_options *options, int core, int socket)
{
	unsigned char address[PF_ADDRESS_MAX];
	ssize_t length;

	if (core_bind(core) || session_open(session, options)) {
		session->failed = true;
		return -1;
	}
	length = recv(socket, address, sizeof(address), 0);
	if (length > 0)
		return session_greet(session, address, (size_t)length);
	/*
	 * 0: the child has exited after a message, or a signal killed the child; session_close reports
	 * it.
	 */
	if (length < 0) {
		warn("address of the partner");
		session->failed = true;
	}
	return -1;
}

int session_fork(struct session *session, const pf_options *options, const struct cores *cores)
{
	pid_t parent = getpid();
	int sockets[2], status;

	memset(session, 0, sizeof(*session));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		warn("socketpair");
		return -1;
	}
	fflush(stdout);
	session->child = fork();
	if (!session->child) {
		close(sockets[0]);
		_exit(run_child(options, cores->second, sockets[1], parent) ? 1 : 0);
	}
	close(sockets[1]);
	if (session->child < 0) {
		warn("fork");
		status = -1;
	} else {
		status = connect_child(session, options, cores->first, sockets[0]);
	}
	close(sockets[0]);
	if (status)
		session_close(session);
	return status;
}
