/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets between our service thread and others, one for each channel: of
 * those that we called and of those that called us. Who gets in, what is asked
 * and answered, and that the other side is gone.
 *
 * All of it, peer->connection too, is the service thread's own, or of whoever
 * has waited for that thread's end; connection_dial alone is called by others.
 * The library's events (event.h) go to progress, requests of the other side to
 * whoever set "resolve".
 *
 * A connection is freed when its socket ends, so only two things lead to one:
 * peer->connection, which is NULL without, and, for an answer that takes its
 * time, the connection's number, which is never given again.
 */
#ifndef PF_CONNECTION_H
#define PF_CONNECTION_H

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>

#include "connection_message.h"
#include "pf.h"
#include "inbox.h"

struct connection;
struct event_base;

/* Have a range resolved, then connections_answer called with this number. */
typedef void (*connections_resolve_fn)(void *arg, uint64_t number, const struct resolve *request);

struct connections {
	pf_context *context;
	struct event_base *base;
	connections_resolve_fn resolve;
	void *resolve_arg;
	struct connection *newest;
	uint64_t numbers;   /* given to connections */
	unsigned strangers; /* those that called and have not shown that they know the key */
	bool slots[INBOX_SLOTS];
};

/* A call that the peer has not answered yet. */
struct call {
	int socket;
	uint8_t nonce[crypto_secretbox_NONCEBYTES]; /* of the hello */
};

/* The base stays the caller's, and lives longer. */
void connections_init(struct connections *connections, pf_context *context, struct event_base *base,
		      connections_resolve_fn resolve, void *resolve_arg);
/* Closes them all and tells nobody. Without connections_init, all zero will do. */
void connections_destroy(struct connections *connections);
/* Say good-bye to all, before they are destroyed. */
void connections_say_bye(struct connections *connections);

/* Somebody calls at this socket. */
void connections_accept(struct connections *connections, int listener);
/*
 * Any thread, under the peer's lock: call it and hand our channel over. PF_OK:
 * the call is for the service thread to adopt, or its socket to be closed.
 */
int connection_dial(pf_context *context, pf_peer *peer, struct call *call);
/* From here on peer->connection, until it is lost, which progress is told as EVENT_GONE. */
void connections_adopt(struct connections *connections, pf_peer *peer, const struct call *call);

/* Ask for a range of the other side's memory. Progress is told the answer as EVENT_RESOLVED. */
void connection_ask(struct connection *connection, const struct resolve *request);
/* Answer what was asked by the connection with this number, if there still is one. */
void connections_answer(struct connections *connections, uint64_t number,
			const struct resolve *result);

#endif
