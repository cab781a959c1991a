/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network of a context: the protocol core, the carrier of packets, and the thread that drives
 * both.
 *
 * Driving means to receive, to send, and to keep the deadlines of the core. At any time at most 1
 * thread drives, with the flag "driving" set: the thread inside pf_progress; the service thread
 * while the application does not poll; for a moment also a thread that posts (network_post()) or
 * waits for a contact (network_wait()), if no other thread drives. "lock" protects the state of the
 * core with all associations. The driving thread holds the lock, except during callbacks of the
 * application, and while marking a peer as gone (process.c). Then
 * another thread may post (net_send, net_put, net_get, net_atomic), ask for room,
 * begin or give up a contact, and count; no other thread receives. network_close() takes no lock for
 * what it frees: no other thread is in libpf then.
 *
 * Only progress calls the application: events wait in the core while another thread drives.
 */
#ifndef PF_NET_NETWORK_H
#define PF_NET_NETWORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/check.h"
#include "base/clock.h"
#include "coalesce.h"
#include "grace.h"
#include "process.h"
#include "memory.h"
#include "protocol/net.h"
#include "offload.h"
#include "traffic.h"

struct network_watch;

struct network {
	pf_context *context;
	struct net_core *core;
	struct traffic traffic; /* of the carrier, which the network closes */
	char why[CARRIER_WHY];  /* reason for having no carrier */

	pthread_mutex_t lock;
	_Atomic bool driving;
	pthread_t driving_thread;    /* in builds with assertions */
	_Atomic bool posted;         /* something to send since the driving thread looked */
	bool calling;                /* progress drives: callbacks are permitted */
	_Atomic int caller;          /* thread inside a callback, as gettid; 0: none */
	struct coalesce coalesce;    /* posts waiting for the next poll */
	_Atomic bool behind;         /* packets came, and the answer was put off */
	_Atomic bool untold;         /* progress has events to tell to the application */
	struct network_watch *watch; /* events of the service thread */
	struct net_processes processes;
	struct net_memory memory;
	struct offloads offloads;
	struct net_statistics counted; /* counts of the core already added to the statistics */
	uint64_t dropped;              /* packets dropped by the carrier, likewise */
	/* Polls by progress with a look at the sockets; under the lock, as the next three. */
	uint64_t looks;
	bool rare;       /* LOOK_BETWEEN_MOST or more passed between the last two looks */
	bool away;       /* GRACE_FIRST or more passed without a look, and since "polled" */
	uint64_t polled; /* time of the end of the last look with events or packets, ns */
	/* Time of the begin of the last look, or of the end if "rare", ns. */
	_Atomic uint64_t looked;
	/* Time of the last post, or of the end of a look with events or packets, ns. */
	_Atomic uint64_t used;
	_Atomic uint64_t woke; /* time of the last end of a sleep of progress, ns; 0: never */

	/*
	 * Lock of attended, of the watch on the carrier and of the grace period. A thread holds the
	 * lock for a moment, with or without "lock".
	 */
	pthread_mutex_t attending;
	_Atomic bool attended; /* the service thread attends: write "wake" for news */
	/* Progress does not look at the sockets: the service thread has to attend. */
	_Atomic bool sleeps;
	_Atomic bool awaited; /* the service thread attends, and waits until no thread drives */
	int wake;             /* eventfd: makes the service thread look at once */
	int timer; /* timerfd: makes the service thread look at timer_end; set under the lock */
	uint64_t timer_end; /* end of the timer, ns */
	struct grace grace; /* grace period; runs while the service thread does not attend */
	int grace_timer;    /* timerfd: end of the grace period */
	unsigned late; /* packets of the present drive that came while the application was away */
};

/*
 * Open sockets on the interfaces chosen by the options, and put the endpoints into the address of
 * the context. *network is zeroed. Without a network, return PF_ERR_UNREACHABLE with the reason in
 * *why, a static text or a text in *network.
 */
int network_open(struct network *network, pf_context *context, const char **why);
/* Before the service thread ends: wait a moment until the packets sent have arrived. */
void network_linger(struct network *network);
/* State of a thread waiting for packets; all 0 at first. */
struct network_waiter {
	uint64_t stalled; /* begin of a callback of another thread that has the core, ns; 0: none */
	uint64_t pause;   /* length of the next wait, ns */
};
/*
 * Drive, or let the driving thread go on, and wait a moment for packets. The caller does not hold
 * the lock, and no callback is called. Return false if a wait is useless, because a callback of the
 * application has the core: a callback of the calling thread, or a long callback of another thread.
 */
bool network_wait(struct network *network, struct network_waiter *waiter);
/* After the service thread has ended: say goodbye to all peers, and free everything. */
void network_close(struct network *network);

/* The calling thread drives. */
#define assert_driving(network)                                                                    \
	assert_that(atomic_load_explicit(&(network)->driving, memory_order_relaxed) &&             \
		    pthread_equal((network)->driving_thread, pthread_self()))

/* Slow part of network_poll: there are processes to hear from. */
int network_poll_sockets(struct network *network);

/*
 * Progress, or a waiter in place of progress, is about to sleep (true), or has slept (false). The
 * service thread attends to the sockets meanwhile.
 */
void network_sleeps(struct network *network, bool sleeps);

/* Progress: drive, and call the application. Return the number of events and packets. */
static inline int network_poll(struct network *network)
{
	assert_progress(network->context);
	return atomic_load_explicit(&network->processes.active, memory_order_relaxed) ?
		       network_poll_sockets(network) :
		       0;
}

/*
 * Reasons to serve again when another thread has the lock, ns: at once, because of a post, or
 * later.
 */
#define NETWORK_SOON 1u
#define NETWORK_RETRY 1000000u
/*
 * Service thread: drive in place of an absent application. The next call is due at the end of the
 * timer, after a write to "wake", or after *again ns: NET_NEVER, 0, NETWORK_SOON or NETWORK_RETRY.
 * Packets in a socket need no NETWORK_RETRY. Return false if another thread drives; with tell, the
 * driving thread writes "wake" when stopping.
 */
bool network_serve(struct network *network, bool tell, uint64_t *again);
/*
 * After a post to the core: send, and release the lock held by the caller. message: the post is
 * nothing but a message, of length bytes.
 */
void network_post(struct network *network, bool message, size_t length);

/*
 * Service thread: attend from now on. The descriptor of the carrier tells of packets. Return whether
 * the service thread did not attend before. Without memory for epoll a grace period begins instead.
 */
bool network_attend(struct network *network);
/* Return the time of the last poll or post of the application, ns. */
uint64_t network_seen(const struct network *network);
/*
 * Service thread: begin the next grace period at the end of the last. used: processor time of the
 * application's thread, present during the last period, ns; NULL: the thread had no processor.
 */
void network_renew_grace(struct network *network, uint64_t time, const uint64_t *used);

/* Any thread: add the counts of the core to the context's statistics. */
void network_count(struct network *network);

/* Progress, before a sleep: is there anything to send, or to tell to the application? */
static inline bool network_waits(struct network *network)
{
	assert_progress(network->context);
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
	assert_locked(&network->lock, true);
	pthread_mutex_unlock(&network->lock);
}

/* ---- between the files of the network ---- */

static inline uint64_t network_now(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
}

/* drive.c: receive, send and keep the deadlines. Return the number of events and packets. */
unsigned network_drive(struct network *network, unsigned rounds);
/* Send what may go now. Return the number of packets. */
unsigned network_transmit(struct network *network, uint64_t time);
/* Add the counts of the core and of the carrier to the statistics of the context. */
void network_add_counts(struct network *network);
/* network.c: a page was resolved. Wake the service thread if it attends. */
void network_wake_driving_thread(struct net_memory *memory);

#endif
