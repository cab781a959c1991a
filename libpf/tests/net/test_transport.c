/* SPDX-License-Identifier: BSD-3-Clause */
/* Which peers of this host the option network gives to the network. */
#include "unit.h"

#include "context/transports.h"

static pf_context *context_start(enum pf_network network)
{
	pf_options options;
	pf_context *context;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.network = network;
	options.if_include = "lo";
	assert_ok(pf_open(&options, NULL, &context));
	return context;
}

static void test_reach(void **state)
{
	pf_context *here = context_start(PF_NETWORK_ALWAYS),
		   *there = context_start(PF_NETWORK_ALWAYS);
	struct address address = context_address(there);
	const char *why;

	assert_ptr_equal(transports_choose(here, &address, &why), &transport_net);
	assert_string_equal(why, "over the network");
	address = context_address(here);
	assert_ptr_equal(transports_choose(here, &address, &why), &transport_host);
	assert_string_equal(why, "on this host");
	/* Shared memory would reach the peer, but the option excludes it. */
	address = context_address(there);
	address.endpoints_count = 0;
	assert_null(transports_choose(here, &address, &why));
	assert_non_null(strstr(why, "it offers no network address"));
	assert_ptr_equal(transports_back(here, &address), &transport_host);
	pf_close(there);
	pf_close(here);
}

static void test_off(void **state)
{
	pf_context *here = context_start(PF_NETWORK_OFF), *there = context_start(PF_NETWORK_OFF);
	struct address address = context_address(there);
	const char *why;

	assert_ptr_equal(transports_choose(here, &address, &why), &transport_host);
	/* Another host. */
	memset(address.host, 1, sizeof(address.host));
	assert_null(transports_choose(here, &address, &why));
	assert_non_null(strstr(why, "the option network is off"));
	assert_ptr_equal(transports_back(here, &address), &transport_net);
	pf_close(there);
	pf_close(here);
}

/* A list of interfaces that is malformed is an error, and nothing stays open. */
static void test_malformed(void **state)
{
	unsigned before = count_descriptors();
	pf_options options;
	pf_context *context;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.if_include = "10.0.0.0/77";
	assert_status(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	assert_int_equal(count_descriptors(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reach),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests_name("net_transport", tests, NULL, NULL);
}
