/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP flow with CUBIC (RFC 9438) that sends as much as it may through a port of a world. Packets
 * are lengths only; what is lost is not sent again but counted as lost when a later packet's
 * acknowledgement would tell.
 */
#ifndef PF_TESTS_NET_CUBIC_H
#define PF_TESTS_NET_CUBIC_H

#include "world.h"

struct cubic;

struct cubic *cubic_start(struct world *world, struct port *port, uint32_t packet);
/* Bytes acknowledged since the start. */
uint64_t cubic_bytes(const struct cubic *cubic);
/* After the world. */
void cubic_free(struct cubic *cubic);

#endif
