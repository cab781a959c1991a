/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other end of a connection, made by hand: it says what a libpf would
 * never say, or says it wrongly.
 */
#ifndef PF_TESTS_STRANGER_H
#define PF_TESTS_STRANGER_H

#include "host/connection_message.h"
#include "host/channel.h"
#include "unit.h"

/* The address of a context, as its peers know it. */
struct address stranger_address_of(pf_context *context);
/* A new address, of nobody. */
struct address stranger_address(void);
/* A socket that waits for callers at this address. */
int stranger_listen(const struct address *address);
/* The next caller. */
int stranger_accept(int listener);
/* A socket connected to a context. */
int stranger_dial(const struct address *to);

/* A hello as it should be, from an address of nobody's, for the caller to spoil. */
struct connection_message stranger_hello(const struct address *to, const struct address *from);
/* Send bytes as they are, with these descriptors. */
void stranger_say(int socket, const void *bytes, size_t length, const int *fds, unsigned count);
/* The next message: waits for a while, PF_ERR_AGAIN if none comes. *fd may be -1. */
int stranger_hear(int socket, struct connection_message *message, int *fd);
/* Whether the other end hangs up within a while, whatever it says before. */
bool stranger_hung_up(int socket);

/* Let in by a context, with a channel to write to by hand. */
struct intruder {
	struct address address;
	struct channel channel;
	uint64_t cookie; /* by which the context sees that it may copy from this process */
	int socket;
};
void intruder_enter(struct intruder *intruder, pf_context *context);
void intruder_leave(struct intruder *intruder);
/* Write one message; false if there is no room. */
bool intruder_write(struct intruder *intruder, uint8_t kind, const void *payload, size_t length);

/* Open descriptors of this process. */
unsigned count_descriptors(void);

#endif
