// SPDX-License-Identifier: GPL-2.0
/* exanest-engine: the engine of a virtual machine. See usage(). */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <event2/event.h>

#include "engine.h"
#include "ivshmem.h"
#include "link.h"
#include "ram.h"

#define BURST 64      /* packets that are sent or received before doorbells are looked at again */
#define FULL_NS 50000 /* how long a full socket is left alone */

/* Priorities of events: an invalidation does not wait for packets. */
enum {
	PRIORITY_DOORBELL,
	PRIORITY_PACKET,
	PRIORITY_SEND,
	PRIORITIES,
};

struct program {
	struct ivshmem ivshmem;
	struct ram ram;
	struct link link;
	struct engine *engine;
	struct event_base *base;
	struct event *again; /* when there is something to send, or a timer ends */
	struct event *client;
	bool pending; /* packet could not be sent */
	uint8_t packet[ENGINE_PACKET_MAX];
	size_t length;
	uint32_t node;
};

static const char usage_text[] =
	"Usage: exanest-engine --socket PATH --memory FILE[@ADDRESS[+OFFSET][:LENGTH]]...\n"
	"           [--link ADDRESS [--peer NODE=ADDRESS]...]\n"
	"           [--loss PERCENT] [--delay US] [--jitter US] [--seed N]\n"
	"\n"
	"The engine of driver/engine.md for one virtual machine of QEMU:\n"
	"\n"
	"  qemu-system-x86_64 ... -machine memory-backend=ram\n"
	"    -object memory-backend-file,id=ram,size=SIZE,mem-path=FILE,share=on\n"
	"    -chardev socket,id=engine,path=PATH\n"
	"    -device ivshmem-doorbell,chardev=engine,vectors=4\n"
	"\n"
	"Start it before the machine. It ends with SIGTERM or SIGINT; a machine that ends and\n"
	"connects again finds an engine as after power-on.\n"
	"\n"
	"  --socket PATH   where QEMU connects\n"
	"  --memory FILE   memory of the machine, from physical address ADDRESS (0) on; for\n"
	"                  memory above 4 GiB give the part of the file a second time\n"
	"  --link ADDRESS  its end of the link: udp:HOST:PORT or unix:PATH\n"
	"  --peer NODE=ADDRESS  the end of another node\n"
	"  --loss PERCENT  how many packets are lost, at random, on the way out\n"
	"  --delay US      how long they take\n"
	"  --jitter US     and up to so much more, at random, so that they are reordered\n"
	"  --seed N        of the random numbers\n";

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void schedule(struct program *program, uint64_t now, uint64_t at)
{
	uint64_t wait = at > now ? (at - now + 999) / 1000 : 0;
	struct timeval time = { .tv_sec = (time_t)(wait / 1000000),
				.tv_usec = (suseconds_t)(wait % 1000000) };

	if (at == UINT64_MAX)
		event_del(program->again);
	else
		event_add(program->again, &time);
}

/* Send packets until there is none for now, a burst was sent, or the socket is full. */
static bool send_burst(struct program *program, uint64_t now)
{
	unsigned int i;

	for (i = 0; i < BURST; i++) {
		if (!program->pending)
			program->length = engine_transmit(program->engine, program->packet,
							  &program->node, now);
		if (!program->length)
			return true;
		program->pending = program->link.socket >= 0 &&
				   !link_send(&program->link, program->node, program->packet,
					      program->length, now);
		if (program->pending)
			return false;
	}
	return true;
}

/* What follows each event: packets, interrupts, the next timer. */
static void pump(struct program *program)
{
	uint64_t now = now_ns(), next, due;
	bool room;

	next = engine_expire(program->engine, now);
	room = send_burst(program, now);
	due = link_flush(&program->link, now);
	next = due < next ? due : next;
	ivshmem_interrupt(&program->ivshmem, engine_interrupts(program->engine));
	if (!room)
		next = now + FULL_NS < next ? now + FULL_NS : next;
	else if (engine_busy(program->engine))
		next = now;
	else
		/* Packets that were sent may have started timers. */
		next = engine_expire(program->engine, now) < next ?
			       engine_expire(program->engine, now) :
			       next;
	schedule(program, now, next);
}

static void on_again(evutil_socket_t fd, short what, void *context)
{
	pump(context);
}

static void on_doorbell(evutil_socket_t fd, short what, void *context)
{
	struct program *program = context;
	const char *problem;
	unsigned int number;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return;
	for (number = 0; number < EXANEST_DOORBELLS; number++)
		if (program->ivshmem.doorbells[number] == fd)
			break;
	/* The machine has its memory when it rings, if not earlier. */
	problem = ram_map(&program->ram);
	if (problem)
		fprintf(stderr, "exanest-engine: cannot map memory of the machine, %s: %s\n",
			problem, strerror(errno));
	engine_doorbell(program->engine, number, now_ns());
	pump(program);
}

static void on_packet(evutil_socket_t fd, short what, void *context)
{
	struct program *program = context;
	uint8_t packet[ENGINE_PACKET_MAX];
	uint64_t now = now_ns();
	unsigned int i;
	size_t length;

	for (i = 0; i < BURST; i++) {
		length = link_receive(&program->link, packet, sizeof(packet));
		if (!length)
			break;
		engine_receive(program->engine, packet, length, now);
	}
	pump(program);
}

/* As after power-on: nothing of a machine that is gone is accessed, and its files may go. */
static bool power_on(struct program *program)
{
	struct memory memory = ram_memory(&program->ram);

	engine_destroy(program->engine);
	ram_unmap(&program->ram);
	program->pending = false;
	program->engine = engine_create(&memory, program->ivshmem.registers, IVSHMEM_ENGINE << 16);
	return program->engine;
}

static void on_client(evutil_socket_t fd, short what, void *context)
{
	struct program *program = context;
	char byte;

	/* QEMU sends nothing: this is its end. */
	if (recv(fd, &byte, 1, 0) < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	event_free(program->client);
	program->client = NULL;
	ivshmem_disconnect(&program->ivshmem);
	if (!power_on(program))
		event_base_loopbreak(program->base);
}

static void on_connection(evutil_socket_t fd, short what, void *context)
{
	struct program *program = context;

	if (!ivshmem_accept(&program->ivshmem))
		return;
	program->client = event_new(program->base, program->ivshmem.client, EV_READ | EV_PERSIST,
				    on_client, program);
	if (!program->client || event_add(program->client, NULL))
		event_base_loopbreak(program->base);
}

static void on_signal(evutil_socket_t number, short what, void *context)
{
	event_base_loopbreak(((struct program *)context)->base);
}

static bool watch(struct program *program, int fd, int what, int priority,
		  event_callback_fn callback)
{
	struct event *event = event_new(program->base, fd, (short)(what | EV_PERSIST), callback,
					program);

	return event && !event_priority_set(event, priority) && !event_add(event, NULL);
}

static bool watch_all(struct program *program)
{
	unsigned int i;

	program->base = event_base_new();
	if (!program->base || event_base_priority_init(program->base, PRIORITIES))
		return false;
	program->again = event_new(program->base, -1, 0, on_again, program);
	if (!program->again || event_priority_set(program->again, PRIORITY_SEND))
		return false;
	for (i = 0; i < EXANEST_DOORBELLS; i++)
		if (!watch(program, program->ivshmem.doorbells[i], EV_READ, PRIORITY_DOORBELL,
			   on_doorbell))
			return false;
	if (program->link.socket >= 0 &&
	    !watch(program, program->link.socket, EV_READ, PRIORITY_PACKET, on_packet))
		return false;
	return watch(program, program->ivshmem.listener, EV_READ, PRIORITY_PACKET, on_connection) &&
	       watch(program, SIGTERM, EV_SIGNAL, PRIORITY_DOORBELL, on_signal) &&
	       watch(program, SIGINT, EV_SIGNAL, PRIORITY_DOORBELL, on_signal);
}

static int complain(const char *what, const char *object)
{
	fprintf(stderr, "exanest-engine: %s %s: %s\n", what, object, strerror(errno));
	return EXIT_FAILURE;
}

static bool add_peer(struct program *program, const char *argument)
{
	char *end;
	unsigned long node = strtoul(argument, &end, 10);

	return *end == '=' && node && node <= 65535 &&
	       link_add_peer(&program->link, (uint32_t)node, end + 1);
}

/* Options; 0, or the exit status. */
static int configure(struct program *program, int count, char **arguments, const char **socket)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "memory", required_argument, NULL, 'm' },
		{ "link", required_argument, NULL, 'l' },
		{ "peer", required_argument, NULL, 'p' },
		{ "loss", required_argument, NULL, 'L' },
		{ "delay", required_argument, NULL, 'd' },
		{ "jitter", required_argument, NULL, 'j' },
		{ "seed", required_argument, NULL, 'S' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(count, arguments, "h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			*socket = optarg;
			break;
		case 'm':
			if (!ram_add(&program->ram, optarg)) {
				errno = EINVAL;
				return complain("cannot use memory", optarg);
			}
			break;
		case 'l':
			if (!link_open(&program->link, optarg))
				return complain("cannot open link", optarg);
			break;
		case 'p':
			if (!add_peer(program, optarg))
				return complain("cannot use peer", optarg);
			break;
		case 'L':
			program->link.loss = (uint32_t)(strtod(optarg, NULL) * 10000);
			break;
		case 'd':
			program->link.delay = strtoull(optarg, NULL, 10) * 1000;
			break;
		case 'j':
			program->link.jitter = strtoull(optarg, NULL, 10) * 1000;
			break;
		case 'S':
			program->link.random = strtoull(optarg, NULL, 0) * 2 + 1;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		default:
			fputs(usage_text, stderr);
			return 2;
		}
	}
	if (optind < count || !*socket || !program->ram.count) {
		fputs(usage_text, stderr);
		return 2;
	}
	return 0;
}

int main(int count, char **arguments)
{
	static struct program program = { .link = { .socket = -1,
						    .random = 88172645463325252ull } };
	const char *socket = NULL;
	int status;

	STAILQ_INIT(&program.link.delayed);
	status = configure(&program, count, arguments, &socket);
	if (status)
		return status;
	if (!ivshmem_open(&program.ivshmem, socket))
		return complain("cannot serve", socket);
	if (!power_on(&program) || !watch_all(&program))
		return complain("cannot start for", socket);
	event_base_dispatch(program.base);
	engine_destroy(program.engine);
	ram_unmap(&program.ram);
	link_close(&program.link);
	ivshmem_close(&program.ivshmem);
	return EXIT_SUCCESS;
}
