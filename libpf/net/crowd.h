/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which posts are sent at once, and which wait for each other until the application polls: one
 * system call for many packets costs a fraction of many calls. A post may only wait if a poll will
 * follow soon, because nothing else sends it: a program that posts and then computes would keep its
 * messages back. That is predicted from what happened before. Times are nanoseconds.
 */
#ifndef PF_NET_CROWD_H
#define PF_NET_CROWD_H

#include <stdbool.h>
#include <stdint.h>

/* The first of so many goes at once. */
#define CROWD_MOST 32
/* A poll is soon if it comes at most so long after the newest post: to send takes 2 to 5 us of it. */
#define CROWD_SOON 10000u
/*
 * So many crowds in a row must have been polled for soon before posts wait; twice as many each time
 * that this was wrong. After CROWD_TRUST_MOST in a row that is forgotten.
 */
#define CROWD_TRUST_LEAST 16u
#define CROWD_TRUST_MOST 65536u

/* All 0 at first. Under the lock of the engine. */
struct crowd {
	uint64_t newest;   /* when the newest post since the last poll came */
	unsigned posts;    /* since the last poll */
	unsigned soon;     /* crowds in a row that a poll followed soon */
	unsigned required; /* of these, beside CROWD_TRUST_LEAST, before posts wait */
};

/* A post. True: send it at once, and those that wait. */
static inline bool crowd_post(struct crowd *crowd, uint64_t now)
{
	crowd->newest = now;
	return crowd->posts++ % CROWD_MOST == 0 ||
	       crowd->soon < crowd->required + CROWD_TRUST_LEAST;
}

/* A poll, which sends what waits. */
static inline void crowd_poll(struct crowd *crowd, uint64_t now)
{
	/* The newest post was kept back, wrongly if this is late. */
	bool waited = crowd->posts % CROWD_MOST != 1 &&
		      crowd->soon >= crowd->required + CROWD_TRUST_LEAST;

	if (!crowd->posts)
		return;
	crowd->posts = 0;
	if (now - crowd->newest > CROWD_SOON) {
		if (waited && crowd->required < CROWD_TRUST_MOST / 4)
			crowd->required = 2 * crowd->required + CROWD_TRUST_LEAST;
		crowd->soon = 0;
	} else if (crowd->soon < CROWD_TRUST_MOST && ++crowd->soon == CROWD_TRUST_MOST) {
		crowd->required = 0;
	}
}

#endif
