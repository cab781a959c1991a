/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The longest packet that a path takes, found by probing (RFC 8899, packets
 * instead of bytes being lost or not): starts with what every path takes, tries
 * the interface's size at once, then the usual smaller ones. A path that begins
 * to swallow long packets (a black hole) is probed anew.
 *
 * A size that passed on one path is assumed of the next ones whose interface takes as
 * long packets, until that proves wrong: of 64 KiB a probe would be an eighth more.
 */
#ifndef PF_NET_MTU_H
#define PF_NET_MTU_H

#include <stdbool.h>
#include <stdint.h>

struct mtu {
	uint64_t raise;   /* when to look for more again */
	uint16_t size;    /* known to pass */
	uint16_t own;     /* of the interface */
	uint16_t most;    /* what the network told, at most own; believed until raise */
	uint16_t failed;  /* known not to pass; most + 8 at first */
	uint16_t probing; /* size of the probe under way, 0: none */
	uint8_t tries;
	uint8_t swallowed; /* long packets lost in a row, */
	uint16_t shortest; /* and the shortest of them */
	bool assumed;      /* size: no long packet has passed here yet */
	bool alone;        /* nothing is assumed: long packets have failed here */
};

/* What peers said to have received last, by the size of interfaces. */
#define MTU_SIZES 8
struct mtu_sizes {
	struct {
		uint16_t own, size;
	} of[MTU_SIZES];
};

void mtu_init(struct mtu *mtu, uint32_t most);
/* A probe was acknowledged, or a long packet lost: note what passes on this path. */
void mtu_note(const struct mtu *mtu, struct mtu_sizes *sizes);
/* Begin with what passed on other paths, if it is more. */
void mtu_assume(struct mtu *mtu, const struct mtu_sizes *sizes);
/* Size to probe now, 0: nothing to probe. */
uint32_t mtu_wanted(const struct mtu *mtu, uint64_t now);
void mtu_sent(struct mtu *mtu, uint32_t size);
/* It never left, or is waited for no more. */
void mtu_unsent(struct mtu *mtu);
void mtu_acknowledged(struct mtu *mtu, uint64_t now);
void mtu_lost(struct mtu *mtu, uint64_t now);
/* A packet of that size, no probe, arrived or not. True: a black hole, size fell. */
bool mtu_passed(struct mtu *mtu, uint32_t size, bool passed);
/* The network says so. */
void mtu_limit(struct mtu *mtu, uint64_t now, uint32_t most);

#endif
