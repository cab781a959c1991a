/* SPDX-License-Identifier: BSD-3-Clause */
#include "interface.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TOKEN_MOST 128

/* An element of a list: a name, or a network with a number of bits. */
struct pattern {
	char name[TOKEN_MOST];
	sa_family_t family; /* AF_UNSPEC: a name */
	uint8_t network[16];
	unsigned bits;
};

/*
 * Prefixes of the interfaces that hypervisors and container engines make for their guests. No peer
 * on another host is reached by them.
 */
static const char *const virtual[] = { "docker", "virbr",   "veth",    "vnet", "lxc",
				       "lxd",    "br-",     "cni",     "cali", "flannel",
				       "podman", "nerdctl", "vboxnet", "vmnet" };

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned bytes = bits / 8, rest = bits % 8;

	if (memcmp(a, b, bytes))
		return false;
	return !rest || !((a[bytes] ^ b[bytes]) >> (8 - rest));
}

const uint8_t *interface_address_bytes(const union interface_address *address)
{
	return address->any.sa_family == AF_INET ? (const uint8_t *)&address->in.sin_addr :
						   (const uint8_t *)&address->in6.sin6_addr;
}

unsigned interface_address_length(const union interface_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->in.sin_addr) :
						   sizeof(address->in6.sin6_addr);
}

/* Parse a token without surrounding spaces. Return false if the token is malformed. */
static bool pattern_parse(const char *text, size_t length, struct pattern *pattern)
{
	char *slash, *end;
	unsigned long bits;

	memset(pattern, 0, sizeof(*pattern));
	if (!length || length >= sizeof(pattern->name))
		return false;
	memcpy(pattern->name, text, length);
	slash = strchr(pattern->name, '/');
	if (slash)
		*slash = 0;
	if (inet_pton(AF_INET, pattern->name, pattern->network) == 1)
		pattern->family = AF_INET;
	else if (inet_pton(AF_INET6, pattern->name, pattern->network) == 1)
		pattern->family = AF_INET6;
	if (pattern->family == AF_UNSPEC)
		return !slash && length < IF_NAMESIZE;
	pattern->bits = pattern->family == AF_INET ? 32 : 128;
	if (!slash)
		return true;
	bits = strtoul(slash + 1, &end, 10);
	if (!isdigit((unsigned char)slash[1]) || *end || bits > pattern->bits)
		return false;
	pattern->bits = (unsigned)bits;
	return true;
}

/* Take the next element of a list; return false at the end. *valid: the element is well-formed. */
static bool pattern_next(const char **list, struct pattern *pattern, bool *valid)
{
	const char *start = *list, *end;

	while (*start == ' ' || *start == ',')
		start++;
	if (!*start)
		return false;
	end = start + strcspn(start, ",");
	*list = end;
	while (end > start && end[-1] == ' ')
		end--;
	*valid = pattern_parse(start, (size_t)(end - start), pattern);
	return true;
}

const char *interfaces_malformed(const char *list, int *length)
{
	struct pattern pattern;
	const char *element;
	bool valid = true;

	do {
		element = list + strspn(list, " ,");
		if (!pattern_next(&list, &pattern, &valid))
			return NULL;
	} while (valid);
	while (list[-1] == ' ')
		list--;
	*length = (int)(list - element);
	return element;
}

bool interfaces_valid(const char *list)
{
	int length;

	return !interfaces_malformed(list, &length);
}

static bool interface_matches(const struct interface *interface, const struct pattern *pattern)
{
	if (pattern->family == AF_UNSPEC)
		return !strcmp(interface->name, pattern->name);
	return pattern->family == interface->address.any.sa_family &&
	       bits_equal(interface_address_bytes(&interface->address), pattern->network,
			  pattern->bits);
}

static bool interface_is_listed(const struct interface *interface, const char *list)
{
	struct pattern pattern;
	bool valid;

	while (pattern_next(&list, &pattern, &valid)) {
		if (valid && interface_matches(interface, &pattern))
			return true;
	}
	return false;
}

static bool name_is_virtual(const char *name)
{
	unsigned i;

	for (i = 0; i < sizeof(virtual) / sizeof(virtual[0]); i++) {
		if (!strncmp(name, virtual[i], strlen(virtual[i])))
			return true;
	}
	return false;
}

static unsigned mask_count_bits(const struct sockaddr *mask, sa_family_t family)
{
	const union interface_address *address = (const union interface_address *)mask;
	const uint8_t *bytes;
	unsigned bits = 0, most = family == AF_INET ? 32 : 128;

	if (!mask)
		return most;
	bytes = family == AF_INET ? (const uint8_t *)&address->in.sin_addr :
				    (const uint8_t *)&address->in6.sin6_addr;
	while (bits < most && bytes[bits / 8] >> (7 - bits % 8) & 1)
		bits++;
	return bits;
}

static unsigned interface_read_mtu(int fd, const char *name)
{
	struct ifreq request;

	memset(&request, 0, sizeof(request));
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	return ioctl(fd, SIOCGIFMTU, &request) < 0 || request.ifr_mtu < 0 ?
		       1500 :
		       (unsigned)request.ifr_mtu;
}

/* Describe an entry, without index and MTU. Return false if UDP cannot use the entry. */
static bool interface_describe(const struct ifaddrs *entry, struct interface *interface)
{
	sa_family_t family;

	if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP))
		return false;
	family = entry->ifa_addr->sa_family;
	if (family != AF_INET && family != AF_INET6)
		return false;
	memset(interface, 0, sizeof(*interface));
	snprintf(interface->name, sizeof(interface->name), "%s", entry->ifa_name);
	memcpy(&interface->address, entry->ifa_addr,
	       family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	interface->prefix = mask_count_bits(entry->ifa_netmask, family);
	interface->loopback = entry->ifa_flags & IFF_LOOPBACK;
	return true;
}

static bool interface_is_link_local(const struct interface *interface)
{
	return interface->address.any.sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&interface->address.in6.sin6_addr);
}

static bool interface_is_wanted(const struct interface *interface, const char *include,
				const char *exclude, bool loopback)
{
	/* An interface given by name stands for its lasting addresses. */
	if (include)
		return interface_is_listed(interface, include) &&
		       (!interface_is_link_local(interface) || strstr(include, "fe80"));
	if (interface_is_link_local(interface))
		return false;
	if (exclude)
		return !interface_is_listed(interface, exclude);
	return interface->loopback == loopback && !name_is_virtual(interface->name);
}

static unsigned interfaces_collect(struct interface *list, unsigned most, const char *include,
				   const char *exclude, const struct location *here, bool loopback,
				   const struct ifaddrs *all, int fd)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	const struct ifaddrs *entry;
	struct interface interface;
	unsigned count = 0, i;

	for (i = 0; i < 4; i++) {
		for (entry = all; entry && count < most; entry = entry->ifa_next) {
			if (!interface_describe(entry, &interface) ||
			    interface.address.any.sa_family != families[i / 2] ||
			    !interface_is_wanted(&interface, include, exclude, loopback) ||
			    location_is_far(here, interface.name) != i % 2)
				continue;
			interface.index = if_nametoindex(interface.name);
			interface.mtu = interface_read_mtu(fd, interface.name);
			list[count++] = interface;
		}
	}
	return count;
}

unsigned interfaces_find(struct interface *list, unsigned most, const char *include,
			 const char *exclude, const struct location *here, const char **why)
{
	struct ifaddrs *all = NULL;
	unsigned count;
	int fd;

	if (include && !*include)
		include = NULL;
	if (exclude && !*exclude)
		exclude = NULL;
	*why = "no network: the interfaces of this host cannot be listed";
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (getifaddrs(&all) < 0) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	count = interfaces_collect(list, most, include, exclude, here, false, all, fd);
	if (!count && !include && !exclude)
		count = interfaces_collect(list, most, NULL, NULL, here, true, all, fd);
	freeifaddrs(all);
	if (fd >= 0)
		close(fd);
	if (include)
		*why = "no network: no interface that is up matches if_include";
	else if (exclude)
		*why = "no network: if_exclude leaves no interface that is up";
	else
		*why = "no network: no interface is up";
	return count;
}

unsigned interface_mtu(const struct interface *interface)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned mtu;

	if (fd < 0)
		return interface->mtu;
	mtu = interface_read_mtu(fd, interface->name);
	close(fd);
	return mtu;
}

bool interface_reaches(const struct interface *interface, const union interface_address *address)
{
	return interface->address.any.sa_family == address->any.sa_family &&
	       bits_equal(interface_address_bytes(&interface->address),
			  interface_address_bytes(address), interface->prefix);
}

void interfaces_describe(const struct interface *list, unsigned count, const struct location *here,
			 char *text, size_t size)
{
	char address[INET6_ADDRSTRLEN];
	size_t used = 0;
	unsigned i;

	text[0] = 0;
	for (i = 0; i < count && used < size; i++) {
		inet_ntop(list[i].address.any.sa_family, interface_address_bytes(&list[i].address),
			  address, sizeof(address));
		used += (size_t)snprintf(text + used, size - used, "%s%s %s (MTU %u%s)",
					 i ? ", " : "", list[i].name, address, list[i].mtu,
					 location_is_far(here, list[i].name) ? ", other NUMA node" :
									       "");
	}
}
