/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzer of one packet, raw or with a valid tag. */
#include "fuzz.h"

#include <stdlib.h>

#define SECOND 1000000000ull

/* A packet without a valid tag changes nothing, holds no memory and has no answer, now or later. */
static void assert_ignored(struct fuzz *fuzz, size_t memory)
{
	const struct net_core *core = fuzz->core;

	if (net_association_memory(fuzz->association) != memory || fuzz->association->busy ||
	    core->count != 1 || core->shared.busy || core->shared.backup_used ||
	    core->foresight.stash || core->foresight.gathered || net_has_events(core))
		abort();
	if (net_output(fuzz->core, fuzz->now, fuzz->batch) || core->shared.statistics.packets_sent)
		abort();
	/* The next event is the probe of a silent peer. */
	if (net_deadline(core) != NET_NEVER && net_deadline(core) < fuzz->now + SECOND)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum fuzz_kind kind;
	struct fuzz fuzz;
	size_t memory;

	if (size < 2)
		return 0;
	kind = (enum fuzz_kind)(data[1] % FUZZ_KINDS);
	fuzz_open(&fuzz, data[0]);
	memory = net_association_memory(fuzz.association);
	fuzz_packet(&fuzz, kind, data + 2, size - 2);
	fuzz_hand_in(&fuzz);
	if (kind == FUZZ_RAW)
		assert_ignored(&fuzz, memory);
	fuzz_output(&fuzz);
	fuzz_close(&fuzz);
	return 0;
}
