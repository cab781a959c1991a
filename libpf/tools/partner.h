/* SPDX-License-Identifier: BSD-3-Clause */
/* The process at the other end of a measurement: it serves the requests of protocol.h. */
#ifndef TOOLS_PARTNER_H
#define TOOLS_PARTNER_H

#include <signal.h>

#include "pf.h"

struct partner;

/* Set the context's callbacks, before its address is passed on. NULL: no memory. */
struct partner *partner_create(pf_context *context);

/*
 * Serve the first process that says hello until it says goodbye or *stop, if stop is not NULL,
 * becomes nonzero. Returns 0, or -1 with a message on standard error when that process died.
 */
int partner_serve(struct partner *partner, const volatile sig_atomic_t *stop);

void partner_destroy(struct partner *partner);

/*
 * Be the partner of one process that calls pair_connect with this file. Returns 0, or -1 with a
 * message on standard error, after which the process must exit.
 */
int partner_listen(const pf_options *options, const char *file, const char *secret);

#endif
