/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT) of provider libpf, for perf and bpftrace: see libpf(7). A probe not in use
 * is a nop. Without <sys/sdt.h> (systemtap-sdt-dev) there are none. Each call also records the
 * event for pf_trace(1).
 */
#ifndef PF_PROBE_H
#define PF_PROBE_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"
#include <libpf/pf.h>
#include "trace.h"

#ifdef HAVE_SYS_SDT_H
#include <sys/sdt.h>
#else
#define DTRACE_PROBE2(provider, name, a, b) ((void)(a), (void)(b))
#define DTRACE_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define DTRACE_PROBE4(provider, name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define DTRACE_PROBE5(provider, name, a, b, c, d, e)                                               \
	((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#endif

/* Record an event with the given fields, if the context has a trace: else a branch. */
#define trace_note(trace, ...)                                                                     \
	do {                                                                                       \
		if (__builtin_expect((trace) != NULL, 0))                                          \
			trace_record(trace, &(struct trace_event){ __VA_ARGS__ });                 \
	} while (0)

/*
 * Each function is a probe and, if the context has a trace, an event. transfer: the operation of
 * the event; NULL: unknown.
 */

/* A put or get is posted, not done at once. peer: id of the peer. */
static inline void probe_transfer(struct trace *trace, const void *transfer, bool put,
				  uint64_t local, uint64_t remote, uint64_t length,
				  const uint8_t *peer)
{
	DTRACE_PROBE5(libpf, transfer, transfer, (int)put, local, remote, length);
	trace_note(trace, .kind = TRACE_TRANSFER, .transfer = (uintptr_t)transfer, .put = put,
		   .address = local, .remote = remote, .length = length, .peer = trace_name(peer));
}

static inline void probe_transfer_done(struct trace *trace, const void *transfer, int status)
{
	DTRACE_PROBE2(libpf, transfer_done, transfer, status);
	trace_note(trace, .kind = TRACE_TRANSFER_DONE, .transfer = (uintptr_t)transfer,
		   .status = status);
}

/*
 * No probe, only an event, where there is a trace: the process moved bytes from the time since
 * (trace_time) on. transfer: NULL if the bytes are a whole transfer, or belong to a transfer of
 * the peer with the id.
 */
static inline void record_moved(struct trace *trace, uint64_t since, const void *transfer, bool put,
				uint64_t local, uint64_t remote, uint64_t length,
				const uint8_t *peer)
{
	trace_note(trace, .kind = TRACE_MOVED, .time = since,
		   .duration = clock_nanoseconds(CLOCK_MONOTONIC) - since,
		   .transfer = (uintptr_t)transfer, .put = put, .address = local, .remote = remote,
		   .length = length, .peer = trace_name(peer));
}

/* Only events: a block goes out in packets (put), or comes in. */
static inline void record_block(struct trace *trace, enum trace_kind kind, bool put,
				uint64_t address, uint64_t length)
{
	trace_note(trace, .kind = (uint8_t)kind, .put = put, .address = address, .length = length);
}

/* A block met a page fault. length: of the block, from the address on; 0: unknown. */
static inline void probe_fault(struct trace *trace, const void *context, const void *transfer,
			       enum pf_side side, enum fault_kind kind, uint64_t address,
			       uint64_t length)
{
	DTRACE_PROBE5(libpf, fault, context, transfer, (int)side, (int)kind, address);
	trace_note(trace, .kind = TRACE_FAULT, .transfer = (uintptr_t)transfer,
		   .side = (uint8_t)side, .fault = (uint8_t)kind, .address = address,
		   .length = length);
}

/* probe_resolve_start and probe_resolve_done: on the side of the owner of the memory. */
static inline void probe_resolve_start(struct trace *trace, uint64_t address, uint64_t length,
				       enum pf_policy policy)
{
	DTRACE_PROBE3(libpf, resolve_start, address, length, (int)policy);
	trace_note(trace, .kind = TRACE_RESOLVE, .address = address, .length = length);
}

static inline void probe_resolve_done(struct trace *trace, uint64_t address, uint64_t length,
				      int status, uint64_t nanoseconds)
{
	DTRACE_PROBE4(libpf, resolve_done, address, length, status, nanoseconds);
	trace_note(trace, .kind = TRACE_RESOLVED, .duration = nanoseconds, .address = address,
		   .length = length, .status = status);
}

/* The page fault of a block was resolved, and the block is retransmitted. */
static inline void probe_retransmit(struct trace *trace, const void *transfer, uint64_t address,
				    uint64_t offset, uint64_t length)
{
	DTRACE_PROBE3(libpf, retransmit, transfer, offset, length);
	trace_note(trace, .kind = TRACE_RETRANSMIT, .transfer = (uintptr_t)transfer,
		   .address = address, .length = length);
}

#endif
