/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints. A transfer is known by the address of the context that
 * submitted it and its sequence number there; a block by its offset in it.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM exanest

#if !defined(EXANEST_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define EXANEST_TRACE_H

#include <linux/tracepoint.h>

#include "block.h"

/* clang-format off */
TRACE_EVENT(exanest_transfer_start,
	TP_PROTO(const struct exanest_transfer *transfer),
	TP_ARGS(transfer),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, sequence)
		__field(u64, peer)
		__field(u64, local)
		__field(u64, remote)
		__field(u64, length)
		__field(u16, op)
	),
	TP_fast_assign(
		__entry->context = transfer->address;
		__entry->sequence = transfer->sequence;
		__entry->peer = transfer->submission.peer;
		__entry->local = transfer->submission.local;
		__entry->remote = transfer->submission.remote;
		__entry->length = transfer->submission.length;
		__entry->op = transfer->submission.op;
	),
	TP_printk("transfer=%llu.%llu op=%u peer=%llu local=%#llx remote=%#llx length=%llu",
		  __entry->context, __entry->sequence, __entry->op, __entry->peer,
		  __entry->local, __entry->remote, __entry->length)
);

TRACE_EVENT(exanest_transfer_end,
	TP_PROTO(const struct exanest_transfer *transfer),
	TP_ARGS(transfer),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, sequence)
		__field(s32, status)
	),
	TP_fast_assign(
		__entry->context = transfer->address;
		__entry->sequence = transfer->sequence;
		__entry->status = transfer->status;
	),
	TP_printk("transfer=%llu.%llu status=%d",
		  __entry->context, __entry->sequence, __entry->status)
);

DECLARE_EVENT_CLASS(exanest_page_fault,
	TP_PROTO(const struct exanest_page_fault *fault),
	TP_ARGS(fault),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, sequence)
		__field(u64, offset)
		__field(u64, owner)
		__field(u64, address)
		__field(u32, length)
		__field(u32, retries)
		__field(bool, write)
	),
	TP_fast_assign(
		__entry->context = fault->context;
		__entry->sequence = fault->sequence;
		__entry->offset = fault->offset;
		__entry->owner = fault->owner;
		__entry->address = fault->address;
		__entry->length = fault->end - fault->start;
		__entry->retries = fault->retries;
		__entry->write = fault->write;
	),
	TP_printk("transfer=%llu.%llu offset=%llu length=%u owner=%llu address=%#llx %s retries=%u",
		  __entry->context, __entry->sequence, __entry->offset, __entry->length,
		  __entry->owner, __entry->address, __entry->write ? "write" : "read",
		  __entry->retries)
);

/* The resolver found a page absent, and is going to bring it in. */
DEFINE_EVENT(exanest_page_fault, exanest_fault,
	TP_PROTO(const struct exanest_page_fault *fault), TP_ARGS(fault));
/* It is for the process to bring it in. */
DEFINE_EVENT(exanest_page_fault, exanest_forward,
	TP_PROTO(const struct exanest_page_fault *fault), TP_ARGS(fault));
/* The block that met it is sent again. */
DEFINE_EVENT(exanest_page_fault, exanest_retransmit,
	TP_PROTO(const struct exanest_page_fault *fault), TP_ARGS(fault));

/* The block is ready again. ns: since the engine met the miss or fault. */
TRACE_EVENT(exanest_resolved,
	TP_PROTO(const struct exanest_page_fault *fault, u64 ns),
	TP_ARGS(fault, ns),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, sequence)
		__field(u64, offset)
		__field(u64, ns)
		__field(bool, fault)
	),
	TP_fast_assign(
		__entry->context = fault->context;
		__entry->sequence = fault->sequence;
		__entry->offset = fault->offset;
		__entry->ns = ns;
		__entry->fault = fault->counted;
	),
	TP_printk("transfer=%llu.%llu offset=%llu %s ns=%llu",
		  __entry->context, __entry->sequence, __entry->offset,
		  __entry->fault ? "fault" : "miss", __entry->ns)
);

/* The block cannot be moved. */
TRACE_EVENT(exanest_fail,
	TP_PROTO(const struct exanest_block *block, int status, u64 address),
	TP_ARGS(block, status, address),
	TP_STRUCT__entry(
		__field(u64, context)
		__field(u64, sequence)
		__field(u64, offset)
		__field(u64, address)
		__field(u32, side)
		__field(s32, status)
	),
	TP_fast_assign(
		__entry->context = block->transfer->address;
		__entry->sequence = block->transfer->sequence;
		__entry->offset = block->offset;
		__entry->address = address;
		__entry->side = block->side;
		__entry->status = status;
	),
	TP_printk("transfer=%llu.%llu offset=%llu side=%u address=%#llx status=%d",
		  __entry->context, __entry->sequence, __entry->offset, __entry->side,
		  __entry->address, __entry->status)
);

/* The kernel took translations away. event: enum mmu_notifier_event. */
TRACE_EVENT(exanest_invalidate,
	TP_PROTO(unsigned long start, unsigned long end, int event),
	TP_ARGS(start, end, event),
	TP_STRUCT__entry(
		__field(unsigned long, start)
		__field(unsigned long, end)
		__field(int, event)
	),
	TP_fast_assign(
		__entry->start = start;
		__entry->end = end;
		__entry->event = event;
	),
	TP_printk("start=%#lx end=%#lx event=%d", __entry->start, __entry->end, __entry->event)
);
/* clang-format on */

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
