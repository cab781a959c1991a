/* SPDX-License-Identifier: BSD-3-Clause */
/* The carrier of sockets: turns of its sockets, its descriptor, and its reports. */
#include "unit.h"

#include <poll.h>

#include "net/sockets.h"

#define PACKET 64u /* bytes */
#define MOST 5000  /* ms */

struct end {
	struct carrier *carrier;
	struct address address;
};

static bool nothing_gathered(void *user, const struct iovec *from, unsigned count, void *to)
{
	return false;
}

/* Open sockets for the loopback interface: for 127.0.0.1 first, and for ::1 where IPv6 is there. */
static void end_open(struct end *end)
{
	char why[CARRIER_WHY];
	struct carrier_setup setup = { .gather = nothing_gathered };
	struct location here = { 0 };
	pf_options options;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.if_include = "lo";
	setup.options = &options;
	setup.here = &here;
	assert_ok(sockets_open(&end->carrier, &setup, why));
	memset(&end->address, 0, sizeof(end->address));
	end->carrier->operations->publish(end->carrier, &end->address);
	assert_in_range(end->address.endpoints_count, 1, INTERFACES_MOST);
}

static void end_close(struct end *end)
{
	end->carrier->operations->close(end->carrier);
}

/* Find the path to an end by one of its sockets. */
static struct net_endpoint path_to(const struct end *from, const struct end *to, unsigned number)
{
	struct address address = to->address;
	struct net_endpoint path[NET_PATHS_MOST];

	address.endpoints[0] = address.endpoints[number];
	address.endpoints_count = 1;
	assert_int_equal(from->carrier->operations->find(from->carrier, &address, true, path), 1);
	return path[0];
}

static unsigned packet_send(const struct end *from, const struct net_endpoint *to, uint8_t byte)
{
	uint8_t bytes[PACKET];
	struct net_batch *batch = calloc(1, sizeof(*batch));
	enum carrier_stop stop;
	unsigned sent;

	assert_non_null(batch);
	memset(bytes, byte, sizeof(bytes));
	batch->to = *to;
	batch->count = batch->vectors = 1;
	batch->segment = batch->length = PACKET;
	batch->vector[0] = (struct iovec){ bytes, PACKET };
	sent = from->carrier->operations->send(from->carrier, batch, 1, &stop);
	free(batch);
	return sent;
}

/* Receive, until the end of a round. Return the first byte of the first packet, or 0. */
static uint8_t packet_receive(const struct end *end)
{
	struct net_packet *packets;
	int count = end->carrier->operations->receive(end->carrier, NULL, 0, 0, &packets);

	assert_in_range(count, 0, RECEIVE_MESSAGES);
	return count ? *(uint8_t *)packets[0].header : 0;
}

static void look(const struct end *end)
{
	end->carrier->operations->look(end->carrier, true);
}

/* Open both ends, if the loopback interface has two addresses. */
static void ends_open_twofold(struct end *here, struct end *there)
{
	end_open(here);
	end_open(there);
	if (there->address.endpoints_count > 1)
		return;
	end_close(here);
	end_close(there);
	print_message("# the loopback interface has one address here\n");
	skip();
}

/* A look that ends early leaves the next turn to the next socket. */
static void test_turns(void **state)
{
	struct net_endpoint first, second;
	struct end here, there;

	ends_open_twofold(&here, &there);
	first = path_to(&here, &there, 0);
	second = path_to(&here, &there, 1);
	assert_int_equal(packet_send(&here, &first, 1), 1);
	assert_int_equal(packet_send(&here, &first, 2), 1);
	assert_int_equal(packet_send(&here, &second, 3), 1);
	look(&there);
	assert_int_equal(packet_receive(&there), 1);
	look(&there);
	assert_int_equal(packet_receive(&there), 3);
	assert_int_equal(packet_receive(&there), 2);
	assert_int_equal(packet_receive(&there), 0);
	assert_int_equal(packet_send(&here, &second, 4), 1);
	/* Without another look, the next round begins. */
	assert_int_equal(packet_receive(&there), 4);
	assert_int_equal(packet_receive(&there), 0);
	end_close(&here);
	end_close(&there);
}

/*
 * A socket without packets for long is read soon, although each look ends at packets of another
 * socket. Three sockets have packets: the first of each interface, and a second connected to a peer.
 */
static void test_unheard(void **state)
{
	struct end here, there, other;
	struct sockets *sockets;
	struct net_endpoint to;
	unsigned i;

	ends_open_twofold(&here, &there);
	end_open(&other);
	sockets = (struct sockets *)there.carrier;
	to = path_to(&there, &other, 0);
	assert_true(
		socket_connect(&sockets->list[sockets->interfaces.count], &sockets->list[0], &to));
	for (i = 0; i < 40; i++) {
		to = path_to(&here, &there, 0);
		assert_int_equal(packet_send(&here, &to, 1), 1);
		to = path_to(&other, &there, 0);
		assert_int_equal(packet_send(&other, &to, 2), 1);
	}
	to = path_to(&here, &there, 1);
	assert_int_equal(packet_send(&here, &to, 3), 1);
	sockets->look = sockets->list[0].heard = 10001;
	sockets->list[sockets->interfaces.count].heard = sockets->look;
	for (i = 0; i < 40; i++) {
		there.carrier->operations->look(there.carrier, false);
		if (packet_receive(&there) == 3)
			break;
	}
	assert_in_range(i, 0, 39);
	end_close(&here);
	end_close(&there);
	end_close(&other);
}

static bool end_is_readable(const struct end *end, int milliseconds)
{
	struct pollfd readable = { .fd = end->carrier->descriptor, .events = POLLIN };

	return poll(&readable, 1, milliseconds) == 1;
}

static void test_descriptor(void **state)
{
	const struct timespec most = { .tv_sec = MOST / 1000 };
	struct net_endpoint to;
	struct end here, there;

	end_open(&here);
	end_open(&there);
	to = path_to(&here, &there, 0);
	assert_int_equal(packet_send(&here, &to, 1), 1);
	there.carrier->operations->wait(there.carrier, &most);
	assert_false(end_is_readable(&there, 0));
	assert_true(there.carrier->operations->watch(there.carrier, true));
	assert_true(end_is_readable(&there, MOST));
	look(&there);
	assert_int_equal(packet_receive(&there), 1);
	assert_int_equal(packet_receive(&there), 0);
	assert_false(end_is_readable(&there, 0));
	assert_true(there.carrier->operations->watch(there.carrier, false));
	assert_int_equal(packet_send(&here, &to, 2), 1);
	assert_false(end_is_readable(&there, 0));
	end_close(&here);
	end_close(&there);
}

/* An end that closed refuses packets. A thread that was woken asks, although no call failed. */
static void test_report(void **state)
{
	struct carrier_report report;
	struct net_endpoint to;
	struct end here, there;

	end_open(&here);
	end_open(&there);
	to = path_to(&here, &there, 0);
	assert_true(here.carrier->operations->packet_most(here.carrier, &to) > NET_PACKET_LEAST);
	end_close(&there);
	assert_int_equal(packet_send(&here, &to, 1), 1);
	assert_true(here.carrier->operations->watch(here.carrier, true));
	assert_true(end_is_readable(&here, MOST));
	assert_false(here.carrier->operations->report(here.carrier, false, &report));
	assert_true(here.carrier->operations->report(here.carrier, true, &report));
	assert_true(report.refused);
	assert_int_equal(report.refusal, NET_REFUSED_PORT);
	assert_memory_equal(&report.to, &to, sizeof(to));
	assert_false(here.carrier->operations->report(here.carrier, false, &report));
	/* A send that fails asks for a look at the reports. */
	assert_int_equal(packet_send(&here, &to, 1), 1);
	assert_true(end_is_readable(&here, MOST));
	assert_false(here.carrier->reports);
	assert_int_equal(packet_send(&here, &to, 1), 1);
	assert_true(here.carrier->reports);
	assert_true(here.carrier->operations->report(here.carrier, false, &report));
	end_close(&here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_unheard),
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_report),
	};

	return cmocka_run_group_tests_name("sockets", tests, NULL, NULL);
}
