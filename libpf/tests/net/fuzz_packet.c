/* SPDX-License-Identifier: BSD-3-Clause */
/* The packet door: one packet, raw or with a right tag. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz fuzz;

	if (size < 2)
		return 0;
	fuzz_open(&fuzz, data[0]);
	fuzz_packet(&fuzz, (enum fuzz_kind)(data[1] % FUZZ_KINDS), data + 2, size - 2);
	fuzz_output(&fuzz);
	fuzz_close(&fuzz);
	return 0;
}
