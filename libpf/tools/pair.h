/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measuring side: context, partner, and requests to the partner. Functions of type int return
 * 0, or -1 with a message on standard error.
 */
#ifndef TOOLS_PAIR_H
#define TOOLS_PAIR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pf.h"
#include "protocol.h"
#include "topology.h"

struct pair {
	pf_context *context;
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
	uint64_t replies;     /* number of replies to pair_ask */
	struct control reply; /* the last reply */
};

/* Fork the partner, bind and connect both processes. options as for pf_open. */
int pair_fork(struct pair *pair, const pf_options *options, const struct cores *cores);
/* Connect to the process of partner_listen by the address in the file. secret: file, or NULL. */
int pair_connect(struct pair *pair, const pf_options *options, const char *file,
		 const char *secret);
/* End the partner. Returns -1 also when the partner ended with an error. */
int pair_close(struct pair *pair);

/* The two steps of pair_fork and pair_connect: open the context, connect to the address. */
int pair_open(struct pair *pair, const pf_options *options);
int pair_greet(struct pair *pair, const void *address, size_t length);

/* Call pf_progress until *counter, incremented by a callback, has reached value. */
int pair_wait(struct pair *pair, const uint64_t *counter, uint64_t value);
/* Call pf_send, again and again while the ring is full. */
int pair_send(struct pair *pair, enum tag tag, const void *data, size_t length);
/* Count a complete pf_put, pf_get or pf_atomic; report a failed operation. */
int pair_posted(struct pair *pair, const char *what, int status);
/* Completion callback of puts, gets and atomics; arg is the pair. */
void pair_complete(pf_context *context, const pf_completion *completion);
/* Send a request and replace the request with the reply. */
int pair_ask(struct pair *pair, struct control *control);
/* Let the partner fill its buffer (CONTROL_PREPARE). *remote: the buffer's address. */
int pair_prepare(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
		 bool verify, uint64_t *remote);
/* Let the partner check its buffer. *wrong: number of messages and slots with wrong contents. */
int pair_check(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
	       uint64_t *wrong);
/* Map a buffer with its pages present; free it with munmap. NULL after a message. */
uint8_t *pair_buffer(size_t length);
/* Make a first transfer, so that libpf chooses a path, and return pf_peer_path. */
const char *pair_path(struct pair *pair);

#endif
