/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of the processes of a job (base/trace.h), read from files and checked: a file may be from
 * another version, torn by the end of the process, or forged.
 */
#ifndef TOOLS_TRACES_H
#define TOOLS_TRACES_H

#include <stddef.h>
#include <stdint.h>

#include "base/trace.h"

/* Status of a span without an end. */
#define TRACE_UNFINISHED 1

/* An event. TRACE_TRANSFER, _BLOCK and _RESOLVE are spans. */
struct traced {
	uint64_t number;
	uint64_t time, duration; /* ns */
	uint64_t transfer, address, remote, length, peer;
	int status; /* of a span: PF_OK, an error, or TRACE_UNFINISHED */
	enum trace_kind kind;
	unsigned side, fault;
	int put;
};

/* A context of a process. */
struct trace_of {
	int pid, rank; /* rank -1: unknown */
	uint64_t name;
	char host[64], job[64], command[32];
	struct traced *events; /* in the order of time */
	size_t count;
	uint64_t lost; /* events overwritten, torn or malformed */
};

struct traces {
	struct trace_of *list; /* by rank, host, pid */
	size_t count;
	uint64_t first, last; /* times */
};

/*
 * Read the files of a folder, with a message for each ignored file. Returns 0, or -1 after a
 * message.
 */
int traces_read(struct traces *traces, const char *folder);
void traces_free(struct traces *traces);
/* NULL: no trace. */
const struct trace_of *traces_find(const struct traces *traces, uint64_t name);
/* "rank 3", or "process 4711 of host". */
const char *trace_title(const struct trace_of *trace, char *buffer, size_t size);

/* Words for the documents. */
const char *trace_fault_name(unsigned fault);
const char *trace_side_name(unsigned side);
/* "4 MiB"; a number that is no multiple of a unit is in bytes. */
const char *trace_size(uint64_t bytes, char *buffer, size_t size);

#endif
