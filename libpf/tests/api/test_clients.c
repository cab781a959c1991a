/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server whose clients come, send a message and leave, end without a farewell, or are killed: each
 * is reported once, and nothing remains of a client that has ended.
 */
#include "unit.h"

#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/context.h"

#define HELLO 1
#define ANSWER 2
/* By then all that is allocated once is there. */
#define CLIENTS_WARM 30
/* Bytes by which the heap may differ, whatever the number of clients. */
#define SLACK 8192

static const char data_of_clients[PF_DATA_MOST + 1] =
	"what a client says of itself, 64 bytes, before its first message";

enum manner { LEAVES, EXITS, IS_KILLED, MANNERS };

struct client {
	pid_t process;
	int address; /* the write end of a pipe: the client begins with the server's address */
	enum manner manner;
};

struct server {
	pf_context *context;
	bool opens; /* each client, as long as it lives */
	pf_peer *from;
	unsigned hellos, events;
	enum pf_peer_state state;
};

static void on_answer(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		      void *arg)
{
	*(bool *)arg |= tag == ANSWER;
}

/* data: of PF_DATA_MOST bytes or NULL */
static pf_context *open_context(enum pf_network network, bool threads, const char *data,
				const pf_callbacks *callbacks)
{
	pf_options options;
	pf_context *context;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.network = network;
	options.threads = threads;
	options.data = data;
	options.data_length = data ? PF_DATA_MOST : 0;
	assert_ok(pf_open(&options, callbacks, &context));
	return context;
}

/* Leave the processor to the process that is awaited. */
static void progress(pf_context *context)
{
	if (!pf_progress(context))
		usleep(100);
}

/* In a process of its own, which has no context yet. */
static _Noreturn void run_client(int go, enum manner manner, enum pf_network network)
{
	bool answered = false;
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_answer,
					 .arg = &answered };
	uint8_t server[PF_ADDRESS_MAX], own[PF_ADDRESS_MAX];
	size_t length = sizeof(own);
	pf_context *context;
	pf_peer *peer;
	ssize_t bytes = read(go, server, sizeof(server));

	/* The test has failed. */
	if (bytes <= 0)
		_exit(0);
	context = open_context(network, false, data_of_clients, &callbacks);
	assert_ok(pf_address(context, own, &length));
	assert_ok(pf_peer_open(context, server, (size_t)bytes, NULL, &peer));
	assert_ok(pf_send(peer, HELLO, NULL, 0, own, length));
	/* The server says nothing of itself. */
	assert_null(pf_peer_data(peer, &length));
	assert_int_equal(length, 0);
	while (!answered)
		progress(context);
	switch (manner) {
	case IS_KILLED:
		kill(getpid(), SIGKILL);
		break;
	case LEAVES:
		pf_close(context);
		break;
	default:
		break;
	}
	_exit(0);
}

/* Forked before the server opens its context, so that none has a copy of that. */
static void start_clients(struct client *clients, unsigned count, unsigned manners,
			  enum pf_network network)
{
	unsigned i;
	int ends[2];

	for (i = 0; i < count; i++) {
		assert_int_equal(pipe(ends), 0);
		clients[i].manner = i % manners;
		clients[i].address = ends[1];
		clients[i].process = fork();
		assert_true(clients[i].process >= 0);
		if (!clients[i].process) {
			close(ends[1]);
			run_client(ends[0], clients[i].manner, network);
		}
		close(ends[0]);
	}
}

static void on_hello(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		     void *arg)
{
	struct server *server = arg;
	pf_peer *peer = from;
	size_t bytes;

	assert_int_equal(tag, HELLO);
	assert_memory_equal(pf_peer_data(from, &bytes), data_of_clients, PF_DATA_MOST);
	assert_int_equal(bytes, PF_DATA_MOST);
	server->hellos++;
	server->from = from;
	if (server->opens) {
		assert_ok(pf_peer_open(context, data, length, server, &peer));
		assert_ptr_equal(peer, from);
	}
	assert_ok(pf_send(peer, ANSWER, NULL, 0, NULL, 0));
}

static void on_event(pf_context *context, pf_peer *peer, enum pf_peer_state state, int status,
		     const char *why, void *arg)
{
	struct server *server = arg;

	assert_ptr_equal(peer, server->from);
	assert_ptr_equal(pf_peer_user(peer), server->opens ? server : NULL);
	assert_int_equal(pf_peer_state(peer), state);
	assert_string_equal(pf_peer_path(peer), why);
	server->events++;
	server->state = state;
	if (server->opens)
		pf_peer_close(peer);
}

static void serve(struct server *server, struct client *client, const uint8_t *address,
		  size_t length, bool asks)
{
	const unsigned before = server->events;

	assert_int_equal(write(client->address, address, length), length);
	close(client->address);
	while (server->events == before) {
		progress(server->context);
		if (asks && server->hellos > server->events)
			(void)pf_send(server->from, ANSWER, NULL, 0, NULL, 0);
	}
	assert_int_equal(waitpid(client->process, NULL, 0), client->process);
	assert_int_equal(server->hellos, server->events);
	if (client->manner == LEAVES)
		assert_int_equal(server->state, PF_PEER_LEFT);
	else
		assert_int_equal(server->state, PF_PEER_DIED);
}

static size_t heap(void)
{
	return mallinfo2().uordblks;
}

static void check(enum pf_network network, bool threads, bool opens, unsigned manners,
		  unsigned count)
{
	struct server server = { .opens = opens };
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_hello,
					 .peer_event = on_event,
					 .arg = &server };
	struct client *clients = test_alloc(count * sizeof(*clients));
	uint8_t address[PF_ADDRESS_MAX];
	/* Over the network only packets without an answer show that a process was killed. */
	const bool asks = network == PF_NETWORK_ALWAYS && manners > 1;
	size_t length = sizeof(address), warm = 0, end;
	unsigned i;

	start_clients(clients, count, manners, network);
	server.context = open_context(network, threads, NULL, &callbacks);
	server.context->peers.keep = 0;
	assert_ok(pf_address(server.context, address, &length));
	for (i = 0; i < count; i++) {
		if (i == CLIENTS_WARM)
			warm = heap();
		serve(&server, &clients[i], address, length, asks);
	}
	end = heap();
	if (warm) {
		print_message("# heap after %u clients: %zu, after %u: %zu bytes\n", CLIENTS_WARM,
			      warm, count, end);
		assert_in_range(end, 0, warm + SLACK);
	}
	/* The last may still be in use; the end of another would have freed it. */
	assert_in_range(server.context->peers.count, 0, 3);
	pf_close(server.context);
	free(clients);
}

static void test_host(void **state)
{
	check(PF_NETWORK_OFF, false, false, MANNERS, 100);
}

static void test_host_opened(void **state)
{
	check(PF_NETWORK_OFF, false, true, MANNERS, 100);
}

static void test_host_threads(void **state)
{
	check(PF_NETWORK_OFF, true, true, MANNERS, 100);
}

static void test_net(void **state)
{
	check(PF_NETWORK_ALWAYS, false, false, 1, 60);
}

static void test_net_opened(void **state)
{
	check(PF_NETWORK_ALWAYS, false, true, 1, 60);
}

/* Each takes refused_timeout. */
static void test_net_killed(void **state)
{
	check(PF_NETWORK_ALWAYS, true, true, MANNERS, MANNERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host),         cmocka_unit_test(test_host_opened),
		cmocka_unit_test(test_host_threads), cmocka_unit_test(test_net),
		cmocka_unit_test(test_net_opened),   cmocka_unit_test(test_net_killed),
	};

	/* One heap for all threads, which mallinfo2 counts. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	return cmocka_run_group_tests_name("clients", tests, NULL, NULL);
}
