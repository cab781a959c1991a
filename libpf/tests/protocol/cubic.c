/* SPDX-License-Identifier: BSD-3-Clause */
#include "cubic.h"

#include <sys/queue.h>

#define FACTOR 0.4 /* RFC 9438, 4.1: C */
#define KEPT 0.7   /* 4.6: beta_cubic */

struct cubic {
	struct world *world;
	struct port *port;
	uint32_t packet;
	double window, threshold; /* packets */
	double most, reno;        /* W_max, W_est */
	uint64_t since;           /* start of the present epoch, 0: none */
	uint64_t next, recover;   /* numbers of packets */
	uint64_t in_flight, bytes;
	LIST_HEAD(, fate) fates; /* under way */
};

/* A packet of it; of several in the queue the times differ. */
struct fate {
	LIST_ENTRY(fate) next;
	struct cubic *cubic;
	uint64_t number, sent;
	bool lost;
};

static void send(struct cubic *cubic);

static double cube_root(double x)
{
	double root = x > 1 ? x : 1;
	unsigned i;

	for (i = 0; i < 60; i++)
		root = (2 * root + x / (root * root)) / 3;
	return root;
}

static void grow(struct cubic *cubic, double rtt)
{
	double time, target, k;

	if (cubic->window < cubic->threshold) {
		cubic->window++;
		return;
	}
	if (!cubic->since) {
		cubic->since = cubic->world->now;
		cubic->reno = cubic->window;
		if (cubic->most < cubic->window)
			cubic->most = cubic->window;
	}
	k = cubic->most > cubic->window * 1.0001 ? cube_root(cubic->most * (1 - KEPT) / FACTOR) : 0;
	time = (double)(cubic->world->now - cubic->since) / 1e9 + rtt - k;
	target = cubic->most + FACTOR * time * time * time;
	cubic->reno += 3 * (1 - KEPT) / (1 + KEPT) / cubic->window;
	if (target > 1.5 * cubic->window)
		target = 1.5 * cubic->window;
	if (target > cubic->window)
		cubic->window += (target - cubic->window) / cubic->window;
	if (cubic->window < cubic->reno)
		cubic->window = cubic->reno;
}

static void settle(struct world *world, void *arg)
{
	struct fate *fate = arg;
	struct cubic *cubic = fate->cubic;

	cubic->in_flight--;
	if (!fate->lost) {
		cubic->bytes += cubic->packet;
		grow(cubic, (double)(world->now - fate->sent) / 1e9);
	} else if (fate->number >= cubic->recover) {
		cubic->most = cubic->window < cubic->most ? cubic->window * (1 + KEPT) / 2 :
							    cubic->window;
		cubic->window *= KEPT;
		if (cubic->window < 2)
			cubic->window = 2;
		cubic->threshold = cubic->window;
		cubic->since = 0;
		cubic->recover = cubic->next;
	}
	LIST_REMOVE(fate, next);
	free(fate);
	send(cubic);
}

static void send(struct cubic *cubic)
{
	struct world *world = cubic->world;

	while ((double)cubic->in_flight + 1 <= cubic->window) {
		struct fate *fate = malloc(sizeof(*fate));
		uint64_t left;
		bool marked;

		if (!fate)
			abort();
		*fate = (struct fate){ .cubic = cubic,
				       .number = cubic->next++,
				       .sent = world->now };
		LIST_INSERT_HEAD(&cubic->fates, fate, next);
		left = cubic->port->busy > world->now ? cubic->port->busy : world->now;
		fate->lost = !port_queue(world, cubic->port, cubic->packet, &left, &marked);
		cubic->in_flight++;
		world_call(world, left + 2 * world->settings.delay, settle, fate);
	}
}

struct cubic *cubic_start(struct world *world, struct port *port, uint32_t packet)
{
	struct cubic *cubic = calloc(1, sizeof(*cubic));

	if (!cubic)
		abort();
	*cubic = (struct cubic){
		.world = world, .port = port, .packet = packet, .window = 10, .threshold = 1e9
	};
	send(cubic);
	return cubic;
}

uint64_t cubic_bytes(const struct cubic *cubic)
{
	return cubic->bytes;
}

void cubic_free(struct cubic *cubic)
{
	struct fate *fate;

	while ((fate = LIST_FIRST(&cubic->fates))) {
		LIST_REMOVE(fate, next);
		free(fate);
	}
	free(cubic);
}
