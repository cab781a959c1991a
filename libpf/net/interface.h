/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Network interfaces of the own host, and the addresses to use.
 */
#ifndef PF_INTERFACE_H
#define PF_INTERFACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/location.h"

#define INTERFACES_MOST 6

union interface_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Return the bytes of an IPv4 or IPv6 address, without port and scope; or their number. */
const uint8_t *interface_address_bytes(const union interface_address *address);
unsigned interface_address_length(const union interface_address *address);

/* An address of an interface. */
struct interface {
	char name[IF_NAMESIZE];
	union interface_address address;
	unsigned prefix; /* bits of the network's part of the address */
	unsigned index;
	unsigned mtu;
	bool loopback;
};

/* Interfaces used by packets. */
struct interfaces {
	struct interface list[INTERFACES_MOST];
	unsigned count;
};

/*
 * Find the addresses to use, at most "most": IPv4 before IPv6, and interfaces of other NUMA nodes
 * than "here" last. include and exclude are lists of names, addresses and networks
 * ("eth0,10.0.0.0/8,fd00::/8"), like the lists of btl tcp; NULL or empty: no list. With include,
 * exclude does not count. Without lists, take interfaces that are up and do not belong to virtual
 * machines or containers of the host; without any, the loopback interface. Return the number of
 * addresses; *why, a static text, explains a 0.
 */
unsigned interfaces_find(struct interface *list, unsigned most, const char *include,
			 const char *exclude, const struct location *here, const char **why);
/* Store names, addresses and MTUs, cut to size bytes. */
void interfaces_describe(const struct interface *list, unsigned count, const struct location *here,
			 char *text, size_t size);
/*
 * Return the first element of a list that is neither a name nor an address or a network with a
 * valid prefix, and set its length; NULL if the list is valid.
 */
const char *interfaces_malformed(const char *list, int *length);
bool interfaces_valid(const char *list);
/* Return the present MTU of the interface, bytes. */
unsigned interface_mtu(const struct interface *interface);
/* Does the interface's network hold the address, with no router between? */
bool interface_reaches(const struct interface *interface, const union interface_address *address);

#endif
