/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: pieces of the message stream with a header each. */
#ifndef PF_NET_MESSAGE_H
#define PF_NET_MESSAGE_H

#include "exchange.h"

/* A place in the stream for the bytes of a message. PF_OK, PF_ERR_AGAIN, PF_ERR_MEMORY, ... */
int message_reserve(struct exchange *exchange, uint8_t tag, size_t length, uint8_t **place);
void message_commit(struct exchange *exchange, size_t length);

/* A piece of the stream came. False: the peer broke the rules. *taken: its bytes are kept. */
bool message_arrived(struct exchange *exchange, uint64_t position, uint8_t *bytes, uint32_t length,
		     bool *taken);
struct message {
	uint8_t tag;
	uint8_t *bytes;
	uint32_t length;
	uint32_t whole; /* of the stream, with header and padding */
};
/* Take the first of the messages in the ring. False: none is whole, or (*broken) it is malformed. */
bool message_next(struct exchange *exchange, struct message *message, bool *broken);
/* Take the first of a run. */
void message_of_run(struct message_run *run, struct message *message);

#endif
