/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is said on the socket between two service threads: the handshake that
 * hands over the channel and the inbox, requests to resolve, and the end of the
 * process at the other side. Sequenced packets: a message is whole or not there.
 *
 * The body of the handshake is sealed (XSalsa20-Poly1305) with the key in the
 * address of the side that is called, so only those who were given the
 * address get in, and whoever usurps the name of a dead socket learns nothing.
 */
#ifndef PF_CONNECTION_MESSAGE_H
#define PF_CONNECTION_MESSAGE_H

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "pf.h"

#define CONNECTION_MAGIC 0x31706670 /* "pfp1" */

enum connection_message_kind {
	CONNECTION_HELLO = 1, /* caller: sealed struct hello, the channel's descriptor */
	CONNECTION_WELCOME,   /* called: sealed struct welcome, the inbox's descriptor */
	CONNECTION_REFUSED,   /* called: the handshake failed; nothing follows */
	CONNECTION_RESOLVE,   /* either: make this range present */
	CONNECTION_RESOLVED,  /* answer */
	CONNECTION_BYE,       /* the context closes in good order */
};

struct hello {
	struct address from;
	uint64_t cookie_address, cookie;
};

struct welcome {
	uint64_t cookie_address, cookie;
	uint64_t engine; /* of the side that is called: its address at /dev/exanest, or 0 */
	uint32_t slot;
	uint32_t unused;
	uint8_t nonce[crypto_secretbox_NONCEBYTES]; /* of the hello that this answers */
};

struct resolve {
	uint64_t token, address, length;
	int32_t status; /* RESOLVED */
	uint32_t write; /* RESOLVE */
	uint32_t kind;  /* RESOLVED: enum fault_kind */
	uint32_t unused;
};

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

/* Bytes of a message of this kind on the wire; 0 for a kind that does not exist. */
size_t connection_message_length(uint32_t kind);
/* PF_OK, PF_ERR_AGAIN if the socket is full, PF_ERR_PEER. fd may be -1. */
int connection_message_send(int socket, const struct connection_message *message, int fd);
/* The same; *fd is -1 if none came. PF_ERR_REFUSED for bytes that are no message. */
int connection_message_receive(int socket, struct connection_message *message, int *fd);
/* Seal and open a handshake of this kind. */
void connection_message_seal(struct connection_message *message, enum connection_message_kind kind,
			     const void *body, const uint8_t key[ADDRESS_KEY_BYTES]);
bool connection_message_unseal(const struct connection_message *message, void *body,
			       const uint8_t key[ADDRESS_KEY_BYTES]);

#endif
