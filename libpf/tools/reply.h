/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies of the partner. A reply that finds the ring full waits in a queue. */
#ifndef TOOLS_REPLY_H
#define TOOLS_REPLY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <libpf/pf.h>

STAILQ_HEAD(reply_queue, reply);

/* Send or queue a reply. Replies stay in order. Returns PF_OK or PF_ERR_*. */
int reply_send(struct reply_queue *queue, pf_peer *peer, uint32_t tag, const void *data,
	       size_t length);
/* Send queued replies until the ring is full. Returns PF_OK or PF_ERR_*. */
int reply_flush(struct reply_queue *queue, pf_peer *peer);
void reply_discard(struct reply_queue *queue);

#endif
