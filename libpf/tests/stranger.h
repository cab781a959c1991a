/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other end of a connection, made by hand: it sends what libpf never sends.
 */
#ifndef PF_TESTS_STRANGER_H
#define PF_TESTS_STRANGER_H

#include "host/connection_message.h"
#include "host/channel.h"
#include "unit.h"

/* What the callbacks of contexts from stranger_context have reported since the last one. */
extern struct observed {
	unsigned errors, left;
	int status; /* of the last error */
	unsigned messages;
} observed;

/* The cmocka setup of a group: end the program after a while. */
int stranger_set_up(void **state);
/* A context that reports to observed. */
pf_context *stranger_context(const pf_options *options);
/* pf_progress, with a pause of a millisecond after each. */
void stranger_progress(pf_context *context, unsigned milliseconds);
/* Progress until an error is reported; false if none is. */
bool stranger_await_error(pf_context *context);

/* The address of a context, as its peers know it. */
struct address stranger_address_of(pf_context *context);
/* A new address that no context has. */
struct address stranger_address(void);
/* A socket that listens at this address. */
int stranger_listen(const struct address *address);
/* The next connection. */
int stranger_accept(int listener);
/* A socket connected to a context. */
int stranger_dial(const struct address *to);

/* A correct hello, for the caller to change. */
struct connection_message stranger_hello(const struct address *to, const struct address *from);
/* A correct answer to a hello, from a context with this address. */
struct connection_message stranger_welcome(const struct address *address,
					   const struct connection_message *hello,
					   struct welcome welcome);
/* The memory that comes with a welcome. */
int stranger_inbox(void);
/* Send these bytes with these descriptors. */
void stranger_say(int socket, const void *bytes, size_t length, const int *fds, unsigned count);
/* Send a message in the length of its kind. */
void stranger_say_message(int socket, const struct connection_message *message, const int *fds,
			  unsigned count);
/* The next message: waits for a while, PF_ERR_AGAIN if none comes. *fd may be -1. */
int stranger_hear(int socket, struct connection_message *message, int *fd);
/* Ask to resolve, and return the answer. */
struct resolve stranger_ask(int socket, struct resolve resolve);
/* Whether the other end closes the connection within a while; messages before are dropped. */
bool stranger_hung_up(int socket);

/* A peer that a context has accepted, with a channel that the test writes by hand. */
struct intruder {
	struct address address;
	struct channel channel;
	uint64_t cookie; /* shows the context that it may copy from this process */
	int socket;
};
void intruder_enter(struct intruder *intruder, pf_context *context);
void intruder_leave(struct intruder *intruder);
/* Write a message to the channel; false if there is no room. */
bool intruder_write(struct intruder *intruder, uint8_t kind, const void *payload, size_t length);

#endif
