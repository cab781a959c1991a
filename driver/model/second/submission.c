// SPDX-License-Identifier: GPL-2.0
/* Submissions. */
#include <string.h>

#include "initiator.h"
#include "link.h"
#include "queue.h"
#include "registers.h"
#include "submission.h"
#include "zeros.h"

static bool are_reserved_fields_zero(const struct submission *s)
{
	if (s->reserved)
		return false;
	if (s->operation == OPERATION_NOP)
		return !s->atomic && !s->space &&
		       are_zeros(&s->local, sizeof(*s) - offsetof(struct submission, local));
	if (s->operation == OPERATION_ATOMIC)
		return !s->local && (s->atomic == ATOMIC_COMPARE || !s->compare);
	return !s->atomic && !s->operand && !s->compare;
}

/* Check a submission; if it is allowed, and not a NOP, the peer is set. */
static u32 check_submission(struct engine *e, const struct submission *s, struct peer **peer)
{
	bool atomic = s->operation == OPERATION_ATOMIC;

	if (s->operation > OPERATION_ATOMIC || !are_reserved_fields_zero(s))
		return STATUS_INVALID;
	if (s->operation == OPERATION_NOP)
		return STATUS_OK;
	if (s->space >= SPACES || !e->spaces[s->space].attached)
		return STATUS_INVALID;
	if (atomic) {
		if (s->atomic > ATOMIC_COMPARE || (s->length != 4 && s->length != 8) ||
		    !(ATOMICS >> (s->atomic + (s->length == 8 ? 16 : 0)) & 1))
			return STATUS_INVALID;
	} else {
		u64 limit = 1ull << e->spaces[s->space].bits;

		if (s->length < 1 || s->length > TRANSFER_MAX || s->local > limit ||
		    s->length > limit - s->local)
			return STATUS_INVALID;
	}
	if (s->remote > LINK_ADDRESS_LIMIT || s->length > LINK_ADDRESS_LIMIT - s->remote ||
	    (atomic && s->remote % s->length))
		return STATUS_INVALID;
	*peer = find_peer(e, s->node);
	return *peer ? STATUS_OK : STATUS_UNREACHABLE;
}

void run_submission_doorbell(struct engine *e)
{
	struct queue *q = &e->submission;
	struct queue *completion = &e->completion;
	u32 producer = get32(e, REG_SUBMISSION_PRODUCER);
	u32 consumer = get32(e, REG_COMPLETION_CONSUMER);

	if (!is_producer_allowed(e, q, producer, REG_SUBMISSION_PRODUCER) ||
	    !is_consumer_allowed(e, completion, consumer, REG_COMPLETION_CONSUMER))
		return;
	q->producer = producer;
	completion->consumer = consumer;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	while (is_ready(e) && q->consumer != q->producer &&
	       completion->producer - completion->consumer + e->open < completion->entries) {
		void *entry = get_entry(e, q, q->consumer);
		struct submission s;
		struct peer *peer = NULL;
		u32 status;

		if (!entry)
			return;
		memcpy(&s, entry, sizeof(s));
		publish_index(e, INDEX_SUBMISSION_CONSUMER, ++q->consumer);
		status = check_submission(e, &s, &peer);
		if (status || !peer)
			post_completion(e, &(struct completion){ .tag = s.tag, .status = status });
		else
			open_transfer(e, &s, peer);
	}
}
