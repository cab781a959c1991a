/* SPDX-License-Identifier: BSD-3-Clause */
/* Life of an exchange: from the first use of its association until rest or end. */
#ifndef PF_NET_LIFETIME_H
#define PF_NET_LIFETIME_H

#include "exchange.h"

void exchange_init(struct exchange *exchange, struct shared *shared,
		   struct net_association *association, uint32_t index, uint32_t block_size,
		   struct exchange_rest *rest);
/* Save lasting state to rest, and free the exchange's memory. */
void exchange_destroy(struct exchange *exchange);
/* Complete all operations and atomics with this status, and free all records. */
void exchange_abandon(struct exchange *exchange, int status);
/* Is nothing posted, and nothing half received? Waiting output does not count. */
bool exchange_is_idle(const struct exchange *exchange);
/* Is anything in a stream not acknowledged? */
bool exchange_has_unacknowledged(const struct exchange *exchange);
/* Bytes of messages not acknowledged yet. */
uint64_t exchange_unacknowledged(const struct exchange *exchange);
/* Bytes of memory of the exchange. */
size_t exchange_memory(const struct exchange *exchange);

#endif
