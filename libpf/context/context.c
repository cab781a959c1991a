/* SPDX-License-Identifier: BSD-3-Clause */
#include "context.h"

#include <errno.h>
#include <sodium.h>
#include <sys/mman.h>

#include "base/calibration.h"
#include "base/check.h"
#include "base/descriptor.h"
#include "base/options.h"
#include "common/owners.h"
#include "common/refused.h"
#include "contents.h"
#include "progress.h"
#include "transports.h"

static int check_options(const pf_options *options)
{
	const pf_option_info *info;

	for (info = pf_option_table(); info->name; info++) {
		if (!option_valid(info, *option_field((pf_options *)(uintptr_t)options, info)))
			return PF_ERR_ARGUMENT;
	}
	return options->port_min > options->port_max ? PF_ERR_ARGUMENT : PF_OK;
}

/* Tell the log of the calibration file. */
static void context_log_calibration(pf_context *context)
{
	char path[512];
	int length;

	if (!log_wants(&context->log, PF_LOG_INFO))
		return;
	if (!context->options.calibrate)
		log_add(&context->log, NULL, PF_LOG_INFO, "calibration: not read: calibrate is 0");
	else if (calibration_find(path, sizeof(path), &length) == PF_OK)
		log_add(&context->log, NULL, PF_LOG_INFO, "calibration: %s", path);
	else
		log_add(&context->log, NULL, PF_LOG_INFO,
			"calibration: there is no %s, or it is of another machine", path);
}

int context_open(const pf_options *options, const pf_callbacks *callbacks, pf_context **result)
{
	const void *outer_progress, *outer_service;
	const size_t size = transports_contents_size();
	struct contents *contents;
	pf_context *context;
	int status, error = 0;

	if (sodium_init() < 0)
		return PF_ERR_SYSTEM;
	status = check_options(options);
	if (status != PF_OK)
		return status;
	(void)descriptor_limit_reserve(DESCRIPTORS_RESERVED);
	contents = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (contents == MAP_FAILED)
		return PF_ERR_MEMORY;
	context = &contents->context;
	outer_progress = check_enter(progress, context);
	outer_service = check_enter(service, &context->service);
	context->options = *options;
	context->callbacks = *callbacks;
	context->threads = options->threads;
	context->sleepy = options->wake;
	context->posts_wake = context->sleepy && context->threads;
	context->sleep_longest = PROGRESS_SLEEP_LONGEST;
	context->sleep_unrung = PROGRESS_SLEEP_UNRUNG;
	if (callbacks->log)
		log_open(&context->log, callbacks->log_level, &context->peers.news);
	waiter_init(&contents->waiter, &context->transports[0]);
	context->transport_back = transports_back;
	context->send_max = SIZE_MAX;
	status = address_create(&context->address);
	if (status == PF_OK)
		status = address_set_data(&context->address, options->data, options->data_length);
	if (status != PF_OK)
		goto fail;
	if (options->data_length)
		memcpy(context->data, options->data, options->data_length);
	options_read_share_min(options, context->share_min);
	status = service_open(&context->service);
	if (status != PF_OK)
		goto fail;
	statistics_create(&context->statistics, context->threads);
	context->trace = trace_open(context->address.id);
	operations_init(&context->operations, context, &context->statistics, context->trace,
			options);
	peers_init(&context->peers, options->peer_timeout);
	owners_init(&context->owners);
	memory_init(&context->memory, context, options, &context->statistics, context->trace,
		    &context->service, &context->activity);
	status = transports_open(context);
	if (status != PF_OK)
		goto fail_memory;
	check_leave(service, outer_service);
	status = service_start(&context->service);
	if (status != PF_OK)
		goto fail_transports;
	check_leave(progress, outer_progress);
	/* The caller keeps the texts; transports_open was the last reader. */
	context->options.if_include = context->options.if_exclude = NULL;
	context->options.data = NULL;
	context_log_calibration(context);
	*result = context;
	return PF_OK;

fail_transports:
	error = errno;
	(void)check_enter(service, &context->service);
	transports_disconnect(context);
	transports_close(context);
fail_memory:
	error = error ? error : errno;
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
	log_close(&context->log);
	munmap(contents, size);
	errno = error;
	return status;
}

void context_close(pf_context *context)
{
	struct contents *contents = (struct contents *)context;
	const void *outer_progress, *outer_service;

	outer_progress = check_enter(progress, context);
	waiter_destroy(&contents->waiter);
	/* Peers that end are still noticed by the service thread. */
	transports_linger(context);
	service_stop(&context->service);
	outer_service = check_enter(service, &context->service);
	/* Ranges not resolved yet get no answer any more: no thread runs their tasks. */
	memory_stop(&context->memory);
	transports_disconnect(context);
	transports_close(context);
	refused_destroy(context);
	owners_destroy(&context->owners);
	peers_destroy(&context->peers);
	memory_destroy(&context->memory);
	service_close(&context->service);
	operations_destroy(&context->operations);
	trace_close(context->trace);
	statistics_destroy(&context->statistics);
	log_close(&context->log);
	sodium_memzero(&context->address, sizeof(context->address));
	check_leave(service, outer_service);
	check_leave(progress, outer_progress);
	munmap(contents, transports_contents_size());
}

int context_peer_contact(pf_peer *peer, bool wait, const char **why)
{
	const char *reason = NULL;
	int status = peer->transport->contact(peer, wait, &reason);

	if (why)
		*why = reason ? reason : peer_path(peer);
	return status;
}

int context_peer_open(pf_context *context, const struct address *address, const uint8_t *data,
		      void *user, pf_peer **result)
{
	const char *why;
	pf_peer *peer;

	if (!transports_choose(context, address, &why))
		return PF_ERR_UNREACHABLE;
	peer = peers_open(&context->peers, context, address, data,
			  transports_back(context, address), user);
	if (!peer)
		return PF_ERR_MEMORY;
	*result = peer;
	return PF_OK;
}
