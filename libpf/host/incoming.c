/* SPDX-License-Identifier: BSD-3-Clause */
#include "incoming.h"

#include <stdlib.h>

void incoming_destroy(struct incoming *incoming)
{
	/* Release: progress looks no more for this channel by the slot. */
	if (incoming->slot_taken)
		atomic_store_explicit(incoming->slot_taken, false, memory_order_release);
	free(incoming->serves.offers);
	channel_destroy(&incoming->channel);
	process_put(incoming->process);
	free(incoming);
}
