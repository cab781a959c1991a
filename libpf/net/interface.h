/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of this host's network interfaces are used, and with which addresses.
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

/* One address of an interface. */
struct interface {
	char name[IF_NAMESIZE];
	union interface_address address;
	unsigned prefix; /* bits of the network's part */
	unsigned index;
	unsigned mtu;
	bool loopback;
};

/*
 * The addresses to use, IPv4 before IPv6 and interfaces of other NUMA nodes than here last, at
 * most most of them; returns how many. include and exclude are lists of names, addresses and networks
 * ("eth0,10.0.0.0/8,fd00::/8"), as btl tcp has them; NULL or empty: no list.
 * With include, exclude does not count. Without either: interfaces that are up
 * and not those of virtual machines and containers on this host; the loopback
 * interface if there is no other. *why explains a 0: a static text.
 */
unsigned interfaces_find(struct interface *list, unsigned most, const char *include,
			 const char *exclude, const struct location *here, const char **why);
/*
 * Return the first element of a list that is neither a name nor an address or a network with a
 * valid prefix, and set its length; NULL if the list is valid.
 */
const char *interfaces_malformed(const char *list, int *length);
bool interfaces_valid(const char *list);
/* Its longest packet now. */
unsigned interface_mtu(const struct interface *interface);
/* Does the interface's network hold that address, so that no router is between? */
bool interface_reaches(const struct interface *interface, const union interface_address *address);

#endif
