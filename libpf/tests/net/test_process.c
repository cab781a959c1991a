/* SPDX-License-Identifier: BSD-3-Clause */
/* Which processes the network reaches, over a carrier that only finds paths. */
#include "unit.h"

#include "common/context.h"
#include "net/process.h"

static unsigned paths;

static unsigned carrier_find(const struct carrier *carrier, const struct address *address,
			     bool same_host, struct net_endpoint found[NET_PATHS_MOST])
{
	assert_false(same_host);
	return paths;
}

static void test_unreachable(void **state)
{
	const struct carrier_operations operations = { .find = carrier_find };
	const struct carrier carrier = { .operations = &operations };
	pf_context *context = aligned_alloc(_Alignof(pf_context), sizeof(*context));
	struct net_processes processes = { .context = context, .carrier = &carrier };
	struct net_endpoint found[NET_PATHS_MOST];
	struct address address;

	assert_non_null(context);
	memset(context, 0, sizeof(*context));
	assert_ok(address_create(&context->address));
	assert_ok(address_create(&address));
	address.host[0] ^= 1;
	address.endpoints_count = 1;
	paths = 2;
	assert_non_null(
		strstr(net_process_unreachable(&processes, &address), "no version of the wire"));
	address.wire_oldest = NET_VERSION_OLDEST;
	address.wire_newest = NET_VERSION_NEWEST;
	assert_null(net_process_unreachable(&processes, &address));
	assert_int_equal(net_process_paths(&processes, &address, found), 2);
	paths = 0;
	assert_non_null(
		strstr(net_process_unreachable(&processes, &address), "no network interface"));
	address.endpoints_count = 0;
	assert_non_null(
		strstr(net_process_unreachable(&processes, &address), "no network address"));
	address.auth++;
	assert_non_null(strstr(net_process_unreachable(&processes, &address), "option auth"));
	free(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_unreachable) };

	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
