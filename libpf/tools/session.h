/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measuring side: context, partner, and requests to the partner. Functions of type int return
 * 0, or -1 with a message on standard error.
 */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <libpf/pf.h>
#include "protocol.h"
#include "topology.h"
#include "waiting.h"

struct session {
	pf_context *context;
	struct waiting waiting;
	pf_peer *peer;
	size_t send_max;         /* bytes, the lower limit of both directions */
	pid_t child;             /* process of the partner; 0: not forked by this process */
	uint64_t arrived;        /* number of echoes and notices received */
	uint64_t completed;      /* number of puts, gets and atomics completed */
	uint64_t value;          /* value of the last completion */
	const uint8_t *expected; /* contents of each echo; NULL: do not compare */
	size_t expected_length;
	uint64_t wrong;       /* number of wrong echoes */
	bool failed;          /* the first failure was reported on standard error */
	uint64_t replies;     /* number of replies to session_ask */
	struct control reply; /* the last reply */
};

/* Fork the partner, bind and connect both processes. options as for pf_open. */
int session_fork(struct session *session, const pf_options *options, const struct cores *cores);
/* Connect to the process of partner_listen by the address in the file. secret: file, or NULL. */
int session_connect(struct session *session, const pf_options *options, const char *file,
		    const char *secret);
/* End the partner. Returns -1 also when the partner ended with an error. */
int session_close(struct session *session);

/* The two steps of session_fork and session_connect: open the context, connect to the address. */
int session_open(struct session *session, const pf_options *options);
int session_greet(struct session *session, const void *address, size_t length);

/* Poll once. Returns how many things happened. */
static inline int session_poll(struct session *session)
{
	return waiting_poll(&session->waiting, session->context);
}
/* Poll until *counter, incremented by a callback, has reached value. */
int session_wait(struct session *session, const uint64_t *counter, uint64_t value);
/* Call pf_send, again and again while the ring is full. */
int session_send(struct session *session, enum tag tag, const void *data, size_t length);
/* Count a complete pf_put, pf_get or pf_atomic; report a failed operation. */
int session_posted(struct session *session, const char *what, int status);
/* Completion callback of puts, gets and atomics; arg is the session. */
void session_complete(pf_context *context, const pf_completion *completion);
/* Send a request and replace the request with the reply. */
int session_ask(struct session *session, struct control *control);
/* Let the partner fill its buffer (CONTROL_PREPARE). *remote: the buffer's address. */
int session_prepare(struct session *session, size_t length, size_t stride, uint64_t slots,
		    uint64_t seed, bool verify, uint64_t *remote);
/* Let the partner check its buffer. *wrong: number of messages and slots with wrong contents. */
int session_check(struct session *session, size_t length, size_t stride, uint64_t slots,
		  uint64_t seed, uint64_t *wrong);
/* Map a buffer with its pages present; free it with munmap. NULL after a message. */
uint8_t *session_buffer(size_t length);
/* Make a first transfer, so that libpf chooses a path, and return pf_peer_path. */
const char *session_path(struct session *session);

#endif
