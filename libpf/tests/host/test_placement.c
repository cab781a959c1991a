/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where memory lies on a machine with two NUMA nodes, by /proc/PID/numa_maps of both processes. The
 * test is bound to one node, its partner to another. tests/numa runs it in a virtual machine.
 */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/location.h"
#include "host/host.h"
#include "host/incoming.h"
#include "host/peer.h"

#define LENGTH (4 * MIB)
#define MESSAGE ((size_t)16 << 10)
#define MESSAGES 2000
/* Bytes; so many messages grow it to its full length, if slowly. */
#define RING ((size_t)256 << 10)

/* A processor of each of two nodes, and the nodes. */
static int processors[2] = { -1, -1 };
static unsigned nodes[2];
static cpu_set_t usable; /* before the first test was bound */

static void bind_to(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Skips the test on a machine with one node. */
static void find_nodes(void)
{
	unsigned count = 0;
	int i;

	for (i = 0; i < CPU_SETSIZE && count < 2; i++) {
		struct location location;
		cpu_set_t one;

		if (!CPU_ISSET(i, &usable))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		location = location_of(&one, sizeof(one));
		if (!location.node || (count && location.node == nodes[0] + 1))
			continue;
		processors[count] = i;
		nodes[count++] = location.node - 1u;
	}
	if (count < 2)
		skip();
}

/* The nodes, as bits, that have pages of the mapping at that address. */
static unsigned nodes_of(int pid, uint64_t address)
{
	char path[64], *line = NULL, *at;
	unsigned long long start;
	unsigned found = 0, node;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/numa_maps", pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (getline(&line, &room, file) > 0) {
		if (sscanf(line, "%llx", &start) != 1 || start > address)
			break;
		found = 0;
		for (at = strstr(line, " N"); at; at = strstr(at + 1, " N")) {
			if (sscanf(at, " N%u=", &node) == 1)
				found |= 1u << node;
		}
	}
	free(line);
	fclose(file);
	return found;
}

#define assert_on_node(pid, address, node)                                                         \
	assert_int_equal(nodes_of(pid, (uint64_t)(uintptr_t)(address)), 1u << (node))

/* A mapping that has no page yet, and that is no part of another one. */
static uint8_t *fresh(size_t length)
{
	uint8_t *memory = mmap(NULL, length + 2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + MIB, length, PROT_READ | PROT_WRITE), 0);
	return memory + MIB;
}

static void bind_partner(struct pair *me)
{
	bind_to(processors[1]);
}

enum { COMMAND_FRESH, COMMAND_FILL, COMMAND_SEND, COMMAND_PLACES };
enum { VALUE_MESSAGES, VALUE_MEMORY, VALUE_INBOX, VALUE_STACK, VALUE_OUT, VALUE_IN };

static uint64_t stack_of(const struct pair *me)
{
	pthread_attr_t attributes;
	void *stack;
	size_t size;

	pair_check((struct pair *)me,
		   !pthread_getattr_np(me->context->service.thread, &attributes));
	pthread_attr_getstack(&attributes, &stack, &size);
	pthread_attr_destroy(&attributes);
	return remote_address(stack);
}

static void send_many(struct pair *me)
{
	static uint8_t message[MESSAGE];
	unsigned i;

	for (i = 0; i < MESSAGES; i++)
		pair_check_status(me, pair_send(me, me->peer, 1, message, sizeof(message)), PF_OK);
}

/* Tell the test where things of this side lie. */
static void tell_places(struct pair *me)
{
	const struct host_peer *peer = (const struct host_peer *)me->peer;

	atomic_store(pair_value(me, me->side, VALUE_INBOX),
		     remote_address(me->context->host->inbox.memory));
	atomic_store(pair_value(me, me->side, VALUE_STACK), stack_of(me));
	atomic_store(pair_value(me, me->side, VALUE_OUT), remote_address(peer->out.memory));
	atomic_store(pair_value(me, me->side, VALUE_IN),
		     remote_address(peer->incoming->channel.memory));
}

static void command(struct pair *me, const uint64_t *arguments)
{
	switch (arguments[0]) {
	case COMMAND_FRESH:
		atomic_store(pair_value(me, me->side, VALUE_MEMORY), remote_address(fresh(LENGTH)));
		break;
	case COMMAND_FILL:
		pattern_fill((void *)(uintptr_t)atomic_load(pair_value(me, me->side, VALUE_MEMORY)),
			     LENGTH, arguments[1]);
		break;
	case COMMAND_SEND:
		send_many(me);
		break;
	default:
		tell_places(me);
	}
}

static struct pair *start(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state),
				    .window = 4096,
				    .prepare = bind_partner,
				    .command = command,
				    .receive = pair_count_message,
				    .receive_here = pair_count_message };

	find_nodes();
	bind_to(processors[0]);
	setup.here.ring_size = setup.there.ring_size = RING;
	return pair_start(&setup);
}

static uint64_t place(struct pair *pair, unsigned side, unsigned which)
{
	return atomic_load(pair_value(pair, side, which));
}

/* Each ring, with all its pages in use, lies on the node of its reader, in the eyes of both. */
static void test_rings(void **state)
{
	struct pair *pair = start(state);
	unsigned side;

	pair_connect(pair);
	send_many(pair);
	pair_await_value(pair, 1, VALUE_MESSAGES, MESSAGES);
	pair_command(pair, COMMAND_SEND);
	pair_await_value(pair, 0, VALUE_MESSAGES, MESSAGES);
	pair_command(pair, COMMAND_PLACES);
	tell_places(pair);
	for (side = 0; side < 2; side++) {
		int pid = side ? pair_pid(pair, 1) : getpid();

		assert_on_node(pid, place(pair, side, VALUE_OUT), nodes[!side]);
		assert_on_node(pid, place(pair, side, VALUE_IN), nodes[side]);
		/* The second view of the ring. */
		assert_on_node(
			pid, place(pair, side, VALUE_OUT) + CHANNEL_RING + pair->options.ring_size,
			nodes[!side]);
	}
	pair_end(pair);
}

/* The inbox, where others ring, and the service thread are at home with the process. */
static void test_service(void **state)
{
	struct pair *pair = start(state);
	unsigned side;

	pair_connect(pair);
	pair_command(pair, COMMAND_PLACES);
	tell_places(pair);
	for (side = 0; side < 2; side++) {
		int pid = side ? pair_pid(pair, 1) : getpid();

		assert_on_node(pid, place(pair, side, VALUE_INBOX), nodes[side]);
		assert_on_node(pid, place(pair, side, VALUE_STACK), nodes[side]);
	}
	pair_end(pair);
}

/* What was never touched lies where its owner runs, whoever moves the bytes. */
static void check_put(void **state, size_t length)
{
	struct pair *pair = start(state);
	uint8_t *memory = fresh(LENGTH);
	uint64_t remote;

	pair_connect(pair);
	pattern_fill(memory, length, 3);
	pair_command(pair, COMMAND_FRESH);
	remote = place(pair, 1, VALUE_MEMORY);
	assert_int_equal(pair_put(pair, pair->peer, memory, remote, length).status, PF_OK);
	assert_on_node(pair_pid(pair, 1), remote, nodes[1]);
	memset(memory, 0, length);
	assert_int_equal(pair_get(pair, pair->peer, memory, remote, length).status, PF_OK);
	pair_check_pattern(pair, memory, length, 3);
	assert_on_node(getpid(), memory, nodes[0]);
	pair_end(pair);
}

static void test_put(void **state)
{
	check_put(state, LENGTH);
}

static void test_short_put(void **state)
{
	check_put(state, 16 << 10);
}

static void test_get(void **state)
{
	struct pair *pair = start(state);
	uint8_t *memory = fresh(LENGTH);
	struct pair_done done = { 0 };
	unsigned i;

	pair_connect(pair);
	pair_command(pair, COMMAND_FRESH);
	pair_command(pair, COMMAND_FILL, 5);
	pair_post(pair, pair->peer, GET, memory, place(pair, 1, VALUE_MEMORY), LENGTH, &done);
	/* The first run, and the offer to the partner; then let the partner move what it will. */
	for (i = 0; i < 3; i++)
		pair_progress(pair);
	usleep(300000);
	pair_await_done(pair, &done, 1);
	assert_int_equal(done.failed, 0);
	pair_check_pattern(pair, memory, LENGTH, 5);
	assert_on_node(getpid(), memory, nodes[0]);
	assert_on_node(pair_pid(pair, 1), place(pair, 1, VALUE_MEMORY), nodes[1]);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: later, a partner has inherited stacks of threads. */
		IN_MODE(test_service, DEFAULT),   IN_MODE(test_rings, DEFAULT),
		IN_MODE(test_put, DEFAULT),       IN_MODE(test_put, SHARE_ALL),
		IN_MODE(test_put, ALONE),         IN_MODE(test_put, STREAM),
		IN_MODE(test_short_put, DEFAULT), IN_MODE(test_get, DEFAULT),
		IN_MODE(test_get, SHARE_ALL),     IN_MODE(test_get, SHORT_RUNS),
	};

	if (sched_getaffinity(0, sizeof(usable), &usable))
		return 1;
	return pair_run_tests("placement", tests);
}
