/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers and atomics over /dev/exanest. One submission carries a block as
 * long as the engine takes, mostly the whole transfer: the engine cuts it
 * smaller and sends again what met a fault by itself. So what comes back is
 * success, or an error that stays.
 *
 * Lifetime: an object that is in flight is not freed before its request is done
 * (device_drain), or the device is closed.
 */
#ifndef PF_ROUTE_DEVICE_H
#define PF_ROUTE_DEVICE_H

#include "peer.h"

/* Progress: the device failed; peers are reached in another way. arg: struct host_state. */
void device_lost(void *arg);
/*
 * Progress: once it returns, nothing for this peer is in flight. The peer is gone, so that takes
 * little time.
 */
void device_drain(struct host_state *host, struct host_peer *peer);

#endif
