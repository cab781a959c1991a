/* SPDX-License-Identifier: BSD-3-Clause */
#include "mtu.h"

#include "base/check.h"
#include "net.h"

#define TRIES 3                      /* of a size, RFC 8899's MAX_PROBES */
#define RAISE_PERIOD 600000000000ull /* ns, RFC 8899's PMTU_RAISE_TIMER */
#define SWALLOWED_MOST 12            /* long packets lost in a row, until a path is a black hole */
#define ASSUMED_MOST 3               /* for an assumed size: as many as probes of a size */

/* Ethernet with jumbo frames, FDDI, Ethernet, PPPoE, tunnels, less the headers of IP and UDP. */
static const uint16_t usual[] = { 16384, 8952, 8160, 4304, 1472, 1448, 1392, 1320 };

void mtu_init(struct mtu *mtu, uint32_t most)
{
	if (most > NET_PACKET_MOST)
		most = NET_PACKET_MOST;
	if (most < NET_PACKET_LEAST)
		most = NET_PACKET_LEAST;
	*mtu = (struct mtu){ .size = NET_PACKET_LEAST,
			     .own = (uint16_t)(most & ~7u),
			     .most = (uint16_t)(most & ~7u),
			     .failed = (uint16_t)((most & ~7u) + 8) };
}

static unsigned mtu_slot(const struct mtu *mtu)
{
	return mtu->own / 8u % MTU_SIZES;
}

void mtu_note(const struct mtu *mtu, struct mtu_sizes *sizes)
{
	sizes->of[mtu_slot(mtu)].own = mtu->own;
	sizes->of[mtu_slot(mtu)].size = mtu->size;
}

void mtu_assume(struct mtu *mtu, const struct mtu_sizes *sizes)
{
	uint16_t size = sizes->of[mtu_slot(mtu)].size;

	if (mtu->alone || sizes->of[mtu_slot(mtu)].own != mtu->own || size <= mtu->size ||
	    size > mtu->most || size >= mtu->failed)
		return;
	mtu->size = size;
	mtu->assumed = true;
}

uint32_t mtu_wanted(const struct mtu *mtu, uint64_t now)
{
	unsigned i;

	assert_that(mtu->size >= NET_PACKET_LEAST && mtu->size <= mtu->most &&
		    mtu->most <= mtu->own);
	if (mtu->probing || (mtu->raise && now < mtu->raise))
		return 0;
	if (mtu->raise)
		return mtu->own > mtu->size ? mtu->own : 0;
	if (mtu->failed > mtu->most)
		return mtu->most > mtu->size ? mtu->most : 0;
	for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		if (usual[i] < mtu->failed && usual[i] < mtu->most)
			return usual[i] > mtu->size ? usual[i] : 0;
	}
	return 0;
}

void mtu_sent(struct mtu *mtu, uint32_t size)
{
	assert_that(!mtu->probing && size > mtu->size && size <= mtu->own);
	if (mtu->raise) {
		mtu->raise = 0;
		mtu->most = mtu->own;
		mtu->failed = (uint16_t)(mtu->most + 8);
	}
	mtu->probing = (uint16_t)size;
}

void mtu_unsent(struct mtu *mtu)
{
	mtu->probing = 0;
}

/* If no size is left to try, begin again after RAISE_PERIOD. */
static void mtu_settle(struct mtu *mtu, uint64_t now)
{
	if (!mtu->probing && !mtu_wanted(mtu, now) && mtu->size < mtu->own)
		mtu->raise = now + RAISE_PERIOD;
}

void mtu_acknowledged(struct mtu *mtu, uint64_t now)
{
	/* A limit from the network (mtu_limit) is newer than the probe. */
	if (mtu->probing > mtu->most)
		mtu->probing = mtu->most;
	if (mtu->probing > mtu->size)
		mtu->size = mtu->probing;
	mtu->probing = 0;
	mtu->tries = 0;
	mtu->swallowed = 0;
	mtu->assumed = false;
	mtu_settle(mtu, now);
}

void mtu_lost(struct mtu *mtu, uint64_t now)
{
	/* The probe was sent before path_move led the path elsewhere. */
	if (!mtu->probing)
		return;
	if (++mtu->tries >= TRIES) {
		if (mtu->probing < mtu->failed)
			mtu->failed = mtu->probing;
		mtu->tries = 0;
		mtu->alone = true;
	}
	mtu->probing = 0;
	mtu_settle(mtu, now);
}

/* Long packets do not pass any more: fall back to the size that every path takes. */
static bool mtu_fall(struct mtu *mtu)
{
	mtu->swallowed = 0;
	mtu->alone = true;
	mtu->assumed = false;
	if (mtu->size == NET_PACKET_LEAST)
		return false;
	mtu->size = NET_PACKET_LEAST;
	mtu->failed = (uint16_t)(mtu->most + 8);
	mtu->raise = 0;
	mtu->tries = 0;
	return true;
}

bool mtu_passed(struct mtu *mtu, uint32_t size, bool passed)
{
	if (size <= NET_PACKET_LEAST)
		return false;
	if (!passed && (!mtu->swallowed || size < mtu->shortest))
		mtu->shortest = (uint16_t)size;
	if (passed) {
		/* The packet says nothing of longer packets. */
		if (mtu->swallowed && size < mtu->shortest)
			return false;
		mtu->swallowed = 0;
		mtu->assumed = false;
		return false;
	}
	return ++mtu->swallowed >= (mtu->assumed ? ASSUMED_MOST : SWALLOWED_MOST) && mtu_fall(mtu);
}

void mtu_limit(struct mtu *mtu, uint64_t now, uint32_t most)
{
	most &= ~7u;
	if (most >= mtu->most || most < NET_PACKET_LEAST)
		return;
	mtu->most = (uint16_t)most;
	mtu->failed = (uint16_t)(most + 8);
	mtu->tries = 0;
	mtu->raise = 0;
	if (mtu->size > most)
		mtu->size = (uint16_t)most;
	mtu_settle(mtu, now);
}
