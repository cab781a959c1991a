/* SPDX-License-Identifier: BSD-3-Clause */
/* The life cycle of the transport "net" in a context, and the table of the transport. */
#include <errno.h>

#include "base/number.h"
#include "common/context.h"
#include "interface.h"
#include "network.h"
#include "peer.h"
#include "watch.h"

static void net_transport_close(void *state)
{
	network_close(state);
}

static void net_transport_disconnect(void *state)
{
	struct network *network = state;

	network_watch_destroy(network->watch);
}

static int net_transport_open(pf_context *context, void *state, const char **why)
{
	const pf_options *options = &context->options;
	struct network *network = state;
	int status, error;

	if ((options->if_include && !interfaces_valid(options->if_include)) ||
	    (options->if_exclude && !interfaces_valid(options->if_exclude)))
		return PF_ERR_ARGUMENT;
	status = network_open(network, context, why);
	if (status != PF_OK)
		return status;
	status = network_watch_create(&network->watch, context->service.base, network);
	if (status != PF_OK) {
		error = errno;
		network_close(network);
		errno = error;
		return status;
	}
	context->network = network;
	context->send_max = number_min(context->send_max, NET_MESSAGE_MOST);
	return PF_OK;
}

static void net_transport_linger(void *state)
{
	network_linger(state);
}

static void net_transport_count(void *state)
{
	network_count(state);
}

static enum transport_reach net_transport_reach(const void *state, const struct address *address,
						const char **why)
{
	const struct network *network = state;
	const pf_context *context = network->context;
	bool alone = context->options.network == PF_NETWORK_ALWAYS &&
		     !address_same(address, &context->address);

	*why = net_process_unreachable(&network->processes, address);
	if (*why)
		return alone ? TRANSPORT_EXCLUDED : TRANSPORT_UNREACHED;
	*why = "over the network";
	return alone ? TRANSPORT_REACHED_ALONE : TRANSPORT_REACHED;
}

static int net_transport_poll(void *state)
{
	struct network *network = state;

	return network_poll(network) + offloads_poll(&network->offloads);
}

/* Packets are no reason to stay awake: the service thread drives the network meanwhile. */
static bool net_transport_may_sleep(void *state)
{
	struct network *network = state;

	return offloads_may_sleep(&network->offloads);
}

static bool net_transport_has_news(void *state)
{
	struct network *network = state;

	return network_waits(network) || offloads_wait(&network->offloads);
}

static void net_transport_sleeps(void *state, bool sleeps)
{
	network_sleeps(state, sleeps);
}

/* No operation of this transport is in the active list: the protocol core completes all of them. */
const struct transport transport_net = {
	.state_size = sizeof(struct network),
	.open = net_transport_open,
	.linger = net_transport_linger,
	.disconnect = net_transport_disconnect,
	.close = net_transport_close,
	.count = net_transport_count,
	.reach = net_transport_reach,
	.contact = net_peer_contact,
	.poll = net_transport_poll,
	.may_sleep = net_transport_may_sleep,
	.has_news = net_transport_has_news,
	.sleeps = net_transport_sleeps,
	.peer_size = sizeof(struct net_peer),
	.peer_destroy = net_peer_destroy,
	.peer_forget = net_peer_forget,
	.send = net_transport_send,
	.has_room = net_transport_has_room,
	.transfer = net_transport_transfer,
	.put_signal = net_transport_put_signal,
	.atomic = net_transport_atomic,
};
