/* SPDX-License-Identifier: BSD-3-Clause */
#include "reply.h"

#include <stdlib.h>
#include <string.h>

struct reply {
	STAILQ_ENTRY(reply) next;
	size_t length;
	uint32_t tag;
	uint8_t data[];
};

int reply_send(struct reply_queue *queue, pf_peer *peer, uint32_t tag, const void *data,
	       size_t length)
{
	int status = PF_ERR_AGAIN;
	struct reply *reply;

	if (STAILQ_EMPTY(queue))
		status = pf_send(peer, tag, NULL, 0, data, length);
	if (status != PF_ERR_AGAIN)
		return status;
	reply = malloc(sizeof(*reply) + length);
	if (!reply)
		return PF_ERR_MEMORY;
	reply->length = length;
	reply->tag = tag;
	memcpy(reply->data, data, length);
	STAILQ_INSERT_TAIL(queue, reply, next);
	return PF_OK;
}

static void remove_first(struct reply_queue *queue)
{
	struct reply *reply = STAILQ_FIRST(queue);

	STAILQ_REMOVE_HEAD(queue, next);
	free(reply);
}

int reply_flush(struct reply_queue *queue, pf_peer *peer)
{
	struct reply *reply;
	int status;

	while ((reply = STAILQ_FIRST(queue))) {
		status = pf_send(peer, reply->tag, NULL, 0, reply->data, reply->length);
		if (status < 0)
			return status == PF_ERR_AGAIN ? PF_OK : status;
		remove_first(queue);
	}
	return PF_OK;
}

void reply_discard(struct reply_queue *queue)
{
	while (!STAILQ_EMPTY(queue))
		remove_first(queue);
}
