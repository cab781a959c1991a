/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and their progress: pf.h documents every function here. */
#include "context/context.h"

#include <string.h>

#include "base/options.h"
#include "base/structure.h"
#include "common/owners.h"
#include "context/capability.h"
#include "context/progress.h"
#include "context/transports.h"

int pf_open(const pf_options *options, const pf_callbacks *callbacks, pf_context **context)
{
	pf_callbacks all_callbacks = { 0 };
	pf_options all_options;
	int status = options_complete(options, &all_options);

	if (callbacks && !structure_copy(&all_callbacks, sizeof(all_callbacks), callbacks))
		status = PF_ERR_ARGUMENT;
	return status == PF_OK ? context_open(&all_options, &all_callbacks, context) : status;
}

void pf_close(pf_context *context)
{
	if (context)
		context_close(context);
}

void pf_allow_threads(pf_context *context)
{
	context_allow_threads(context);
}

void pf_join(pf_context *context, const void *secret, size_t length)
{
	device_join(&context->device, secret, length);
}

void pf_query(const pf_context *context, pf_attributes *attributes, size_t size)
{
	const uint64_t eager_limit = context->options.eager_limit;
	const pf_attributes all = {
		.send_max = context->send_max,
		.eager_limit = eager_limit < context->send_max ? eager_limit : context->send_max,
		.address_length = address_length(&context->address),
		.node = context->device.node,
	};

	structure_give(attributes, size, &all, sizeof(all));
}

int pf_address(const pf_context *context, void *buffer, size_t *length)
{
	const struct address address = context_address(context);
	const size_t room = *length;

	*length = address_length(&address);
	if (room < *length)
		return PF_ERR_TOO_LONG;
	address_write(buffer, &address, context->data);
	return PF_OK;
}

int pf_reachable(const pf_context *context, const void *bytes, size_t length, const char **why)
{
	const char *reason = "not an address, or one of a version of libpf before 1.0";
	uint8_t data[PF_DATA_MOST];
	struct address address;
	int status = address_parse(&address, data, bytes, length);

	if (status == PF_OK && !transports_choose(context, &address, &reason))
		status = PF_ERR_UNREACHABLE;
	if (why)
		*why = reason;
	return status;
}

int pf_owner_add(pf_context *context, uint32_t first, uint32_t last, const pf_callbacks *callbacks,
		 pf_owner **owner)
{
	pf_callbacks all = { 0 };
	const void *outer;
	bool held;
	int status;

	if (first > last || !callbacks || !structure_copy(&all, sizeof(all), callbacks) ||
	    !all.receive)
		return PF_ERR_ARGUMENT;
	held = progress_hold(context, &outer);
	status = owners_add(context, first, last, &all, owner);
	/* Messages may wait for the owner: end a wait for the descriptor. */
	if (context->owners.added)
		context_wake(context);
	if (held)
		progress_release(context, outer);
	return status;
}

void pf_owner_remove(pf_owner *owner)
{
	pf_context *context = owner->context;
	const void *outer;
	bool held = progress_hold(context, &outer);

	owners_remove(owner);
	if (held)
		progress_release(context, outer);
}

void *pf_owner_user(const pf_owner *owner, const pf_peer *peer)
{
	return peer_user_at(peer, owner->place);
}

int pf_owner_set_user(const pf_owner *owner, pf_peer *peer, void *user)
{
	return peer_set_user_at(&owner->context->peers, peer, owner->place, user);
}

int pf_progress(pf_context *context)
{
	return context_progress(context);
}

int pf_wait(pf_context *context, int64_t timeout)
{
	return context_wait(context, timeout);
}

int pf_descriptor(pf_context *context, int *fd)
{
	return context_descriptor(context, fd);
}

int pf_arm(pf_context *context)
{
	return context_arm(context);
}

void pf_wake(pf_context *context)
{
	context_wake(context);
}

uint64_t pf_posted(const pf_context *context, const pf_peer *peer)
{
	/* One order of posting for all peers. */
	(void)peer;
	return operations_last(&((pf_context *)(uintptr_t)context)->operations);
}

int pf_flush_test(pf_context *context, pf_peer *peer, uint64_t mark)
{
	return context_flush_test(context, peer, mark);
}

int pf_flush(pf_context *context, pf_peer *peer, int64_t timeout)
{
	return context_flush(context, peer, timeout);
}

int pf_capabilities(pf_capability *list, size_t size, int most)
{
	return capabilities_find(list, size, most);
}
