/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transports of a context: the functions of common/transport.h, for all of them. The table in
 * transports.c lists the transports. Of context/, contents.h and the inline polls below name the host
 * transport, and capability.c describes all; the rest names none.
 */
#ifndef PF_TRANSPORTS_H
#define PF_TRANSPORTS_H

#include "contents.h"

/* Bytes of a context and of the states of its transports. */
size_t transports_contents_size(void);
/* PF_OK, or an error with nothing left open and errno of the failure. */
int transports_open(pf_context *context);
/* In this order: before the service thread ends, after its end, and after memory_stop. */
void transports_linger(pf_context *context);
void transports_disconnect(pf_context *context);
void transports_close(pf_context *context);
/* Any thread: the statistics of the context are up to date. */
void transports_count(pf_context *context);

/* Any thread: the transport that reaches an address from here, or NULL. *why: how, or why not. */
const struct transport *transports_choose(const pf_context *context, const struct address *address,
					  const char **why);
/*
 * Any thread: the transport by which a process with this address called this process. A transport
 * that does not reach the address reports that later.
 */
const struct transport *transports_back(const pf_context *context, const struct address *address);

/* For transports_poll: all but the first transport. */
int transports_poll_others(pf_context *context);

/*
 * Progress: poll all transports, and advance the operations. Return how many things happened. The poll of
 * the first transport is inline, because the latency of short messages consists of such polls.
 */
static inline int transports_poll(pf_context *context)
{
	struct host *host = host_of(context);
	int count = host_poll(host);

	if (__builtin_expect(atomic_load_explicit(&context->polled, memory_order_relaxed), 0))
		count += transports_poll_others(context);
	operations_collect(&context->operations);
	return count + host_advance(host);
}

/* Progress: functions of common/transport.h, for all transports. */
bool transports_may_sleep(pf_context *context);
bool transports_have_news(pf_context *context);
void transports_prepare_sleep(pf_context *context);
void transports_prepare_yield(pf_context *context);
void transports_set_sleeping(pf_context *context, bool sleeps);
bool transports_all_ring(pf_context *context);
bool transports_allow_waiter(pf_context *context);
/* Progress: the same for the first transport, in which progress sleeps. */
uint64_t transports_sleep_ahead(const pf_context *context);
void transports_announce_sleep(pf_context *context);
enum slept transports_sleep(pf_context *context, uint64_t microseconds);
void transports_leave_sleep(pf_context *context);

#endif
