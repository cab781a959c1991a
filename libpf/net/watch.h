/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of the network on the service thread. While the application polls, the service thread only
 * looks, at the end of a grace period, whether the application still polls (grace.h). After the
 * last poll, the sockets and the deadline of the core wake the service thread, which drives in
 * place of the application, and sleeps with nothing to do.
 */
#ifndef PF_NET_WATCH_H
#define PF_NET_WATCH_H

#include "network.h"

struct event_base;
struct network_watch;

/*
 * Create the events, before the service thread starts. Return PF_OK, PF_ERR_MEMORY or
 * PF_ERR_SYSTEM.
 */
int network_watch_create(struct network_watch **watch, struct event_base *base,
			 struct network *network);
/* Free the events, after the service thread has ended; NULL is allowed. */
void network_watch_destroy(struct network_watch *watch);

#endif
