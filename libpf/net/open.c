/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a network. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "common/context.h"
#include "network.h"
#include "sockets.h"

#define SECOND 1000000000ull
/* Time for which a closing context waits for room in the sockets, to send each GOODBYE, ns. */
#define GOODBYES (SECOND / 20)

static bool network_accept(void *user, struct net_association *association,
			   const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			   void **peer)
{
	struct network *network = user;

	assert_locked(&network->lock, true);
	assert_driving(network);
	return net_process_accept(&network->processes, association, id, info, length, peer);
}

static size_t network_packet_most(void *user, const struct net_endpoint *to)
{
	struct network *network = user;
	const struct carrier *carrier = network->traffic.carrier;

	assert_locked(&network->lock, true);
	return carrier->operations->packet_most(carrier, to);
}

static void network_random(void *user, void *bytes, size_t length)
{
	(void)user;
	randombytes_buf(bytes, length);
}

static int network_create_core(struct network *network)
{
	const pf_options *options = &network->context->options;
	struct net_memory_operations memory = net_memory_functions(&network->memory);
	struct net_callbacks callbacks = {
		.accept = network_accept,
		.packet_most = network_packet_most,
		.random = network_random,
		.user = network,
	};
	struct net_options net;

	assert_progress(network->context);
	net_options_init(&net);
	memcpy(net.id, network->context->address.id, sizeof(net.id));
	memcpy(net.key, network->context->address.key, sizeof(net.key));
	net.auth = (enum net_auth)options->auth;
	net.fault_mode = (enum net_fault_mode)options->net_fault;
	if (options->block_size >= 4096 && options->block_size <= 65536)
		net.block_size = (uint32_t)options->block_size;
	net.backup_ring = (uint32_t)(options->backup_ring < UINT32_MAX ? options->backup_ring :
									 UINT32_MAX);
	net.receive_buffer = network->traffic.carrier->credit;
	net.peer_timeout = options->peer_timeout * SECOND;
	net.contact_timeout = options->contact_timeout * SECOND;
	network->core = net_create(&net, &memory, &callbacks);
	sodium_memzero(&net, sizeof(net));
	return network->core ? PF_OK : PF_ERR_MEMORY;
}

static uint64_t network_read_clock(void *user)
{
	(void)user;
	return network_now();
}

static void network_destroy(struct network *network)
{
	struct carrier *carrier = network->traffic.carrier;

	assert_progress(network->context);
	if (network->core)
		net_destroy(network->core);
	offloads_destroy(&network->offloads);
	carrier->operations->close(carrier);
	traffic_destroy(&network->traffic);
	if (network->wake >= 0)
		close(network->wake);
	if (network->timer >= 0)
		close(network->timer);
	if (network->grace_timer >= 0)
		close(network->grace_timer);
	net_memory_close(&network->memory);
	pthread_mutex_destroy(&network->attending);
	pthread_mutex_destroy(&network->lock);
}

int network_open(struct network *network, pf_context *context, const char **why)
{
	const pf_options *options = &context->options;
	const struct carrier_setup setup = { .options = options,
					     .here = &context->address.location,
					     .gather = net_memory_gather,
					     .user = &network->memory };
	struct carrier *carrier;
	int status, error = 0;

	assert_progress(context);
	*why = "shared memory does not reach it, and the option network is off";
	if (options->network == PF_NETWORK_OFF) {
		log_add(&context->log, NULL, PF_LOG_INFO, "network: the option network is off");
		return PF_ERR_UNREACHABLE;
	}
	*why = network->why;
	status = sockets_open(&carrier, &setup, network->why);
	if (*network->why)
		log_add(&context->log, NULL, PF_LOG_INFO, "network: %s", network->why);
	if (status != PF_OK)
		return status;
	*network->why = 0;
	network->traffic = (struct traffic){ .carrier = carrier,
					     .lock = &network->lock,
					     .now = network_read_clock };
	status = traffic_create(&network->traffic, (enum net_auth)options->auth);
	network->context = context;
	pthread_mutex_init(&network->lock, NULL);
	pthread_mutex_init(&network->attending, NULL);
	offloads_init(&network->offloads, &context->device, &context->statistics);
	net_memory_open(&network->memory, context, network_wake_driving_thread);
	network->processes = (struct net_processes){ .context = context,
						     .lock = &network->lock,
						     .carrier = carrier };
	network->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	network->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	network->grace_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (network->wake < 0 || network->timer < 0 || network->grace_timer < 0) {
		status = PF_ERR_SYSTEM;
		error = errno;
	}
	if (status == PF_OK)
		status = network_create_core(network);
	if (status != PF_OK) {
		network_destroy(network);
		errno = error;
		return status;
	}
	context->address.auth = (uint8_t)options->auth;
	context->address.wire_oldest = NET_VERSION_OLDEST;
	context->address.wire_newest = NET_VERSION_NEWEST;
	carrier->operations->publish(carrier, &context->address);
	return PF_OK;
}

static void network_say_goodbye(struct network *network)
{
	const struct timespec pause = { .tv_nsec = NETWORK_RETRY };
	uint64_t end = network_now() + GOODBYES;

	assert_locked(&network->lock, true);
	net_close_all(network->core);
	network_transmit(network, network_now());
	while (network->traffic.held && network_now() < end) {
		nanosleep(&pause, NULL);
		network_transmit(network, network_now());
	}
}

void network_close(struct network *network)
{
	struct operations *operations;
	struct operation *operation;

	network_lock(network);
	network_add_counts(network);
	network_say_goodbye(network);
	network_unlock(network);
	operations = &network->context->operations;
	network_destroy(network);
	/*
	 * Free operations not completed by the core. struct operation is the first member of struct
	 * offload.
	 */
	while ((operation = operations_drop(&operations->away)))
		free(operation);
}
