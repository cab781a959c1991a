/* SPDX-License-Identifier: BSD-3-Clause */
#include "service.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/allocate.h"
#include "host/connection.h"
#include "context.h"
#include "memory/collapse.h"
#include "memory/resolver.h"
#include "common/peer.h"
#include "base/slice.h"
#include "net/watch.h"

#define DESCRIPTORS_WANTED 16384

struct command {
	struct command *next;
	enum {
		COMMAND_ADOPT,
		COMMAND_RESOLVE,
		COMMAND_ANSWER,
		COMMAND_WATCH,
		COMMAND_AWAIT,
		COMMAND_COLLAPSE
	} kind;
	pf_peer *peer;
	struct call call;    /* ADOPT */
	int userfault;       /* WATCH */
	uint64_t connection; /* ANSWER: whom */
	struct resolve resolve;
};

/* A range that we resolve, and for whom. */
struct asked {
	struct resolution resolution;
	struct service *service;
	uint64_t connection; /* by number; 0: for ourselves */
	uint64_t token;
};

/* A range that the engine of /dev/exanest waits for. */
struct device_fault {
	struct resolution resolution;
	struct device *device;
	uint64_t ticket;
};

struct service {
	pf_context *context;
	struct resolver resolver;
	pthread_t thread;
	struct event_base *base;
	int listener, wake;
	struct event *acceptable, *woken;
	struct watch *watch;            /* of the network; NULL without */
	struct event *faulted;          /* pagers: a processor waits for a page */
	struct event *device_faulted;   /* and so does the engine of /dev/exanest */
	struct event *device_completed; /* only while progress sleeps */
	struct connections connections;
	/* Shared with callers. */
	pthread_mutex_t lock;
	struct command *commands, **commands_last;
	bool stopping;
};

static void wake(struct service *service)
{
	uint64_t one = 1;

	/* It can only fail when the count is full, and then the thread is awake. */
	if (write(service->wake, &one, sizeof(one)) < 0)
		return;
}

static void command(struct service *service, struct command *command)
{
	command->next = NULL;
	pthread_mutex_lock(&service->lock);
	*service->commands_last = command;
	service->commands_last = &command->next;
	pthread_mutex_unlock(&service->lock);
	wake(service);
}

/* The thread that resolved it may be any: the asker's connection may be gone meanwhile. */
static void resolved(struct resolution *resolution)
{
	struct asked *asked = (struct asked *)resolution;
	struct service *service = asked->service;

	if (!asked->connection) {
		context_tell(service->context, (struct event){ .kind = EVENT_RESOLVED,
							       .token = asked->token,
							       .status = resolution->status,
							       .fault = resolution->kind,
							       .address = resolution->failed });
	} else {
		struct command *answer = allocate_or_wait(sizeof(*answer));

		answer->kind = COMMAND_ANSWER;
		answer->connection = asked->connection;
		answer->resolve = (struct resolve){ .token = asked->token,
						    .address = resolution->failed,
						    .status = resolution->status,
						    .kind = resolution->kind };
		command(service, answer);
	}
	free(asked);
}

/* connection: whom to answer, 0 for this process itself. */
static void resolve_here(struct service *service, uint64_t connection,
			 const struct resolve *request)
{
	struct asked *asked = allocate_or_wait(sizeof(*asked));

	*asked = (struct asked){ .resolution = { .address = request->address,
						 .length = request->length,
						 .write = request->write,
						 .done = resolved },
				 .service = service,
				 .connection = connection,
				 .token = request->token };
	resolver_submit(&service->resolver, &asked->resolution);
}

static void resolve_for_peer(void *arg, uint64_t connection, const struct resolve *request)
{
	resolve_here(arg, connection, request);
}

static void on_caller(int listener, short what, void *arg)
{
	struct service *service = arg;

	(void)what;
	connections_accept(&service->connections, listener);
}

static void on_fault(int userfault, short what, void *arg)
{
	struct service *service = arg;

	(void)userfault;
	(void)what;
	pager_answer(&service->context->pagers, service->context);
}

static void watch(struct service *service, const struct command *command)
{
	/* Out of memory on this thread is waited out. */
	while (!service->faulted) {
		service->faulted = event_new(service->base, command->userfault,
					     EV_READ | EV_PERSIST, on_fault, service);
		if (!service->faulted)
			usleep(1000);
	}
	event_add(service->faulted, NULL);
}

static void fault_resolved(struct resolution *resolution)
{
	struct device_fault *fault = (struct device_fault *)resolution;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int status = resolution->status;

	/* Some pages are there: the engine goes on to the one that is not, and asks for that one. */
	if (status != PF_OK && resolution->failed / page != resolution->address / page)
		status = PF_OK;
	device_resolved(fault->device, fault->ticket, status);
	free(fault);
}

static void on_device_fault(int fd, short what, void *arg)
{
	struct service *service = arg;
	struct device *device = &service->context->device;
	struct exanest_fault news;

	(void)fd;
	(void)what;
	while (device_take_fault(device, &news)) {
		struct device_fault *fault = allocate_or_wait(sizeof(*fault));

		*fault = (struct device_fault){ .resolution = { .address = news.address,
								.length = news.length,
								.write = news.write,
								.done = fault_resolved },
						.device = device,
						.ticket = news.ticket };
		resolver_submit(&service->resolver, &fault->resolution);
	}
}

static void on_device_completion(int fd, short what, void *arg)
{
	struct service *service = arg;

	(void)fd;
	(void)what;
	inbox_wake(service->context->inbox.memory, INBOX_SLEEPS_AT_ONCE);
}

/* Without a device nothing is watched. False: out of memory. */
static bool watch_device(struct service *service)
{
	const struct device *device = &service->context->device;

	if (device->fd < 0)
		return true;
	service->device_faulted = event_new(service->base, device->fault_event,
					    EV_READ | EV_PERSIST, on_device_fault, service);
	service->device_completed = event_new(service->base, device->completion_event, EV_READ,
					      on_device_completion, service);
	return service->device_faulted && service->device_completed &&
	       !event_add(service->device_faulted, NULL);
}

static void obey(struct service *service, const struct command *command)
{
	switch (command->kind) {
	case COMMAND_ADOPT:
		connections_adopt(&service->connections, command->peer, &command->call);
		break;
	case COMMAND_ANSWER:
		connections_answer(&service->connections, command->connection, &command->resolve);
		break;
	case COMMAND_WATCH:
		watch(service, command);
		break;
	case COMMAND_AWAIT:
		event_add(service->device_completed, NULL);
		break;
	case COMMAND_COLLAPSE:
		if (collapse_range(command->resolve.address))
			statistic_add_concurrent(&service->context->statistics, PF_STAT_COLLAPSED,
						 1);
		break;
	case COMMAND_RESOLVE:
		if (command->peer->host->connection)
			connection_ask(command->peer->host->connection, &command->resolve);
		break;
	}
}

static void on_command(int fd, short what, void *arg)
{
	struct service *service = arg;
	struct command *command;
	uint64_t count;
	bool stopping;

	(void)what;
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&service->lock);
	command = service->commands;
	service->commands = NULL;
	service->commands_last = &service->commands;
	stopping = service->stopping;
	pthread_mutex_unlock(&service->lock);
	while (command) {
		struct command *next = command->next;

		obey(service, command);
		free(command);
		command = next;
	}
	if (stopping)
		event_base_loopbreak(service->base);
}

static void *run(void *arg)
{
	struct service *service = arg;

	slice_request_short();
	event_base_dispatch(service->base);
	return NULL;
}

static int listen_on(const struct address *address)
{
	struct sockaddr_un name;
	socklen_t length = address_socket(address, &name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (listener < 0)
		return -1;
	if (!bind(listener, (struct sockaddr *)&name, length) && !listen(listener, SOMAXCONN))
		return listener;
	close(listener);
	return -1;
}

static void service_free(struct service *service)
{
	connections_destroy(&service->connections);
	while (service->commands) {
		struct command *command = service->commands;

		service->commands = command->next;
		if (command->kind == COMMAND_ADOPT)
			close(command->call.socket);
		free(command);
	}
	if (service->acceptable)
		event_free(service->acceptable);
	if (service->woken)
		event_free(service->woken);
	if (service->faulted)
		event_free(service->faulted);
	watch_destroy(service->watch);
	if (service->device_faulted)
		event_free(service->device_faulted);
	if (service->device_completed)
		event_free(service->device_completed);
	if (service->base)
		event_base_free(service->base);
	if (service->listener >= 0)
		close(service->listener);
	if (service->wake >= 0)
		close(service->wake);
	pthread_mutex_destroy(&service->lock);
	free(service);
}

/* Signals are the application's: none is ever delivered to this thread. */
static int start_thread(struct service *service)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&service->thread, NULL, run, service);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		pthread_setname_np(service->thread, "libpf service");
	return error;
}

/*
 * Each peer costs four descriptors, and the usual soft limit of 1024 is one for
 * programs that select(): ask for more where the hard limit lets us.
 */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int service_start(pf_context *context, struct service **result)
{
	struct service *service = calloc(1, sizeof(*service));

	if (!service)
		return PF_ERR_MEMORY;
	raise_descriptor_limit();
	service->context = context;
	service->commands_last = &service->commands;
	pthread_mutex_init(&service->lock, NULL);
	resolver_init(&service->resolver, context);
	service->listener = listen_on(&context->address);
	service->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	service->base = event_base_new();
	if (service->listener < 0 || service->wake < 0 || !service->base)
		goto fail;
	connections_init(&service->connections, context, service->base, resolve_for_peer, service);
	service->acceptable = event_new(service->base, service->listener, EV_READ | EV_PERSIST,
					on_caller, service);
	service->woken = event_new(service->base, service->wake, EV_READ | EV_PERSIST, on_command,
				   service);
	if (context->engine) {
		context->engine->resolver = &service->resolver;
		if (watch_create(&service->watch, service->base, context->engine) != PF_OK)
			goto fail;
	}
	if (!service->acceptable || !service->woken || event_add(service->acceptable, NULL) ||
	    event_add(service->woken, NULL) || !watch_device(service) || start_thread(service))
		goto fail;
	*result = service;
	return PF_OK;
fail:
	service_free(service);
	return PF_ERR_SYSTEM;
}

void service_stop(struct service *service)
{
	pthread_mutex_lock(&service->lock);
	service->stopping = true;
	pthread_mutex_unlock(&service->lock);
	wake(service);
	pthread_join(service->thread, NULL);
	/* What is still being resolved is answered to nobody. */
	resolver_destroy(&service->resolver);
	connections_say_bye(&service->connections);
	service_free(service);
}

int service_connect(struct service *service, pf_peer *peer)
{
	struct command *adopt = calloc(1, sizeof(*adopt));
	int status;

	if (!adopt)
		return PF_ERR_MEMORY;
	status = connection_dial(service->context, peer, &adopt->call);
	if (status != PF_OK) {
		free(adopt);
		return status;
	}
	adopt->kind = COMMAND_ADOPT;
	adopt->peer = peer;
	command(service, adopt);
	return PF_OK;
}

int service_resolve(struct service *service, pf_peer *peer, uint64_t token, uint64_t address,
		    uint64_t length, bool write)
{
	const struct resolve resolve = {
		.token = token, .address = address, .length = length, .write = write
	};
	struct command *request;

	if (!peer) {
		resolve_here(service, 0, &resolve);
		return PF_OK;
	}
	request = calloc(1, sizeof(*request));
	if (!request)
		return PF_ERR_MEMORY;
	request->kind = COMMAND_RESOLVE;
	request->peer = peer;
	request->resolve = resolve;
	command(service, request);
	return PF_OK;
}

int service_watch_pagers(struct service *service, int userfault)
{
	struct command *request = calloc(1, sizeof(*request));

	if (!request)
		return PF_ERR_MEMORY;
	request->kind = COMMAND_WATCH;
	request->userfault = userfault;
	command(service, request);
	return PF_OK;
}

void service_await_device(struct service *service)
{
	struct command *request = calloc(1, sizeof(*request));

	/* Without it the sleep lasts its full time. */
	if (!request)
		return;
	request->kind = COMMAND_AWAIT;
	command(service, request);
}

void service_collapse(struct service *service, uint64_t address)
{
	struct command *request = calloc(1, sizeof(*request));

	if (!request)
		return;
	request->kind = COMMAND_COLLAPSE;
	request->resolve.address = address;
	command(service, request);
}
