/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on the socket between two service threads: the handshake, which hands over the channel
 * and the inbox, requests to resolve page faults, and the farewell. The socket keeps packets whole
 * (SOCK_SEQPACKET).
 *
 * The body of the handshake is encrypted and authenticated (XSalsa20-Poly1305) with the key in the
 * address of the called side. Only a process with the address is admitted, and a process that takes
 * the name of a closed socket learns nothing.
 */
#ifndef PF_CONNECTION_MESSAGE_H
#define PF_CONNECTION_MESSAGE_H

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include <libpf/pf.h>

#define CONNECTION_MAGIC 0x33706670 /* "pfp3" */
/* Descriptors that come with a message. */
#define CONNECTION_DESCRIPTORS 2

enum connection_message_kind {
	/* From the caller: sealed struct hello, descriptors of the caller's channel and inbox. */
	CONNECTION_HELLO = 1,
	CONNECTION_WELCOME,   /* the answer: sealed struct welcome, descriptor of the inbox */
	CONNECTION_REFUSED,   /* or: the handshake failed; nothing follows */
	CONNECTION_RESOLVE,   /* from the caller: make the range present */
	CONNECTION_RESOLVED,  /* the answer */
	CONNECTION_BYE,       /* at any time, the last: the context closes, in good order */
	CONNECTION_EXHAUSTED, /* the answer, or: the process called has no descriptor left */
};

struct hello {
	struct address from;
	uint8_t data[PF_DATA_MOST];      /* of the caller, behind the address */
	uint64_t cookie_address, cookie; /* see copy_probe; address 0: see COPY_EXPOSED */
};

struct welcome {
	uint64_t cookie_address, cookie;
	uint64_t engine; /* address of the sender at /dev/exanest; 0: none */
	uint32_t slot;   /* of the caller in the inbox */
	uint32_t unused;
	uint8_t nonce[crypto_secretbox_NONCEBYTES]; /* of the hello */
};

struct resolve {
	uint64_t token, address, length;
	int32_t status; /* RESOLVED */
	uint32_t write; /* RESOLVE */
	uint32_t kind;  /* RESOLVED: enum fault_kind */
	uint32_t unused;
};

/* Return the status of an answer to a resolve request; an invalid status counts as PF_ERR_FAULT. */
static inline int resolve_status_received(int32_t status)
{
	return status == PF_OK || status == PF_ERR_REFUSED ? status : PF_ERR_FAULT;
}

#define CONNECTION_SEALED_MAX (crypto_secretbox_MACBYTES + sizeof(struct hello))

struct connection_message {
	uint32_t magic;
	uint32_t kind;
	union {
		struct resolve resolve;
		struct {
			uint8_t nonce[crypto_secretbox_NONCEBYTES];
			uint8_t sealed[CONNECTION_SEALED_MAX];
		} handshake;
	} u;
};

/* Return the bytes on the wire of a message of the kind; 0 for an unknown kind. */
size_t connection_message_length(uint32_t kind);
/*
 * Up to CONNECTION_DESCRIPTORS descriptors go with the message. Returns PF_OK, PF_ERR_AGAIN (the
 * socket is full) or PF_ERR_PEER.
 */
int connection_message_send_with(int socket, const struct connection_message *message,
				 const int *fds, unsigned count);
/* Send a message with one descriptor, or without: fd is -1. */
int connection_message_send(int socket, const struct connection_message *message, int fd);
/*
 * Receive a message. fds: the descriptors; -1 behind the last, and everywhere if there were too
 * many. Returns PF_OK, PF_ERR_AGAIN (nothing to read), PF_ERR_PEER, PF_ERR_REFUSED (malformed), or
 * PF_ERR_SYSTEM with errno EMFILE: too many open descriptors in this process to receive more.
 */
int connection_message_receive(int socket, struct connection_message *message,
			       int fds[CONNECTION_DESCRIPTORS]);
/* Close the descriptors of a message. */
void connection_message_drop(int fds[CONNECTION_DESCRIPTORS]);
/* Encrypt the body of a handshake, and decrypt the body; false: not made with the key. */
void connection_message_seal(struct connection_message *message, enum connection_message_kind kind,
			     const void *body, const uint8_t key[ADDRESS_KEY_BYTES]);
bool connection_message_unseal(const struct connection_message *message, void *body,
			       const uint8_t key[ADDRESS_KEY_BYTES]);

#endif
