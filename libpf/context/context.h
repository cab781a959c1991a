/* SPDX-License-Identifier: BSD-3-Clause */
/* The lifetime of a context (common/context.h) and of its peers. */
#ifndef PF_LIFETIME_H
#define PF_LIFETIME_H

#include "common/context.h"

/* Open a context as pf_open, with options and callbacks of the present version. */
int context_open(const pf_options *options, const pf_callbacks *callbacks, pf_context **context);
/* Close a context as pf_close. */
void context_close(pf_context *context);
/* Contact a peer as pf_peer_contact. */
int context_peer_contact(pf_peer *peer, bool wait, const char **why);
/* Open a peer as pf_peer_open, of a parsed address. */
int context_peer_open(pf_context *context, const struct address *address, const uint8_t *data,
		      void *user, pf_peer **peer);

#endif
