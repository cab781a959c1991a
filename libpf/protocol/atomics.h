/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics. The control stream hands each out once; its result is kept until it
 * is written to the stream of the other direction, which delivers it once.
 */
#ifndef PF_NET_ATOMICS_H
#define PF_NET_ATOMICS_H

#include "exchange.h"

/* PF_OK, PF_ERR_ARGUMENT or PF_ERR_MEMORY. */
int atomics_post(struct exchange *exchange, enum pf_atomic_op op, unsigned width, uint64_t remote,
		 uint64_t operand, uint64_t compare, void *arg);
/* The next entry for the control stream, which counts as written; false: none. */
bool atomics_next(struct exchange *exchange, struct wire_entry *entry);
/* From the peer. PF_OK, PF_ERR_REFUSED: it broke the rules; PF_ERR_MEMORY: it is to be told again. */
int atomics_requested(struct exchange *exchange, const struct wire_entry *entry);
/* From the peer; false: it broke the rules. */
bool atomics_answered(struct exchange *exchange, const struct wire_entry *entry);
void atomics_resolved(struct exchange *exchange, struct net_token token, int status, uint64_t bad);
void atomics_abandon(struct exchange *exchange, int status);

#endif
