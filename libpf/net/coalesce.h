/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which posts are sent at once, and which wait for each other until the application polls: one
 * system call for many packets costs a fraction of many calls. A post may only wait if a poll will
 * follow soon, because nothing else sends it: a program that posts and then computes would keep its
 * messages back. That is predicted from what happened before. Times are nanoseconds.
 */
#ifndef PF_NET_COALESCE_H
#define PF_NET_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/net.h"

/* The first of so many posts goes at once. */
#define COALESCE_MOST 32
/* So does a post when the messages that wait have so many bytes: beside these a system call is little. */
#define COALESCE_BYTES (NET_BATCH_BYTES / 2)
/* A poll or a post is soon if it comes at most so long after the newest post or the last poll returned. */
#define COALESCE_SOON 10000u
/*
 * Each post that was polled for soon is a point. A burst that was not costs what it waited, a point for each
 * COALESCE_WAIT ns, but COALESCE_LATE points at the most: an interrupt must not count as much as a computation.
 * Posts wait from COALESCE_TRUST points on. Beyond COALESCE_POINTS to either side nothing is counted: programs
 * change. When every late burst cost COALESCE_LATE, a ping-pong of 128 KiB, of whose posts one in 250 was 10
 * to 30 us late, was not trusted, and took 43 us instead of 39.
 */
#define COALESCE_TRUST 16
#define COALESCE_WAIT 250u
#define COALESCE_LATE 256
#define COALESCE_POINTS 1024

/* All 0 at first. Under network.lock. */
struct coalesce {
	uint64_t newest; /* when the newest post came, or it or the last poll returned */
	unsigned posts;  /* since the last poll */
	size_t bytes;    /* of messages posted since one or a poll sent what waited */
	bool waits;      /* the newest one, or what a poll kept back */
	int points;
};

/* Where a post comes from. */
enum coalesce_origin {
	COALESCE_UNPOLLED, /* the service thread drives: no poll will send the post */
	COALESCE_POLLED,
	COALESCE_CALLED, /* a message of a callback inside a poll: the first one waits, too */
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

/* Something is pending, and now the application is back. Was that soon? */
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

/* Before a post: was the one before it kept back wrongly? */
static inline void coalesce_judge(struct coalesce *coalesce, uint64_t now)
{
	if (coalesce->waits && coalesce_is_late(coalesce, now))
		coalesce_count_late(coalesce, now);
}

/* When a post is sent, and all that wait with it. */
enum coalesce_when {
	COALESCE_NOW,
	COALESCE_AFTER_CALLBACK,
	COALESCE_NEXT_POLL,
};

/*
 * A post, with a message of so many bytes. What a callback posts is often followed by a post of what the
 * application does next, a FIN by a header of the next message: so the first one of it waits, too.
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

/* A poll keeps back what it owes. Only with trust. */
static inline void coalesce_keep(struct coalesce *coalesce)
{
	coalesce->waits = true;
}

/* A post returns, or a poll with something pending: what counts is what the application does now. */
static inline void coalesce_return(struct coalesce *coalesce, uint64_t now)
{
	coalesce->newest = now;
}

/* A poll, which sends what waits. */
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
