/* SPDX-License-Identifier: BSD-3-Clause */
#include "incoming.h"

#include <stdlib.h>

void incoming_destroy(struct incoming *incoming)
{
	free(incoming->serves.offers);
	channel_destroy(&incoming->channel);
	process_put(incoming->process);
	free(incoming);
}
