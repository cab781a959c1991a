/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread's look after the network. While the application polls,
 * the thread only looks at the end of a grace period whether it still does
 * (grace.h). When it does not, the sockets and the core's deadline wake the
 * thread, which drives in its place; with nothing to do it sleeps.
 */
#ifndef PF_NET_WATCH_H
#define PF_NET_WATCH_H

#include "network.h"

struct event_base;
struct network_watch;

/* Before the service thread starts: PF_OK, PF_ERR_MEMORY or PF_ERR_SYSTEM. */
int network_watch_create(struct network_watch **watch, struct event_base *base,
			 struct network *network);
/* After it has ended; NULL is allowed. */
void network_watch_destroy(struct network_watch *watch);

#endif
