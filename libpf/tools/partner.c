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
#include "sample.h"

/* An answer that found the ring full. */
struct held {
	struct held *next;
	size_t length;
	uint8_t tag;
	uint8_t data[];
};

struct partner {
	pf_context *context;
	pf_peer *caller;
	uint8_t *buffer;
	size_t room; /* of buffer */
	bool verify;
	uint64_t wrong; /* messages with wrong contents */
	struct held *held;
	struct held **held_last;
	pf_registration **registrations; /* RANGES_MOST of them, once there is one */
	bool done;
	int status;
};

static void fail(struct partner *partner, int status)
{
	partner->status = status;
	partner->done = true;
}

static void hold(struct partner *partner, uint8_t tag, const void *data, size_t length)
{
	struct held *held = malloc(sizeof(*held) + length);

	if (!held) {
		fail(partner, PF_ERR_MEMORY);
		return;
	}
	held->next = NULL;
	held->length = length;
	held->tag = tag;
	memcpy(held->data, data, length);
	*partner->held_last = held;
	partner->held_last = &held->next;
}

static void reply(struct partner *partner, uint8_t tag, const void *data, size_t length)
{
	int status = PF_ERR_AGAIN;

	if (!partner->held)
		status = pf_send(partner->caller, tag, data, length, NULL, 0);
	if (status == PF_ERR_AGAIN)
		hold(partner, tag, data, length);
	else if (status < 0)
		fail(partner, status);
}

static void send_held(struct partner *partner)
{
	struct held *held = partner->held;
	int status = pf_send(partner->caller, held->tag, held->data, held->length, NULL, 0);

	if (status == PF_ERR_AGAIN)
		return;
	if (status < 0)
		fail(partner, status);
	partner->held = held->next;
	if (!partner->held)
		partner->held_last = &partner->held;
	free(held);
}

static void notice(struct partner *partner)
{
	uint64_t nothing = 0;

	reply(partner, TAG_NOTICE, &nothing, sizeof(nothing));
}

static bool slots_fit(const struct control *control, uint64_t room)
{
	return control->length <= control->stride && control->count &&
	       control->stride <= room / control->count;
}

static int make_room(struct partner *partner, uint64_t room)
{
	uint8_t *area;

	if (room <= partner->room)
		return PF_OK;
	area = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return PF_ERR_MEMORY;
	if (partner->buffer)
		munmap(partner->buffer, partner->room);
	partner->buffer = area;
	partner->room = room;
	return PF_OK;
}

static void prepare(struct partner *partner, struct control *control)
{
	uint64_t slot;

	control->status = PF_ERR_ARGUMENT;
	if (!slots_fit(control, INT64_MAX))
		return;
	control->status = make_room(partner, control->stride * control->count);
	if (control->status != PF_OK)
		return;
	for (slot = 0; slot < control->count; slot++)
		pattern_fill(partner->buffer + slot * control->stride, control->length,
			     control->seed + slot);
	control->address = (uint64_t)(uintptr_t)partner->buffer;
	partner->verify = control->verify;
	partner->wrong = 0;
}

static void check(struct partner *partner, struct control *control)
{
	uint64_t slot;

	control->status = PF_ERR_ARGUMENT;
	if (!slots_fit(control, partner->room))
		return;
	control->status = PF_OK;
	control->wrong = partner->wrong;
	for (slot = 0; slot < control->count; slot++)
		control->wrong += !pattern_matches(partner->buffer + slot * control->stride,
						   control->length, control->seed + slot);
}

static void obey(struct partner *partner, const void *data, size_t length)
{
	struct control control;

	if (length != sizeof(control))
		return;
	memcpy(&control, data, sizeof(control));
	if (control.magic != PROTOCOL_MAGIC)
		return;
	switch (control.kind) {
	case CONTROL_HELLO: {
		pf_attributes attributes;

		pf_query(partner->context, &attributes);
		control.status = PF_OK;
		control.length = attributes.send_max;
		break;
	}
	case CONTROL_PREPARE:
		prepare(partner, &control);
		break;
	case CONTROL_CHECK:
		check(partner, &control);
		break;
	case CONTROL_PATH:
		control.status = PF_OK;
		snprintf(control.text, sizeof(control.text), "%s", pf_peer_path(partner->caller));
		break;
	case CONTROL_STATISTIC:
		control.status = PF_OK;
		control.length = pf_stat(partner->context, (enum pf_stat)control.seed);
		break;
	case CONTROL_PROCESSOR:
		control.status = PF_OK;
		control.length = (uint64_t)(sample_processor_seconds() * 1e9);
		break;
	case CONTROL_BYE:
		partner->done = true;
		return;
	default:
		control.status = PF_ERR_ARGUMENT;
	}
	reply(partner, TAG_CONTROL, &control, sizeof(control));
}

static void look_at(struct partner *partner, const void *data, size_t length)
{
	if (partner->verify &&
	    (length > partner->room || memcmp(data, partner->buffer, length) != 0))
		partner->wrong++;
}

static void keep(struct partner *partner, const void *data, size_t length)
{
	if (length <= partner->room)
		memcpy(partner->buffer, data, length);
}

static void report(struct partner *partner, int status, const char *what)
{
	struct control failed = { .magic = PROTOCOL_MAGIC,
				  .kind = CONTROL_FAILED,
				  .status = status };

	if (status == PF_OK) {
		notice(partner);
		return;
	}
	snprintf(failed.text, sizeof(failed.text), "%s", what);
	reply(partner, TAG_CONTROL, &failed, sizeof(failed));
}

static void fetched(pf_context *context, const pf_completion *completion)
{
	(void)context;
	report(completion->arg, completion->status, "pf_get");
}

static void fetch(struct partner *partner, const void *data, size_t length)
{
	pf_completion completion = { .status = PF_ERR_ARGUMENT, .arg = partner };
	struct fetch fetch = { 0 };

	if (length == sizeof(fetch))
		memcpy(&fetch, data, sizeof(fetch));
	if (fetch.length && fetch.length <= partner->room)
		completion.status = pf_get(partner->caller, partner->buffer, fetch.address,
					   fetch.length, fetched, partner);
	if (completion.status == PF_OK)
		return;
	if (completion.status == PF_DONE)
		completion.status = PF_OK;
	fetched(partner->context, &completion);
}

/* The registration that a range stands for; NULL if it is none within the buffer. */
static pf_registration **registration_of(struct partner *partner, const void *data, size_t length,
					 struct range *range)
{
	uint64_t start = (uint64_t)(uintptr_t)partner->buffer;

	if (length != sizeof(*range))
		return NULL;
	memcpy(range, data, sizeof(*range));
	if (range->number >= RANGES_MOST || range->address < start ||
	    range->length > partner->room || range->address - start > partner->room - range->length)
		return NULL;
	if (!partner->registrations)
		partner->registrations = calloc(RANGES_MOST, sizeof(*partner->registrations));
	return partner->registrations ? &partner->registrations[range->number] : NULL;
}

static void register_range(struct partner *partner, const void *data, size_t length)
{
	struct range range;
	pf_registration **registration = registration_of(partner, data, length, &range);
	int status = PF_ERR_ARGUMENT;

	if (registration && !*registration)
		status = pf_register(partner->context, (void *)(uintptr_t)range.address,
				     range.length, range.write != 0, registration);
	report(partner, status == PF_DONE ? PF_OK : status, "pf_register");
}

static void deregister_range(struct partner *partner, const void *data, size_t length)
{
	struct range range;
	pf_registration **registration = registration_of(partner, data, length, &range);

	if (!registration)
		return;
	pf_deregister(partner->context, *registration);
	*registration = NULL;
}

static void receive(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		    void *arg)
{
	struct partner *partner = arg;

	(void)context;
	if (!partner->caller && tag == TAG_CONTROL)
		partner->caller = from;
	if (partner->caller != from)
		return;
	switch (tag) {
	case TAG_ECHO:
		look_at(partner, data, length);
		reply(partner, TAG_ECHO, data, length);
		break;
	case TAG_TAKE:
		look_at(partner, data, length);
		break;
	case TAG_TAKE_LAST:
		look_at(partner, data, length);
		notice(partner);
		break;
	case TAG_KEEP:
		keep(partner, data, length);
		break;
	case TAG_KEEP_LAST:
		keep(partner, data, length);
		notice(partner);
		break;
	case TAG_FETCH:
		fetch(partner, data, length);
		break;
	case TAG_REGISTER:
		register_range(partner, data, length);
		break;
	case TAG_DEREGISTER:
		deregister_range(partner, data, length);
		break;
	case TAG_CONTROL:
		obey(partner, data, length);
		break;
	}
}

static void gone(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	struct partner *partner = arg;

	(void)context;
	(void)text;
	if (peer == partner->caller && !partner->done)
		fail(partner, status);
}

struct partner *partner_create(pf_context *context)
{
	struct partner *partner = calloc(1, sizeof(*partner));

	if (!partner)
		return NULL;
	partner->context = context;
	partner->held_last = &partner->held;
	pf_set_receive(context, receive, partner);
	pf_set_error(context, gone, partner);
	return partner;
}

int partner_serve(struct partner *partner, const volatile sig_atomic_t *stop)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	/* Nobody is there yet, and it may take hours: leave the processor alone. */
	while (!partner->caller && !partner->done && !(stop && *stop)) {
		if (!pf_progress(partner->context))
			nanosleep(&pause, NULL);
	}
	while (!partner->done && !(stop && *stop)) {
		pf_progress(partner->context);
		if (partner->held)
			send_held(partner);
	}
	if (partner->status == PF_OK)
		return 0;
	warnx("the partner stops: %s", pf_strerror(partner->status));
	return -1;
}

void partner_destroy(struct partner *partner)
{
	while (partner->held) {
		struct held *held = partner->held;

		partner->held = held->next;
		free(held);
	}
	if (partner->buffer)
		munmap(partner->buffer, partner->room);
	/* pf_close undoes the registrations themselves. */
	free(partner->registrations);
	free(partner);
}
