/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts, each with a core as it is shipped, and a network between them in
 * virtual time. All that happens follows from the seed. A host's memory is an
 * arena whose pages may be absent; the network loses, delays, repeats,
 * reorders and damages packets.
 */
#ifndef PF_TESTS_NET_WORLD_H
#define PF_TESTS_NET_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "net/net.h"

#define WORLD_PAGE 4096u
#define MICROSECOND 1000ull
#define MILLISECOND 1000000ull
#define SECOND 1000000000ull

/* Probabilities are in 2^-32. */
#define PER_MILLION(n) ((uint32_t)((n)*4294.967295))

struct settings {
	unsigned hosts;
	uint64_t seed;
	uint32_t loss, duplicate, corrupt, mark;
	uint32_t reorder; /* delayed by up to jitter more */
	uint64_t delay, jitter;
	uint64_t rate;          /* bytes a second that a host's link carries; 0: any */
	uint64_t queue;         /* bytes that wait for a link, more are lost */
	uint32_t mtu;           /* longest UDP payload that passes */
	uint32_t interface_mtu; /* ... that the interface takes */
	uint32_t too_big;       /* the network says that a packet is longer than passes */
	uint32_t absent;        /* a page is not there when it is looked at after an eviction */
	uint64_t resolve;       /* mean time until it is */
	uint32_t fault;         /* the system cannot read or write memory that is there */
	uint32_t full;          /* it has no room for packets to be sent */
	uint32_t predict;       /* payloads are received where the core foresees them */
	uint32_t away;          /* the host does not look when a packet comes, */
	uint64_t away_time;     /* but so much later, on average */
	bool no_segments;       /* packets are sent one by one */
	size_t arena;
	size_t beyond;       /* bytes behind it that are the host's as well, but not there */
	unsigned paths;      /* between two hosts */
	uint32_t paths_down; /* bits: those that carry nothing */
	bool same_id;        /* of a host that is started again */
	struct net_options options;
};

void settings_init(struct settings *settings);

struct host {
	struct world *world;
	unsigned number;
	struct net_core *core; /* NULL: dead */
	uint8_t id[NET_ID_BYTES], key[NET_KEY_BYTES];
	uint8_t *arena;
	uint8_t *present; /* by page */
	uint64_t timer;   /* scheduled for */
	uint64_t link;    /* busy until */
	uint32_t life;    /* how often it was started */
	bool stopped;     /* takes no packets, which wait or get lost */
	bool away;        /* will look at its packets later */
	uint64_t waiting; /* bytes of them */
	struct packet *queue, **queue_last;
	bool closed;            /* deliver turns messages away */
	unsigned absent_writes; /* place was called for a page that is absent */
	/* Of cores that died. */
	struct net_association **peers; /* by host */
	uint32_t *peer_life;
	bool (*deliver)(struct host *host, struct host *from, uint8_t tag, const void *data,
			size_t length);
	void (*complete)(struct host *host, void *arg, const struct net_completion *completion);
	void (*gone)(struct host *host, struct host *peer, int status);
};

struct world {
	struct settings settings;
	uint64_t now, random;
	struct host *hosts;
	struct events events;
	uint64_t packets, dropped;
	struct packet *free_packets;
	struct sockets *sockets;
	bool failed;
	/* Sees each packet as it is sent. */
	void (*tap)(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		    size_t length);
};

struct world *world_create(const struct settings *settings);
void world_destroy(struct world *world);
/* Handle events until this time, or until done says so (NULL: never). True: it did. */
bool world_run(struct world *world, uint64_t until, bool (*done)(struct world *world));
uint64_t world_random(struct world *world);
bool world_chance(struct world *world, uint32_t probability);
uint64_t world_below(struct world *world, uint64_t limit);
/* Something is wrong: says it once, with the seed. */
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_call(struct world *world, uint64_t time, void (*call)(struct world *world, void *arg),
		void *arg);

/* A packet from nowhere, as if it came from that host. */
void world_inject(struct world *world, unsigned from, unsigned to, const void *bytes,
		  size_t length);

void host_start(struct host *host);
/* Without a word, as kill -9. */
void host_crash(struct host *host);
void host_stop(struct host *host);
void host_continue(struct host *host);
/* The association with a peer's present life, opened if there is none. */
struct net_association *host_peer(struct host *host, unsigned peer);
/* Send what there is to send. Called by itself after events. */
void host_pump(struct host *host);
void host_evict(struct host *host, size_t offset, size_t length);
const struct net_statistics *host_statistics(const struct host *host);
/* Sum of one counter over all hosts. */
uint64_t world_sum(const struct world *world, size_t offset);
#define WORLD_SUM(world, counter) world_sum(world, offsetof(struct net_statistics, counter))

#endif
