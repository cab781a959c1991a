/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

static void transfer_end_at(struct transfer *transfer, uint64_t offset, int status,
			    enum pf_side side, uint64_t address)
{
	if (!transfer->failed || offset < transfer->failed_at) {
		transfer->failed_at = offset;
		transfer->operation.completion.status = status;
		transfer->operation.completion.side = side;
		transfer->operation.completion.address = address;
	}
	transfer->failed = true;
	transfer->run = transfer->run_end;
}

void transfer_fail(struct transfer *transfer, int status)
{
	transfer_end_at(transfer, 0, status, PF_SIDE_NONE, 0);
}

void transfer_fault(struct transfer *transfer, uint64_t offset, int status, enum pf_side side,
		    uint64_t address)
{
	transfer_end_at(transfer, offset, status, side, address);
}
