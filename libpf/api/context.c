/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and their progress: pf.h documents every function here. */
#include "context/context.h"

#include <string.h>

#include "base/options.h"
#include "context/capability.h"
#include "context/progress.h"
#include "context/transports.h"

int pf_open(const pf_options *options, pf_context **context)
{
	pf_options all;
	int status = options_complete(options, &all);

	return status == PF_OK ? context_open(&all, context) : status;
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
		.address_length = sizeof(context->address),
		.node = context->device.node,
	};

	memset(attributes, 0, size);
	memcpy(attributes, &all, size < sizeof(all) ? size : sizeof(all));
}

int pf_address(const pf_context *context, void *buffer, size_t *length)
{
	const struct address address = context_address(context);

	if (*length < sizeof(address))
		return PF_ERR_ARGUMENT;
	memcpy(buffer, &address, sizeof(address));
	*length = sizeof(address);
	return PF_OK;
}

int pf_reachable(const pf_context *context, const void *bytes, size_t length, const char **why)
{
	const char *reason = "not an address of this version of libpf";
	struct address address;
	int status = address_parse(&address, bytes, length);

	if (status == PF_OK && !transports_choose(context, &address, &reason))
		status = PF_ERR_UNREACHABLE;
	if (why)
		*why = reason;
	return status;
}

void pf_set_receive_pieces(pf_context *context, pf_receive_pieces_fn receive, void *arg)
{
	context->receive_pieces = receive;
	context->receive_pieces_arg = arg;
}

void pf_set_receive(pf_context *context, pf_receive_fn receive, void *arg)
{
	context->receive = receive;
	context->receive_arg = arg;
}

void pf_set_error(pf_context *context, pf_error_fn error, void *arg)
{
	context->error = error;
	context->error_arg = arg;
}

void pf_set_warning(pf_context *context, pf_warning_fn warning, void *arg)
{
	context->warning = warning;
	context->warning_arg = arg;
}

void pf_set_room(pf_context *context, pf_room_fn room, void *arg)
{
	context->room = room;
	context->room_arg = arg;
}

int pf_progress(pf_context *context)
{
	return context_progress(context);
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

int pf_flush(pf_context *context, pf_peer *peer)
{
	return context_flush(context, peer);
}

int pf_capabilities(pf_capability *list, int most)
{
	return capabilities_find(list, most);
}
