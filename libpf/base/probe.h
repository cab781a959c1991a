/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT) of provider libpf, for perf and bpftrace: see libpf(7). A probe
 * that is not in use is a nop. Without <sys/sdt.h> (systemtap-sdt-dev) there are none.
 */
#ifndef PF_PROBE_H
#define PF_PROBE_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdint.h>

#include "fault.h"
#include "pf.h"

#ifdef HAVE_SYS_SDT_H
#include <sys/sdt.h>
#else
#define DTRACE_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define DTRACE_PROBE4(provider, name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define DTRACE_PROBE5(provider, name, a, b, c, d, e)                                               \
	((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#endif

/* A block met a page fault. */
static inline void probe_fault(const void *context, const void *transfer, enum pf_side side,
			       enum fault_kind kind, uint64_t address)
{
	DTRACE_PROBE5(libpf, fault, context, transfer, (int)side, (int)kind, address);
}

/* These two on the side that owns the memory. */
static inline void probe_resolve_start(uint64_t address, uint64_t length, enum pf_policy policy)
{
	DTRACE_PROBE3(libpf, resolve_start, address, length, (int)policy);
}

static inline void probe_resolve_done(uint64_t address, uint64_t length, int status,
				      uint64_t nanoseconds)
{
	DTRACE_PROBE4(libpf, resolve_done, address, length, status, nanoseconds);
}

/* The page fault of a block was resolved, and the block is retransmitted. */
static inline void probe_retransmit(const void *transfer, uint64_t offset, uint64_t length)
{
	DTRACE_PROBE3(libpf, retransmit, transfer, offset, length);
}

#endif
