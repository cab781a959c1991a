/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport to processes of this host, as the context uses it. */
#ifndef PF_HOST_H
#define PF_HOST_H

#include "answer.h"
#include "polling.h"
#include "state.h"

struct host {
	struct polling polling; /* what every poll looks at comes first */
	struct answers answers;
	struct host_state state;
};

/* The address of the context must be known. PF_OK, or an error with nothing left open. */
int host_open(struct host *host, pf_context *context);
/* Before service_stop: wait until peers write to no buffer of this process's transfers any more. */
void host_linger(struct host *host);
/* After service_stop: tell all peers that this process closes, and close the connections. */
void host_disconnect(struct host *host);
/* After host_disconnect: free everything but the peers' records. No callbacks. */
void host_close(struct host *host);

/* For host_poll and host_advance: the parts that an empty poll does not need. */
int host_handle_notices(struct host *host);
int host_advance_operations(struct host *host);

/* Progress: read messages, handle notices. Returns how many things happened. */
static inline int host_poll(struct host *host)
{
	int count = polling_poll(&host->polling);

	if (__builtin_expect(notices_waiting(&host->state.notices), 0))
		count += host_handle_notices(host);
	return count;
}

/* Progress, after operations_collect: advance them. Returns how many things happened. */
static inline int host_advance(struct host *host)
{
	int count = 0;

	if (operations_active(&host->state.context->operations))
		count = host_advance_operations(host);
	if (__builtin_expect(host->answers.first != NULL, 0))
		count += answers_advance(&host->answers);
	return count;
}

/* Any thread: wake progress if it sleeps. */
void host_wake(pf_context *context);
/*
 * Progress, after a poll in which nothing happened: may it sleep until it is woken? False:
 * nothing announces the next step of something under way.
 */
bool host_may_sleep(struct host *host);
/*
 * Progress: does every peer with a channel to this process ring for its messages? A peer does
 * once it knows this process's inbox; until then its messages wait for the next poll.
 */
static inline bool host_all_ring(const struct host *host)
{
	return !host->polling.silent;
}

/*
 * Progress: from now on writers ring for every message and wake a sleep at once, whatever the
 * options say. False: it is too late, because a writer may know this process's inbox already.
 */
bool host_ring_always(struct host *host);
/* Progress: announce a sleep: whatever happens after this call returns wakes it. */
void host_announce_sleep(struct host *host);
/* Is a sleep announced INBOX_ANNOUNCED_POLLS ahead? Peers rely on it. */
static inline bool host_announces_ahead(const struct host *host)
{
	return inbox_sleeper(host->state.inbox.memory) == INBOX_SLEEPS_ANNOUNCED;
}

/* Progress, announced, just before host_has_work: have /dev/exanest wake it, too. */
void host_prepare_sleep(struct host *host);
/* Progress, announced: is there anything to do after all? */
bool host_has_work(struct host *host);
/* Progress, announced: sleep until woken, at most so long; or do not sleep. The announcement stays. */
enum inbox_slept host_sleep(struct host *host, uint64_t microseconds);
void host_stay_awake(struct host *host);
/*
 * Progress: is this process connecting to a peer? Then a poll in which nothing happened sleeps for
 * a moment: the service thread, which makes the connection, may have the same processor, and a
 * thread that polls keeps it for up to a tick of the kernel (4 ms).
 */
static inline bool host_is_connecting(const struct host *host)
{
	return atomic_load_explicit(&((struct host *)(uintptr_t)host)->state.connect_sleeps,
				    memory_order_relaxed) != 0;
}

/* Sleep HOST_CONNECT_SLEEP_MICROSECONDS at most, while this process is connecting; the announcement ends. */
enum inbox_slept host_connect_sleep(struct host *host);
/* Progress, about to sleep, or to let another thread sleep: note which peers ring. now: ns. */
void host_settle(struct host *host, uint64_t now);

#endif
