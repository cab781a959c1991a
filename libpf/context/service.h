/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread: accepts peers, notices when they end, and has faults
 * resolved, whether or not the application is inside pf_progress. It sleeps
 * otherwise.
 */
#ifndef PF_SERVICE_H
#define PF_SERVICE_H

#include <stdbool.h>

#include "pf.h"

struct service;

int service_start(pf_context *context, struct service **service);
/* Says good-bye to all peers and ends the thread. */
void service_stop(struct service *service);
/*
 * Under the peer's lock: hand the peer's channel over to its process. PF_OK:
 * messages may be written to it; an EVENT_LINKED or EVENT_GONE will follow.
 */
int service_connect(struct service *service, pf_peer *peer);
/*
 * Have a range resolved by the peer that owns it, or here if peer is NULL: at
 * once where that is quick. An EVENT_RESOLVED with the token follows, unless
 * the peer goes.
 */
int service_resolve(struct service *service, pf_peer *peer, uint64_t token, uint64_t address,
		    uint64_t length, bool write);

/* Any thread: have the messages of this userfaultfd answered (pager_answer), until the service stops. */
int service_watch_pagers(struct service *service, int userfault);

/* Have progress woken from its sleep by the next completion of /dev/exanest. */
void service_await_device(struct service *service);

/* Have a 2 MiB range of our own memory made a huge page, some time, where that does no harm. */
void service_collapse(struct service *service, uint64_t address);

#endif
