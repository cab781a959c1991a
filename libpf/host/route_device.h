/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers and atomics over /dev/exanest. One submission carries a block as long as the engine
 * takes, mostly the whole transfer: the engine cuts the block smaller and retransmits after faults
 * by itself. The result is success, or an error that stays.
 *
 * Lifetime: an object in flight is not freed before the request is done (device_drain), or the
 * device is closed.
 */
#ifndef PF_ROUTE_DEVICE_H
#define PF_ROUTE_DEVICE_H

#include "peer.h"

/* Progress: the device failed; peers are reached in another way. arg: struct host_state. */
void device_lost(void *arg);
/*
 * Progress: wait until nothing for the peer is in flight. The peer is gone: the wait takes little
 * time.
 */
void device_drain(struct host_state *host, struct host_peer *peer);

#endif
