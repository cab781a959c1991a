/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When posts are sent: at once, or together when the application polls. A system call for many
 * packets costs a fraction of many calls. A post may only wait if a poll follows soon, because
 * nothing else sends the post: a program that posts and then computes would keep its messages back.
 * A prediction from earlier posts decides. Times are nanoseconds.
 */
#ifndef PF_NET_COALESCE_H
#define PF_NET_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "protocol/net.h"

/* The first post of each COALESCE_MOST goes at once. */
#define COALESCE_MOST 32
/*
 * A post goes at once when the waiting messages have COALESCE_BYTES: beside so many bytes the cost
 * of a system call is little.
 */
#define COALESCE_BYTES (NET_BATCH_BYTES / 2)
/*
 * A poll or a post is soon within COALESCE_SOON ns after the newest post, or after the return of
 * the last poll.
 */
#define COALESCE_SOON 10000u
/*
 * Points decide whether posts wait. Each post with a poll soon after it adds a point. A late poll
 * after a burst subtracts a point for each COALESCE_WAIT ns of waiting, and COALESCE_LATE points at
 * most: an interrupt must not count as much as a computation. Posts wait while there are
 * COALESCE_TRUST points. Points end at COALESCE_POINTS to either side, because programs change.
 * When each late burst cost COALESCE_LATE, a ping-pong of 128 KiB lost its points (1 post in 250
 * was 10 to 30 us late), and took 43 us instead of 39.
 */
#define COALESCE_TRUST 16
#define COALESCE_WAIT 250u
#define COALESCE_LATE 256
#define COALESCE_POINTS 1024

/* Record of recent posts; all 0 at first. Protected by network.lock. */
struct coalesce {
	/* Time of the newest post, or of its return, or of the return of the last poll. */
	uint64_t newest;
	unsigned posts; /* posts since the last poll */
	size_t bytes;   /* bytes of messages posted since a post or a poll last sent what waited */
	bool waits;     /* the newest post waits, or a poll kept something back */
	int points;
};

/* Origin of a post. */
enum coalesce_origin {
	COALESCE_UNPOLLED, /* the service thread drives: no poll will send the post */
	COALESCE_POLLED,
	COALESCE_CALLED, /* a message of a callback inside a poll: even the first post waits */
};

/* Is a poll predicted to follow soon? */
static inline bool coalesce_trusts(const struct coalesce *coalesce)
{
	return coalesce->points >= COALESCE_TRUST;
}

/* Does the next poll show whether the prediction was right? */
static inline bool coalesce_pending(const struct coalesce *coalesce)
{
	return coalesce->posts || coalesce->waits;
}

/* With something pending, when the application is back: is it late? */
static inline bool coalesce_is_late(const struct coalesce *coalesce, uint64_t now)
{
	/* Another thread may have posted since the caller read the clock. */
	return now > coalesce->newest && now - coalesce->newest > COALESCE_SOON;
}

static inline void coalesce_count_late(struct coalesce *coalesce, uint64_t now)
{
	uint64_t cost = (now - coalesce->newest) / COALESCE_WAIT;

	coalesce->points -= cost < COALESCE_LATE ? (int)cost : COALESCE_LATE;
	if (coalesce->points < -COALESCE_POINTS)
		coalesce->points = -COALESCE_POINTS;
}

/* Before a post: count the post before it as late, if keeping that back was wrong. */
static inline void coalesce_judge(struct coalesce *coalesce, uint64_t now)
{
	if (coalesce->waits && coalesce_is_late(coalesce, now))
		coalesce_count_late(coalesce, now);
}

/* Time at which a post is sent, with all that waits. */
enum coalesce_when {
	COALESCE_NOW,
	COALESCE_AFTER_CALLBACK,
	COALESCE_NEXT_POLL,
};

/*
 * Record a post with a message of so many bytes, and decide when to send. The application often
 * posts again after a callback: the header of the next message follows a FIN. Therefore even the
 * first post of a callback waits.
 */
static inline enum coalesce_when coalesce_post(struct coalesce *coalesce, uint64_t now,
					       enum coalesce_origin origin, size_t bytes)
{
	bool called = origin == COALESCE_CALLED, first = coalesce->posts++ % COALESCE_MOST == 0;

	coalesce->newest = now;
	coalesce->waits = false;
	coalesce->bytes += bytes;
	if (coalesce->bytes < COALESCE_BYTES) {
		coalesce->waits = origin != COALESCE_UNPOLLED && (called || !first) &&
				  coalesce_trusts(coalesce);
		if (coalesce->waits)
			return COALESCE_NEXT_POLL;
		if (called)
			return COALESCE_AFTER_CALLBACK;
	}
	coalesce->bytes = 0;
	return COALESCE_NOW;
}

/* A poll keeps acknowledgements back. Permitted only while coalesce_trusts(). */
static inline void coalesce_keep(struct coalesce *coalesce)
{
	assert_that(coalesce_trusts(coalesce));
	coalesce->waits = true;
}

/* A post returns, or a poll with something pending: measure lateness from now on. */
static inline void coalesce_return(struct coalesce *coalesce, uint64_t now)
{
	coalesce->newest = now;
}

/* A poll sends what waits: judge the prediction. */
static inline void coalesce_poll(struct coalesce *coalesce, uint64_t now)
{
	if (!coalesce_pending(coalesce))
		return;
	if (coalesce_is_late(coalesce, now))
		coalesce_count_late(coalesce, now);
	else
		coalesce->points += coalesce->posts ? (int)coalesce->posts : 1;
	if (coalesce->points > COALESCE_POINTS)
		coalesce->points = COALESCE_POINTS;
	coalesce->posts = 0;
	coalesce->bytes = 0;
	coalesce->waits = false;
}

#endif
