/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets between this process's service thread and the service threads of peers, one for each
 * channel: of peers that this process called and of peers that called this process. A connection
 * carries the handshake, requests to resolve, and answers; the end of the socket shows that the
 * peer's process ended.
 *
 * Everything here belongs to the service thread, or, after service_stop, to the thread that closes;
 * only connection_dial, connections_ask_now and connections_answer_now are for any thread. Progress
 * gets notices; requests of the peer go to the function "resolve".
 *
 * A connection is freed when its socket ends. Two things refer to a connection: the pointer given
 * to connections_adopt, which is then set to NULL, and, for an answer that takes time, the
 * connection's number, which is never used again.
 */
#ifndef PF_CONNECTION_H
#define PF_CONNECTION_H

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

#include "common/context.h"
#include "connection_message.h"
#include "inbox.h"
#include "notice.h"
#include <libpf/pf.h>

struct connection;

/* Have a range resolved, then connections_answer_now or connections_answer called with this number. */
typedef void (*connections_resolve_fn)(void *arg, uint64_t number, const struct resolve *request);

/* The peer has answered, with an inbox and a slot there, both of which the callee takes over. */
typedef void (*connections_bell_fn)(pf_peer *peer, struct inbox_memory *inbox, uint32_t slot);

struct connections {
	pf_context *context;
	struct notices *notices;
	int inbox_fd;             /* handed to admitted peers */
	_Atomic bool inbox_known; /* inbox_fd was handed over; any thread may look */
	const uint64_t *cookie;   /* read by peers with permission to copy from this process */
	connections_resolve_fn resolve;
	void *resolve_arg;
	connections_bell_fn give_bell;
	int listener;
	int spare; /* kept open, to be closed to tell a caller of a lack of descriptors */
	struct event *acceptable;
	struct timeval handshake; /* how long strangers may be silent; does not change */
	/*
	 * For senders on other threads: the service thread, which alone changes the list, the
	 * pointers of peers to connections and the outboxes, holds the lock for each change.
	 */
	pthread_mutex_t lock;
	struct connection *newest;
	uint64_t numbers;                /* given to connections until now */
	unsigned strangers;              /* callers without proof yet of knowing the key */
	_Atomic bool slots[INBOX_SLOTS]; /* true: taken by an incoming channel */
};

/* A call that the peer has not answered yet. */
struct call {
	int socket;
	uint8_t nonce[crypto_secretbox_NONCEBYTES]; /* of the hello */
};

/*
 * Listen at the context's address, before service_start. The arguments belong to the caller and
 * live longer than the connections. PF_OK or PF_ERR_SYSTEM.
 */
int connections_open(struct connections *connections, pf_context *context, struct notices *notices,
		     int inbox_fd, const uint64_t *cookie, connections_resolve_fn resolve,
		     void *resolve_arg, connections_bell_fn give_bell);
/* Closes all sockets. Zeroed memory without connections_open is allowed. */
void connections_close(struct connections *connections);
/* Tell all peers about the close of this process in good order. */
void connections_say_bye(struct connections *connections);

/*
 * Any thread, under the peer's lock: call the owner of this address and hand over the channel with
 * this descriptor. PF_OK: the call is for the service thread to adopt, or the socket to be closed.
 * PF_ERR_AGAIN; PF_ERR_PEER: the process is gone; PF_ERR_SYSTEM with errno.
 */
int connection_dial(const struct connections *connections, const struct address *address,
		    int channel, struct call *call);
/*
 * Make a connection of a call. *connection is the peer's from here on, until the socket ends: then
 * *connection is NULL, and progress gets NOTICE_GONE.
 */
void connections_adopt(struct connections *connections, pf_peer *peer, const struct call *call,
		       struct connection **connection);
/*
 * A call to the peer was refused, and the peer is gone: admit callers, then give progress
 * NOTICE_GONE.
 */
void connections_report_refused(struct connections *connections, pf_peer *peer);

/* Close all connections with the process of this id, without a notice. */
void connections_drop(struct connections *connections, const uint8_t id[ADDRESS_ID_BYTES]);

/*
 * Any thread: as connection_ask, of the peer's connection, and connections_answer, unless messages
 * wait for room in the socket, or, of connections_ask_now, another thread sends. False: the service
 * thread has to send.
 */
bool connections_ask_now(struct connections *connections, struct connection *const *owner,
			 const struct resolve *request);
bool connections_answer_now(struct connections *connections, uint64_t number,
			    const struct resolve *result);

/* Ask the peer to resolve a range. Progress gets the answer as NOTICE_RESOLVED. */
void connection_ask(struct connection *connection, const struct resolve *request);
/* Answer the request of the connection with this number, if the connection still exists. */
void connections_answer(struct connections *connections, uint64_t number,
			const struct resolve *result);

#endif
