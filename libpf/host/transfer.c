/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

void transfer_fail(struct transfer *transfer, int status, enum pf_side side, uint64_t address)
{
	uint64_t offset = status == PF_ERR_FAULT ? address - transfer_address(transfer, side) : 0;

	if (!transfer->failed || offset < transfer->failed_at) {
		transfer->failed_at = offset;
		transfer->operation.completion.status = status;
		transfer->operation.completion.side = side;
		transfer->operation.completion.address = address;
	}
	transfer->failed = true;
	transfer->run = transfer->run_end;
}
