/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzer of a sequence of packets from a peer that knows the keys and breaks the protocol, mixed
 * with calls of the user, time and resolved faults. A step is a byte for its kind, and its
 * arguments. Packets are handed in with those behind them if bit 5 of that byte is set.
 */
#include "fuzz.h"

struct input {
	const uint8_t *bytes;
	size_t left;
};

static uint64_t take(struct input *input, unsigned count)
{
	uint64_t value = 0;

	while (count-- && input->left) {
		value = value << 8 | *input->bytes++;
		input->left--;
	}
	return value;
}

static void packet(struct fuzz *fuzz, struct input *input, enum fuzz_kind kind, bool more)
{
	size_t length = take(input, 1) * 2;

	if (length > input->left)
		length = input->left;
	fuzz_packet(fuzz, kind, input->bytes, length);
	if (!more)
		fuzz_hand_in(fuzz);
	input->bytes += length;
	input->left -= length;
}

/* Of an operation, besides the first. */
#define PIECES_MOST 5

static void post(struct fuzz *fuzz, struct input *input)
{
	struct net_association *association = fuzz->association;
	uint64_t local = fuzz_address(take(input, 2)), length = take(input, 2);
	unsigned what = (unsigned)take(input, 1), count = what / 4 % (PIECES_MOST + 1);
	pf_piece pieces[1 + PIECES_MOST] = { { (void *)(uintptr_t)local, 0x10000, length + 1 } };
	unsigned i;

	/* Pieces behind the first may be empty, and overlap each other. */
	for (i = 1; i <= count; i++)
		pieces[i] = (pf_piece){ (void *)(uintptr_t)fuzz_address(take(input, 2)),
					0x10000 + take(input, 2), take(input, 1) };
	switch (what % 4) {
	case 0:
		if (what & 128) {
			/* A put of one piece, or of none. */
			pf_signal signal = { (enum pf_signal_op)(count % 3), 0x10000, length };

			pieces[0].length *= count / 3;
			net_put_signal(association, pieces, &signal, NULL);
			break;
		}
		net_put(association, pieces, 1 + count, NULL);
		break;
	case 1:
		net_get(association, pieces, 1 + count, NULL);
		break;
	case 2:
		net_atomic(association, PF_ATOMIC_ADD, 8, 0x10000, length, 0, NULL);
		break;
	default:
		net_send(association, 1, NULL, 0, (void *)(uintptr_t)fuzz_address(0),
			 length % FUZZ_ARENA);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	struct net_place places[8];
	struct fuzz fuzz;
	unsigned steps;
	uint32_t header;

	fuzz_open(&fuzz, (uint8_t)take(&input, 1));
	for (steps = 0; input.left && steps < 64; steps++) {
		unsigned step = (unsigned)take(&input, 1);

		if (step % 16 < 8)
			fuzz_hand_in(&fuzz);
		switch (step % 16) {
		case 0:
			fuzz_output(&fuzz);
			break;
		case 1:
			fuzz.now += take(&input, 1) << (step >> 3 & 30);
			net_advance(fuzz.core, fuzz.now);
			break;
		case 2:
			post(&fuzz, &input);
			break;
		case 3:
			if (fuzz.waits_count)
				net_resolved(fuzz.core, fuzz.waits[--fuzz.waits_count],
					     step & 16 ? PF_ERR_FAULT : PF_OK, fuzz_address(0));
			break;
		case 4:
			fuzz_take(&fuzz);
			break;
		case 5:
			net_predict(fuzz.core, fuzz.now, places, 8, &header);
			if (step & 16)
				net_misplaced(fuzz.core);
			break;
		case 6:
			if (net_output(fuzz.core, fuzz.now, fuzz.batch))
				net_unsent(fuzz.core, fuzz.batch, fuzz.answers & 1);
			break;
		case 7:
			net_too_big(fuzz.core, &(struct net_endpoint){ { 0 } }, take(&input, 2));
			break;
		case 8:
			packet(&fuzz, &input, FUZZ_HELLO, step & 32);
			break;
		case 9:
			packet(&fuzz, &input, FUZZ_SCATTERED, step & 32);
			break;
		default:
			packet(&fuzz, &input, FUZZ_SESSION, step & 32);
			break;
		}
	}
	fuzz_hand_in(&fuzz);
	fuzz_output(&fuzz);
	fuzz_close(&fuzz);
	return 0;
}
