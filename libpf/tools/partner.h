/* SPDX-License-Identifier: BSD-3-Clause */
/* The process at the other end of a measurement: does what protocol.h says it is asked for. */
#ifndef TOOLS_PARTNER_H
#define TOOLS_PARTNER_H

#include <signal.h>

#include "pf.h"

struct partner;

/* Ready to be called: to be done before the context's address is given away. NULL: no memory. */
struct partner *partner_create(pf_context *context);

/*
 * Serve the first process that says hello until it says goodbye. Returns 0,
 * or -1 after a message on standard error, if that process died. *stop, if
 * stop is not NULL, ends the wait for a caller.
 */
int partner_serve(struct partner *partner, const volatile sig_atomic_t *stop);

void partner_destroy(struct partner *partner);

#endif
