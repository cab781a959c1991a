/* SPDX-License-Identifier: BSD-3-Clause */
#include "interface_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct location here;

/* What getifaddrs says here: the tests bring a host of their own. */
static struct ifaddrs *host;

int __wrap_getifaddrs(struct ifaddrs **result);
int __wrap_getifaddrs(struct ifaddrs **result)
{
	*result = host;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list);
void __wrap_freeifaddrs(struct ifaddrs *list)
{
	assert_ptr_equal(list, host);
}

#define DEVICES_MOST 12
struct device {
	const char *name, *address, *mask;
	unsigned flags;
};

static struct ifaddrs entries[DEVICES_MOST];
static union interface_address addresses[DEVICES_MOST], masks[DEVICES_MOST];

static void set_host(const struct device *devices, unsigned count)
{
	unsigned i;

	memset(entries, 0, sizeof(entries));
	for (i = 0; i < count; i++) {
		addresses[i] = interface_address(devices[i].address);
		masks[i] = interface_address(devices[i].mask);
		entries[i] = (struct ifaddrs){
			.ifa_next = i + 1 < count ? &entries[i + 1] : NULL,
			.ifa_name = (char *)(uintptr_t)devices[i].name,
			.ifa_flags = devices[i].flags,
			.ifa_addr = &addresses[i].any,
			.ifa_netmask = &masks[i].any,
		};
	}
	host = count ? entries : NULL;
}

#define V6_64 "ffff:ffff:ffff:ffff::"
static const struct device usual[] = {
	{ "lo", "127.0.0.1", "255.0.0.0", IFF_UP | IFF_LOOPBACK },
	{ "eth0", "fd00::5", V6_64, IFF_UP },
	{ "eth0", "10.1.2.3", "255.255.255.0", IFF_UP },
	{ "eth0", "fe80::1", V6_64, IFF_UP },
	{ "ib0", "192.168.7.1", "255.255.0.0", IFF_UP },
	{ "docker0", "172.17.0.1", "255.255.0.0", IFF_UP },
	{ "virbr0", "192.168.122.1", "255.255.255.0", IFF_UP },
	{ "vboxnet0", "192.168.56.1", "255.255.255.0", IFF_UP },
	{ "eth1", "10.9.9.9", "255.0.0.0", 0 },
};
#define USUAL (sizeof(usual) / sizeof(usual[0]))

/* The names and addresses found, as one text. */
static const char *found(const char *include, const char *exclude)
{
	struct interface list[INTERFACES_MOST];
	static char text[512];
	char address[64];
	const char *why;
	unsigned count = interfaces_find(list, INTERFACES_MOST, include, exclude, &here, &why), i;

	if (!count)
		return why;
	text[0] = 0;
	for (i = 0; i < count; i++) {
		bool version6 = list[i].address.any.sa_family == AF_INET6;

		inet_ntop(list[i].address.any.sa_family,
			  version6 ? (void *)&list[i].address.in6.sin6_addr :
				     (void *)&list[i].address.in.sin_addr,
			  address, sizeof(address));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s/%u",
			 i ? ", " : "", list[i].name, address, list[i].prefix);
	}
	return text;
}

static void test_default(void **state)
{
	set_host(usual, USUAL);
	assert_string_equal(found(NULL, NULL),
			    "eth0 10.1.2.3/24, ib0 192.168.7.1/16, eth0 fd00::5/64");
	assert_string_equal(found("", ""), "eth0 10.1.2.3/24, ib0 192.168.7.1/16, eth0 fd00::5/64");
}

static void test_alone(void **state)
{
	set_host(usual, 1);
	assert_string_equal(found(NULL, NULL), "lo 127.0.0.1/8");
	set_host(usual, 0);
	assert_non_null(strstr(found(NULL, NULL), "no interface is up"));
}

static void test_include(void **state)
{
	set_host(usual, USUAL);
	assert_string_equal(found("ib0", NULL), "ib0 192.168.7.1/16");
	assert_string_equal(found("eth0", NULL), "eth0 10.1.2.3/24, eth0 fd00::5/64");
	assert_string_equal(found(" docker0 , lo ", NULL), "lo 127.0.0.1/8, docker0 172.17.0.1/16");
	assert_string_equal(found("10.1.0.0/16", NULL), "eth0 10.1.2.3/24");
	assert_string_equal(found("10.1.2.3", NULL), "eth0 10.1.2.3/24");
	assert_string_equal(found("fd00::/8", NULL), "eth0 fd00::5/64");
	assert_string_equal(found("fe80::/10", NULL), "eth0 fe80::1/64");
	assert_string_equal(
		found("0.0.0.0/0,ib0", "ib0"),
		"lo 127.0.0.1/8, eth0 10.1.2.3/24, ib0 192.168.7.1/16, "
		"docker0 172.17.0.1/16, virbr0 192.168.122.1/24, vboxnet0 192.168.56.1/24");
	/* Names are whole names, and an interface that is down is none. */
	assert_non_null(strstr(found("eth", NULL), "if_include"));
	assert_non_null(strstr(found("eth1", NULL), "if_include"));
}

static void test_exclude(void **state)
{
	set_host(usual, USUAL);
	assert_string_equal(found(NULL, "lo,docker0,192.168.0.0/16"),
			    "eth0 10.1.2.3/24, eth0 fd00::5/64");
	assert_non_null(strstr(found(NULL, "0.0.0.0/0,::/0"), "if_exclude"));
}

static void test_many(void **state)
{
	struct device devices[DEVICES_MOST];
	struct interface list[INTERFACES_MOST];
	const char *why;
	unsigned i;

	for (i = 0; i < DEVICES_MOST; i++)
		devices[i] = (struct device){ "eth0", "10.0.0.1", "255.0.0.0", IFF_UP };
	set_host(devices, DEVICES_MOST);
	assert_int_equal(interfaces_find(list, INTERFACES_MOST, NULL, NULL, &here, &why),
			 INTERFACES_MOST);
	assert_int_equal(interfaces_find(list, 2, NULL, NULL, &here, &why), 2);
}

static void test_valid(void **state)
{
	static const char *const good[] = { "",
					    "eth0",
					    "eth0,ib0",
					    "10.0.0.0/8",
					    "::/0",
					    "fd00::1",
					    "eth0, 10.0.0.0/32 ,fe80::/10",
					    "0.0.0.0/0",
					    "," };
	static const char *const bad[] = { "10.0.0.0/33",          "10.0.0.0/",   "10.0.0.0/-1",
					   "10.0.0.0/8x",          "eth0/8",      "fd00::/129",
					   "eth0,10.0/8",          "1.2.3.4.5/8", "/8",
					   "averyveryverylongname" };
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(interfaces_valid(good[i]));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(interfaces_valid(bad[i]));
}

static void test_malformed(void **state)
{
	static const char *const lists[][2] = {
		{ "10.0.0.0/99", "10.0.0.0/99" },
		{ "eth0, 10.0.0.0/33 ,ib0", "10.0.0.0/33" },
		{ "10.0.0.0/8,fd00::/129,eth0/8", "fd00::/129" },
	};
	int length = -1;
	size_t i;

	assert_null(interfaces_malformed("eth0, 10.0.0.0/8", &length));
	assert_int_equal(length, -1);
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const char *element = interfaces_malformed(lists[i][0], &length);

		assert_non_null(element);
		assert_int_equal(length, strlen(lists[i][1]));
		assert_memory_equal(element, lists[i][1], strlen(lists[i][1]));
	}
}

/* Interfaces of another NUMA node come last, and are the first that there is no room for. */
static void test_nodes(void **state)
{
	const char *usual_sysfs = location_sysfs;
	struct interface list[INTERFACES_MOST];
	char folder[] = "/tmp/libpf-test.XXXXXX", path[96];
	static const char *const parts[] = { "class", "class/net", "class/net/eth0",
					     "class/net/eth0/device" };
	const char *why;
	FILE *file;
	int i;

	assert_non_null(mkdtemp(folder));
	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, parts[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(path, sizeof(path), "%s/%s/numa_node", folder, parts[3]);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "1\n");
	assert_int_equal(fclose(file), 0);
	set_host(usual, USUAL);
	location_sysfs = folder;
	/* Nodes 1, then 0, then not known. */
	here.node = 2;
	assert_string_equal(found(NULL, NULL),
			    "eth0 10.1.2.3/24, ib0 192.168.7.1/16, eth0 fd00::5/64");
	here.node = 1;
	assert_string_equal(found(NULL, NULL),
			    "ib0 192.168.7.1/16, eth0 10.1.2.3/24, eth0 fd00::5/64");
	assert_int_equal(interfaces_find(list, 1, NULL, NULL, &here, &why), 1);
	assert_string_equal(list[0].name, "ib0");
	here.node = 0;
	assert_string_equal(found(NULL, NULL),
			    "eth0 10.1.2.3/24, ib0 192.168.7.1/16, eth0 fd00::5/64");
	location_sysfs = usual_sysfs;
	assert_int_equal(remove(path), 0);
	for (i = 3; i >= 0; i--) {
		snprintf(path, sizeof(path), "%s/%s", folder, parts[i]);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(folder), 0);
}

static void test_reaches(void **state)
{
	struct interface list[INTERFACES_MOST];
	union interface_address address;
	const char *why;

	set_host(usual, USUAL);
	assert_int_equal(interfaces_find(list, INTERFACES_MOST, NULL, NULL, &here, &why), 3);
	address = interface_address("10.1.2.200");
	assert_true(interface_reaches(&list[0], &address));
	assert_false(interface_reaches(&list[1], &address));
	assert_false(interface_reaches(&list[2], &address));
	address = interface_address("10.1.3.3");
	assert_false(interface_reaches(&list[0], &address));
	address = interface_address("fd00::abcd");
	assert_true(interface_reaches(&list[2], &address));
	address = interface_address("fd00:0:0:1::5");
	assert_false(interface_reaches(&list[2], &address));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default),   cmocka_unit_test(test_alone),
		cmocka_unit_test(test_include),   cmocka_unit_test(test_exclude),
		cmocka_unit_test(test_many),      cmocka_unit_test(test_valid),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_reaches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
