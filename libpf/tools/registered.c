/* SPDX-License-Identifier: BSD-3-Clause */
#include "registered.h"

#include <err.h>
#include <stdlib.h>

struct transfer {
	struct session *session;
	pf_registration *registration;
	struct range range; /* in the partner */
	uint64_t complete;
};

static void transfer_complete(pf_context *context, const pf_completion *completion)
{
	struct transfer *transfer = completion->arg;
	pf_completion passed_on = *completion;

	passed_on.arg = transfer->session;
	session_complete(context, &passed_on);
	transfer->complete = 1;
}

static int register_both(struct bench *bench, struct transfer *transfer, uint8_t *local, bool put)
{
	struct session *session = bench->session;
	uint64_t arrived = session->arrived;
	int status;

	transfer->range.write = put;
	if (session_send(session, TAG_REGISTER, &transfer->range, sizeof(transfer->range)))
		return -1;
	status = pf_register(session->context, local, bench->size, !put, &transfer->registration);
	if (session_posted(session, "pf_register", status < 0 ? status : PF_OK))
		return -1;
	return session_wait(session, &session->arrived, arrived + 1);
}

static int transfer_start(struct bench *bench, struct transfer *transfer, uint64_t iteration,
			  bool put)
{
	size_t at = iteration % bench->slots * bench->stride;
	uint8_t *local = bench->local + at;
	uint64_t remote = bench->remote + at;
	struct session *session = bench->session;
	int status;

	transfer->session = session;
	transfer->complete = 0;
	transfer->range.address = remote;
	transfer->range.length = bench->size;
	if (register_both(bench, transfer, local, put))
		return -1;
	if (put)
		status = pf_put(session->peer, local, remote, bench->size, transfer_complete,
				transfer);
	else
		status = pf_get(session->peer, local, remote, bench->size, transfer_complete,
				transfer);
	transfer->complete = status == PF_DONE;
	return session_posted(session, put ? "pf_put" : "pf_get", status);
}

static int transfer_finish(struct transfer *transfer)
{
	struct session *session = transfer->session;

	if (session_wait(session, &transfer->complete, 1))
		return -1;
	pf_deregister(session->context, transfer->registration);
	return session_send(session, TAG_DEREGISTER, &transfer->range, sizeof(transfer->range));
}

int registered_transfers(struct bench *bench, uint64_t iterations, bool put)
{
	unsigned window = bench->window;
	struct transfer *transfers = calloc(window, sizeof(*transfers));
	uint64_t started = 0, finished = 0;
	int status = -1;

	if (!transfers) {
		warn("transfers");
		return -1;
	}
	while (finished < iterations) {
		struct transfer *next = &transfers[started % window];

		if (started - finished == window || started == iterations) {
			if (transfer_finish(&transfers[finished++ % window]))
				goto out;
			continue;
		}
		next->range.number = started % window;
		if (transfer_start(bench, next, started++, put))
			goto out;
	}
	status = 0;
out:
	free(transfers);
	return status;
}
