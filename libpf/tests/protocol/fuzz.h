/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzzers share: a core with one open association whose keys are known, so that a packet
 * of theirs can get a valid tag and pass the checks of input.c.
 */
#ifndef PF_TESTS_NET_FUZZ_H
#define PF_TESTS_NET_FUZZ_H

#include "protocol/core.h"

#define FUZZ_ARENA 65536u
#define FUZZ_PACKET_MOST 2048u
#define FUZZ_WAITS 16u
#define FUZZ_HELD 8u

struct fuzz {
	struct net_core *core;
	struct net_association *association;
	struct net_batch *batch;
	uint64_t now, number;
	struct net_token waits[FUZZ_WAITS];
	unsigned waits_count;
	uint8_t answers; /* state of the generator of the callbacks' results, from the input */
	bool accepts;    /* HELLOs are accepted */
	struct net_packet held[FUZZ_HELD]; /* to be handed in together */
	unsigned held_count;
	bool lent;
};

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void fuzz_open(struct fuzz *fuzz, uint8_t choices);
void fuzz_close(struct fuzz *fuzz);
/* A valid address in the arena. */
uint64_t fuzz_address(uint64_t offset);
/* Make a packet of these bytes, of this kind, to be handed in. RAW: unchanged. */
enum fuzz_kind { FUZZ_RAW, FUZZ_HELLO, FUZZ_SESSION, FUZZ_SCATTERED, FUZZ_KINDS };
void fuzz_packet(struct fuzz *fuzz, enum fuzz_kind kind, const uint8_t *bytes, size_t length);
/* Hand the packets in that were made. */
void fuzz_hand_in(struct fuzz *fuzz);
/* Take all events, and read their messages. */
void fuzz_take(struct fuzz *fuzz);
/* Take all packets from the core, and read the memory that they refer to. */
void fuzz_output(struct fuzz *fuzz);

#endif
