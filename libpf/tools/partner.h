/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partner: the process at the far end of a measurement. The partner serves the requests of
 * protocol.h.
 */
#ifndef TOOLS_PARTNER_H
#define TOOLS_PARTNER_H

#include <signal.h>

#include "pf.h"

struct partner;

/* Set the callbacks of the context before the address is given to a peer. NULL: no memory. */
struct partner *partner_create(pf_context *context);

/*
 * Serve the first process to say hello, until its goodbye or until *stop becomes nonzero. stop may
 * be NULL. Returns 0, or -1 with a message on standard error at the death of the process.
 */
int partner_serve(struct partner *partner, const volatile sig_atomic_t *stop);

void partner_destroy(struct partner *partner);

/*
 * Serve a process that calls session_connect with the file. Returns 0, or -1 with a message on
 * standard error: then the caller must exit.
 */
int partner_listen(const pf_options *options, const char *file, const char *secret);

/* For pf_set_warning: a line on stderr. */
void warning_print(pf_context *context, pf_peer *peer, const char *text, void *arg);

#endif
