/* SPDX-License-Identifier: BSD-3-Clause */
/* Future events of a world: a heap ordered by time, then by order of creation. */
#ifndef PF_TESTS_NET_EVENTS_H
#define PF_TESTS_NET_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/net.h"

struct world;
struct host;
struct packet;

enum event_kind { EVENT_PACKET, EVENT_SWITCH, EVENT_TIMER, EVENT_VISIT, EVENT_RESOLVE, EVENT_CALL };

struct event {
	uint64_t time, order;
	enum event_kind kind;
	struct host *host;
	union {
		struct packet *packet;
		struct {
			struct net_token token;
			size_t first, count;
			uint32_t life;
		} * resolve;
		struct {
			void (*call)(struct world *world, void *arg);
			void *arg;
		} call;
	};
};

struct events {
	struct event *heap; /* the first is not used */
	size_t count, room;
	uint64_t order;
};

void events_push(struct events *events, struct event event);
/* The queue must not be empty. */
struct event events_pop(struct events *events);

#endif
