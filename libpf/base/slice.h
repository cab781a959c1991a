/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_SLICE_H
#define PF_SLICE_H

/*
 * Ask the scheduler to run the calling thread, which runs rarely and briefly, right after each
 * wake-up. The application's thread often spins on the core of the calling thread, and since
 * Linux 6.6 would keep the core for the rest of a slice of some milliseconds. Since 6.12 a thread
 * with a short slice preempts; the share of each thread stays unchanged. Other kernels ignore the
 * request.
 */
void slice_request_short(void);

#endif
