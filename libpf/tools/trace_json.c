/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process of the format is a context, with tracks of events without duration. Events with a
 * duration may overlap: each is a pair of asynchronous events with its own id.
 */
#include "trace_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "json.h"
#include <libpf/pf.h>

enum track { TRACK_FAULTS = 1, TRACK_RETRANSMITS, TRACK_LOSSES };

static const char *const tracks[] = {
	[TRACK_FAULTS] = "page faults",
	[TRACK_RETRANSMITS] = "retransmitted blocks",
	[TRACK_LOSSES] = "lost packets",
};

struct writer {
	const struct traces *traces;
	const struct trace_of *trace;
	unsigned process;
	uint64_t spans; /* written already */
};

static void json_address(const char *key, uint64_t value)
{
	char text[32];

	if (!value)
		return;
	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_string(key, text);
}

static void json_event_arguments(const struct writer *writer, const struct traced *event)
{
	const struct trace_of *peer = event->peer ? traces_find(writer->traces, event->peer) : NULL;
	char title[128];

	json_start("args", '{');
	json_address("address", event->address);
	json_address("remote", event->remote);
	json_number("length", event->length);
	json_address("transfer", event->transfer);
	if (peer)
		json_string("peer", trace_title(peer, title, sizeof(title)));
	if (event->kind == TRACE_FAULT) {
		json_string("side", trace_side_name(event->side));
		json_string("kind", trace_fault_name(event->fault));
	}
	if (event->status == TRACE_UNFINISHED)
		json_string("status", "not finished when the record ends");
	else if (event->status != PF_OK)
		json_string("status", pf_strerror(event->status));
	json_end('}');
}

static void json_event_begin(const struct writer *writer, const char *phase, const char *name,
			     uint64_t time)
{
	json_start(NULL, '{');
	json_string("ph", phase);
	json_string("name", name);
	json_number("pid", writer->process);
	json_real("ts", (double)(time - writer->traces->first) / 1000);
}

static void json_instant(const struct writer *writer, const struct traced *event, enum track track,
			 const char *name)
{
	json_event_begin(writer, "i", name, event->time);
	json_string("s", "t");
	json_number("tid", track);
	json_event_arguments(writer, event);
	json_end('}');
}

static void json_span(struct writer *writer, const struct traced *event, const char *category,
		      const char *verb)
{
	char name[64], size[32];

	snprintf(name, sizeof(name), "%s %s", verb, trace_size(event->length, size, sizeof(size)));
	writer->spans++;
	json_event_begin(writer, "b", name, event->time);
	json_string("cat", category);
	json_number("id", writer->spans);
	json_number("tid", 0);
	json_event_arguments(writer, event);
	json_end('}');
	json_event_begin(writer, "e", name, event->time + event->duration);
	json_string("cat", category);
	json_number("id", writer->spans);
	json_number("tid", 0);
	json_end('}');
}

static void print_event(struct writer *writer, const struct traced *event)
{
	char name[64];

	switch (event->kind) {
	case TRACE_TRANSFER:
		json_span(writer, event, "transfer", event->put ? "put" : "get");
		break;
	case TRACE_MOVED:
		json_span(writer, event, "block",
			  event->put ? "copy to the peer" : "copy from the peer");
		break;
	case TRACE_BLOCK:
		json_span(writer, event, "block", event->put ? "send" : "receive");
		break;
	case TRACE_RESOLVE:
		json_span(writer, event, "resolution", "resolve");
		break;
	case TRACE_FAULT:
		snprintf(name, sizeof(name), "%s fault, %s", trace_fault_name(event->fault),
			 trace_side_name(event->side));
		json_instant(writer, event, TRACK_FAULTS, name);
		break;
	case TRACE_RETRANSMIT:
		json_instant(writer, event, TRACK_RETRANSMITS, "retransmit");
		break;
	case TRACE_LOST:
		json_instant(writer, event, TRACK_LOSSES, "lost");
		break;
	case TRACE_TRANSFER_DONE:
	case TRACE_BLOCK_DONE:
	case TRACE_RESOLVED:
	case TRACE_KINDS:
		break;
	}
}

static void name_track(const struct writer *writer, const char *what, unsigned track,
		       const char *name)
{
	json_start(NULL, '{');
	json_string("ph", "M");
	json_string("name", what);
	json_number("pid", writer->process);
	json_number("tid", track);
	json_start("args", '{');
	json_string("name", name);
	json_end('}');
	json_end('}');
}

static void print_trace(struct writer *writer)
{
	const struct trace_of *trace = writer->trace;
	char title[128], name[256];
	unsigned track;
	size_t i;

	snprintf(name, sizeof(name), "%s: %s on %s, pid %d",
		 trace_title(trace, title, sizeof(title)), trace->command, trace->host, trace->pid);
	name_track(writer, "process_name", 0, name);
	for (track = TRACK_FAULTS; track <= TRACK_LOSSES; track++)
		name_track(writer, "thread_name", track, tracks[track]);
	for (i = 0; i < trace->count; i++)
		print_event(writer, &trace->events[i]);
}

void trace_json_print(const struct traces *traces)
{
	struct writer writer = { .traces = traces };
	char title[128];
	size_t i;

	json_start(NULL, '{');
	json_string("displayTimeUnit", "ns");
	json_start("otherData", '{');
	json_version();
	for (i = 0; i < traces->count; i++) {
		char key[160];

		snprintf(key, sizeof(key), "events lost, %s",
			 trace_title(&traces->list[i], title, sizeof(title)));
		json_number(key, traces->list[i].lost);
	}
	json_end('}');
	json_start("traceEvents", '[');
	for (i = 0; i < traces->count; i++) {
		writer.trace = &traces->list[i];
		writer.process = (unsigned)i + 1;
		print_trace(&writer);
	}
	json_end(']');
	json_end('}');
	json_finish();
}
