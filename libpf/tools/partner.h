/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partner: the process at the far end of a measurement. The partner serves the requests of
 * protocol.h.
 */
#ifndef TOOLS_PARTNER_H
#define TOOLS_PARTNER_H

#include <signal.h>

#include <libpf/pf.h>

struct partner;

/* Open a context with the partner's callbacks. NULL: failed, with a message on standard error. */
struct partner *partner_open(const pf_options *options);
/* The partner's context, until partner_close or partner_free. */
pf_context *partner_context(const struct partner *partner);

/*
 * Serve the first process to say hello, until its goodbye or until *stop becomes nonzero. stop may
 * be NULL. Returns 0, or -1 with a message on standard error at the death of the process: then the
 * caller exits without partner_close, for that would tell the process of an end in good order.
 */
int partner_serve(struct partner *partner, const volatile sig_atomic_t *stop);

/* Close the context and free the partner. */
void partner_close(struct partner *partner);

/*
 * Serve a process that calls session_connect with the file. Returns 0, or -1 with a message on
 * standard error: then the caller must exit.
 */
int partner_listen(const pf_options *options, const char *file, const char *secret);

/* A pf_log_fn for warnings: a line on stderr for each. */
void log_print(pf_context *context, pf_peer *peer, enum pf_log_level level, const char *text,
	       void *arg);

#endif
