/* SPDX-License-Identifier: BSD-3-Clause */
#include "traces.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include <libpf/pf.h>
#include "text.h"

static int read_all(int fd, void *to, size_t length, off_t at)
{
	ssize_t bytes;
	size_t done = 0;

	while (done < length) {
		bytes = pread(fd, (char *)to + done, length - done, at + (off_t)done);
		if (bytes <= 0)
			return -1;
		done += (size_t)bytes;
	}
	return 0;
}

/* Return whether trace_record wrote the event at the place, and no later event overwrote it. */
static bool event_is_valid(const struct trace_event *event, uint64_t place, uint64_t written)
{
	uint64_t number = event->number;

	return number && number <= written && written - number < TRACE_EVENTS &&
	       (number - 1) % TRACE_EVENTS == place && event->kind && event->kind < TRACE_KINDS &&
	       event->side <= PF_SIDE_REMOTE && event->fault <= FAULT_PERMISSION &&
	       event->time <= INT64_MAX && event->duration <= INT64_MAX - event->time &&
	       event->address + event->length >= event->address && event->status <= PF_OK &&
	       event->status >= PF_ERR_SYSTEM;
}

static struct traced event_convert(const struct trace_event *event)
{
	return (struct traced){
		.number = event->number,
		.time = event->time,
		.duration = event->kind == TRACE_MOVED ? event->duration : 0,
		.transfer = event->transfer,
		.address = event->address,
		.remote = event->remote,
		.length = event->length,
		.peer = event->peer,
		.status = event->status,
		.kind = (enum trace_kind)event->kind,
		.side = event->side,
		.fault = event->fault,
		.put = event->put != 0,
	};
}

static int by_time(const void *a, const void *b)
{
	const struct traced *x = a, *y = b;

	if (x->time != y->time)
		return x->time > y->time ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

static bool is_beginning(enum trace_kind kind)
{
	return kind == TRACE_TRANSFER || kind == TRACE_BLOCK || kind == TRACE_RESOLVE;
}

static bool is_end(enum trace_kind kind)
{
	return kind == TRACE_TRANSFER_DONE || kind == TRACE_BLOCK_DONE || kind == TRACE_RESOLVED;
}

/*
 * Return whether the event ends the span. A range may be resolved for several blocks: the first
 * block.
 */
static bool event_ends_span(const struct traced *event, const struct traced *span)
{
	if (span->kind == TRACE_TRANSFER)
		return event->kind == TRACE_TRANSFER_DONE && event->transfer == span->transfer;
	if (span->kind == TRACE_BLOCK)
		return event->kind == TRACE_BLOCK_DONE && event->address == span->address &&
		       event->length == span->length && event->put == span->put;
	return event->kind == TRACE_RESOLVED && event->address == span->address &&
	       event->length == span->length;
}

/* Give each beginning its duration and status, and remove the event of its end. */
static void trace_pair_spans(struct trace_of *trace)
{
	size_t *open = calloc(trace->count + 1, sizeof(*open)), opened = 0, kept = 0, i, j;
	uint64_t last = trace->count ? trace->events[trace->count - 1].time : 0;

	if (!open)
		err(EXIT_FAILURE, "events");
	for (i = 0; i < trace->count; i++) {
		struct traced event = trace->events[i];

		if (!is_end(event.kind)) {
			if (is_beginning(event.kind)) {
				event.status = TRACE_UNFINISHED;
				event.duration = last - event.time;
				open[opened++] = kept;
			}
			trace->events[kept++] = event;
			continue;
		}
		for (j = 0; j < opened && !event_ends_span(&event, &trace->events[open[j]]); j++)
			;
		if (j == opened)
			continue;
		trace->events[open[j]].duration = event.time - trace->events[open[j]].time;
		trace->events[open[j]].status = event.status;
		memmove(&open[j], &open[j + 1], (--opened - j) * sizeof(*open));
	}
	trace->count = kept;
	free(open);
}

static int read_events(int fd, const struct trace_header *header, struct trace_of *trace)
{
	uint64_t written = header->written, present, i;
	struct trace_event *events;

	present = written < TRACE_EVENTS ? written : TRACE_EVENTS;
	events = calloc(present + 1, sizeof(*events));
	trace->events = calloc(present + 1, sizeof(*trace->events));
	if (!events || !trace->events)
		err(EXIT_FAILURE, "events");
	if (read_all(fd, events, present * sizeof(*events), TRACE_EVENTS_AT)) {
		free(events);
		free(trace->events);
		return -1;
	}
	for (i = 0; i < present; i++) {
		if (event_is_valid(&events[i], i, written))
			trace->events[trace->count++] = event_convert(&events[i]);
	}
	free(events);
	trace->lost = written - trace->count;
	qsort(trace->events, trace->count, sizeof(*trace->events), by_time);
	trace_pair_spans(trace);
	return 0;
}

/* Returns NULL, or why the file is ignored. */
static const char *read_trace(int fd, struct trace_of *trace)
{
	struct trace_header header;
	struct stat file;

	if (fstat(fd, &file))
		return "it cannot be read";
	if (!S_ISREG(file.st_mode) || file.st_uid != geteuid())
		return "it is not a file of this user";
	if (read_all(fd, &header, sizeof(header), 0) || header.magic != TRACE_MAGIC)
		return "it is malformed";
	if (header.version != TRACE_VERSION || header.events != TRACE_EVENTS ||
	    file.st_size != (off_t)sizeof(struct trace))
		return "it is of another version of libpf; use the pf_trace of that version";
	header.host[sizeof(header.host) - 1] = 0;
	header.job[sizeof(header.job) - 1] = 0;
	header.command[sizeof(header.command) - 1] = 0;
	trace->pid = header.pid;
	trace->rank = header.rank < 0 ? -1 : header.rank;
	trace->name = header.name;
	copy_printable(trace->host, sizeof(trace->host), header.host);
	copy_printable(trace->job, sizeof(trace->job), header.job);
	copy_printable(trace->command, sizeof(trace->command), header.command);
	return read_events(fd, &header, trace) ? "it cannot be read" : NULL;
}

static int by_rank(const void *a, const void *b)
{
	const struct trace_of *x = a, *y = b;
	int order = strcmp(x->job, y->job);

	if (!order)
		order = (x->rank > y->rank) - (x->rank < y->rank);
	if (!order)
		order = strcmp(x->host, y->host);
	return order ? order : (x->pid > y->pid) - (x->pid < y->pid);
}

static void traces_add(struct traces *traces, const struct trace_of *trace)
{
	struct trace_of *list = realloc(traces->list, (traces->count + 1) * sizeof(*list));
	size_t i;

	if (!list)
		err(EXIT_FAILURE, "traces");
	traces->list = list;
	list[traces->count++] = *trace;
	for (i = 0; i < trace->count; i++) {
		uint64_t end = trace->events[i].time + trace->events[i].duration;

		if (!traces->last || trace->events[i].time < traces->first)
			traces->first = trace->events[i].time;
		if (end > traces->last)
			traces->last = end;
	}
}

int traces_read(struct traces *traces, const char *folder)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;

	*traces = (struct traces){ 0 };
	if (!directory) {
		warn("%s", folder);
		return -1;
	}
	while ((entry = readdir(directory))) {
		struct trace_of trace = { 0 };
		const char *why;
		int fd;

		if (strncmp(entry->d_name, TRACE_PREFIX, strlen(TRACE_PREFIX)) != 0)
			continue;
		/* Another process may have put anything there, even a FIFO. */
		fd = openat(dirfd(directory), entry->d_name,
			    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		why = fd < 0 ? strerror(errno) : read_trace(fd, &trace);
		if (why)
			warnx("%s/%s: ignored, %s", folder, entry->d_name, why);
		else
			traces_add(traces, &trace);
		if (fd >= 0)
			close(fd);
	}
	closedir(directory);
	if (traces->count)
		qsort(traces->list, traces->count, sizeof(*traces->list), by_rank);
	return 0;
}

void traces_free(struct traces *traces)
{
	size_t i;

	for (i = 0; i < traces->count; i++)
		free(traces->list[i].events);
	free(traces->list);
	*traces = (struct traces){ 0 };
}

const struct trace_of *traces_find(const struct traces *traces, uint64_t name)
{
	size_t i;

	for (i = 0; i < traces->count && traces->list[i].name != name; i++)
		;
	return i < traces->count ? &traces->list[i] : NULL;
}

const char *trace_title(const struct trace_of *trace, char *buffer, size_t size)
{
	if (trace->rank >= 0)
		snprintf(buffer, size, "rank %d", trace->rank);
	else
		snprintf(buffer, size, "process %d of %s", trace->pid, trace->host);
	return buffer;
}

const char *trace_fault_name(unsigned fault)
{
	static const char *const names[] = { "minor", "major", "pager", "permission" };

	return names[fault];
}

const char *trace_side_name(unsigned side)
{
	return side == PF_SIDE_REMOTE ? "remote" : "local";
}

const char *trace_size(uint64_t bytes, char *buffer, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	unsigned unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(buffer, size, "%" PRIu64 " %s", bytes, units[unit]);
	return buffer;
}
