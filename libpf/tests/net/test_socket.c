/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP sockets on the loopback interface: batches, predicted places, faults and errors. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/udp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/access.h"
#include "net/socket.h"

#define PACKET 1400
#define HEADER 48
#define PAYLOAD (PACKET - HEADER)

struct ends {
	struct access access;
	struct interface interface;
	struct socket a, b;
	struct net_endpoint to_a, to_b;
	struct receiver *receiver;
	struct net_batch batches[CARRIER_BATCHES];
	uint8_t bytes[RECEIVE_BYTES];
};

static const struct socket_ports any_port;

static void make_endpoint(struct net_endpoint *endpoint, const struct socket *from,
			  const struct socket *to, const struct interface *interface)
{
	union interface_address address = interface->address;

	if (address.any.sa_family == AF_INET)
		address.in.sin_port = to->port;
	else
		address.in6.sin6_port = to->port;
	endpoint_make(endpoint, from->number, &address);
}

static bool gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	return access_gather(user, from, count, to) == PF_OK;
}

static struct ends *ends_open(const char *network)
{
	struct ends *ends = test_alloc(sizeof(*ends));
	const char *why;

	if (!interfaces_find(&ends->interface, 1, network, NULL, &(struct location){ 0 }, &why)) {
		free(ends);
		skip();
	}
	assert_ok(socket_open(&ends->a, 3, &ends->interface, any_port, 1u << 20));
	assert_ok(socket_open(&ends->b, 5, &ends->interface, any_port, 1u << 20));
	make_endpoint(&ends->to_a, &ends->b, &ends->a, &ends->interface);
	make_endpoint(&ends->to_b, &ends->a, &ends->b, &ends->interface);
	access_open(&ends->access);
	ends->receiver = receiver_create(gather, &ends->access);
	assert_non_null(ends->receiver);
	pattern_fill(ends->bytes, sizeof(ends->bytes), 1);
	return ends;
}

static void ends_close(struct ends *ends)
{
	receiver_destroy(ends->receiver);
	access_close(&ends->access);
	socket_close(&ends->a);
	socket_close(&ends->b);
	free(ends);
}

/* count packets, in vectors of odd lengths; the last packet has last bytes. */
static struct net_batch *batch_make(struct ends *ends, unsigned number, unsigned count,
				    uint32_t segment, uint32_t last)
{
	struct net_batch *batch = &ends->batches[number];
	uint32_t at = 0, piece = 1;

	memset(batch, 0, sizeof(*batch));
	batch->to = ends->to_b;
	batch->count = count;
	batch->segment = segment;
	batch->length = (count - 1) * segment + last;
	for (; at < batch->length; at += piece, piece = piece * 3 + 5) {
		if (piece > batch->length - at)
			piece = batch->length - at;
		batch->vector[batch->vectors++] = (struct iovec){ ends->bytes + at, piece };
	}
	return batch;
}

static void send_all(struct ends *ends, unsigned count)
{
	enum carrier_stop stopped;

	assert_int_equal(socket_send(&ends->a, ends->batches, count, &stopped), count);
	assert_int_equal(stopped, CARRIER_SENT);
}

/* Append the bytes of received packets at *next. */
static void collect(struct ends *ends, int count, uint8_t **next)
{
	int i;

	for (i = 0; i < count; i++) {
		struct net_packet *packet = &ends->receiver->packets[i];

		assert_memory_equal(packet->from, &ends->to_a, sizeof(ends->to_a));
		assert_int_equal((uintptr_t)packet->header % 8 & (packet->payload_length ? 7 : 0),
				 0);
		assert_int_equal(packet->ecn, 2);
		memcpy(*next, packet->header, packet->header_length);
		*next += packet->header_length;
		memcpy(*next, packet->payload ? packet->payload : *next, packet->payload_length);
		*next += packet->payload_length;
	}
}

static int receive(struct ends *ends, const struct net_place *places, unsigned count)
{
	return socket_receive(&ends->b, ends->receiver, RECEIVE_MESSAGES, places, count, HEADER);
}

/* Send the first batch, receive it with these predicted places, and check its bytes. */
static void check_predicted(struct ends *ends, const struct net_place *places,
			    unsigned places_count, unsigned count)
{
	uint8_t *got = test_alloc(RECEIVE_BYTES + 1), *next = got;
	const struct net_batch *batch = &ends->batches[0];
	unsigned i, tries = 0, packets = 0;
	bool first = true;
	int received;

	send_all(ends, 1);
	while ((size_t)(next - got) < batch->length && tries++ < 1000) {
		received = receive(ends, places, places_count);
		assert_true(received >= 0);
		for (i = 0; first && (int)i < received && i + 1 < places_count && i + 1 < count;
		     i++) {
			const struct net_packet *packet = &ends->receiver->packets[i];

			if (batch->segment != places[i].length + HEADER)
				continue;
			assert_ptr_equal(packet->payload, places[i].address);
			assert_int_equal(packet->payload_length, places[i].length);
		}
		first = first && !received;
		collect(ends, received, &next);
		packets += (unsigned)received;
	}
	assert_int_equal(next - got, batch->length);
	assert_int_equal(packets, count);
	assert_pattern(got, batch->length, 1);
	free(got);
}

static void check_batch(struct ends *ends, unsigned count, uint32_t segment, uint32_t last)
{
	batch_make(ends, 0, count, segment, last);
	check_predicted(ends, NULL, 0, count);
	assert_int_equal(receive(ends, NULL, 0), 0);
}

static void check_batches(const char *network)
{
	struct ends *ends = ends_open(network);

	check_batch(ends, 1, 60, 60);
	check_batch(ends, 1, PACKET, PACKET);
	check_batch(ends, 2, PACKET, PACKET);
	check_batch(ends, 45, PACKET, 1);
	check_batch(ends, NET_BATCH_MOST, 1000, 999);
	/* There is no room for an eighth as long as the others. */
	check_batch(ends, 8, 8952, 2000);
	check_batch(ends, 8, 8949, 2001);
	check_batch(ends, NET_BATCH_MOST, 1013, 1011);
	/* The same without segmentation by the system. */
	ends->a.segments = false;
	check_batch(ends, 1, PACKET, PACKET);
	check_batch(ends, 45, PACKET, 1);
	check_batch(ends, NET_BATCH_MOST, 1000, 999);
	ends_close(ends);
}

static void test_batches(void **state)
{
	check_batches(*state);
}

/* Many batches in one call, with and without segmentation by the system. */
static void test_many(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	uint8_t *got = malloc(CARRIER_BATCHES * RECEIVE_BYTES), *next = got;
	size_t length = 0, at = 0;
	unsigned i, round, tries;

	for (round = 0; round < 2; round++) {
		next = got;
		length = at = tries = 0;
		for (i = 0; i < CARRIER_BATCHES; i++)
			length += batch_make(ends, i, 1 + i % 3 * 4, 500 + 40 * i, 40 + i)->length;
		send_all(ends, CARRIER_BATCHES);
		while ((size_t)(next - got) < length && tries++ < 1000)
			collect(ends, receive(ends, NULL, 0), &next);
		assert_int_equal(next - got, length);
		for (i = 0; i < CARRIER_BATCHES; i++) {
			assert_memory_equal(got + at, ends->bytes, ends->batches[i].length);
			at += ends->batches[i].length;
		}
		ends->a.segments = false;
	}
	free(got);
	ends_close(ends);
}

/*
 * Every packet is complete, whatever arrives instead of the predicted ones; predicted payloads are
 * in their places.
 */
static void check_prediction(struct ends *ends, unsigned places_count, uint32_t place,
			     uint32_t last_place, unsigned count, uint32_t segment, uint32_t last)
{
	struct net_place places[NET_BATCH_MOST];
	uint8_t *memory = test_alloc(RECEIVE_BYTES);
	unsigned i;

	for (i = 0; i < places_count; i++)
		places[i] = (struct net_place){ memory + i * (size_t)place, place };
	places[places_count - 1].length = last_place;
	batch_make(ends, 0, count, segment, last);
	check_predicted(ends, places, places_count, count);
	free(memory);
}

static void test_prediction(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	struct random_numbers numbers = random_start("prediction");
	/* Places, length of the last place, packets, their length, that of the last. */
	static const uint32_t cases[][5] = {
		{ 1, PAYLOAD, 1, PACKET, PACKET },
		{ 40, PAYLOAD, 40, PACKET, PACKET },
		{ 40, 100, 40, PACKET, 148 },
		{ 40, 100, 42, PACKET, PACKET },
		{ 40, PAYLOAD, 45, PACKET, 7 },
		{ 40, PAYLOAD, 1, 60, 60 },
		{ 40, PAYLOAD, 1, 20, 20 },
		{ 40, PAYLOAD, 30, 60, 30 },
		{ 3, PAYLOAD, 30, PACKET + 8, PACKET },
	};
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		check_prediction(ends, cases[i][0], PAYLOAD, cases[i][1], cases[i][2], cases[i][3],
				 cases[i][4]);
	for (i = 0; i < REPEAT(2000); i++) {
		uint32_t place = 8 + (uint32_t)random_below(&numbers, 1200);
		uint32_t segment = random_below(&numbers, 3) ?
					   place + HEADER :
					   1 + (uint32_t)random_below(&numbers, 1400);
		unsigned count = 1 + (unsigned)random_below(&numbers, 45);
		unsigned places = 1 + (unsigned)random_below(&numbers, 45);

		check_prediction(ends, places, place, 1 + (uint32_t)random_below(&numbers, place),
				 count, segment, 1 + (uint32_t)random_below(&numbers, segment));
	}
	ends_close(ends);
}

/* A place that cannot be written is reported; the next packets arrive. */
static void test_bad_place(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct net_place place = { read_only, PAYLOAD };
	unsigned tries = 0;
	int status = 0;

	batch_make(ends, 0, 1, PACKET, PACKET);
	send_all(ends, 1);
	while (!status && tries++ < 1000)
		status = receive(ends, &place, 1);
	assert_status(status, PF_ERR_FAULT);
	check_batch(ends, 3, PACKET, PACKET);
	munmap(read_only, 4096);
	ends_close(ends);
}

static void *to_unmap;
static size_t to_unmap_length;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

static bool filtered; /* as if a packet filter of this host dropped what is sent */

/* Unmap memory right after something was received, as another thread might. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long result;

	if (filtered && (number == SYS_sendmsg || number == SYS_sendmmsg)) {
		errno = EPERM;
		return -1;
	}
	result = __real_syscall(number, a, b, c, d, e, f);

	if (to_unmap && result >= 0 && (number == SYS_recvmsg || number == SYS_recvmmsg)) {
		assert_int_equal(munmap(to_unmap, to_unmap_length), 0);
		to_unmap = NULL;
	}
	return result;
}

/*
 * A payload that was received at the wrong place is read from there. If that memory was unmapped,
 * the payload is lost.
 */
static void check_place_unmapped(uint32_t place, unsigned count, uint32_t segment)
{
	struct ends *ends = ends_open("127.0.0.1");
	struct net_place places[4];
	unsigned i, tries = 0;
	uint8_t *memory;
	int status = 0;

	to_unmap_length = RECEIVE_BYTES;
	memory = test_map(to_unmap_length);
	for (i = 0; i < 4; i++)
		places[i] = (struct net_place){ memory + i * (size_t)place, place };
	batch_make(ends, 0, count, segment, segment);
	send_all(ends, 1);
	to_unmap = memory;
	while (!status && tries++ < 1000)
		status = receive(ends, places, 4);
	assert_null(to_unmap);
	assert_status(status, PF_ERR_FAULT);
	check_batch(ends, 3, PACKET, PACKET);
	ends_close(ends);
}

static void test_place_unmapped(void **state)
{
	check_place_unmapped(PAYLOAD, 3, PACKET - 8);
	check_place_unmapped(PAYLOAD, 3, PACKET + 8);
	check_place_unmapped(4096, 10, 60);
}

static void test_bad_source(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	enum carrier_stop stopped;

	batch_make(ends, 0, 1, PACKET, PACKET);
	batch_make(ends, 1, 1, PACKET, PACKET)->vector[0].iov_base = nothing;
	assert_int_equal(socket_send(&ends->a, ends->batches, 2, &stopped), 1);
	assert_int_equal(stopped, CARRIER_FAULT);
	munmap(nothing, 4096);
	ends_close(ends);
}

static void test_too_long(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	struct net_batch *batch = batch_make(ends, 0, 1, 64 << 10, 64 << 10);
	enum carrier_stop stopped;

	assert_int_equal(socket_send(&ends->a, batch, 1, &stopped), 0);
	assert_int_equal(stopped, CARRIER_TOO_LONG);
	assert_true(socket_packet_most(&ends->interface) <= NET_PACKET_MOST);
	ends_close(ends);
}

/* No socket listens: the error names the endpoint that was sent to. */
static void check_refused(const char *network)
{
	struct ends *ends = ends_open(network);
	struct carrier_report complaint;
	unsigned tries = 0;

	socket_close(&ends->b);
	batch_make(ends, 0, 1, 100, 100);
	send_all(ends, 1);
	while (!ends->a.complaining && tries++ < 1000) {
		assert_int_equal(
			socket_receive(&ends->a, ends->receiver, RECEIVE_MESSAGES, NULL, 0, 0), 0);
		usleep(1000);
	}
	assert_true(socket_complaint(&ends->a, &complaint));
	assert_true(complaint.refused);
	assert_int_equal(complaint.most, 0);
	assert_memory_equal(&complaint.to, &ends->to_b, sizeof(ends->to_b));
	assert_false(socket_complaint(&ends->a, &complaint));
	assert_false(ends->a.complaining);
	ends_close(ends);
}

static void send_from(struct ends *ends, struct socket *from, const struct net_endpoint *to)
{
	struct net_batch *batch = batch_make(ends, 0, 1, PACKET, PACKET);
	enum carrier_stop stopped;

	batch->to = *to;
	assert_int_equal(socket_send(from, batch, 1, &stopped), 1);
	assert_int_equal(stopped, CARRIER_SENT);
}

/* A packet from one socket to the other arrives there. */
static void check_from(struct ends *ends, struct socket *from, const struct net_endpoint *to,
		       struct socket *at)
{
	send_from(ends, from, to);
	assert_int_equal(socket_receive(at, ends->receiver, 1, NULL, 0, 0), 1);
	assert_int_equal(ends->receiver->packets[0].header_length, PACKET);
}

static void check_taken(struct ends *ends, uint16_t port)
{
	union interface_address address = ends->interface.address;
	int one = 1, fd = socket(address.any.sa_family, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_ok(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
	if (address.any.sa_family == AF_INET)
		address.in.sin_port = port;
	else
		address.in6.sin6_port = port;
	assert_int_equal(bind(fd, &address.any, sizeof(address)), -1);
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
}

/* A datagram without bytes is not the end of the packets that wait. */
static void test_empty(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	const struct net_place place = { ends->bytes, PAYLOAD };
	union interface_address to;
	socklen_t length = endpoint_address(&ends->to_b, &to);
	unsigned i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(sendto(ends->a.fd, "", 0, 0, &to.any, length), 0);
		assert_int_equal(socket_receive(&ends->b, ends->receiver, 1, &place, i, HEADER), 1);
		assert_int_equal(ends->receiver->packets[0].header_length, 0);
		assert_int_equal(ends->receiver->packets[0].payload_length, 0);
		assert_int_equal(receive(ends, NULL, 0), 0);
	}
	ends_close(ends);
}

static void test_refused(void **state)
{
	check_refused(*state);
}

/* The packets of one peer come to a second socket with the same port, as long as it is connected. */
static void check_second(const char *network)
{
	struct ends *ends = ends_open(network);
	struct socket other, second, *bound = &ends->b;
	struct net_endpoint to_b, to_other;

	assert_ok(socket_open(&other, 3, &ends->interface, any_port, 1u << 20));
	make_endpoint(&to_other, bound, &other, &ends->interface);
	make_endpoint(&to_b, &other, bound, &ends->interface);
	socket_open_second(&second, bound, 1u << 20);
	assert_true(second.fd >= 0 && !second.bound);
	check_batch(ends, 1, PACKET, PACKET);

	assert_true(socket_connect(&second, bound, &ends->to_a));
	check_from(ends, &ends->a, &ends->to_b, &second);
	check_from(ends, &other, &to_b, bound);
	/* Without an address in each call. */
	check_from(ends, &second, &ends->to_a, &ends->a);
	/* It goes to another peer. */
	assert_true(socket_connect(&second, bound, &to_other));
	check_from(ends, &ends->a, &ends->to_b, bound);
	check_from(ends, &other, &to_b, &second);
	/* The port is shared with no other socket of this user. */
	check_taken(ends, bound->port);
	socket_close(&second);
	socket_close(&other);
	ends_close(ends);
}

static unsigned receive_rest(struct ends *ends, struct socket *socket)
{
	unsigned total = 0;
	int count;

	while ((count = socket_receive(socket, ends->receiver, RECEIVE_MESSAGES, NULL, 0, 0)) > 0) {
		int i;

		for (i = 0; i < count; i++, total++) {
			const struct net_packet *packet = &ends->receiver->packets[i];

			assert_int_equal(packet->header_length, PACKET);
			assert_memory_equal(packet->header, ends->bytes + total * PACKET, PACKET);
			assert_memory_equal(packet->from, &ends->to_a, sizeof(ends->to_a));
		}
	}
	return total;
}

/* Called before the kernel gathers no more for a socket. */
static void (*before_ungathered)(struct ends *ends);
static struct ends *ungathered_ends;

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	void (*call)(struct ends *) = before_ungathered;
	int wanted;

	memcpy(&wanted, value, sizeof(wanted));
	if (call && level == IPPROTO_UDP && option == UDP_GRO && !wanted) {
		before_ungathered = NULL;
		call(ungathered_ends);
	}
	return __real_setsockopt(fd, level, option, value, length);
}

/* A second socket for the packets from one peer. */
static struct ends *ends_open_second(const char *network, struct socket *second)
{
	struct ends *ends = ends_open(network);

	socket_open_second(second, &ends->b, 1u << 20);
	assert_true(socket_connect(second, &ends->b, &ends->to_a));
	return ends;
}

static void ends_close_second(struct ends *ends, struct socket *second)
{
	socket_close(second);
	ends_close(ends);
}

/* Packets that come one at a time make it bare. Returns how many came. */
static unsigned make_bare(struct ends *ends, struct socket *second)
{
	unsigned i;

	for (i = 0; i < 1000 && !second->bare; i++) {
		check_from(ends, &ends->a, &ends->to_b, second);
		assert_int_equal(receive_rest(ends, second), 0);
		assert_int_equal(receive_rest(ends, second), 0);
	}
	assert_true(second->bare);
	return i;
}

static void send_row(struct ends *ends)
{
	batch_make(ends, 0, 20, PACKET, PACKET);
	send_all(ends, 1);
}

/* A row of packets ends it. None is lost. */
static void check_bare(const char *network)
{
	struct socket second;
	struct ends *ends = ends_open_second(network, &second);

	assert_true(make_bare(ends, &second) > 100);
	check_from(ends, &ends->a, &ends->to_b, &second);
	assert_memory_equal(ends->receiver->packets[0].from, &ends->to_a, sizeof(ends->to_a));
	assert_true(second.bare);

	send_row(ends);
	assert_int_equal(receive_rest(ends, &second), 20);
	assert_false(second.bare);
	ends_close_second(ends, &second);
}

static void test_bare(void **state)
{
	check_bare("127.0.0.1");
	check_bare("::1");
}

/* It tells how long a packet waited, if it is asked for that. */
static void check_bare_late(const char *network)
{
	const struct timespec time = { .tv_nsec = 2000000 };
	struct socket second;
	struct ends *ends = ends_open_second(network, &second);

	make_bare(ends, &second);
	send_from(ends, &ends->a, &ends->to_b);
	nanosleep(&time, NULL);
	ends->receiver->late = true;
	assert_int_equal(socket_receive(&second, ends->receiver, 1, NULL, 0, 0), 1);
	assert_in_range(ends->receiver->packets[0].waited, time.tv_nsec, UINT32_MAX);
	assert_true(second.bare);
	ends_close_second(ends, &second);
}

static void test_bare_late(void **state)
{
	check_bare_late("127.0.0.1");
	check_bare_late("::1");
}

/* Packets that the kernel gathered just before the socket becomes bare are received one by one. */
static void check_gathered_before_bare(const char *network)
{
	struct socket second;
	struct ends *ends = ends_open_second(network, &second);
	unsigned i;

	before_ungathered = send_row;
	ungathered_ends = ends;
	for (i = 0; i < 1000 && before_ungathered; i++) {
		check_from(ends, &ends->a, &ends->to_b, &second);
		assert_int_equal(receive_rest(ends, &second), 0);
	}
	assert_null(before_ungathered);
	assert_int_equal(receive_rest(ends, &second), 20);
	assert_false(second.bare);
	/* Nothing remains of it. */
	send_row(ends);
	assert_int_equal(receive_rest(ends, &second), 20);
	assert_true(make_bare(ends, &second) > 100);
	ends_close_second(ends, &second);
}

static void test_gathered_before_bare(void **state)
{
	check_gathered_before_bare("127.0.0.1");
	check_gathered_before_bare("::1");
}

/* Packets that the kernel gathers into one datagram are no packets that come one at a time. */
static void test_gathered_never_bare(void **state)
{
	struct socket second;
	struct ends *ends = ends_open_second("127.0.0.1", &second);
	unsigned i;

	for (i = 0; i < 600; i++) {
		send_row(ends);
		assert_int_equal(receive_rest(ends, &second), 20);
		assert_int_equal(receive_rest(ends, &second), 0);
		assert_false(second.bare);
	}
	ends_close_second(ends, &second);
}

/*
 * A bare socket drops what is longer than a packet, instead of taking gathered packets for one; then
 * it is bare no more.
 */
static void check_longer_than_packet(const struct net_place *places, unsigned count)
{
	struct socket second;
	struct ends *ends = ends_open_second("127.0.0.1", &second);
	const int on = 1;
	unsigned row;

	for (row = 0; row < 2; row++) {
		second.packet_most = PACKET;
		make_bare(ends, &second);
		if (row)
			check_from(ends, &ends->a, &ends->to_b, &second);
		assert_ok(__real_setsockopt(second.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)));
		send_row(ends);
		assert_int_equal(socket_receive(&second, ends->receiver, 1, places, count, HEADER),
				 0);
		assert_false(second.bare);
		assert_int_equal(receive_rest(ends, &second), 0);
		send_row(ends);
		assert_int_equal(receive_rest(ends, &second), 20);
	}
	ends_close_second(ends, &second);
}

static void test_longer_than_packet(void **state)
{
	uint8_t bytes[PAYLOAD];
	struct net_place place = { bytes, sizeof(bytes) };

	check_longer_than_packet(NULL, 0);
	check_longer_than_packet(&place, 1);
}

static void test_second(void **state)
{
	check_second("127.0.0.1");
	check_second("::1");
}

/* An error of sending is in the error queue too, and must be read from it. */
static void check_own_error(unsigned count, bool segments)
{
	struct ends *ends = ends_open("127.0.0.1");
	struct net_batch *batch = batch_make(ends, 0, 1, 65520, 65520);
	struct pollfd error = { .fd = ends->a.fd };
	struct carrier_report complaint;
	enum carrier_stop stopped;

	ends->a.segments = segments;
	/* All packets have the same bytes. */
	batch->count = count;
	batch->length = count * 65520;
	for (batch->vectors = 0; batch->vectors < count; batch->vectors++)
		batch->vector[batch->vectors] = (struct iovec){ ends->bytes, 65520 };
	assert_int_equal(socket_send(&ends->a, batch, 1, &stopped), 0);
	assert_int_equal(stopped, CARRIER_TOO_LONG);
	assert_true(ends->a.complaining);
	while (socket_complaint(&ends->a, &complaint))
		;
	assert_int_equal(poll(&error, 1, 0), 0);
	ends_close(ends);
}

static void test_own_error(void **state)
{
	check_own_error(1, true);
	check_own_error(2, false);
}

/* What a filter of this host drops is lost, and the complaint says where it was sent to. */
static void check_filtered(unsigned count, bool segments)
{
	struct ends *ends = ends_open("127.0.0.1");
	struct net_batch *batch = batch_make(ends, 0, count, PACKET, PACKET);
	struct carrier_report complaint;
	enum carrier_stop stopped;

	ends->a.segments = segments;
	filtered = true;
	assert_int_equal(socket_send(&ends->a, batch, 1, &stopped), 1);
	filtered = false;
	assert_true(ends->a.complaining);
	assert_true(socket_complaint(&ends->a, &complaint));
	assert_true(complaint.refused && complaint.refusal == NET_REFUSED_HERE);
	assert_memory_equal(&complaint.to, &ends->to_b, sizeof(complaint.to));
	assert_false(socket_complaint(&ends->a, &complaint));
	check_batch(ends, count, PACKET, PACKET);
	ends_close(ends);
}

static void test_filtered(void **state)
{
	check_filtered(1, true);
	check_filtered(45, true);
	check_filtered(45, false);
}

/* An error about a dead peer does not delay packets to another one. */
static void check_refused_another(unsigned count, bool segments)
{
	struct ends *ends = ends_open("127.0.0.1");
	struct net_endpoint to_b = ends->to_b;
	struct pollfd error = { .fd = ends->a.fd };
	struct carrier_report complaint;
	struct socket gone;

	assert_ok(socket_open(&gone, 7, &ends->interface, any_port, 1u << 20));
	make_endpoint(&ends->to_b, &ends->a, &gone, &ends->interface);
	socket_close(&gone);
	ends->a.segments = segments;
	batch_make(ends, 0, 1, 100, 100);
	send_all(ends, 1);
	assert_int_equal(poll(&error, 1, 10000), 1);
	ends->to_b = to_b;
	check_batch(ends, count, PACKET, PACKET);
	assert_true(ends->a.complaining);
	assert_true(socket_complaint(&ends->a, &complaint));
	assert_true(complaint.refused);
	ends_close(ends);
}

static void test_refused_another(void **state)
{
	check_refused_another(1, true);
	check_refused_another(45, true);
	check_refused_another(45, false);
}

/* Packets that the receive buffer cannot hold are dropped, and counted. */
static void test_dropped(void **state)
{
	struct ends *ends = ends_open("127.0.0.1");
	enum carrier_stop stopped;
	int small = 1, received, i;
	unsigned got = 0, sent = 0;

	setsockopt(ends->b.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (i = 0; i < 200; i++) {
		struct net_batch *batch = batch_make(ends, 0, 1, PACKET, PACKET);

		sent += socket_send(&ends->a, batch, 1, &stopped);
	}
	while ((received = receive(ends, NULL, 0)) > 0)
		got += (unsigned)received;
	assert_true(got < sent);
	/* The count comes with the next packet that is not dropped. */
	batch_make(ends, 0, 1, PACKET, PACKET);
	send_all(ends, 1);
	received = receive(ends, NULL, 0);
	assert_int_equal(received, 1);
	assert_int_equal(ends->b.dropped, sent - got);
	ends_close(ends);
}

static void test_endpoint(void **state)
{
	union interface_address address, back;
	struct net_endpoint endpoint;

	memset(&address, 0, sizeof(address));
	address.in6.sin6_family = AF_INET6;
	address.in6.sin6_port = htons(77);
	address.in6.sin6_scope_id = 4;
	assert_int_equal(inet_pton(AF_INET6, "fe80::3", &address.in6.sin6_addr), 1);
	endpoint_make(&endpoint, 2, &address);
	assert_int_equal(endpoint_address(&endpoint, &back), sizeof(back.in6));
	assert_memory_equal(&back, &address, sizeof(back));
	memset(&address, 0, sizeof(address));
	address.in.sin_family = AF_INET;
	address.in.sin_port = htons(78);
	address.in.sin_addr.s_addr = htonl(0x0a000001);
	endpoint_make(&endpoint, 2, &address);
	assert_int_equal(endpoint_address(&endpoint, &back), sizeof(back.in));
	assert_memory_equal(&back, &address, sizeof(back));
}

int main(void)
{
	static char ipv4[] = "127.0.0.1", ipv6[] = "::1";
	const struct CMUnitTest tests[] = {
		{ "test_batches IPv4", test_batches, NULL, NULL, ipv4 },
		{ "test_batches IPv6", test_batches, NULL, NULL, ipv6 },
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_prediction),
		cmocka_unit_test(test_bad_place),
		cmocka_unit_test(test_place_unmapped),
		cmocka_unit_test(test_bad_source),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_second),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_bare_late),
		cmocka_unit_test(test_gathered_before_bare),
		cmocka_unit_test(test_gathered_never_bare),
		cmocka_unit_test(test_longer_than_packet),
		{ "test_refused IPv4", test_refused, NULL, NULL, ipv4 },
		{ "test_refused IPv6", test_refused, NULL, NULL, ipv6 },
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_own_error),
		cmocka_unit_test(test_refused_another),
		cmocka_unit_test(test_filtered),
		cmocka_unit_test(test_endpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
