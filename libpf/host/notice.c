/* SPDX-License-Identifier: BSD-3-Clause */
#include "notice.h"

#include <stdlib.h>

#include "base/allocate.h"

void notice_push(struct notices *notices, struct notice *notice)
{
	notice->next = atomic_load_explicit(&notices->newest, memory_order_relaxed);
	/* Release: progress takes the stack with acquire, and sees the contents of the notice. */
	while (!atomic_compare_exchange_weak_explicit(&notices->newest, &notice->next, notice,
						      memory_order_release, memory_order_relaxed))
		;
}

void notices_report(struct notices *notices, const struct notice *notice)
{
	struct notice *copy = allocate_or_wait(sizeof(*copy));

	*copy = *notice;
	notice_push(notices, copy);
	inbox_wake(notices->inbox, INBOX_SLEEPS_AT_ONCE);
}

bool notices_report_gone(struct notices *notices, pf_peer *peer, int status, const char *why)
{
	struct notice *notice = calloc(1, sizeof(*notice));

	if (!notice)
		return false;
	notice->kind = NOTICE_GONE;
	notice->peer = peer;
	notice->status = status;
	notice->why = why;
	notice_push(notices, notice);
	return true;
}

static struct notice *notices_reverse(struct notice *notice)
{
	struct notice *reversed = NULL;

	while (notice) {
		struct notice *next = notice->next;

		notice->next = reversed;
		reversed = notice;
		notice = next;
	}
	return reversed;
}

struct notice *notices_take(struct notices *notices)
{
	return notices_reverse(
		atomic_exchange_explicit(&notices->newest, NULL, memory_order_acquire));
}

void notices_put_back(struct notices *notices, struct notice *oldest)
{
	struct notice *newest = NULL, *none, **last;

	do {
		/* In front of notices pushed meanwhile. */
		if (newest)
			oldest = notices_reverse(newest);
		for (last = &oldest; *last; last = &(*last)->next)
			;
		*last = notices_take(notices);
		newest = notices_reverse(oldest);
		none = NULL;
	} while (!atomic_compare_exchange_strong_explicit(
		&notices->newest, &none, newest, memory_order_release, memory_order_relaxed));
}
