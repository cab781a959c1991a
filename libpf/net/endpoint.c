/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

void endpoint_make(struct net_endpoint *result, uint8_t socket,
		   const union interface_address *address)
{
	struct endpoint endpoint = { .socket = socket };

	memcpy(endpoint.address, interface_address_bytes(address),
	       interface_address_length(address));
	if (address->any.sa_family == AF_INET) {
		endpoint.family = 4;
		endpoint.port = address->in.sin_port;
	} else {
		endpoint.family = 6;
		endpoint.port = address->in6.sin6_port;
		if (IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr))
			endpoint.scope = address->in6.sin6_scope_id;
	}
	memcpy(result, &endpoint, sizeof(endpoint));
}

socklen_t endpoint_address(const struct net_endpoint *bytes, union interface_address *address)
{
	struct endpoint endpoint;

	memcpy(&endpoint, bytes, sizeof(endpoint));
	memset(address, 0, sizeof(*address));
	if (endpoint.family == 4) {
		address->in.sin_family = AF_INET;
		address->in.sin_port = endpoint.port;
		memcpy(&address->in.sin_addr, endpoint.address, 4);
		return sizeof(address->in);
	}
	address->in6.sin6_family = AF_INET6;
	address->in6.sin6_port = endpoint.port;
	address->in6.sin6_scope_id = endpoint.scope;
	memcpy(&address->in6.sin6_addr, endpoint.address, 16);
	return sizeof(address->in6);
}

static void endpoint_to_address(const struct address_endpoint *endpoint,
				union interface_address *address)
{
	struct endpoint from = { .family = endpoint->family, .port = endpoint->port };
	struct net_endpoint bytes;

	memcpy(from.address, endpoint->address, sizeof(from.address));
	memcpy(&bytes, &from, sizeof(bytes));
	(void)endpoint_address(&bytes, address);
}

static bool address_equals(const union interface_address *a, const union interface_address *b)
{
	return a->any.sa_family == b->any.sa_family &&
	       !memcmp(interface_address_bytes(a), interface_address_bytes(b),
		       interface_address_length(a));
}

/*
 * Is the address an own address? A network inside each host, like a network of virtual machines,
 * has equal addresses on all hosts, and packets to an equal address would come back.
 */
static bool address_is_ours(const struct interfaces *interfaces,
			    const union interface_address *address)
{
	unsigned i;

	for (i = 0; i < interfaces->count; i++) {
		if (address_equals(&interfaces->list[i].address, address))
			return true;
	}
	return false;
}

static bool address_is_loopback(const union interface_address *address)
{
	if (address->any.sa_family == AF_INET)
		return (ntohl(address->in.sin_addr.s_addr) >> 24) == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}

static bool address_is_link_local(const union interface_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr);
}

/*
 * Can packets leave by the interface for an address of the peer? Sets the scope of a link-local
 * address.
 */
static bool interface_leads_to(const struct interfaces *interfaces,
			       const struct interface *interface, union interface_address *there,
			       bool same_host, bool routed)
{
	if (interface->loopback || address_is_loopback(there)) {
		if (!same_host || !interface->loopback || !address_is_loopback(there))
			return false;
	}
	if (!same_host && address_is_ours(interfaces, there))
		return false;
	/* A link-local address needs a link on the way, and each host numbers the links anew. */
	if (address_is_link_local(there)) {
		there->in6.sin6_scope_id = interface->index;
		routed = false;
	}
	return routed || interface_reaches(interface, there);
}

/* Does a path use the interface already, by another address? Both addresses would share a cable. */
static bool interface_is_used(const struct interfaces *interfaces,
			      const struct interface *interface, const struct net_endpoint *paths,
			      unsigned count)
{
	struct endpoint endpoint;
	unsigned i;

	for (i = 0; i < count; i++) {
		memcpy(&endpoint, &paths[i], sizeof(endpoint));
		if (interfaces->list[endpoint.socket].index == interface->index)
			return true;
	}
	return false;
}

/*
 * Find paths of a family. Each interface gets the first address of the peer in the interface's
 * network, not taken by an earlier interface; with routed, the first free address of any network.
 */
static unsigned paths_of_family(const struct interfaces *interfaces, const struct address *address,
				bool same_host, uint8_t family, bool routed,
				struct net_endpoint *paths)
{
	const sa_family_t wanted = family == 4 ? AF_INET : AF_INET6;
	union interface_address there;
	unsigned count = 0, i, j;
	uint32_t taken = 0;

	for (i = 0; i < interfaces->count && count < NET_PATHS_MOST; i++) {
		const struct interface *interface = &interfaces->list[i];

		if (interface->address.any.sa_family != wanted ||
		    interface_is_used(interfaces, interface, paths, count))
			continue;
		for (j = 0; j < address->endpoints_count; j++) {
			if (address->endpoints[j].family != family || taken >> j & 1)
				continue;
			endpoint_to_address(&address->endpoints[j], &there);
			if (!interface_leads_to(interfaces, interface, &there, same_host, routed))
				continue;
			taken |= 1u << j;
			endpoint_make(&paths[count++], (uint8_t)i, &there);
			break;
		}
	}
	return count;
}

/* Use IPv4 or IPv6, not both: both would share the cables. */
unsigned endpoints_find(const struct interfaces *interfaces, const struct address *address,
			bool same_host, struct net_endpoint paths[NET_PATHS_MOST])
{
	unsigned count = 0, way;

	for (way = 0; way < 4 && !count; way++)
		count = paths_of_family(interfaces, address, same_host, way % 2 ? 6 : 4, way >= 2,
					paths);
	return count;
}

bool endpoints_same_host(const struct net_endpoint *one, const struct net_endpoint *other)
{
	struct endpoint a, b;

	memcpy(&a, one, sizeof(a));
	memcpy(&b, other, sizeof(b));
	a.port = b.port = 0;
	return !memcmp(&a, &b, sizeof(a));
}

size_t endpoint_describe(const struct interfaces *interfaces, const struct net_endpoint *to,
			 char *text, size_t size)
{
	char there[INET6_ADDRSTRLEN] = "?", here[INET6_ADDRSTRLEN] = "?";
	const struct interface *interface;
	struct endpoint endpoint;
	int family, length;

	memcpy(&endpoint, to, sizeof(endpoint));
	interface = &interfaces->list[endpoint.socket];
	family = interface->address.any.sa_family;
	inet_ntop(family, endpoint.address, there, sizeof(there));
	inet_ntop(family, interface_address_bytes(&interface->address), here, sizeof(here));
	length = snprintf(text, size, "%s, UDP port %u, over %s (from %s)", there,
			  ntohs(endpoint.port), interface->name, here);
	return length < 0 ? 0 : (size_t)length;
}
