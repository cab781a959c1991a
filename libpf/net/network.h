/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol core of a context, its sockets, and who drives them.
 *
 * Driving is receiving, sending and looking after time. One thread at a time
 * drives ("driving"): the one inside pf_progress, or the service thread while
 * the application does not poll. The core's state is under "lock", which the
 * driver holds but for the application's callbacks: during these other threads
 * may post (net_send, net_put, net_get, net_atomic), and begin or give up a contact, but
 * none receives.
 *
 * Only progress calls the application: events that come up while the service
 * thread drives wait in the core.
 */
#ifndef PF_NET_NETWORK_H
#define PF_NET_NETWORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "coalesce.h"
#include "grace.h"
#include "process.h"
#include "memory.h"
#include "protocol/net.h"
#include "offload.h"
#include "socket.h"

#define SOCKETS_MOST (2 * INTERFACES_MOST)

struct network {
	pf_context *context;
	struct net_core *core;
	struct interface interfaces[INTERFACES_MOST];
	/* One for each interface, then a second one for each. */
	struct socket sockets[SOCKETS_MOST];
	unsigned count; /* of interfaces */
	struct receiver *receiver;
	struct net_batch *batches; /* SEND_BATCHES */
	uint8_t *rooms;            /* one for each batch, unless PF_AUTH_HEADER */

	pthread_mutex_t lock;
	_Atomic bool driving;
	_Atomic bool posted;        /* something to send since the driver looked */
	bool calling;               /* progress drives: the application may be called */
	_Atomic int caller;         /* the thread that is calling, 0: none */
	const struct socket *heard; /* by which something came last; the driver's own */
	bool held;                  /* the sockets did not take all that may be sent */
	struct coalesce coalesce;   /* posts that wait for the next poll */
	_Atomic bool behind;        /* packets came that were not answered yet */
	_Atomic bool untold;        /* progress has something to tell the application */
	struct net_processes processes;
	struct net_memory memory;
	struct offloads offloads;
	struct net_statistics counted; /* that the context's statistics have */
	uint64_t dropped;              /* by the sockets, likewise */
	uint64_t looks;                /* of progress at the sockets; under lock, as the next one */
	bool rare;                     /* LOOK_BETWEEN_MOST or more passed between the last two */
	bool away;                     /* GRACE_FIRST or more, since polled too */
	uint64_t polled;               /* ns: when the last one that found something ended */
	_Atomic uint64_t looked;       /* ns: when the last one began, or ended if it was rare */
	_Atomic uint64_t used; /* ns: when one that found something ended, or something was posted */
	_Atomic uint64_t woke; /* ns: when progress slept last, 0: never */

	/* Held for a moment, inside lock or alone: attended, what "readable" has, and the grace period. */
	pthread_mutex_t attending;
	_Atomic bool attended; /* the service thread serves us: wake it */
	int readable;          /* epoll: of the sockets, while attended */
	_Atomic bool sleeps;   /* progress does not look at the sockets: the thread is to attend */
	_Atomic bool awaited;  /* it does, and waits for the thread that drives to stop */
	int wake;              /* eventfd: the thread looks now */
	int timer;             /* timerfd: ... at timer_end; set under the lock */
	uint64_t timer_end;    /* ns */
	struct grace grace;    /* runs while it does not attend */
	int grace_timer;       /* timerfd: the end of its period */
	unsigned late;         /* packets of this drive that came while the application was away */
};

/*
 * Sockets on the interfaces that the options choose; their endpoints go into the
 * context's address. PF_OK with *network NULL and *why, static or the context's, if there
 * is no network.
 */
int network_open(pf_context *context, struct network **network, const char **why);
/* Before the service thread ends: wait a moment for what was sent to arrive. */
void network_linger(struct network *network);
/* A thread that waits for packets; at first 0. */
struct network_waiter {
	uint64_t stalled; /* since when a callback of another thread has the core, ns; 0: none */
	uint64_t pause;   /* length of the next wait, ns */
};
/*
 * Drive, or let the thread that drives go on, and wait a moment for packets. Without
 * the lock, and without calling the application. False: there is no use in waiting,
 * because a callback of the application has the core, this thread's or for long another's.
 */
bool network_wait(struct network *network, struct network_waiter *waiter);
/* After the service thread has ended: say goodbye, and forget everything. */
void network_close(struct network *network);

static inline unsigned network_sockets(const struct network *network)
{
	return 2 * network->count;
}

/* For network_poll: there are processes. */
int network_poll_sockets(struct network *network);

/*
 * Progress is about to sleep, or a waiter may do so in its place; or it has slept. The service thread
 * listens to the sockets meanwhile.
 */
void network_sleeps(struct network *network, bool sleeps);

/* Progress: drive, call the application. Returns how many things happened. */
static inline int network_poll(struct network *network)
{
	return atomic_load_explicit(&network->processes.active, memory_order_relaxed) ?
		       network_poll_sockets(network) :
		       0;
}

/* Another thread has the lock: serve again at once, as something was posted, or after a while; ns. */
#define NETWORK_SOON 1u
#define NETWORK_RETRY 1000000u
/*
 * The service thread: drive in place of an application that does not poll, and
 * again when the timer ends or wake is written, or after *again ns: NET_NEVER, 0 or
 * these two; NETWORK_RETRY is not needed for what a socket has. False: another
 * thread drives; asked to tell, it will write wake when it stops.
 */
bool network_serve(struct network *network, bool tell, uint64_t *again);
/*
 * With the lock, which it gives back, after posting to the core: send what may go now.
 * message: nothing but a message was posted, with so many bytes.
 */
void network_post(struct network *network, bool message, size_t length);

/*
 * The service thread: it attends from now on, and "readable" says when there are packets. Returns whether
 * it did not before. Without memory for that it does not, and a grace period begins.
 */
bool network_attend(struct network *network);
/* When the application polled or posted last, ns. */
uint64_t network_seen(const struct network *network);
/*
 * The service thread, at the end of a grace period: another one begins. used: processor time of the
 * application's thread, which was there; NULL: it had no processor.
 */
void network_renew_grace(struct network *network, uint64_t time, const uint64_t *used);

/* Any thread: the context's statistics are as the core counted. */
void network_count(struct network *network);

/* Progress, before it sleeps: is there anything for it to send or to tell? */
static inline bool network_waits(struct network *network)
{
	return atomic_load_explicit(&network->posted, memory_order_relaxed) ||
	       atomic_load_explicit(&network->behind, memory_order_relaxed) ||
	       atomic_load_explicit(&network->untold, memory_order_relaxed);
}

static inline void network_lock(struct network *network)
{
	pthread_mutex_lock(&network->lock);
}

static inline bool network_trylock(struct network *network)
{
	return !pthread_mutex_trylock(&network->lock);
}

static inline void network_unlock(struct network *network)
{
	pthread_mutex_unlock(&network->lock);
}

#endif
