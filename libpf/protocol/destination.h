/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination of a transfer's data: bytes are placed, or wait for their page. */
#ifndef PF_NET_DESTINATION_H
#define PF_NET_DESTINATION_H

#include "exchange.h"

/* Payload of a packet of data. */
struct payload {
	const uint8_t *bytes;
	uint32_t length;
	uint64_t received_at; /* address where the system put the payload */
	/*
	 * The payload may be read, and the user's memory written to: no payload of this
	 * packet or of later packets received with it lies in the user's memory.
	 */
	bool apart;
};

enum destination_result {
	DESTINATION_TAKEN,
	DESTINATION_REFUSED,    /* treat the packet as lost */
	DESTINATION_NEEDS_BYTES /* call again with a payload set apart */
};
/* Handle the payload of a packet, which must stay until destination_flush. */
enum destination_result destination_data(struct exchange *exchange, bool get, uint32_t id,
					 const struct wire_data *data,
					 const struct payload *payload);
/* Write the waiting pieces. Sets effects of the exchanges in shared->pieces. */
void destination_flush(struct shared *shared);
/* Drop the waiting pieces of an exchange at its end. */
void destination_forget(struct exchange *exchange);
void destination_resolved(struct exchange *exchange, struct net_token token, int status,
			  uint64_t bad);
/* The page of the word of a signal was resolved, or a notice was handled. */
void destination_signal_resolved(struct exchange *exchange, struct net_token token, int status,
				 uint64_t bad);
/* Describe the notice of a transfer taken out of shared.finished; net_resolved ends the transfer. */
void destination_take_notice(struct net_transfer *transfer, struct net_event *event);
/*
 * Handle the signal in a packet, before the data. False: treat the packet as lost. *alone: the put
 * has no data.
 */
bool destination_signal(struct exchange *exchange, uint32_t id, const struct wire_data *data,
			uint32_t length, const pf_signal *signal, bool *alone);
/* Cut gets into transfers as far as the windows allow, and tell the peer of each. */
void destination_start(struct exchange *exchange);
/* Is a NACK to be sent, or an AGAIN for the granules returned? The entry then counts as sent. */
bool destination_nack(struct net_transfer *transfer, unsigned block);
bool destination_again(struct exchange *exchange, struct net_transfer *transfer, unsigned block,
		       uint64_t *granules);
/*
 * Handle CANCEL: the initiator of a put gives up. PF_OK, PF_ERR_REFUSED, or PF_ERR_MEMORY: the
 * caller handles the entry again later.
 */
int destination_cancel(struct exchange *exchange, uint32_t id);
/* Handle FAILED: the source of a get cannot be read at this address. */
void destination_failed(struct exchange *exchange, uint32_t id, int status, uint64_t address);
void destination_free(struct exchange *exchange, struct net_transfer *transfer);
/* Is the next data expected in this get, at the offset? */
bool destination_expects(const struct exchange *exchange, uint32_t get, uint32_t offset);
/* Predict places as net_predict does; header: bytes before each payload. */
unsigned destination_predict(struct exchange *exchange, struct net_place *places, unsigned most,
			     uint32_t header);

#endif
