/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers and atomics over /dev/exanest. One submission carries a block as
 * long as the engine takes, mostly the whole transfer: the engine cuts it
 * smaller and sends again what met a fault by itself. So what comes back is
 * success, or an error that stays.
 *
 * Lifetime: an object that is in flight is the completion's cookie. It is not
 * freed before its completion is taken (device_drain), or the device is closed.
 */
#ifndef PF_DEVICE_MOVE_H
#define PF_DEVICE_MOVE_H

#include "pf.h"

/* Progress: take completions; how many things happened. */
int device_progress(pf_context *context);
/* Progress: wake the engine if it sleeps and there is something for it to do; the same. */
int device_wake(pf_context *context);
/* Progress: nothing of this peer's is in flight when it returns. The peer is gone, so that is soon. */
void device_drain(pf_context *context, pf_peer *peer);

#endif
