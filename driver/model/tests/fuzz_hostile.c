// SPDX-License-Identifier: GPL-2.0
/* libFuzzer finds the bytes. */
#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	hostile_run(bytes, length);
	return 0;
}
