/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polls of a process that waits. With pf_options.wake, for processes that share processors, the
 * process yields the processor, and sleeps once polls have found nothing for long.
 */
#ifndef TOOLS_WAITING_H
#define TOOLS_WAITING_H

#include <stdbool.h>

#include <libpf/pf.h>

#define WAITING_YIELD_FIRST 32  /* empty polls before the first yield */
#define WAITING_YIELD_EACH 4    /* empty polls between two yields */
#define WAITING_SLEEP_FIRST 100 /* empty polls before the first sleep */
#define WAITING_SLEEP 10000     /* longest sleep of a program that looks at a clock, too, us */

struct waiting {
	bool wake;      /* pf_options.wake of the context */
	unsigned sleep; /* longest, us; 0: none, only yields */
	unsigned empty; /* empty polls in a row */
};

/* Returns how many things happened. */
static inline int waiting_poll(struct waiting *waiting, pf_context *context)
{
	int count;

	if (!waiting->wake || waiting->empty < WAITING_YIELD_FIRST ||
	    waiting->empty % WAITING_YIELD_EACH)
		count = pf_progress(context);
	else
		count = pf_wait(context, waiting->empty < WAITING_SLEEP_FIRST ? 0 : waiting->sleep);
	waiting->empty = count ? 0 : waiting->empty + 1;
	return count;
}

#endif
