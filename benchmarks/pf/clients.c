/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server whose clients come one after another, send a message and leave, or are killed: does a
 * client cost more, in time or memory, the more clients came before?
 */
#include <err.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpf/pf.h>
#include "sample.h"

#define THIRD 150
#define CLIENTS (3 * THIRD)
#define TAG_HELLO 1
#define TAG_ANSWER 2

struct server {
	unsigned ended;          /* clients */
	double times[CLIENTS];   /* of each client, from the end of the client before, s */
	double last;             /* end of the last client, s */
	size_t heap, heap_third; /* bytes in use after a client, and after the first third */
};

static void require(int status, const char *what)
{
	if (status < 0)
		errx(1, "%s: %s", what, pf_strerror(status));
}

static pf_context *open_context(const pf_callbacks *callbacks)
{
	pf_options options;
	pf_context *context;

	require(pf_options_init(&options, sizeof(options), NULL), "pf_options_init");
	options.wake = 1;
	require(pf_open(&options, callbacks, &context), "pf_open");
	return context;
}

static void on_answer(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		      void *arg)
{
	(void)context;
	(void)from;
	(void)data;
	(void)length;
	*(bool *)arg |= tag == TAG_ANSWER;
}

static _Noreturn void run_client(const void *address, size_t length, bool leaves)
{
	bool answered = false;
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_answer,
					 .arg = &answered };
	pf_context *context = open_context(&callbacks);
	pf_peer *server;

	require(pf_peer_open(context, address, length, NULL, &server), "pf_peer_open");
	require(pf_send(server, TAG_HELLO, NULL, 0, NULL, 0), "pf_send");
	while (!answered)
		require(pf_wait(context, PF_FOREVER), "pf_wait");
	if (leaves)
		pf_close(context);
	else
		kill(getpid(), SIGKILL);
	_exit(0);
}

/* A process without a context, whose children the clients are. */
static _Noreturn void run_clients(int go)
{
	uint8_t address[PF_ADDRESS_MAX];
	ssize_t length = read(go, address, sizeof(address));
	int status;
	unsigned i;

	for (i = 0; i < CLIENTS && length > 0; i++) {
		pid_t client = fork();

		if (client < 0)
			err(1, "fork");
		if (!client)
			run_client(address, (size_t)length, i % 2);
		if (waitpid(client, &status, 0) != client ||
		    (WIFEXITED(status) && WEXITSTATUS(status)))
			_exit(1);
	}
	_exit(0);
}

static void on_hello(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		     void *arg)
{
	(void)context;
	(void)tag;
	(void)data;
	(void)length;
	(void)arg;
	require(pf_send(from, TAG_ANSWER, NULL, 0, NULL, 0), "pf_send");
}

static void on_event(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		     const char *text, void *arg)
{
	struct server *server = arg;
	const double now = sample_seconds();

	(void)context;
	(void)peer;
	(void)status;
	if (reason > PF_PEER_DIED || server->ended == CLIENTS)
		errx(1, "client %u: %s", server->ended, text);
	server->times[server->ended++] = now - server->last;
	server->last = now;
	server->heap = mallinfo2().uordblks;
	if (server->ended == THIRD)
		server->heap_third = server->heap;
}

static void print(struct server *server)
{
	const double first = sample_summary(server->times, THIRD).median;
	const double last = sample_summary(server->times + CLIENTS - THIRD, THIRD).median;

	printf("# %u clients of one server, every other one killed: median time of a client in the\n"
	       "# last third, us, and relative to the first third; bytes of heap kept for a client\n"
	       "client %.1f\ntime %.3f\nmemory %.0f\n",
	       CLIENTS, 1e6 * last, last / first,
	       ((double)server->heap - (double)server->heap_third) / (CLIENTS - THIRD));
}

int main(int argc, char **argv)
{
	static struct server server;
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_hello,
					 .peer_event = on_event,
					 .arg = &server };
	uint8_t address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_context *context;
	pid_t clients;
	int go[2];

	if (argc > 1) {
		printf("Usage: %s\n\nMeasure what clients cost a server, of which %d come and go. LIBPF_*\n"
		       "environment variables set libpf's options.\n",
		       argv[0], CLIENTS);
		return strcmp(argv[1], "--help") && strcmp(argv[1], "-h") ? 2 : 0;
	}
	/* One heap for all threads, which mallinfo2 counts. */
	mallopt(M_ARENA_MAX, 1);
	if (pipe(go))
		err(1, "pipe");
	clients = fork();
	if (clients < 0)
		err(1, "fork");
	if (!clients)
		run_clients(go[0]);
	context = open_context(&callbacks);
	require(pf_address(context, address, &length), "pf_address");
	server.last = sample_seconds();
	if (write(go[1], address, length) != (ssize_t)length)
		err(1, "write");
	while (server.ended < CLIENTS) {
		require(pf_wait(context, 1000000), "pf_wait");
		if (sample_seconds() - server.last > 30)
			errx(1, "client %u: no end for 30 seconds", server.ended);
	}
	pf_close(context);
	print(&server);
	return waitpid(clients, NULL, 0) == clients ? 0 : 1;
}
