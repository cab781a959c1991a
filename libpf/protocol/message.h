/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: pieces of the message stream with a header each. */
#ifndef PF_NET_MESSAGE_H
#define PF_NET_MESSAGE_H

#include "exchange.h"

/* Most bytes of messages that may be under way in one direction, and of the sender's ring. */
uint32_t message_window(const struct shared *shared);
/* Of these as many as this process has room for now: few until it takes messages. */
uint32_t message_room(const struct exchange *exchange);
/* The end of what the peer may send; never less than it was told in this use. */
uint64_t message_limit(const struct exchange *exchange);
/* A place in the stream for the bytes of a message. PF_OK, PF_ERR_AGAIN, PF_ERR_MEMORY, ... */
int message_reserve(struct exchange *exchange, uint8_t tag, size_t length, uint8_t **place);
void message_commit(struct exchange *exchange, size_t length);

/* A piece of the stream came. False: the peer broke the rules. *taken: its bytes are kept. */
bool message_arrived(struct exchange *exchange, uint64_t position, uint8_t *bytes, uint32_t length,
		     bool *taken);
/* Is more here than whole messages, all taken but one? */
bool message_open(struct exchange *exchange);
struct message {
	uint8_t tag;
	uint8_t *bytes;
	uint32_t length;
	uint32_t whole;  /* of the stream, with header and padding */
	unsigned pieces; /* if more than 1, it lies in these */
	struct iovec piece[PF_PIECES_MOST];
};
/* Take the first of the messages in the ring. False: none is whole, or (*broken) it is malformed. */
bool message_next(struct exchange *exchange, struct message *message, bool *broken);
/* Take the first of the runs. */
void message_of_runs(struct shared *shared, struct message *message);
/* No more packets are at hand: a message in the runs that goes on goes to its ring. */
void messages_settle(struct shared *shared);
/* The exchange ends: such a message of it is forgotten. */
void messages_forget(struct exchange *exchange);

#endif
