/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of contexts: parsing, reachability, sockets, and peers opened by address. */
#include "unit.h"

#include <sodium.h>

#include "base/address.h"

static void test_create(void **state)
{
	struct address a, b;

	assert_ok(address_create(&a));
	assert_ok(address_create(&b));
	assert_true(sizeof(a) <= PF_ADDRESS_MAX);
	assert_true(address_same(&a, &a));
	assert_false(address_same(&a, &b));
	assert_memory_not_equal(a.key, b.key, sizeof(a.key));
	assert_memory_equal(a.host, b.host, sizeof(a.host));
	assert_int_equal(a.network_namespace, b.network_namespace);
}

static void test_parse(void **state)
{
	struct address address, parsed, later;
	uint8_t data[PF_DATA_MOST];
	uint8_t bytes[sizeof(address) + 1] = { 0 };
	int i;

	assert_ok(address_create(&address));
	/* It need not be aligned. */
	memcpy(bytes + 1, &address, sizeof(address));
	assert_ok(address_parse(&parsed, data, bytes + 1, sizeof(address)));
	assert_memory_equal(&parsed, &address, sizeof(address));

	assert_status(address_parse(&parsed, data, NULL, sizeof(address)), PF_ERR_ARGUMENT);
	assert_status(address_parse(&parsed, data, bytes, 0), PF_ERR_ARGUMENT);
	assert_status(address_parse(&parsed, data, &address, sizeof(address) - 1), PF_ERR_ARGUMENT);
	assert_status(address_parse(&parsed, data, bytes, sizeof(address) + 1), PF_ERR_ARGUMENT);
	/* A later version appends: what it appends is not read. An earlier one is refused. */
	later = address;
	later.version++;
	later.length++;
	memcpy(bytes, &later, sizeof(later));
	assert_ok(address_parse(&parsed, data, bytes, sizeof(address) + 1));
	assert_memory_equal(&parsed, &address, sizeof(address));
	assert_status(address_parse(&parsed, data, bytes, sizeof(address)), PF_ERR_ARGUMENT);
	for (i = 0; i < 3; i++) {
		parsed = address;
		parsed.magic += i == 0;
		parsed.version -= i == 1;
		parsed.length -= i == 2;
		assert_status(address_parse(&parsed, data, &parsed, sizeof(parsed)),
			      PF_ERR_ARGUMENT);
	}
}

static void test_reachable(void **state)
{
	struct address here, other, untouched;
	pf_options options;
	pf_context *context;
	const char *why;
	pf_peer *peer;
	size_t length = sizeof(here);
	unsigned i;

	assert_ok(pf_open(NULL, NULL, &context));
	assert_ok(pf_address(context, &here, &length));
	assert_int_equal(length, sizeof(here));
	assert_ok(pf_reachable(context, &here, length, NULL));
	assert_ok(pf_reachable(context, &here, length, &why));

	/* Another host on the same network; not one with the addresses of this host. */
	other = here;
	other.host[3] ^= 1;
	assert_status(pf_reachable(context, &other, length, &why), PF_ERR_UNREACHABLE);
	for (i = 0; i < other.endpoints_count; i++)
		other.endpoints[i].address[other.endpoints[i].family == 4 ? 3 : 15] ^= 1;
	assert_ok(pf_reachable(context, &other, length, &why));
	assert_non_null(strstr(why, "network"));
	other.auth = PF_AUTH_ENCRYPT;
	assert_status(pf_reachable(context, &other, length, &why), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(why, "auth"));
	other.auth = PF_AUTH_HEADER;
	/* Without interfaces. */
	other.endpoints_count = 0;
	assert_status(pf_reachable(context, &other, length, &why), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(why, "if_include"));

	/* Other versions: of what processes of a host share, and of the wire. */
	other = here;
	other.host_version++;
	assert_ok(pf_reachable(context, &other, length, &why));
	assert_string_equal(why, "over the network");
	other.wire_oldest = other.wire_newest = other.wire_newest + 1;
	assert_status(pf_reachable(context, &other, length, &why), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(why, "version of the wire"));
	pf_close(context);

	/* Without the network. */
	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.network = PF_NETWORK_OFF;
	assert_ok(pf_open(&options, NULL, &context));
	length = sizeof(here);
	assert_ok(pf_address(context, &here, &length));
	assert_int_equal(here.endpoints_count, 0);
	other = here;
	other.host[3] ^= 1;
	assert_status(pf_reachable(context, &other, length, &why), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(why, "option network is off"));
	assert_status(pf_peer_open(context, &other, length, NULL, &peer), PF_ERR_UNREACHABLE);
	other = here;
	other.network_namespace++;
	assert_status(pf_reachable(context, &other, length, &why), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(why, "network"));
	assert_status(pf_reachable(context, &here, length - 1, &why), PF_ERR_ARGUMENT);
	assert_non_null(why);
	assert_status(pf_peer_open(context, &here, length - 1, NULL, &peer), PF_ERR_ARGUMENT);

	/* Too little room: the length is told, and the buffer is left alone. */
	memset(&other, 7, sizeof(other));
	untouched = other;
	length = sizeof(here) - 1;
	assert_status(pf_address(context, &other, &length), PF_ERR_TOO_LONG);
	assert_int_equal(length, sizeof(here));
	assert_memory_equal(&other, &untouched, sizeof(other));
	length = 0;
	assert_status(pf_address(context, NULL, &length), PF_ERR_TOO_LONG);
	assert_int_equal(length, sizeof(here));
	pf_close(context);
}

/* Data of a program is in the address, and known of a peer without a contact. */
static void test_data(void **state)
{
	static const char most[PF_DATA_MOST + 1] = "x";
	uint8_t bytes[PF_ADDRESS_MAX];
	size_t length, known, i;
	pf_options options;
	pf_context *context;
	pf_peer *peer;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.data = most;
	options.data_length = PF_DATA_MOST + 1;
	assert_status(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	assert_true(pf_options_error(&options, (char *)bytes, sizeof(bytes)) > 0);
	options.data = NULL;
	options.data_length = 1;
	assert_status(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	for (i = 0; i <= PF_DATA_MOST; i += PF_DATA_MOST / 4) {
		options.data = most;
		options.data_length = i;
		assert_ok(pf_open(&options, NULL, &context));
		length = sizeof(bytes);
		assert_ok(pf_address(context, bytes, &length));
		assert_int_equal(length, sizeof(struct address) + i);
		assert_ok(pf_peer_open(context, bytes, length, NULL, &peer));
		if (i)
			assert_memory_equal(pf_peer_data(peer, &known), most, i);
		else
			assert_null(pf_peer_data(peer, &known));
		assert_int_equal(known, i);
		assert_status(pf_reachable(context, bytes, length - 1, NULL), PF_ERR_ARGUMENT);
		bytes[offsetof(struct address, data_length)] = PF_DATA_MOST + 1;
		assert_status(pf_reachable(context, bytes, length, NULL), PF_ERR_ARGUMENT);
		pf_close(context);
	}
}

static void test_socket_name(void **state)
{
	struct sockaddr_un a, b;
	struct address address;
	socklen_t length;

	assert_ok(address_create(&address));
	length = address_socket(&address, &a);
	assert_int_equal(length, address_socket(&address, &b));
	assert_true(length <= sizeof(a));
	assert_memory_equal(&a, &b, sizeof(a));
	/* An abstract name: there is no file. */
	assert_int_equal(a.sun_path[0], 0);
	assert_memory_equal(a.sun_path + 1, "libpf-", 6);
	address.id[ADDRESS_ID_BYTES - 1] ^= 0x80;
	address_socket(&address, &b);
	assert_memory_not_equal(&a, &b, sizeof(a));
}

static void test_peers(void **state)
{
	pf_peer *peer, *again, *other;
	struct address address = { 0 };
	size_t length = sizeof(address);
	pf_context *context;
	int mine, yours;

	assert_ok(pf_open(NULL, NULL, &context));

	assert_ok(pf_address(context, &address, &length));
	assert_ok(pf_peer_open(context, &address, length, &mine, &peer));
	assert_ptr_equal(pf_peer_user(peer), &mine);
	assert_ok(pf_peer_open(context, &address, length, NULL, &again));
	assert_ptr_equal(peer, again);
	assert_ptr_equal(pf_peer_user(peer), &mine);
	address.id[0] ^= 1;
	assert_ok(pf_peer_open(context, &address, length, &yours, &other));
	assert_ptr_not_equal(peer, other);
	assert_ptr_equal(pf_peer_user(other), &yours);
	assert_string_equal(pf_peer_path(other), "not used yet");
	pf_peer_close(peer);
	assert_ptr_equal(pf_peer_user(peer), &mine);
	pf_peer_close(peer);
	assert_null(pf_peer_user(peer));
	pf_peer_close(peer);
	assert_int_equal(pf_stat(context, PF_STAT_PEERS), 0);
	pf_close(context);
}

static int start(void **state)
{
	return sodium_init() < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),      cmocka_unit_test(test_parse),
		cmocka_unit_test(test_reachable),   cmocka_unit_test(test_data),
		cmocka_unit_test(test_socket_name), cmocka_unit_test(test_peers),
	};

	return cmocka_run_group_tests_name("address", tests, start, NULL);
}
