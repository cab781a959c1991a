/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of puts and gets: operations are cut into transfers, and end with the last transfer. */
#ifndef PF_NET_TRANSFER_H
#define PF_NET_TRANSFER_H

#include "exchange.h"

/* Begin a use of the association. numbers: see struct transfer_numbers. */
void transfers_init(struct transfers *transfers, const struct transfer_numbers *numbers);
/* Is no operation, transfer or atomic open? */
bool transfers_idle(const struct transfers *transfers);

/*
 * Post an operation; arguments as of net_put. signal: of a put of a single piece, or NULL.
 * PF_PENDING or PF_ERR_MEMORY.
 */
int transfers_post(struct exchange *exchange, bool get, const pf_piece *pieces, unsigned count,
		   const pf_signal *signal, void *arg);
/* Cut the next transfer from an operation of a kind; the caller sets granules. NULL: none now. */
struct net_transfer *transfer_cut(struct exchange *exchange, bool get);
/* Complete all operations with status. The operations have no transfers any more. */
void transfers_abandon(struct exchange *exchange, int status);

/*
 * Make a record, found by number. PF_OK with *result, PF_ERR_MEMORY, or PF_ERR_REFUSED: too many
 * records are open.
 */
int transfer_new(struct exchange *exchange, bool get, bool source, uint32_t id,
		 struct net_transfer **result);
/* Free the record, and take the record out of all lists. */
void transfer_free(struct exchange *exchange, struct net_transfer *transfer);
/* Take the record out of the table: transfer_find no longer finds the record. */
void transfer_leave(struct exchange *exchange, struct net_transfer *transfer);
/* Return the bytes of the tables. */
size_t transfers_memory(const struct transfers *transfers);
/* Free the tables; no record is left. */
void transfers_destroy(struct transfers *transfers);
/* Find the record of a transfer; NULL: none any more. */
struct net_transfer *transfer_find(struct exchange *exchange, bool get, bool source, uint32_t id);
/* A transfer of an operation ended. side, address: of a fault. */
void transfer_end(struct exchange *exchange, struct net_transfer *transfer, int status,
		  enum pf_side side, uint64_t address);
/* Tell the peer of the transfer. what: bits of enum transfer_tell. */
void transfer_tell(struct exchange *exchange, struct net_transfer *transfer, uint8_t what);
/* Return the number of blocks; an empty transfer has an empty block, of a single granule. */
static inline uint8_t transfer_blocks(const struct exchange *exchange, uint32_t length)
{
	return (uint8_t)(length ? (length + exchange->block_size - 1) / exchange->block_size : 1);
}
/* Return a mask with all granules of a block. */
uint64_t transfer_block_granules(const struct exchange *exchange,
				 const struct net_transfer *transfer, unsigned block);
/* Find the transfer of a token; NULL: the transfer is over. */
struct net_transfer *transfer_of_token(struct exchange *exchange, struct net_token token);
/* Describe a block for the memory callbacks. */
struct net_wait transfer_wait(const struct exchange *exchange, const struct net_transfer *transfer,
			      unsigned block);
/* Report the fate of blocks to the trace, if any. */
void transfer_trace(const struct exchange *exchange, const struct net_transfer *transfer,
		    uint64_t blocks, enum net_block what);

#endif
