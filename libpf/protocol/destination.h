/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination of a transfer's data: where bytes are placed, or wait for their page. */
#ifndef PF_NET_DESTINATION_H
#define PF_NET_DESTINATION_H

#include "exchange.h"

/* The bytes of a packet of data. */
struct payload {
	const uint8_t *bytes;
	uint32_t length;
	uint64_t received_at; /* where the system put them */
	/*
	 * They may be read, and memory of the user written to: neither they nor payloads
	 * that are not looked at yet lie in that.
	 */
	bool apart;
};

enum destination_result {
	DESTINATION_TAKEN,
	DESTINATION_REFUSED,    /* as if it had been lost */
	DESTINATION_NEEDS_BYTES /* call again with a payload that is apart */
};
/* The payload may have to stay until destination_flush. */
enum destination_result destination_data(struct exchange *exchange, bool get, uint32_t id,
					 const struct wire_data *data,
					 const struct payload *payload);
/* Write the pieces that wait. Effects are of the exchanges of shared->pieces. */
void destination_flush(struct shared *shared);
/* Its transfers end: nothing more is written for them. */
void destination_forget(struct exchange *exchange);
void destination_resolved(struct exchange *exchange, struct net_token token, int status,
			  uint64_t bad);
/* Cut gets into transfers as far as the windows allow, and have the peer asked for them. */
void destination_start(struct exchange *exchange);
/* Is there a NACK, or an AGAIN for these granules, to be sent? It counts as sent. */
bool destination_nack(struct net_transfer *transfer, unsigned block);
bool destination_again(struct exchange *exchange, struct net_transfer *transfer, unsigned block,
		       uint64_t *granules);
/* The initiator of a put gives up. PF_OK, PF_ERR_REFUSED, or PF_ERR_MEMORY: it is to be told again. */
int destination_cancel(struct exchange *exchange, uint32_t id);
/* The source of a get cannot be read at this address. */
void destination_failed(struct exchange *exchange, uint32_t id, uint64_t address);
void destination_free(struct exchange *exchange, struct net_transfer *transfer);
/* Is it there that the next data is expected? */
bool destination_expects(const struct exchange *exchange, uint32_t get, uint32_t offset);
/* As net_predict; header: bytes before each payload. */
unsigned destination_predict(struct exchange *exchange, struct net_place *places, unsigned most,
			     uint32_t header);

#endif
