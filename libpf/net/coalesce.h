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

/* The first of so many goes at once. */
#define COALESCE_MOST 32
/* A poll is soon if it comes at most so long after the newest post or the last poll returned. */
#define COALESCE_SOON 10000u
/*
 * So many bursts in a row must have been polled for soon before posts wait; twice as many each time
 * that this was wrong. After COALESCE_TRUST_MOST in a row that is forgotten.
 */
#define COALESCE_TRUST_LEAST 16u
#define COALESCE_TRUST_MOST 65536u

/* All 0 at first. Under engine.lock. */
struct coalesce {
	uint64_t newest;   /* when the newest post came, or it or the last poll returned */
	unsigned posts;    /* since the last poll */
	bool waits;        /* the newest one, or what a poll kept back */
	unsigned soon;     /* bursts in a row that a poll followed soon */
	unsigned required; /* of these, beside COALESCE_TRUST_LEAST, before posts wait */
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
	return coalesce->soon >= coalesce->required + COALESCE_TRUST_LEAST;
}

/*
 * A post. True: it may wait. False: send it at once, and those that wait. What a callback posts is
 * often followed by a post of what the application does next: a FIN by a header of the next message.
 */
static inline bool coalesce_post(struct coalesce *coalesce, uint64_t now,
				 enum coalesce_origin origin)
{
	coalesce->newest = now;
	coalesce->waits = origin != COALESCE_UNPOLLED &&
			  (origin == COALESCE_CALLED || coalesce->posts % COALESCE_MOST) &&
			  coalesce_trusts(coalesce);
	coalesce->posts++;
	return coalesce->waits;
}

/* A poll keeps back what it owes. Only with trust. */
static inline void coalesce_keep(struct coalesce *coalesce)
{
	coalesce->waits = true;
}

/* Does the next poll show whether the prediction was right? */
static inline bool coalesce_pending(const struct coalesce *coalesce)
{
	return coalesce->posts || coalesce->waits;
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
	coalesce->posts = 0;
	/* Another thread may have posted since the caller read the clock. */
	if (now > coalesce->newest && now - coalesce->newest > COALESCE_SOON) {
		/* The newest post was kept back wrongly. */
		if (coalesce->waits && coalesce->required < COALESCE_TRUST_MOST / 4)
			coalesce->required = 2 * coalesce->required + COALESCE_TRUST_LEAST;
		coalesce->soon = 0;
	} else if (coalesce->soon < COALESCE_TRUST_MOST &&
		   ++coalesce->soon == COALESCE_TRUST_MOST) {
		coalesce->required = 0;
	}
	coalesce->waits = false;
}

#endif
