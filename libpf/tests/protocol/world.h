/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts, each with a core as it is shipped, and a network between them, in virtual time. The seed
 * determines all that happens. A host's memory is an arena whose pages may be absent; the network
 * loses, delays, duplicates, reorders and corrupts packets.
 */
#ifndef PF_TESTS_NET_WORLD_H
#define PF_TESTS_NET_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "protocol/net.h"

#define WORLD_PAGE 4096u
#define WORLD_PORT 7777
#define MICROSECOND 1000ull
#define MILLISECOND 1000000ull
#define SECOND 1000000000ull

struct carrier;
struct carrier_report;
struct traffic;

/* Probabilities are in 2^-32. */
#define PER_MILLION(n) ((uint32_t)((n)*4294.967295))

struct settings {
	unsigned hosts;
	uint64_t seed;
	uint32_t loss, duplicate, corrupt, mark;
	uint32_t reorder; /* an additional delay of up to jitter */
	uint64_t delay, jitter;
	uint64_t rate;       /* of a host's link, bytes a second; 0: unlimited */
	uint64_t queue;      /* bytes that can wait for a link, more are lost */
	uint64_t mark_above; /* packets that find more bytes waiting are marked; 0: none */
	uint32_t framing;    /* bytes that a packet takes on a link in addition to its own */
	bool uplinks;        /* a host sends at the rate of its link, too, and has no limit there */
	unsigned together;   /* so many hosts, from 0 on, share one link */
	uint32_t mtu;        /* longest UDP payload that the network carries */
	uint32_t interface_mtu; /* longest UDP payload that the interface accepts */
	uint32_t too_big;       /* the network reports a packet that is too long */
	uint32_t absent;        /* pages are evicted after an operation */
	uint64_t resolve;       /* mean time to resolve a page fault */
	uint32_t fault;         /* a system call reports a fault in present memory */
	uint32_t no_memory;     /* a payload cannot be placed for lack of memory */
	uint32_t full;          /* the socket has no room for packets to be sent */
	uint32_t predict;       /* payloads are received where the core predicts them */
	uint32_t away;          /* the host handles a packet or a timer late, */
	uint64_t away_time;     /* on average by this time */
	bool asks_again;        /* of net_memory_operations */
	bool memory;            /* the carrier is in memory, without sockets */
	bool no_segments;       /* packets are sent one by one */
	size_t arena;
	size_t beyond;       /* bytes behind the arena that belong to the host and are not mapped */
	unsigned paths;      /* between two hosts */
	uint32_t paths_down; /* bit mask of paths that carry nothing */
	uint32_t unreached;  /* bit mask of hosts that no packet reaches */
	unsigned reports;    /* that a port is closed: hosts send no more in all */
	struct net_options options;
};

void settings_init(struct settings *settings);

/* The switch's end of a link to a host, or to several. */
struct port {
	uint64_t busy; /* until then */
	uint64_t packets, bytes, dropped, marked;
	uint64_t longest; /* bytes that waited at most */
};

struct host {
	struct world *world;
	unsigned number;
	struct net_core *core; /* NULL: dead */
	uint8_t id[NET_ID_BYTES], key[NET_KEY_BYTES];
	uint8_t *arena;
	size_t arena_size; /* bytes, with what is beyond */
	uint8_t *present;  /* by page */
	uint64_t timer;    /* time of its next timer event */
	struct port *port; /* of the switch */
	uint64_t uplink;   /* time until which it is busy */
	uint32_t life;     /* number of starts */
	bool stopped;      /* handles no packets, which wait or get lost */
	bool away;         /* will handle its packets later */
	uint64_t waiting;  /* wire_charge of the packets that wait */
	struct packet *queue, **queue_last;
	bool closed;                           /* takes no messages, or other events */
	enum net_lent lent;                    /* how packets are handed in, unless it is closed */
	unsigned in_pieces;                    /* messages that were taken in several pieces */
	unsigned absent_writes;                /* number of place calls for an absent page */
	unsigned memory_errors;                /* so many place calls from now on find no memory */
	unsigned places, places_many, gathers; /* number of calls */
	unsigned sources,
		sources_most; /* calls about foreign blocks; more are refused; 0: no limit */
	/* By host: the association with it, and its life at that time. */
	struct net_association **peers;
	uint32_t *peer_life;
	void (*deliver)(struct host *host, struct host *from, uint32_t tag, const void *data,
			size_t length);
	void (*complete)(struct host *host, void *arg, const struct net_completion *completion);
	void (*notice)(struct host *host, struct host *from, const struct net_event *event);
	void (*gone)(struct host *host, struct host *peer, int status, const char *why);
	void (*unanswered)(struct host *host, struct host *peer, const char *why);
};

struct world {
	struct settings settings;
	uint64_t now, random;
	struct host *hosts;
	struct port *ports;
	struct events events;
	uint64_t packets, dropped;
	struct packet *free_packets;
	struct carrier *carrier;
	struct traffic *traffic; /* of the host that acts */
	pthread_mutex_t lock;    /* held: no other thread is in a world */
	struct host *acting;
	unsigned corrupt;                    /* corrupt packets received and not handed in yet */
	const struct carrier_report *report; /* NULL: none */
	bool failed;
	/* Called for each packet that is sent; for each that reaches its host. */
	void (*tap)(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		    size_t length);
	void (*reached)(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			size_t length);
};

struct world *world_create(const struct settings *settings);
void world_destroy(struct world *world);
/* Handle events until this time, or until done (if not NULL) returns true. True: it did. */
bool world_run(struct world *world, uint64_t until, bool (*done)(struct world *world));
/* Handle events for this time. */
void world_pass(struct world *world, uint64_t time);
uint64_t world_random(struct world *world);
bool world_chance(struct world *world, uint32_t probability);
uint64_t world_below(struct world *world, uint64_t limit);
/* Report the first failure, with the seed. */
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_call(struct world *world, uint64_t time, void (*call)(struct world *world, void *arg),
		void *arg);

/*
 * Queue this many bytes at a port. False: it has no room. *time: when the last of them leaves;
 * *marked: they were, if that is allowed.
 */
bool port_queue(struct world *world, struct port *port, uint32_t length, uint64_t *time,
		bool *marked);

/* Deliver a forged packet, as if it came from that host. */
void world_inject(struct world *world, unsigned from, unsigned to, const void *bytes,
		  size_t length);

/* The endpoint of this host on a path. */
struct net_endpoint world_endpoint(unsigned number, unsigned path);

void host_start(struct host *host);
/* End without a packet, like kill -9. */
void host_crash(struct host *host);
void host_stop(struct host *host);
void host_continue(struct host *host);
/* The association with a peer's present life, opened if there is none. */
struct net_association *host_peer(struct host *host, unsigned peer);
/* A remote or local address in the arena. */
uint64_t host_address(const struct host *host, size_t offset);

static inline pf_piece world_piece(uint64_t local, uint64_t remote, size_t length)
{
	return (pf_piece){ (void *)(uintptr_t)local, remote, length };
}
/* Post a transfer from or to another host's arena, which must be accepted, and send. */
void host_put(struct host *host, size_t offset, unsigned peer, size_t peer_offset, size_t length,
	      void *arg);
void host_put_signal(struct host *host, size_t offset, unsigned peer, size_t peer_offset,
		     size_t length, const pf_signal *signal, void *arg);
void host_get(struct host *host, size_t offset, unsigned peer, size_t peer_offset, size_t length,
	      void *arg);
/* Take what happened in the core, unless the host is closed. Happens without this call. */
void host_take(struct host *host);
/* The network reports to a host. */
void host_report(struct host *host, const struct carrier_report *report);
/* Send what is to be sent. Happens without this call after events. */
void host_pump(struct host *host);
void host_evict(struct host *host, size_t offset, size_t length);
const struct net_statistics *host_statistics(const struct host *host);
/* Sum of one counter over all hosts. */
uint64_t world_sum(const struct world *world, size_t offset);
#define WORLD_SUM(world, counter) world_sum(world, offsetof(struct net_statistics, counter))

#endif
