/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of puts and gets: operations are cut into them, and end with them. */
#ifndef PF_NET_TRANSFER_H
#define PF_NET_TRANSFER_H

#include "exchange.h"

void transfers_init(struct transfers *transfers, const struct transfer_numbers *numbers);
bool transfers_idle(const struct transfers *transfers);

/* Post an operation. PF_OK, PF_ERR_ARGUMENT or PF_ERR_MEMORY. */
int transfers_post(struct exchange *exchange, bool get, uint64_t local, uint64_t remote,
		   uint64_t length, void *arg);
/* The next transfer of an operation of this kind, its granules not yet set; NULL: none, or not now. */
struct net_transfer *transfer_cut(struct exchange *exchange, bool get);
/* Complete all operations with this status. They have no transfers any more. */
void transfers_abandon(struct exchange *exchange, int status);

/*
 * A record that is found by this number. PF_OK with *result, PF_ERR_MEMORY, or PF_ERR_REFUSED: too
 * many are open.
 */
int transfer_new(struct exchange *exchange, bool get, bool source, uint32_t id,
		 struct net_transfer **result);
/* Forget the record. */
void transfer_free(struct exchange *exchange, struct net_transfer *transfer);
/* It is found no more. */
void transfer_leave(struct exchange *exchange, struct net_transfer *transfer);
/* Of all these tables, bytes. */
size_t transfers_memory(const struct transfers *transfers);
/* The tables; there are no records any more. */
void transfers_destroy(struct transfers *transfers);
/* The record of a transfer, NULL if it has none any more. */
struct net_transfer *transfer_find(struct exchange *exchange, bool get, bool source, uint32_t id);
/* An operation's transfer ended. */
void transfer_end(struct exchange *exchange, struct net_transfer *transfer, int status,
		  enum pf_side side, uint64_t address);
void transfer_tell(struct exchange *exchange, struct net_transfer *transfer, uint8_t what);
uint32_t transfer_block_length(const struct exchange *exchange, const struct net_transfer *transfer,
			       unsigned block);
/* All granules of a block. */
uint64_t transfer_block_granules(const struct exchange *exchange,
				 const struct net_transfer *transfer, unsigned block);
/* The transfer of which a block waited for memory; NULL: it is over. */
struct net_transfer *transfer_of_token(struct exchange *exchange, struct net_token token);
struct net_token transfer_token(const struct exchange *exchange,
				const struct net_transfer *transfer, unsigned block);
/* A block as the memory's callbacks want it. */
struct net_wait transfer_wait(const struct exchange *exchange, const struct net_transfer *transfer,
			      unsigned block);
/* Tell the trace, if there is one, what became of these blocks. */
void transfer_trace(const struct exchange *exchange, const struct net_transfer *transfer,
		    uint64_t blocks, enum net_block what);

#endif
