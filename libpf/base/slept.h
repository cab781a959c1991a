/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_SLEPT_H
#define PF_SLEPT_H

/* How a sleep ended. */
enum slept { SLEPT_NOT, SLEPT_WOKEN, SLEPT_TIMED_OUT };

#endif
