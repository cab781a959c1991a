/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_SLICE_H
#define PF_SLICE_H

/*
 * Ask the scheduler to run the calling thread, which runs rarely and briefly, as soon as
 * it wakes. The application's thread often spins on the same core, and since Linux 6.6
 * it would keep the core for the rest of a slice of some milliseconds. Since 6.12 a
 * thread that requests a short slice preempts it; the share of each thread stays the
 * same. Other kernels ignore the request.
 */
void slice_request_short(void);

#endif
