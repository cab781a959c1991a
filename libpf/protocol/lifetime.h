/* SPDX-License-Identifier: BSD-3-Clause */
/* An exchange begins when its association is first used, and ends when that rests or is gone. */
#ifndef PF_NET_LIFETIME_H
#define PF_NET_LIFETIME_H

#include "exchange.h"

void exchange_init(struct exchange *exchange, struct shared *shared,
		   struct net_association *association, uint32_t index, uint32_t block_size,
		   struct exchange_rest *rest);
/* Free what it holds; what has to stay goes to rest. */
void exchange_destroy(struct exchange *exchange);
/* All operations and atomics complete with this status, all records are freed. */
void exchange_abandon(struct exchange *exchange, int status);
/* Is nothing posted, and nothing half received? What is to be sent is not asked. */
bool exchange_is_idle(const struct exchange *exchange);
/* Is there anything in a stream that was not acknowledged? */
bool exchange_has_unacknowledged(const struct exchange *exchange);
/* Bytes of messages that were not acknowledged. */
uint64_t exchange_unacknowledged(const struct exchange *exchange);
/* Bytes of memory that it holds. */
size_t exchange_memory(const struct exchange *exchange);

#endif
