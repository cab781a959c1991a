/* SPDX-License-Identifier: BSD-3-Clause */
/* A context whose ports are all taken has no network, says why, and keeps no descriptor of one. */
#include "unit.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "context/transports.h"

/* A socket that has a UDP port of the loopback interface. */
static int take_port(unsigned *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

static pf_context *context_start(enum pf_network network, unsigned port)
{
	pf_options options;
	pf_context *context;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.network = network;
	options.if_include = "127.0.0.1";
	if (port)
		options.port_min = options.port_max = port;
	assert_ok(pf_open(&options, &context));
	return context;
}

static void test_ports_taken(void **state)
{
	unsigned port, without, taken;
	int fd = take_port(&port);
	struct address address;
	pf_context *context;
	char text[64];
	const char *why;

	context = context_start(PF_NETWORK_OFF, 0);
	without = count_descriptors();
	pf_close(context);
	context = context_start(PF_NETWORK_REMOTE, port);
	taken = count_descriptors();
	assert_int_equal(taken, without);
	assert_null(context->network);
	address = context_address(context);
	memset(address.host, 1, sizeof(address.host));
	assert_null(transports_choose(context, &address, &why));
	snprintf(text, sizeof(text), "all UDP ports from %u to %u ", port, port);
	assert_non_null(strstr(why, text));
	pf_close(context);
	close(fd);
	/* The same port, once it is free. */
	context = context_start(PF_NETWORK_REMOTE, port);
	assert_non_null(context->network);
	pf_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports_taken),
	};

	return cmocka_run_group_tests_name("net_open", tests, NULL, NULL);
}
