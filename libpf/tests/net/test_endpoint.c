/* SPDX-License-Identifier: BSD-3-Clause */
/* Which paths lead to a peer, from the interfaces here and the addresses that it says it has. */
#include "interface_address.h"

#include <arpa/inet.h>

#include "net/endpoint.h"

struct here {
	const char *name, *address;
	unsigned prefix, index;
};

static struct interfaces interfaces;

static void set_here(const struct here *here, unsigned count)
{
	unsigned i;

	interfaces.count = count;
	for (i = 0; i < count; i++) {
		struct interface *interface = &interfaces.list[i];

		memset(interface, 0, sizeof(*interface));
		snprintf(interface->name, sizeof(interface->name), "%s", here[i].name);
		interface->address = interface_address(here[i].address);
		interface->prefix = here[i].prefix;
		interface->index = here[i].index;
		interface->loopback = !strcmp(here[i].name, "lo");
	}
}

static void set_there(struct address *address, const char *const *there, unsigned count)
{
	unsigned i;

	memset(address->endpoints, 0, sizeof(address->endpoints));
	address->endpoints_count = (uint8_t)count;
	for (i = 0; i < count; i++) {
		struct address_endpoint *endpoint = &address->endpoints[i];

		endpoint->family = inet_pton(AF_INET, there[i], endpoint->address) == 1  ? 4 :
				   inet_pton(AF_INET6, there[i], endpoint->address) == 1 ? 6 :
											   0;
		assert_true(endpoint->family);
		endpoint->port = htons((uint16_t)(1000 + i));
	}
}

/* The paths found, as one text. */
static const char *paths(const struct address *address, bool same_host)
{
	struct net_endpoint found[NET_PATHS_MOST];
	unsigned count = endpoints_find(&interfaces, address, same_host, found), i;
	static char text[512];

	text[0] = 0;
	for (i = 0; i < count; i++) {
		struct endpoint endpoint;
		char name[64];

		memcpy(&endpoint, &found[i], sizeof(endpoint));
		inet_ntop(endpoint.family == 4 ? AF_INET : AF_INET6, endpoint.address, name,
			  sizeof(name));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s > %s",
			 i ? ", " : "", interfaces.list[endpoint.socket].name, name);
		if (endpoint.scope)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%%%u",
				 endpoint.scope);
	}
	return text;
}

#define PATHS(...)                                                                                 \
	(set_there(&address, (const char *const[]){ __VA_ARGS__ },                                 \
		   sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)),                 \
	 paths(&address, same_host))
#define HERE(...)                                                                                  \
	set_here((const struct here[]){ __VA_ARGS__ },                                             \
		 sizeof((const struct here[]){ __VA_ARGS__ }) / sizeof(struct here))

static struct address address;
static bool same_host;

static void test_networks(void **state)
{
	HERE({ "eth0", "10.1.0.1", 24, 2 }, { "eth1", "10.2.0.1", 24, 3 },
	     { "eth0", "fd00::1", 64, 2 });
	assert_string_equal(PATHS("10.2.0.9", "10.1.0.9"), "eth0 > 10.1.0.9, eth1 > 10.2.0.9");
	assert_string_equal(PATHS("10.2.0.9", "fd00::9"), "eth1 > 10.2.0.9");
	assert_string_equal(PATHS("10.3.0.9", "fd00::9"), "eth0 > fd00::9");
	/* By a router, if nothing else. */
	assert_string_equal(PATHS("10.3.0.9"), "eth0 > 10.3.0.9");
	assert_string_equal(PATHS("127.0.0.1"), "");
}

/* Two addresses of one interface are the same cable twice. */
static void test_cable(void **state)
{
	HERE({ "eth0", "10.1.0.1", 24, 2 }, { "eth0", "10.1.1.1", 24, 2 },
	     { "eth1", "10.2.0.1", 24, 3 });
	assert_string_equal(PATHS("10.1.0.9", "10.1.1.9", "10.2.0.9"),
			    "eth0 > 10.1.0.9, eth1 > 10.2.0.9");
	assert_string_equal(PATHS("10.1.1.9", "10.2.0.9"), "eth0 > 10.1.1.9, eth1 > 10.2.0.9");
}

/* What a hypervisor makes is 192.168.56.1 on every host. */
static void test_equal(void **state)
{
	HERE({ "private", "192.168.56.1", 24, 2 }, { "eth0", "10.1.0.1", 24, 3 });
	assert_string_equal(PATHS("192.168.56.1", "10.1.0.9"), "eth0 > 10.1.0.9");
	assert_string_equal(PATHS("192.168.56.1"), "");
	assert_string_equal(PATHS("192.168.56.2"), "private > 192.168.56.2");
	/* On this host it is the address of both. */
	same_host = true;
	assert_string_equal(PATHS("10.1.0.1"), "eth0 > 10.1.0.1");
	HERE({ "lo", "127.0.0.1", 8, 1 });
	assert_string_equal(PATHS("127.0.0.1"), "lo > 127.0.0.1");
	same_host = false;
	assert_string_equal(PATHS("127.0.0.1"), "");
}

/* An address on the link is one only together with the interface here. */
static void test_link_local(void **state)
{
	HERE({ "eth0", "fe80::1", 64, 2 }, { "eth1", "fe80::2", 64, 7 });
	assert_string_equal(PATHS("fe80::8", "fe80::9"), "eth0 > fe80::8%2, eth1 > fe80::9%7");
	HERE({ "eth0", "fd00::1", 64, 2 });
	assert_string_equal(PATHS("fe80::8"), "");
	assert_string_equal(PATHS("fd01::8"), "eth0 > fd01::8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_networks),
		cmocka_unit_test(test_cable),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_link_local),
	};

	return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
