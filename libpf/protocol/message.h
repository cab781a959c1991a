/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: pieces of the message stream, each behind a header. */
#ifndef PF_NET_MESSAGE_H
#define PF_NET_MESSAGE_H

#include "exchange.h"

/* Largest number of bytes of messages under way to a process, and largest size of a ring. */
uint32_t message_window(const struct shared *shared);
/* Number of bytes with room in this process now: few until messages are taken. */
uint32_t message_room(const struct exchange *exchange);
/* Position up to which the peer may send; never below the limit told to the peer in this use. */
uint64_t message_limit(const struct exchange *exchange);
/*
 * Reserve a place in the stream for a message of length bytes. PF_OK, PF_ERR_AGAIN: no
 * room now, or PF_ERR_MEMORY.
 */
int message_reserve(struct exchange *exchange, uint32_t tag, size_t length, uint8_t **place);
/* Append the message in the reserved place to the stream. */
void message_commit(struct exchange *exchange, size_t length);

/*
 * Take a piece of the stream. *taken: cleared if no room or memory is left. False: the peer broke
 * the rules.
 */
bool message_arrived(struct exchange *exchange, uint64_t position, uint8_t *bytes, uint32_t length,
		     bool *taken);
/* Is a part of a message here, or more than a single message in the ring? */
bool message_open(struct exchange *exchange);
struct message {
	uint32_t tag;
	uint8_t *bytes;
	uint32_t length;
	uint32_t whole;                     /* bytes in the stream, with header and padding */
	unsigned pieces;                    /* number of pieces; 1: bytes has the whole message */
	struct iovec piece[PF_PIECES_MOST]; /* only if pieces > 1 */
};
/* Take the first message of the ring. False: no message is whole, or (*broken) malformed. */
bool message_next(struct exchange *exchange, struct message *message, bool *broken);
/* Take the first message of the runs. */
void message_of_runs(struct shared *shared, struct message *message);
/* No more packets are at hand: copy the open message from the runs to the ring. */
void messages_settle(struct shared *shared);
/* The exchange ends: forget an open message of the exchange. */
void messages_forget(struct exchange *exchange);

#endif
