/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of a context for pf_trace(1): a ring in a file of its own, in the folder of the
 * variable LIBPF_TRACE. The file outlives the process, whatever ended the process. Without the
 * variable there is no ring. base/probe.h lists the events.
 */
#ifndef PF_TRACE_H
#define PF_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"

#define TRACE_VARIABLE "LIBPF_TRACE"
/* Prefix of a file in the folder; mkostemp makes the rest. */
#define TRACE_PREFIX "trace."
#define TRACE_MAGIC 0x3165636172746670 /* "pftrace1" */
/* Increase the version with every change of the layout, or of the meaning of a field. */
#define TRACE_VERSION 1
/* Events of a ring: 4 MiB, of which only written pages have memory. A power of two. */
#define TRACE_EVENTS 65536
/* Bytes before the first event. */
#define TRACE_EVENTS_AT 4096

enum trace_kind {
	TRACE_TRANSFER = 1,  /* is posted */
	TRACE_TRANSFER_DONE, /* is over, with a status */
	TRACE_MOVED,         /* bytes were moved, by this process */
	TRACE_BLOCK,         /* a block to or from another host begins */
	TRACE_BLOCK_DONE,    /* a block to or from another host was sent, or is complete */
	TRACE_FAULT,         /* a block met a page fault */
	TRACE_RESOLVE,       /* the process of the page starts to resolve */
	TRACE_RESOLVED,      /* the process of the page is done, with a status */
	TRACE_RETRANSMIT,    /* the block is retransmitted after its fault */
	TRACE_LOST,          /* packets of a block were lost, and are retransmitted */
	TRACE_KINDS,
};

struct trace_event {
	_Atomic uint64_t number; /* from 1; written last. Any other number: overwritten */
	uint64_t time;           /* CLOCK_MONOTONIC, ns; with a duration: of the begin */
	uint64_t duration;       /* ns; 0: none */
	uint64_t transfer;       /* name of a transfer during its life; 0: unknown */
	uint64_t address;        /* in this process; of a fault: on its side */
	uint64_t remote;         /* address in the peer; 0: unknown */
	uint64_t length;         /* bytes */
	uint64_t peer;           /* trace_name of its id; 0: unknown */
	int32_t status;
	uint8_t kind;
	uint8_t side;  /* enum pf_side, of a fault */
	uint8_t fault; /* enum fault_kind, of a fault */
	uint8_t put;   /* else get; of a transfer and of a move */
};

struct trace_header {
	uint64_t magic;
	uint32_t version;
	uint32_t events;
	uint64_t started; /* CLOCK_MONOTONIC, ns */
	uint64_t name;    /* trace_name of the id of this context */
	int32_t pid;      /* in its own PID namespace */
	int32_t rank;     /* -1: unknown */
	char host[64], job[64], command[32];
	/* In lines of its own. */
	_Alignas(128) _Atomic uint64_t written; /* events, overwritten events included */
};

/* The file. */
struct trace {
	struct trace_header header;
	_Alignas(TRACE_EVENTS_AT) struct trace_event event[TRACE_EVENTS];
};

/* NULL: LIBPF_TRACE is not set, or the file cannot be made. id: of the context. */
struct trace *trace_open(const uint8_t *id);
void trace_close(struct trace *trace);

/* Any thread: record an event. Time 0 becomes now. */
void trace_record(struct trace *trace, const struct trace_event *event);

/* A short name of a context or a peer: of its random id. */
static inline uint64_t trace_name(const uint8_t *id)
{
	uint64_t name;

	__builtin_memcpy(&name, id, sizeof(name));
	return name;
}

/* The time for an event with a duration; 0 without a trace. */
static inline uint64_t trace_time(const struct trace *trace)
{
	return __builtin_expect(trace != NULL, 0) ? clock_nanoseconds(CLOCK_MONOTONIC) : 0;
}

#endif
