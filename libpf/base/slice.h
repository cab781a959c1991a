/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_SLICE_H
#define PF_SLICE_H

/*
 * For the calling thread, which runs rarely and shortly: let it run as soon as
 * it wakes. The application's thread usually spins on the very same core, and
 * since Linux 6.6 would do so for the rest of a slice of some milliseconds.
 * From 6.12 on a thread that asks for a short slice need not wait for that; the
 * share of the processor stays the same. Other kernels take no notice.
 */
void slice_request_short(void);

#endif
