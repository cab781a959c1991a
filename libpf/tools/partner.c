/* SPDX-License-Identifier: BSD-3-Clause */
#include "partner.h"

#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "pattern.h"
#include "protocol.h"
#include "reply.h"
#include "sample.h"
#include "waiting.h"

void log_print(pf_context *context, pf_peer *peer, enum pf_log_level level, const char *text,
	       void *arg)
{
	(void)context;
	(void)peer;
	(void)level;
	(void)arg;
	warnx("warning: %s", text);
}

struct partner {
	pf_context *context;
	struct waiting waiting;
	pf_peer *caller; /* measuring process; NULL before the first message */
	uint8_t *buffer;
	size_t buffer_size;
	bool verify;    /* compare each message with the buffer */
	uint64_t wrong; /* messages with wrong contents */
	struct reply_queue replies;
	bool done;
	int status; /* reason for done */
};

static void partner_finish(struct partner *partner, int status)
{
	partner->status = status;
	partner->done = true;
}

static void partner_reply(struct partner *partner, uint32_t tag, const void *data, size_t length)
{
	int status = reply_send(&partner->replies, partner->caller, tag, data, length);

	if (status != PF_OK)
		partner_finish(partner, status);
}

static void send_notice(struct partner *partner)
{
	uint64_t nothing = 0;

	partner_reply(partner, TAG_NOTICE, &nothing, sizeof(nothing));
}

static bool slots_fit(const struct control *control, uint64_t size)
{
	return control->length <= control->stride && control->count &&
	       control->stride <= size / control->count;
}

static int grow_buffer(struct partner *partner, uint64_t size)
{
	uint8_t *buffer;

	if (size <= partner->buffer_size)
		return PF_OK;
	buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		return PF_ERR_MEMORY;
	if (partner->buffer)
		munmap(partner->buffer, partner->buffer_size);
	partner->buffer = buffer;
	partner->buffer_size = size;
	return PF_OK;
}

static void partner_prepare(struct partner *partner, struct control *control)
{
	uint64_t slot;

	control->status = PF_ERR_ARGUMENT;
	if (!slots_fit(control, INT64_MAX))
		return;
	control->status = grow_buffer(partner, control->stride * control->count);
	if (control->status != PF_OK)
		return;
	for (slot = 0; slot < control->count; slot++)
		pattern_fill(partner->buffer + slot * control->stride, control->length,
			     control->seed + slot);
	control->address = (uint64_t)(uintptr_t)partner->buffer;
	partner->verify = control->verify;
	partner->wrong = 0;
}

static void partner_check(struct partner *partner, struct control *control)
{
	uint64_t slot;

	control->status = PF_ERR_ARGUMENT;
	if (!slots_fit(control, partner->buffer_size))
		return;
	control->status = PF_OK;
	control->wrong = partner->wrong;
	for (slot = 0; slot < control->count; slot++)
		control->wrong += !pattern_matches(partner->buffer + slot * control->stride,
						   control->length, control->seed + slot);
}

static uint64_t send_max(const struct partner *partner)
{
	pf_attributes attributes;

	pf_query(partner->context, &attributes, sizeof(attributes));
	return attributes.send_max;
}

static void run_control(struct partner *partner, const void *data, size_t length)
{
	struct control control;

	if (length != sizeof(control))
		return;
	memcpy(&control, data, sizeof(control));
	if (control.magic != PROTOCOL_MAGIC)
		return;
	control.status = PF_OK;
	switch (control.kind) {
	case CONTROL_HELLO:
		control.length = send_max(partner);
		break;
	case CONTROL_PREPARE:
		partner_prepare(partner, &control);
		break;
	case CONTROL_CHECK:
		partner_check(partner, &control);
		break;
	case CONTROL_PATH:
		snprintf(control.text, sizeof(control.text), "%s", pf_peer_path(partner->caller));
		break;
	case CONTROL_STATISTIC:
		control.length = pf_stat(partner->context, (enum pf_stat)control.seed);
		break;
	case CONTROL_PROCESSOR:
		control.length = (uint64_t)(sample_processor_seconds() * 1e9);
		break;
	case CONTROL_BYE:
		partner->done = true;
		return;
	default:
		control.status = PF_ERR_ARGUMENT;
	}
	partner_reply(partner, TAG_CONTROL, &control, sizeof(control));
}

static void partner_verify(struct partner *partner, const void *data, size_t length)
{
	if (partner->verify &&
	    (length > partner->buffer_size || memcmp(data, partner->buffer, length) != 0))
		partner->wrong++;
}

static void partner_store(struct partner *partner, const void *data, size_t length)
{
	if (length <= partner->buffer_size)
		memcpy(partner->buffer, data, length);
}

/* Reply with a notice, or with the name of the failed function. */
static void partner_report(struct partner *partner, int status, const char *function)
{
	struct control failed = { .magic = PROTOCOL_MAGIC,
				  .kind = CONTROL_FAILED,
				  .status = status };

	if (status == PF_OK) {
		send_notice(partner);
		return;
	}
	snprintf(failed.text, sizeof(failed.text), "%s", function);
	partner_reply(partner, TAG_CONTROL, &failed, sizeof(failed));
}

static void partner_fetch_complete(pf_context *context, const pf_completion *completion)
{
	(void)context;
	partner_report(completion->arg, completion->status, "pf_get");
}

static void partner_fetch(struct partner *partner, const void *data, size_t length)
{
	struct fetch fetch = { 0 };
	int status = PF_ERR_ARGUMENT;

	if (length == sizeof(fetch))
		memcpy(&fetch, data, sizeof(fetch));
	if (fetch.length && fetch.length <= partner->buffer_size)
		status = pf_get(partner->caller, partner->buffer, fetch.address, fetch.length,
				partner_fetch_complete, partner);
	if (status != PF_PENDING)
		partner_report(partner, status, "pf_get");
}

static void partner_return_complete(pf_context *context, const pf_completion *completion)
{
	(void)context;
	partner_report(completion->arg, completion->status, "pf_put");
}

/* Return bytes of the buffer by address; NULL: outside of the buffer. */
static const uint8_t *partner_bytes(const struct partner *partner, uint64_t from, uint64_t length)
{
	uint64_t start = (uint64_t)(uintptr_t)partner->buffer;

	if (!length || length > partner->buffer_size || from < start ||
	    from - start > partner->buffer_size - length)
		return NULL;
	return partner->buffer + (from - start);
}

static void partner_return(struct partner *partner, const void *data, size_t length)
{
	struct give give = { 0 };
	int status = PF_ERR_ARGUMENT;
	const uint8_t *bytes;

	if (length == sizeof(give))
		memcpy(&give, data, sizeof(give));
	bytes = partner_bytes(partner, give.from, give.length);
	if (bytes)
		status = pf_put(partner->caller, bytes, give.to, give.length, 0,
				partner_return_complete, partner);
	if (status != PF_PENDING)
		partner_report(partner, status, "pf_put");
}

static void partner_notice(pf_context *context, pf_peer *from, uint64_t remote, size_t length,
			   uint64_t value, void *arg)
{
	const pf_signal signal = { .op = PF_SIGNAL_NOTICE };
	struct partner *partner = arg;
	const uint8_t *bytes = partner_bytes(partner, remote, length);
	int status = PF_ERR_ARGUMENT;

	(void)context;
	if (partner->caller != from)
		return;
	if (bytes)
		status = pf_put_signal(from, bytes, value, length, &signal, 0, NULL, NULL);
	if (status != PF_PENDING)
		partner_report(partner, status, "pf_put_signal");
}

static void partner_receive(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			    size_t length, void *arg)
{
	struct partner *partner = arg;

	(void)context;
	if (!partner->caller && tag == TAG_CONTROL)
		partner->caller = from;
	if (partner->caller != from)
		return;
	switch (tag) {
	case TAG_CONTROL:
		run_control(partner, data, length);
		break;
	case TAG_ECHO:
		partner_verify(partner, data, length);
		partner_reply(partner, TAG_ECHO, data, length);
		break;
	case TAG_DISCARD:
	case TAG_DISCARD_LAST:
		partner_verify(partner, data, length);
		break;
	case TAG_STORE:
	case TAG_STORE_LAST:
		partner_store(partner, data, length);
		break;
	case TAG_FETCH:
		partner_fetch(partner, data, length);
		break;
	case TAG_RETURN:
		partner_return(partner, data, length);
		break;
	}
	if (tag == TAG_DISCARD_LAST || tag == TAG_STORE_LAST)
		send_notice(partner);
}

static void partner_peer_lost(pf_context *context, pf_peer *peer, enum pf_peer_state reason,
			      int status, const char *text, void *arg)
{
	struct partner *partner = arg;

	(void)context;
	(void)reason;
	(void)text;
	if (peer == partner->caller && !partner->done)
		partner_finish(partner, status);
}

struct partner *partner_open(const pf_options *options)
{
	struct partner *partner = calloc(1, sizeof(*partner));
	const pf_callbacks callbacks = {
		.size = sizeof(callbacks),
		.receive = partner_receive,
		.notice = partner_notice,
		.peer_event = partner_peer_lost,
		.log = log_print,
		.arg = partner,
	};
	int status;

	if (!partner) {
		warn("partner");
		return NULL;
	}
	STAILQ_INIT(&partner->replies);
	partner->waiting = (struct waiting){ .wake = options->wake, .sleep = WAITING_SLEEP };
	status = pf_open(options, &callbacks, &partner->context);
	if (status == PF_OK)
		return partner;
	warnx("pf_open in the partner: %s", pf_strerror(status));
	free(partner);
	return NULL;
}

pf_context *partner_context(const struct partner *partner)
{
	return partner->context;
}

int partner_serve(struct partner *partner, const volatile sig_atomic_t *stop)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int status;

	/* The first message may come after hours: do not spin until then. */
	while (!partner->caller && !partner->done && !(stop && *stop)) {
		if (!pf_progress(partner->context))
			nanosleep(&pause, NULL);
	}
	while (!partner->done && !(stop && *stop)) {
		waiting_poll(&partner->waiting, partner->context);
		if (STAILQ_EMPTY(&partner->replies))
			continue;
		status = reply_flush(&partner->replies, partner->caller);
		if (status != PF_OK)
			partner_finish(partner, status);
	}
	if (partner->status == PF_OK)
		return 0;
	warnx("the partner stops: %s", pf_strerror(partner->status));
	return -1;
}

void partner_close(struct partner *partner)
{
	pf_close(partner->context);
	reply_discard(&partner->replies);
	if (partner->buffer)
		munmap(partner->buffer, partner->buffer_size);
	free(partner);
}
