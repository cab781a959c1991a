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
/* A poll is soon if it comes at most so long after the newest post: to send takes 2 to 5 us of it. */
#define COALESCE_SOON 10000u
/*
 * So many bursts in a row must have been polled for soon before posts wait; twice as many each time
 * that this was wrong. After COALESCE_TRUST_MOST in a row that is forgotten.
 */
#define COALESCE_TRUST_LEAST 16u
#define COALESCE_TRUST_MOST 65536u

/* All 0 at first. Under engine.lock. */
struct coalesce {
	uint64_t newest;   /* when the newest post since the last poll came */
	unsigned posts;    /* since the last poll */
	bool waits;        /* the newest one */
	unsigned soon;     /* bursts in a row that a poll followed soon */
	unsigned required; /* of these, beside COALESCE_TRUST_LEAST, before posts wait */
};

/*
 * A post. True: it may wait. False: send it at once, and those that wait. polled: the application is
 * the one that drives.
 */
static inline bool coalesce_post(struct coalesce *coalesce, uint64_t now, bool polled)
{
	coalesce->newest = now;
	coalesce->waits = polled && coalesce->posts % COALESCE_MOST &&
			  coalesce->soon >= coalesce->required + COALESCE_TRUST_LEAST;
	coalesce->posts++;
	return coalesce->waits;
}

/* A poll, which sends what waits. */
static inline void coalesce_poll(struct coalesce *coalesce, uint64_t now)
{
	if (!coalesce->posts)
		return;
	coalesce->posts = 0;
	if (now - coalesce->newest > COALESCE_SOON) {
		/* The newest post was kept back wrongly. */
		if (coalesce->waits && coalesce->required < COALESCE_TRUST_MOST / 4)
			coalesce->required = 2 * coalesce->required + COALESCE_TRUST_LEAST;
		coalesce->soon = 0;
	} else if (coalesce->soon < COALESCE_TRUST_MOST &&
		   ++coalesce->soon == COALESCE_TRUST_MOST) {
		coalesce->required = 0;
	}
}

#endif
