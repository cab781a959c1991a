/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What pf_address hands out: where a context can be reached, and the key that
 * admits to it. On one host that is the name of its socket, from others its
 * UDP sockets.
 */
#ifndef PF_ADDRESS_H
#define PF_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "pf.h"

#define ADDRESS_ID_BYTES 16
#define ADDRESS_KEY_BYTES 32

#define ADDRESS_ENDPOINTS_MAX 6

/* A UDP socket. */
struct address_endpoint {
	uint8_t family;      /* 4 or 6 */
	uint8_t prefix;      /* bits of the network's part */
	uint16_t port;       /* network order, as the address is */
	uint8_t address[16]; /* 4 of them for IPv4 */
};

struct address {
	uint32_t magic;
	uint16_t version;
	uint16_t length;
	uint8_t host[16];             /* boot id: the same kernel */
	uint64_t network_namespace;   /* socket names are seen inside one only */
	uint8_t id[ADDRESS_ID_BYTES]; /* random; the socket's name */
	uint8_t auth;                 /* enum pf_auth that it insists on */
	uint8_t endpoints_count;
	uint8_t unused[6]; /* 0 */
	struct address_endpoint endpoints[ADDRESS_ENDPOINTS_MAX];
	uint8_t key[ADDRESS_KEY_BYTES]; /* random; seals the handshake */
};
_Static_assert(sizeof(struct address) <= PF_ADDRESS_MAX, "buffers are that long");

int address_create(struct address *address);
/* Copies from untrusted bytes; PF_ERR_ARGUMENT if they are no address of this version. */
int address_parse(struct address *address, const void *bytes, size_t length);
bool address_same(const struct address *a, const struct address *b);
/* NULL when a reaches b by shared memory, else why not. */
const char *address_unreachable(const struct address *a, const struct address *b);
socklen_t address_socket(const struct address *address, struct sockaddr_un *name);

#endif
