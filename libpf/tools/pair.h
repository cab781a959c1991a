/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The side that measures: its context, its partner's process, and questions
 * to it. Functions that return int return 0, or -1 after a message on
 * standard error.
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
	size_t send_max;         /* in both directions */
	pid_t child;             /* the partner, if it was forked */
	uint64_t arrived;        /* echoes and notices that came back */
	uint64_t completed;      /* puts, gets and atomics that called back */
	uint64_t value;          /* of the last of them */
	const uint8_t *expected; /* echoes are compared with this, unless NULL */
	size_t expected_length;
	uint64_t wrong;   /* echoes that differed */
	bool failed;      /* said on standard error already */
	uint64_t answers; /* to pair_ask; the last is: */
	struct control answer;
};

/* Fork the partner, bind both processes, connect them. options as for pf_open. */
int pair_fork(struct pair *pair, const pf_options *options, const struct cores *cores);
/* Connect to the process that wrote the address file with pair_listen. */
int pair_connect(struct pair *pair, const pf_options *options, const char *file);
/* Be the partner of one pair_connect. After -1 the process is to end. */
int pair_listen(const pf_options *options, const char *file);
/* Say goodbye. Returns -1 if the partner ended badly. */
int pair_close(struct pair *pair);

/* pf_progress until *counter, which a callback counts, has reached value. */
int pair_wait(struct pair *pair, const uint64_t *counter, uint64_t value);
/* pf_send, repeated while the ring is full. */
int pair_send(struct pair *pair, enum tag tag, const void *data, size_t length);
/* The result of pf_put, pf_get or pf_atomic: count it if it is done, report it if it failed. */
int pair_posted(struct pair *pair, const char *what, int status);
/* For these: counts in pair->completed. Its arg is the pair. */
void pair_complete(pf_context *context, const pf_completion *completion);

/* See protocol.h. */
int pair_ask(struct pair *pair, struct control *control);
int pair_prepare(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
		 bool verify, uint64_t *remote);
/* *wrong: how many messages and slots had wrong contents. */
int pair_check(struct pair *pair, size_t length, size_t stride, uint64_t slots, uint64_t seed,
	       uint64_t *wrong);
/* Memory for transfers, its pages present; to be given to munmap. NULL after a message. */
uint8_t *pair_buffer(size_t length);
/* pf_peer_path once a first transfer has found it out. */
const char *pair_path(struct pair *pair);

#endif
