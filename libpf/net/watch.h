/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread's look after the network. While the application polls,
 * the thread only looks at the end of a grace period whether it still does
 * (grace.h). When it does not, the sockets and the core's deadline wake the
 * thread, which drives in its place; with nothing to do it sleeps.
 */
#ifndef PF_WATCH_H
#define PF_WATCH_H

#include "engine.h"

struct event_base;
struct watch;

/* Before the service thread starts: PF_OK, PF_ERR_MEMORY or PF_ERR_SYSTEM. */
int watch_create(struct watch **watch, struct event_base *base, struct engine *engine);
/* After it has ended; NULL is allowed. */
void watch_destroy(struct watch *watch);

#endif
