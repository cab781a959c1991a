/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits used by several layers. */
#ifndef PF_LIMITS_H
#define PF_LIMITS_H

/* The longest block (option block_size), bytes: no request to resolve a page fault is longer. */
#define BLOCK_SIZE_MAX (1u << 24)
/* A ring (option ring_size), bytes. */
#define RING_SIZE_MIN (16u << 10)
#define RING_SIZE_MAX (1u << 30)
/* The longest page of any Linux, bytes: memory at a multiple can be mapped on its own. */
#define PAGE_SIZE_MAX (64u << 10)

#endif
