/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address of a context, as returned by pf_address: the ways to reach the context, and the key
 * for admission. Processes of the host reach the context by the name of its Unix socket,
 * processes of other hosts by its UDP sockets.
 */
#ifndef PF_ADDRESS_H
#define PF_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "location.h"
#include <libpf/pf.h>

#define ADDRESS_ID_BYTES 16
#define ADDRESS_KEY_BYTES 32

#define ADDRESS_ENDPOINTS_MAX 6

/* A UDP socket. */
struct address_endpoint {
	uint8_t family;      /* 4 or 6 */
	uint8_t prefix;      /* length of the network prefix, bits */
	uint16_t port;       /* in network order */
	uint8_t address[16]; /* in network order; IPv4 uses the first 4 bytes */
};

/* Later versions append behind the data, so the rest of a later address is not read. */
struct address {
	uint32_t magic;
	uint8_t version;
	uint8_t data_length; /* of pf_options.data, which follows an address that is given away */
	uint16_t length;
	uint16_t host_version;            /* of what processes of a host share */
	uint8_t wire_oldest, wire_newest; /* versions of the wire; 0: none */
	uint8_t auth;                     /* enum pf_auth required by the context */
	uint8_t endpoints_count;
	uint8_t host[16];             /* boot id of the kernel */
	uint64_t network_namespace;   /* inode; names of Unix sockets are local to it */
	uint8_t id[ADDRESS_ID_BYTES]; /* random; names the Unix socket */
	struct location location;     /* of the thread in pf_open */
	struct address_endpoint endpoints[ADDRESS_ENDPOINTS_MAX];
	uint64_t engine; /* at /dev/exanest, for other nodes; 0: no engine with a link */
	uint8_t key[ADDRESS_KEY_BYTES]; /* random; encrypts the handshake */
};
_Static_assert(sizeof(struct address) + PF_DATA_MOST <= PF_ADDRESS_MAX,
	       "pf_address fits buffers of PF_ADDRESS_MAX");

/* PF_OK, or PF_ERR_SYSTEM with errno: address_unreadable names the file. */
int address_create(struct address *address);
/* Return the path of an unreadable file needed by address_create, with errno; NULL: none. */
const char *address_unreadable(void);
/* Return the bytes of an address that is given away, with the data. */
static inline size_t address_length(const struct address *address)
{
	return sizeof(*address) + address->data_length;
}

/*
 * Give a new address the length of the program's data. PF_OK, or PF_ERR_ARGUMENT: too long, or NULL.
 */
int address_set_data(struct address *address, const void *data, uint64_t length);
/* Write the address with the data; returns address_length. */
size_t address_write(void *bytes, const struct address *address, const uint8_t *data);
/*
 * Copy from untrusted bytes, and the data; PF_ERR_ARGUMENT if the bytes are no address of this version
 * or of a later one. The version and length of the copy are those of this version. The copies may be
 * where the bytes are.
 */
int address_parse(struct address *address, uint8_t data[PF_DATA_MOST], const void *bytes,
		  size_t length);
bool address_same(const struct address *a, const struct address *b);
/* NULL if a reaches b by shared memory, otherwise the reason against it: a static text. */
const char *address_unreachable(const struct address *a, const struct address *b);
/* Fill *name with the name of the Unix socket; returns its length. */
socklen_t address_socket(const struct address *address, struct sockaddr_un *name);

#endif
