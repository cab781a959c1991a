/* SPDX-License-Identifier: BSD-3-Clause */
#include "registered.h"

#include <err.h>
#include <stdlib.h>

struct transfer {
	struct pair *pair;
	pf_registration *registration;
	struct range range; /* in the partner */
	uint64_t complete;
};

static void transfer_complete(pf_context *context, const pf_completion *completion)
{
	struct transfer *transfer = completion->arg;
	pf_completion passed_on = *completion;

	passed_on.arg = transfer->pair;
	pair_complete(context, &passed_on);
	transfer->complete = 1;
}

static int register_both(struct bench *bench, struct transfer *transfer, uint8_t *local, bool put)
{
	struct pair *pair = bench->pair;
	uint64_t arrived = pair->arrived;
	int status;

	transfer->range.write = put;
	if (pair_send(pair, TAG_REGISTER, &transfer->range, sizeof(transfer->range)))
		return -1;
	status = pf_register(pair->context, local, bench->size, !put, &transfer->registration);
	if (pair_posted(pair, "pf_register", status < 0 ? status : PF_OK))
		return -1;
	return pair_wait(pair, &pair->arrived, arrived + 1);
}

static int transfer_start(struct bench *bench, struct transfer *transfer, uint64_t iteration,
			  bool put)
{
	size_t at = iteration % bench->slots * bench->stride;
	uint8_t *local = bench->local + at;
	uint64_t remote = bench->remote + at;
	struct pair *pair = bench->pair;
	int status;

	transfer->pair = pair;
	transfer->complete = 0;
	transfer->range.address = remote;
	transfer->range.length = bench->size;
	if (register_both(bench, transfer, local, put))
		return -1;
	if (put)
		status = pf_put(pair->peer, local, remote, bench->size, transfer_complete,
				transfer);
	else
		status = pf_get(pair->peer, local, remote, bench->size, transfer_complete,
				transfer);
	transfer->complete = status == PF_DONE;
	return pair_posted(pair, put ? "pf_put" : "pf_get", status);
}

static int transfer_finish(struct transfer *transfer)
{
	struct pair *pair = transfer->pair;

	if (pair_wait(pair, &transfer->complete, 1))
		return -1;
	pf_deregister(pair->context, transfer->registration);
	return pair_send(pair, TAG_DEREGISTER, &transfer->range, sizeof(transfer->range));
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
