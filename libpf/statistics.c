/* SPDX-License-Identifier: BSD-3-Clause */
#include "statistics.h"

#include "context.h"

static const pf_stat_info table[PF_STAT_COUNT] = {
	[PF_STAT_SENDS] = { "sends", "messages sent" },
	[PF_STAT_SEND_BYTES] = { "send_bytes", "bytes of messages sent through the ring" },
	[PF_STAT_RECEIVES] = { "receives", "messages received" },
	[PF_STAT_RECEIVE_BYTES] = { "receive_bytes", "bytes of messages received" },
	[PF_STAT_PUTS] = { "puts", "puts completed" },
	[PF_STAT_GETS] = { "gets", "gets completed" },
	[PF_STAT_ATOMICS] = { "atomics", "atomic operations completed" },
	[PF_STAT_SINGLE_COPY_BYTES] = { "single_copy_bytes",
					"bytes moved by single copy for transfers of this process" },
	[PF_STAT_SHARED_BYTES] = { "shared_bytes", "bytes moved by single copy from the other "
						   "end, for transfers of peers" },
	[PF_STAT_STREAM_BYTES] = { "stream_bytes",
				   "bytes of transfers that went through the ring" },
	[PF_STAT_LOCAL_FAULTS] = { "local_faults", "blocks parked for a fault here" },
	[PF_STAT_REMOTE_FAULTS] = { "remote_faults", "blocks parked for a fault in the peer" },
	[PF_STAT_LOCAL_MINOR] = { "local_minor_faults", "faults on memory here never touched" },
	[PF_STAT_LOCAL_MAJOR] = { "local_major_faults", "faults on pages here in swap or a file" },
	[PF_STAT_LOCAL_PAGER] = { "local_pager_faults", "faults on pages of a pager here" },
	[PF_STAT_LOCAL_PERMISSION] = { "local_permission_faults",
				       "faults here that could not be resolved" },
	[PF_STAT_REMOTE_MINOR] = { "remote_minor_faults",
				   "faults on memory of the peer never touched" },
	[PF_STAT_REMOTE_MAJOR] = { "remote_major_faults",
				   "faults on pages of the peer in swap or a file" },
	[PF_STAT_REMOTE_PAGER] = { "remote_pager_faults", "faults on pages of the peer's pager" },
	[PF_STAT_REMOTE_PERMISSION] = { "remote_permission_faults",
					"faults in the peer that could not be resolved" },
	[PF_STAT_RETRANSMITS] = { "retransmits",
				  "blocks sent again after their fault was resolved" },
	[PF_STAT_FAULT_ERRORS] = { "fault_errors", "transfers ended by a fault that could not be "
						   "resolved" },
	[PF_STAT_RING_FULL] = { "ring_full", "sends turned away because the ring was full" },
	[PF_STAT_COLLAPSED] = { "collapsed", "2 MiB ranges of hot buffers made huge pages" },
	[PF_STAT_SLEEPS] = { "sleeps", "times the progress function slept for want of work" },
	[PF_STAT_PEERS] = { "peers", "peers connected to" },
};

const pf_stat_info *pf_stat_table(void)
{
	return table;
}

uint64_t pf_stat(const pf_context *context, enum pf_stat stat)
{
	if ((unsigned)stat >= PF_STAT_COUNT)
		return 0;
	if (stat == PF_STAT_COLLAPSED)
		return atomic_load_explicit(&((pf_context *)(uintptr_t)context)->collapsed,
					    memory_order_relaxed);
	return atomic_load_explicit(&context->statistics.value[stat], memory_order_relaxed);
}
