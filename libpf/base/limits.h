/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits that several layers rely on. */
#ifndef PF_LIMITS_H
#define PF_LIMITS_H

/* The longest block (option block_size), bytes: no request to resolve a page fault is longer. */
#define BLOCK_SIZE_MAX (1u << 24)

#endif
