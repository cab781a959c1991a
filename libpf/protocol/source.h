/* SPDX-License-Identifier: BSD-3-Clause */
/* The source of a transfer's data: what to send, and what to send again. */
#ifndef PF_NET_SOURCE_H
#define PF_NET_SOURCE_H

#include "exchange.h"

/* Granules of a transfer that follow each other, of one block or of several. */
struct run {
	struct net_transfer *transfer;
	uint16_t granule, granules;
	uint32_t offset, length;
};

/* What to send next, at most so many granules; false: nothing now. */
bool source_next(struct exchange *exchange, unsigned most, struct run *run);
void source_sent(struct exchange *exchange, const struct run *run);
void source_start(struct exchange *exchange, struct net_transfer *transfer);
/* unreadable: it was not sent, because the system could not read it. */
void source_lost(struct exchange *exchange, const struct sent *sent, bool unreadable);
void source_spurious(struct exchange *exchange, const struct sent *sent);
void source_resolved(struct exchange *exchange, struct net_token token, int status, uint64_t bad);
void source_nack(struct exchange *exchange, const struct wire_entry *entry);
void source_again(struct exchange *exchange, const struct wire_entry *entry);
/* Copy the run's bytes. False: they are not there, and the run is not to be sent. */
bool source_fetch(struct exchange *exchange, const struct run *run, void *to);

#endif
