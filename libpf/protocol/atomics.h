/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics. The control stream delivers each request once. The executing side keeps the
 * result until the opposite control stream has it, to deliver it once.
 */
#ifndef PF_NET_ATOMICS_H
#define PF_NET_ATOMICS_H

#include "exchange.h"

/* Post an atomic. PF_PENDING, PF_ERR_ARGUMENT or PF_ERR_MEMORY. */
int atomics_post(struct exchange *exchange, enum pf_atomic_op op, unsigned width, uint64_t remote,
		 uint64_t operand, uint64_t compare, void *arg);
/* Take the next entry for the control stream, which counts as written; false: none. */
bool atomics_next(struct exchange *exchange, struct wire_entry *entry);
/*
 * Execute a request of the peer. PF_OK; PF_ERR_REFUSED: the request breaks the rules;
 * PF_ERR_MEMORY: the caller handles the entry again later.
 */
int atomics_requested(struct exchange *exchange, const struct wire_entry *entry);
/* Handle a result of the peer; false: the result breaks the rules. */
bool atomics_answered(struct exchange *exchange, const struct wire_entry *entry);
void atomics_resolved(struct exchange *exchange, struct net_token token, int status, uint64_t bad);
void atomics_abandon(struct exchange *exchange, int status);

#endif
