/* SPDX-License-Identifier: BSD-3-Clause */
/* What the thread that drives sends, and how much: sockets without room, credit of the receiver. */
#include "network_pair.h"

static void refuse_checksums(struct network *network, int refuse)
{
	unsigned i;

	for (i = 0; i < 2 * sockets_of(network)->interfaces.count; i++)
		assert_ok(setsockopt(sockets_of(network)->list[i].fd, SOL_SOCKET, SO_NO_CHECK,
				     &refuse, sizeof(refuse)));
}

/* Nothing can be sent, which is not because of the interface's MTU; then it can again. */
static void test_nothing_fits(void **state)
{
	struct pair *pair = network_pair(NULL);
	struct network *network = network_of(pair);
	struct pair_done done = { 0 };
	uint8_t *bytes = test_alloc(WINDOW);
	struct net_path_info info;
	unsigned i;

	/* Packets short enough to be sent in batches, until the window is large. */
	for (i = 0; i < sockets_of(network)->interfaces.count; i++)
		sockets_of(network)->interfaces.list[i].mtu = LONGEST + 28;
	for (i = 1; i <= 50; i++) {
		post_puts(pair, bytes, 8, &done);
		pair_await_done(pair, &done, 8 * i);
	}
	/* The system segments no batches for a socket without checksums. */
	refuse_checksums(network, 1);
	pattern_fill(bytes, WINDOW, 7);
	post_puts(pair, bytes, 8, &done);
	for (i = 0; i < 1000; i++)
		pf_progress(pair->context);
	network_lock(network);
	assert_true(net_path_info(first_association(network), 0, &info));
	network_unlock(network);
	assert_in_range(info.packet, NET_PACKET_LEAST, LONGEST - 8);
	refuse_checksums(network, 0);
	pair_await_done(pair, &done, 8 * 51);
	assert_int_equal(done.failed, 0);
	pair_check_pattern(pair, pair->window, WINDOW, 7);
	free(bytes);
	pair_end(pair);
}

/* ---- credit ---- */

#define UNPRIVILEGED 212992u        /* net.core.rmem_max of most systems */
#define USED (UNPRIVILEGED * 2 / 3) /* of it, by packets of LONGEST bytes */

static void send_apart(struct network *network)
{
	unsigned i;

	for (i = 0; i < sockets_of(network)->interfaces.count; i++)
		sockets_of(network)->interfaces.list[i].mtu = LONGEST + 28;
	/* As over a cable: each packet is a buffer of its own. */
	for (i = 0; i < 2 * sockets_of(network)->interfaces.count; i++)
		sockets_of(network)->list[i].segments = false;
}

static struct net_path_info first_path(struct network *network)
{
	struct net_path_info info;

	network_lock(network);
	assert_true(net_path_info(first_association(network), 0, &info));
	network_unlock(network);
	return info;
}

/* Congestion is not what keeps packets back. */
static void open_window(struct network *network)
{
	struct congestion *congestion;

	network_lock(network);
	congestion = &first_association(network)->paths[0]->congestion;
	congestion->window = (uint64_t)WINDOW << 8;
	congestion->after_pause = false;
	network_unlock(network);
}

static bool is_stopped(int pid)
{
	char name[64], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	file = fopen(name, "r");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'T';
}

static void tell_dropped(struct pair *me, const uint64_t *arguments)
{
	atomic_store(pair_value(me, 1, 1), dropped(me));
}

/*
 * A sender uses all its credit for a receiver that does not read, and whose socket has the buffer
 * that an unprivileged process gets: nothing is dropped.
 */
static void check_credit(bool messages)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .command = tell_dropped,
				    .receive = pair_count_message };
	struct pair_done done = { 0 };
	uint8_t *bytes = test_alloc(WINDOW);
	struct network *network;
	struct pair *pair;
	const uint64_t wanted = messages ? 100u * 64 : USED;
	uint64_t in_flight, most = 0;
	unsigned i, tries;
	uint32_t before;

	setup.there.socket_buffer = UNPRIVILEGED;
	pair = pair_start(&setup);
	network = network_of(pair);
	send_apart(network);
	/* Until long packets are known to pass. */
	for (i = 1; i < 20; i++) {
		post_puts(pair, bytes, 1, &done);
		pair_await_done(pair, &done, i);
	}
	pair_command(pair, 0);
	before = (uint32_t)*pair_value(pair, 1, 1);
	assert_int_equal(kill(pair_pid(pair, 1), SIGSTOP), 0);
	for (tries = 0; tries < PATIENCE && !is_stopped(pair_pid(pair, 1)); tries++)
		usleep(1000);
	if (!messages)
		post_puts(pair, bytes, 1, &done);
	for (i = 0; i < 20000 || (most <= wanted && i < 1000000); i++) {
		/* Again and again: time-outs of a slow machine close it. Nothing under way is forgotten. */
		if (i % 64 == 0)
			open_window(network);
		if (messages)
			pf_send(pair->peer, 0, bytes, 8, NULL, 0);
		pf_progress(pair->context);
		/* A slow machine takes so long that packets count as lost before the last poll. */
		in_flight = first_path(network).in_flight;
		if (most < in_flight)
			most = in_flight;
	}
	if (most <= wanted)
		print_message("# %llu bytes were under way, in packets of %u\n",
			      (unsigned long long)most, first_path(network).packet);
	assert_true(most > wanted);
	assert_int_equal(kill(pair_pid(pair, 1), SIGCONT), 0);
	pair_command(pair, 0);
	assert_int_equal(*pair_value(pair, 1, 1), before);
	free(bytes);
	pair_end(pair);
}

static void test_credit_of_packets(void **state)
{
	check_credit(false);
}

static void test_credit_of_messages(void **state)
{
	check_credit(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_nothing_fits),
		PAIR_TEST(test_credit_of_packets),
		PAIR_TEST(test_credit_of_messages),
	};

	pair_use_net();
	return pair_run_tests("net_drive", tests);
}
