/* SPDX-License-Identifier: BSD-3-Clause */
/* A context without a network says why, and keeps no descriptor of one. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
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
	assert_ok(pf_open(&options, NULL, &context));
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

static unsigned descriptors_below(int end)
{
	unsigned count = 0;

	while (end--)
		count += fcntl(end, F_GETFD) >= 0;
	return count;
}

/* Open with fewer and fewer descriptors left. Return the number of failures; negative: an error. */
static int open_with_few(int first)
{
	int left, status, failed = 0, end = first + 40;
	unsigned before = descriptors_below(end);
	pf_options options;
	pf_context *context;

	if (pf_options_init(&options, sizeof(options), NULL) != PF_OK)
		return -1;
	options.if_include = "lo";
	for (left = end - first; left >= 0; left--) {
		/* libpf raises a soft limit. */
		const struct rlimit limit = { (rlim_t)(first + left), (rlim_t)(first + left) };

		if (setrlimit(RLIMIT_NOFILE, &limit))
			return -2;
		status = pf_open(&options, NULL, &context);
		if (status == PF_OK)
			pf_close(context);
		else if (status == PF_ERR_SYSTEM && errno == EMFILE)
			failed++;
		else
			return -3;
		if (descriptors_below(end) != before)
			return -4;
	}
	return failed;
}

static void test_descriptors_used_up(void **state)
{
	int first = dup(STDERR_FILENO), status;
	pid_t child;

	close(first);
	child = fork();
	if (!child)
		_exit(open_with_few(first));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	/* The network alone has 5 descriptors without which no context opens. */
	assert_in_range(WEXITSTATUS(status), 5, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports_taken),
		cmocka_unit_test(test_descriptors_used_up),
	};

	return cmocka_run_group_tests_name("net_open", tests, NULL, NULL);
}
