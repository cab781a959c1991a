/* SPDX-License-Identifier: BSD-3-Clause */
#include "context.h"

#include <errno.h>
#include <sodium.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/options.h"
#include "common/refused.h"
#include "contents.h"
#include "host/host.h"
#include "net/network.h"
#include "net/peer.h"
#include "net/watch.h"
#include "progress.h"

static int check_options(const pf_options *options)
{
	const pf_option_info *info;

	if ((options->if_include && !interfaces_valid(options->if_include)) ||
	    (options->if_exclude && !interfaces_valid(options->if_exclude)))
		return PF_ERR_ARGUMENT;
	for (info = pf_option_table(); info->name; info++) {
		if (!option_valid(info, *option_field((pf_options *)(uintptr_t)options, info)))
			return PF_ERR_ARGUMENT;
	}
	return options->port_min > options->port_max ? PF_ERR_ARGUMENT : PF_OK;
}

const struct transport *context_transport(const pf_context *context, const struct address *address,
					  const char **why)
{
	const char *remote = address_unreachable(&context->address, address);

	*why = "on this host";
	if (!remote && (context->options.network != PF_NETWORK_ALWAYS || !context->network ||
			address_same(address, &context->address)))
		return &transport_host;
	*why = remote;
	if (!context->network) {
		if (context->no_network)
			*why = context->no_network;
		return NULL;
	}
	*why = net_process_unreachable(&context->network->processes, address);
	if (*why)
		return NULL;
	*why = "over the network";
	return &transport_net;
}

/* Choose the transport for a peer that called the process, by whatever way. */
static const struct transport *transport_back(const pf_context *context,
					      const struct address *address)
{
	const char *why;
	const struct transport *transport = context_transport(context, address, &why);

	if (transport)
		return transport;
	/* The peer reached the process: the network reports if the way back is closed. */
	return address_unreachable(&context->address, address) ? &transport_net : &transport_host;
}

int context_open(const pf_options *options, pf_context **result)
{
	const void *outer_progress, *outer_service;
	struct contents *contents;
	pf_context *context;
	int status, error = 0;

	if (sodium_init() < 0)
		return PF_ERR_SYSTEM;
	status = check_options(options);
	if (status != PF_OK)
		return status;
	descriptor_limit_reserve();
	contents = mmap(NULL, sizeof(*contents), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (contents == MAP_FAILED)
		return PF_ERR_MEMORY;
	context = &contents->context;
	outer_progress = check_enter(progress, context);
	outer_service = check_enter(service, &context->service);
	context->options = *options;
	context->threads = options->threads;
	context->sleepy = options->idle_polls != 0;
	context->posts_wake = context->sleepy && context->threads;
	idle_init(&context->idle);
	context->sleep_unrung = options->idle_sleep < PROGRESS_SLEEP_UNRUNG ? options->idle_sleep :
									      PROGRESS_SLEEP_UNRUNG;
	waiter_init(&contents->waiter, &contents->host.state.inbox);
	context->transport_back = transport_back;
	context->wake = host_wake;
	context->send_max = ring_longest(&(struct ring){ .size = options->ring_size }) -
			    MESSAGE_PIECES_EXTRA;
	status = address_create(&context->address);
	if (status != PF_OK)
		goto fail;
	options_read_share_min(options, context->share_min);
	status = service_open(&context->service);
	if (status != PF_OK)
		goto fail;
	statistics_create(&context->statistics, context->threads);
	context->trace = trace_open(context->address.id);
	operations_init(&context->operations, context, &context->statistics, context->trace,
			options);
	peers_init(&context->peers, context->threads);
	memory_init(&context->memory, context, options, &context->statistics, context->trace,
		    &context->service, &context->activity);
	device_open(&context->device, options, &context->memory.pagers);
	status = host_open(&contents->host, context);
	if (status != PF_OK)
		goto fail_device;
	status = network_open(context, &context->network, &context->no_network);
	if (status != PF_OK)
		goto fail_host;
	if (context->network)
		status = network_watch_create(&contents->watch, context->service.base,
					      context->network);
	if (status != PF_OK)
		goto fail_network;
	if (context->network && context->send_max > NET_MESSAGE_MOST)
		context->send_max = NET_MESSAGE_MOST;
	check_leave(service, outer_service);
	status = service_start(&context->service);
	if (status != PF_OK)
		goto fail_network;
	check_leave(progress, outer_progress);
	/* The caller keeps the texts; network_open was the last reader. */
	context->options.if_include = context->options.if_exclude = NULL;
	*result = context;
	return PF_OK;

fail_network:
	error = error ? error : errno;
	(void)check_enter(service, &context->service);
	network_watch_destroy(contents->watch);
	network_close(context->network);
fail_host:
	error = error ? error : errno;
	host_disconnect(&contents->host);
	host_close(&contents->host);
fail_device:
	error = error ? error : errno;
	device_destroy(&context->device);
	memory_stop(&context->memory);
	memory_destroy(&context->memory);
	peers_destroy(&context->peers);
	operations_destroy(&context->operations);
	trace_close(context->trace);
	statistics_destroy(&context->statistics);
	service_close(&context->service);
fail:
	error = error ? error : errno;
	check_leave(service, outer_service);
	check_leave(progress, outer_progress);
	munmap(contents, sizeof(*contents));
	errno = error;
	return status;
}

void context_close(pf_context *context)
{
	struct contents *contents = (struct contents *)context;
	const void *outer_progress, *outer_service;

	outer_progress = check_enter(progress, context);
	waiter_destroy(&contents->waiter);
	/* Peers that end are still detected by the service thread. */
	host_linger(&contents->host);
	if (context->network)
		network_linger(context->network);
	service_stop(&context->service);
	outer_service = check_enter(service, &context->service);
	/* Ranges not resolved yet get no answer any more: no thread runs their tasks. */
	memory_stop(&context->memory);
	host_disconnect(&contents->host);
	network_watch_destroy(contents->watch);
	/* Before the operations, whose memory /dev/exanest may be reading or writing. */
	device_destroy(&context->device);
	network_close(context->network);
	host_close(&contents->host);
	refused_destroy(context);
	peers_destroy(&context->peers);
	memory_destroy(&context->memory);
	service_close(&context->service);
	operations_destroy(&context->operations);
	trace_close(context->trace);
	statistics_destroy(&context->statistics);
	sodium_memzero(&context->address, sizeof(context->address));
	check_leave(service, outer_service);
	check_leave(progress, outer_progress);
	munmap(contents, sizeof(*contents));
}

int context_peer_contact(pf_peer *peer, bool wait, const char **why)
{
	const char *reason = NULL;
	int status = PF_OK;

	if (peer->transport == &transport_net)
		status = net_peer_contact(peer, wait, &reason);
	else
		host_peer_contact(peer);
	if (why)
		*why = reason ? reason : peer_path(peer);
	return status;
}

int context_peer_open(pf_context *context, const struct address *address, void *user,
		      pf_peer **result)
{
	const char *why;
	pf_peer *peer;

	if (!context_transport(context, address, &why))
		return PF_ERR_UNREACHABLE;
	peer = peers_get(&context->peers, context, address->id, address,
			 transport_back(context, address));
	if (!peer)
		return PF_ERR_MEMORY;
	peers_lock(&context->peers);
	peer->count++;
	if (user)
		peer->user = user;
	peers_unlock(&context->peers);
	if (peer->transport == &transport_net)
		net_peer_meet(peer);
	*result = peer;
	return PF_OK;
}
