/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of paths over UDP: made of socket addresses, and found between the own interfaces and the
 * addresses published by a peer.
 */
#ifndef PF_NET_ENDPOINT_H
#define PF_NET_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "interface.h"
#include "protocol/net.h"

/* Contents of struct net_endpoint: an end of a path, and the own socket on the path. */
struct endpoint {
	uint8_t socket;
	uint8_t family; /* 4 or 6 */
	uint16_t port;  /* network order */
	uint32_t scope; /* of a link-local address: index of the own interface */
	uint8_t address[16];
	uint8_t unused[8]; /* always 0 */
};
_Static_assert(sizeof(struct endpoint) == sizeof(struct net_endpoint), "they are the same bytes");

void endpoint_make(struct net_endpoint *endpoint, uint8_t socket,
		   const union interface_address *address);
/* Return the length of the socket address. */
socklen_t endpoint_address(const struct net_endpoint *endpoint, union interface_address *address);

/*
 * Find paths to the owner of an address. Open the association by the first path. Return the number
 * of paths.
 */
unsigned endpoints_find(const struct interfaces *interfaces, const struct address *address,
			bool same_host, struct net_endpoint paths[NET_PATHS_MOST]);
/* Are both ends equal, except for the ports? Then both are on one host. */
bool endpoints_same_host(const struct net_endpoint *one, const struct net_endpoint *other);
/*
 * Describe a path, and return the length. Example: "10.77.0.2, UDP port 41234, over eth0 (from
 * 10.77.0.1)".
 */
size_t endpoint_describe(const struct interfaces *interfaces, const struct net_endpoint *to,
			 char *text, size_t size);

#endif
