/* SPDX-License-Identifier: BSD-3-Clause */
/* The first contact with a peer over the network: whether it answers, and on which ports. */
#include "pair.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/context.h"

#define TEXT "from 127.0.0.1, UDP port "

static struct pair_setup over_loopback(void)
{
	struct pair_setup setup = { .here = pair_options(),
				    .window = 4096,
				    .receive = pair_count_message,
				    .receive_here = pair_count_message,
				    .peer_event_here = pair_note_end };

	setup.here.network = PF_NETWORK_ALWAYS;
	setup.here.if_include = "lo";
	setup.here.contact_timeout = 1;
	setup.there = setup.here;
	return setup;
}

static void stop(struct pair *pair, unsigned side)
{
	const int pid = pair_pid(pair, side);

	/* It has an address by then. */
	pair_peer(pair, side);
	assert_false(kill(pid, SIGSTOP));
	/* All its threads: the service thread would still answer. */
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
}

static void let_run(struct pair *pair, unsigned side)
{
	assert_false(kill(pair_pid(pair, side), SIGCONT));
}

/* The partner's view of the test: it must be this. */
static void contact_back(struct pair *me, const uint64_t *arguments)
{
	pair_check_status(me, pf_peer_contact(me->peer, 1, NULL), (int)arguments[0]);
}

static void test_answers(void **state)
{
	struct pair_setup setup = over_loopback();
	struct pair *pair;
	int status;

	setup.command = contact_back;
	pair = pair_start(&setup);
	/* Only begun: there is no answer before a packet has come back. */
	status = pf_peer_contact(pair->peer, 0, NULL);
	assert_true(status == PF_ERR_AGAIN || status == PF_OK);
	assert_ok(pf_peer_contact(pair->peer, 1, NULL));
	assert_ok(pf_peer_contact(pair->peer, 0, NULL));
	pair_command(pair, PF_OK);
	pair_connect(pair);
	pair_end(pair);
}

/* Its end is reported as that of any other peer. */
static void test_dies_later(void **state)
{
	struct pair_setup setup = over_loopback();
	struct pair *pair = pair_start(&setup);

	assert_ok(pf_peer_contact(pair->peer, 1, NULL));
	pair_kill(pair, 1);
	assert_status(pair_send(pair, pair->peer, 0, "x", 1), PF_OK);
	while (!pair->errors.count)
		assert_true(pair_progress(pair));
	assert_status(pair->errors.status, PF_ERR_PEER);
	assert_non_null(
		strstr(pf_peer_path(pair->peer), "gone: \"port unreachable\" (ICMP) " TEXT));
	pair_end(pair);
}

static void test_same_host(void **state)
{
	struct pair_setup setup = { .here = pair_options(), .there = pair_options() };
	struct pair *pair = pair_start(&setup);
	const char *why = NULL;

	assert_ok(pf_peer_contact(pair->peer, 0, &why));
	assert_string_equal(why, pf_peer_path(pair->peer));
	pair_end(pair);
}

/* One that does not answer is given up, and others of its host with it; they come to the same result. */
static void test_silent(void **state)
{
	struct pair_setup setup = over_loopback();
	const char *why, *neighbour;
	struct pair *pair;

	setup.partners = 2;
	setup.command = contact_back;
	pair = pair_start(&setup);
	stop(pair, 1);
	assert_status(pf_peer_contact(pair->peer, 1, &why), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(why, "no answer " TEXT));
	assert_ptr_equal(why, pf_peer_path(pair->peer));
	assert_status(pf_peer_contact(pair_peer(pair, 2), 0, &neighbour), PF_ERR_UNREACHABLE);
	assert_non_null(strstr(neighbour, "another process of its host did not answer"));
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_ERR_UNREACHABLE);
	let_run(pair, 1);
	pair_command(pair, PF_ERR_UNREACHABLE);
	while (pair->errors.count < 2)
		assert_true(pair_progress(pair));
	assert_status(pair->errors.status, PF_ERR_UNREACHABLE);
	assert_int_equal(pf_peer_state(pair->peer), PF_PEER_UNREACHABLE);
	pair_linger(pair);
	assert_int_equal(pair->errors.count, 2);
	pair_end(pair);
}

static unsigned warnings;
static char warning[256];

static void note_warning(pf_context *context, pf_peer *peer, enum pf_log_level level,
			 const char *text, void *arg)
{
	if (level != PF_LOG_WARNING)
		return;
	warnings++;
	snprintf(warning, sizeof(warning), "%s", text);
}

/* Without pf_peer_contact it is a warning, once for the host, and messages arrive when the peer runs again. */
static void test_warning(void **state)
{
	struct pair_setup setup = over_loopback();
	struct pair *pair;

	warnings = 0;
	setup.partners = 2;
	setup.log_here = note_warning;
	pair = pair_start(&setup);
	stop(pair, 1);
	stop(pair, 2);
	assert_status(pair_send(pair, pair_peer(pair, 1), 0, "x", 1), PF_OK);
	assert_status(pair_send(pair, pair_peer(pair, 2), 0, "x", 1), PF_OK);
	while (!warnings)
		assert_true(pair_progress(pair));
	assert_non_null(strstr(warning, "no answer for 1 s " TEXT));
	assert_non_null(strstr(warning, ", over lo (from 127.0.0.1)"));
	pair_linger(pair);
	/* Later, one may answer while the other has not got a processor for a second: that is told. */
	assert_int_equal(warnings, 1);
	let_run(pair, 1);
	let_run(pair, 2);
	pair_await_value(pair, 1, 0, 1);
	pair_await_value(pair, 2, 0, 1);
	assert_int_equal(pair->errors.count, 0);
	pair_end(pair);
}

static pf_peer *failed;
static char reason[256];

static void note_reason(pf_context *context, const pf_completion *completion)
{
	assert_status(completion->status, PF_ERR_UNREACHABLE);
	snprintf(reason, sizeof(reason), "%s", pf_peer_path(failed));
}

/* The completion of an operation finds the reason, as the event of the peer does. */
static void test_reason(void **state)
{
	struct pair_setup setup = over_loopback();
	struct pair *pair;
	uint64_t word;

	reason[0] = 0;
	setup.here.peer_timeout = 1;
	pair = pair_start(&setup);
	failed = pair->peer;
	stop(pair, 1);
	assert_pending(pf_get(failed, &word, 4096, sizeof(word), note_reason, NULL));
	while (!reason[0])
		assert_true(pair_progress(pair));
	assert_non_null(strstr(reason, "no answer " TEXT));
	pair_linger(pair);
	assert_int_equal(pair->errors.count, 1);
	assert_status(pair->errors.status, PF_ERR_UNREACHABLE);
	let_run(pair, 1);
	pair_end(pair);
}

static struct pair *calling;
static unsigned called;

static void contact_from_callback(pf_context *context, pf_peer *from, uint32_t tag, void *data,
				  size_t length, void *arg)
{
	assert_ok(pf_peer_contact(from, 1, NULL));
	/* That of another peer is not known, and this thread cannot wait for it. */
	assert_status(pf_peer_contact(pair_peer(calling, 2), 1, NULL), PF_ERR_AGAIN);
	called++;
}

static void send_one(struct pair *me)
{
	if (me->side == 1)
		pair_check_status(me, pair_send(me, me->peer, 0, "x", 1), PF_OK);
}

static void test_in_callback(void **state)
{
	struct pair_setup setup = over_loopback();

	called = 0;
	setup.partners = 2;
	setup.receive_here = contact_from_callback;
	setup.work = send_one;
	calling = pair_start(&setup);
	while (!called)
		assert_true(pair_progress(calling));
	assert_ok(pf_peer_contact(pair_peer(calling, 2), 1, NULL));
	pair_end(calling);
}

/* ---- ports ---- */

static struct address address_of(pf_context *context)
{
	struct address address;
	size_t length = sizeof(address);

	assert_ok(pf_address(context, &address, &length));
	return address;
}

static pf_context *open_with_ports(unsigned least, unsigned most)
{
	pf_options options = pair_options();
	pf_context *context;

	options.if_include = "lo";
	options.port_min = least;
	options.port_max = most;
	assert_ok(pf_open(&options, NULL, &context));
	return context;
}

/* Contexts take ports of the range while there are any; the next one says what is missing. */
static void test_ports(void **state)
{
	enum { PORTS = 3 };
	pf_context *contexts[PORTS], *other;
	struct address address, elsewhere;
	unsigned first, i, j, port;
	char expected[160];
	const char *why;

	/* A range in which all ports are free is found by trying. */
	for (first = 30000; first < 60000; first += PORTS) {
		for (i = 0; i < PORTS; i++) {
			contexts[i] = open_with_ports(first, first + PORTS - 1);
			if (!address_of(contexts[i]).endpoints_count)
				break;
		}
		if (i == PORTS)
			break;
		for (j = 0; j <= i; j++)
			pf_close(contexts[j]);
	}
	assert_in_range(first, 30000, 59999);
	for (i = 0; i < PORTS; i++) {
		address = address_of(contexts[i]);
		for (j = 0; j < address.endpoints_count; j++) {
			port = ntohs(address.endpoints[j].port);
			assert_in_range(port, first, first + PORTS - 1);
		}
	}
	other = open_with_ports(first, first + PORTS - 1);
	assert_int_equal(address_of(other).endpoints_count, 0);
	elsewhere = address_of(contexts[0]);
	elsewhere.host[0] ^= 1;
	assert_status(pf_reachable(other, &elsewhere, sizeof(elsewhere), &why), PF_ERR_UNREACHABLE);
	snprintf(expected, sizeof(expected), "all UDP ports from %u to %u (port_min, port_max)",
		 first, first + PORTS - 1);
	assert_non_null(strstr(why, expected));
	pf_close(other);
	for (i = 0; i < PORTS; i++)
		pf_close(contexts[i]);
}

static void test_wrong_range(void **state)
{
	pf_options options = pair_options();
	pf_context *context;
	char text[128];

	options.port_min = 40000;
	options.port_max = 39999;
	assert_status(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	assert_true(pf_options_error(&options, text, sizeof(text)) > 0);
	assert_string_equal(text, "port_min=40000 is invalid: must be at most port_max (39999)");
	options.port_max = 40000;
	assert_int_equal(pf_options_error(&options, text, sizeof(text)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_answers),
		PAIR_TEST(test_dies_later),
		PAIR_TEST(test_same_host),
		PAIR_TEST(test_silent),
		PAIR_TEST(test_warning),
		PAIR_TEST(test_reason),
		PAIR_TEST(test_in_callback),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_wrong_range),
	};

	return pair_run_tests("contact", tests);
}
