/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers of a context, as tests look at them. */
#ifndef PF_TESTS_PEERS_H
#define PF_TESTS_PEERS_H

#include "common/context.h"

/* NULL: there is no peer yet. */
static inline pf_peer *first_peer(pf_context *context)
{
	pf_peer *peer;

	peers_lock(&context->peers);
	peer = peers_next(&context->peers, NULL);
	peers_unlock(&context->peers);
	return peer;
}

#endif
