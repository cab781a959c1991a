/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "file.h"

static_assert(sizeof(struct trace_event) == 72, "no gaps");
static_assert(offsetof(struct trace, event) == TRACE_EVENTS_AT, "the header is before them");

static int environment_rank(void)
{
	const char *text = getenv("OMPI_COMM_WORLD_RANK");
	char *end;
	long rank;

	if (!text)
		text = getenv("PMIX_RANK");
	if (!text)
		return -1;
	rank = strtol(text, &end, 10);
	return end == text || *end || rank < 0 || rank > INT_MAX ? -1 : (int)rank;
}

static void trace_describe(struct trace_header *trace, const uint8_t *id)
{
	const char *job = getenv("PMIX_NAMESPACE");

	trace->version = TRACE_VERSION;
	trace->events = TRACE_EVENTS;
	trace->started = clock_nanoseconds(CLOCK_MONOTONIC);
	trace->name = trace_name(id);
	trace->pid = getpid();
	trace->rank = environment_rank();
	gethostname(trace->host, sizeof(trace->host) - 1);
	snprintf(trace->job, sizeof(trace->job), "%s", job ? job : "");
	snprintf(trace->command, sizeof(trace->command), "%s", program_invocation_short_name);
}

struct trace *trace_open(const uint8_t *id)
{
	/* A program with more rights than its user does not write to a folder named by the user. */
	const char *folder = secure_getenv(TRACE_VARIABLE);
	struct trace *trace = MAP_FAILED;
	char path[PATH_MAX];
	int fd;

	if (!folder ||
	    snprintf(path, sizeof(path), "%s/" TRACE_PREFIX "XXXXXX", folder) >= (int)sizeof(path))
		return NULL;
	/* Mode 0600: other users must not read addresses. */
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return NULL;
	/* Allocated now: a full file system must not become a SIGBUS later. */
	if (file_size_permitted(sizeof(*trace)) && !posix_fallocate(fd, 0, sizeof(*trace)))
		trace = mmap(NULL, sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (trace == MAP_FAILED) {
		unlink(path);
		return NULL;
	}
	trace_describe(&trace->header, id);
	atomic_thread_fence(memory_order_release);
	trace->header.magic = TRACE_MAGIC;
	return trace;
}

void trace_close(struct trace *trace)
{
	if (trace)
		munmap(trace, sizeof(*trace));
}

void trace_record(struct trace *trace, const struct trace_event *event)
{
	uint64_t number = atomic_fetch_add_explicit(&trace->header.written, 1,
						    memory_order_relaxed);
	struct trace_event *slot = &trace->event[number % TRACE_EVENTS];
	const size_t behind = offsetof(struct trace_event, time);

	assert_that(event->kind && event->kind < TRACE_KINDS);
	/* A process killed in between leaves a slot with number 0, recognized by the reader. */
	atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)slot + behind, (const char *)event + behind, sizeof(*event) - behind);
	if (!slot->time)
		slot->time = clock_nanoseconds(CLOCK_MONOTONIC);
	atomic_store_explicit(&slot->number, number + 1, memory_order_release);
}
