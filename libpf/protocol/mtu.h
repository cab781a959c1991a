/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discovery of the longest packet that passes on a path, by probes (RFC 8899).
 * Discovery starts with the size that every path takes, probes the size of the
 * interface at once, then the usual smaller sizes. A path that begins to swallow
 * long packets (a black hole) is probed anew.
 *
 * A size that passed on a path is assumed on later paths with the same size of the
 * interface, until long packets are lost there: a probe would add an eighth to the
 * bytes of a transfer of 64 KiB.
 */
#ifndef PF_NET_MTU_H
#define PF_NET_MTU_H

#include <stdbool.h>
#include <stdint.h>

struct mtu {
	uint64_t raise;    /* time to probe larger sizes again, ns; 0: now */
	uint16_t size;     /* bytes of the longest packet known to pass, or assumed to pass */
	uint16_t own;      /* bytes of the longest packet of the interface */
	uint16_t most;     /* limit from the network, at most own; believed until raise */
	uint16_t failed;   /* shortest size known not to pass; most + 8 at first */
	uint16_t probing;  /* size of the probe under way; 0: none */
	uint8_t tries;     /* probes lost in a row */
	uint8_t swallowed; /* long packets lost in a row */
	uint16_t shortest; /* bytes of the shortest packet of swallowed */
	bool assumed;      /* size is assumed: no long packet has passed here yet */
	bool alone;        /* long packets have failed here: assume no size of earlier paths */
};

/* Sizes found last on any path, by the size of the interface. */
#define MTU_SIZES 8
struct mtu_sizes {
	struct {
		uint16_t own, size;
	} of[MTU_SIZES];
};

/* most: bytes of the longest packet of the interface. */
void mtu_init(struct mtu *mtu, uint32_t most);
/* A probe was acknowledged, or a long packet lost: note the size that passes on the path. */
void mtu_note(const struct mtu *mtu, struct mtu_sizes *sizes);
/* Begin with the size that passed on earlier paths, if larger. */
void mtu_assume(struct mtu *mtu, const struct mtu_sizes *sizes);
/* Return the size to probe now; 0: none. */
uint32_t mtu_wanted(const struct mtu *mtu, uint64_t now);
/* A probe of size bytes was sent. */
void mtu_sent(struct mtu *mtu, uint32_t size);
/* The probe never left, or the path no longer waits for the probe. */
void mtu_unsent(struct mtu *mtu);
/* The probe arrived. */
void mtu_acknowledged(struct mtu *mtu, uint64_t now);
void mtu_lost(struct mtu *mtu, uint64_t now);
/* A packet of size bytes, no probe, arrived or was lost. True: a black hole, size fell. */
bool mtu_passed(struct mtu *mtu, uint32_t size, bool passed);
/* The network reports a limit of most bytes for packets. */
void mtu_limit(struct mtu *mtu, uint64_t now, uint32_t most);

#endif
