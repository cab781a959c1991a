/* SPDX-License-Identifier: BSD-3-Clause */
#include "service.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection_message.h"
#include "context.h"
#include "fault/collapse.h"
#include "fault/resolver.h"
#include "peer.h"
#include "slice.h"
#include "transport/host/copy.h"
#include "transport/net/watch.h"

/* Unauthenticated callers: how long and how many. */
#define HANDSHAKE_SECONDS 30
#define STRANGERS_MOST 256
#define DESCRIPTORS_WANTED 16384
/* A peer with this many answers unread is not read from. */
#define OUTBOX_MOST 1024

struct outgoing {
	struct outgoing *next;
	struct connection_message message;
};

struct connection {
	struct connection *next, *previous;
	struct service *service;
	uint64_t number; /* never used again, from 1 */
	int socket;
	struct event *readable, *writable;
	struct outgoing *outbox, **outbox_last;
	unsigned outbox_count;
	pf_peer *peer; /* the side that called; NULL on the side that was called */
	bool established;
	bool farewell;       /* a BYE came: its end is no accident */
	struct address from; /* the side that was called: who called */
	uint32_t slot;
	uint8_t nonce[crypto_secretbox_NONCEBYTES];
};

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
	int socket;          /* WATCH: a userfaultfd */
	uint64_t connection; /* ANSWER: whom */
	uint8_t nonce[crypto_secretbox_NONCEBYTES];
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
	struct connection *connections;
	uint64_t numbers; /* given to connections */
	unsigned strangers;
	bool slots[INBOX_SLOTS];
	/* Shared with callers. */
	pthread_mutex_t lock;
	struct command *commands, **commands_last;
	bool stopping;
};

/* Out of memory on this thread loses an event, and with it at worst a completion: so wait for some. */
static void *allocate(size_t size)
{
	void *memory;

	while (!(memory = calloc(1, size)))
		usleep(1000);
	return memory;
}

static void tell(struct service *service, struct event news)
{
	struct event *event = allocate(sizeof(*event));

	*event = news;
	event_push(&service->context->events, event);
	inbox_wake(service->context->inbox.memory, INBOX_SUDDEN);
}

static uint32_t take_slot(struct service *service)
{
	uint32_t slot;

	for (slot = 0; slot < INBOX_SLOTS; slot++) {
		if (!service->slots[slot]) {
			service->slots[slot] = true;
			return slot;
		}
	}
	return INBOX_NO_SLOT;
}

static void connection_close(struct connection *connection)
{
	struct service *service = connection->service;

	if (connection->peer) {
		connection->peer->connection = NULL;
	} else if (connection->established) {
		if (connection->slot < INBOX_SLOTS)
			service->slots[connection->slot] = false;
	} else {
		service->strangers--;
	}
	*(connection->previous ? &connection->previous->next :
				 &service->connections) = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	while (connection->outbox) {
		struct outgoing *outgoing = connection->outbox;

		connection->outbox = outgoing->next;
		free(outgoing);
	}
	event_free(connection->readable);
	event_free(connection->writable);
	close(connection->socket);
	free(connection);
}

/* The other side is gone, or must be: tell progress, unless it never got in. */
static void connection_lost(struct connection *connection, int status)
{
	if (connection->peer || connection->established)
		tell(connection->service, (struct event){ .kind = EVENT_GONE,
							  .peer = connection->peer,
							  .from = connection->from,
							  .status = status,
							  .farewell = connection->farewell });
	connection_close(connection);
}

static void on_writable(int socket, short what, void *arg)
{
	struct connection *connection = arg;

	(void)what;
	while (connection->outbox) {
		struct outgoing *outgoing = connection->outbox;

		if (connection_message_send(socket, &outgoing->message, -1) == PF_ERR_AGAIN)
			return;
		connection->outbox = outgoing->next;
		if (!connection->outbox)
			connection->outbox_last = &connection->outbox;
		connection->outbox_count--;
		free(outgoing);
	}
	event_del(connection->writable);
	event_add(connection->readable, NULL);
}

static void post(struct connection *connection, const struct connection_message *message)
{
	struct outgoing *outgoing;

	if (!connection->outbox &&
	    connection_message_send(connection->socket, message, -1) != PF_ERR_AGAIN)
		return;
	outgoing = allocate(sizeof(*outgoing));
	outgoing->message = *message;
	*connection->outbox_last = outgoing;
	connection->outbox_last = &outgoing->next;
	event_add(connection->writable, NULL);
	/* Not where we ask: two that each wait to be read from would wait for ever. */
	if (++connection->outbox_count > OUTBOX_MOST && !connection->peer)
		event_del(connection->readable);
}

/* The side that was called. PF_OK or why the caller is sent away. */
static int admit(struct connection *connection, const struct connection_message *message, int fd)
{
	struct service *service = connection->service;
	pf_context *context = service->context;
	struct connection_message answer;
	struct incoming *incoming;
	struct welcome welcome;
	struct hello hello;
	int status;

	if (fd < 0)
		return PF_ERR_REFUSED;
	if (message->kind != CONNECTION_HELLO ||
	    !connection_message_unseal(message, &hello, context->address.key) ||
	    address_parse(&hello.from, &hello.from, sizeof(hello.from)) != PF_OK) {
		close(fd);
		return PF_ERR_REFUSED;
	}
	incoming = allocate(sizeof(*incoming));
	if (channel_map(&incoming->channel, fd) != PF_OK) {
		free(incoming);
		return PF_ERR_REFUSED;
	}
	incoming->from = hello.from;
	incoming->pid = connection_pid(connection->socket);
	incoming->copy_error = !context->options.single_copy ? ENOSYS :
			       !incoming->pid                ? ESRCH :
						copy_probe(incoming->pid, hello.cookie_address,
							   hello.cookie);
	incoming->slot = take_slot(service);
	device_join_pair(&context->device, &context->address, &hello.from);

	welcome = (struct welcome){ .cookie_address = (uint64_t)(uintptr_t)&context->cookie,
				    .cookie = context->cookie,
				    .engine = device_engine(&context->device),
				    .slot = incoming->slot };
	memcpy(welcome.nonce, message->u.handshake.nonce, sizeof(welcome.nonce));
	connection_message_seal(&answer, CONNECTION_WELCOME, &welcome, context->address.key);
	connection->slot = incoming->slot;
	connection->from = hello.from;
	connection->established = true;
	service->strangers--;
	tell(service, (struct event){ .kind = EVENT_INCOMING, .incoming = incoming });
	status = connection_message_send(connection->socket, &answer, context->inbox.fd);
	/* It may have ended meanwhile, in good order even: what it said before is still to be read. */
	return status == PF_ERR_AGAIN ? PF_ERR_PEER : PF_OK;
}

/* The side that called: the peer let us in. */
static int link_up(struct connection *connection, const struct connection_message *message, int fd)
{
	struct service *service = connection->service;
	struct inbox inbox;
	struct welcome welcome;
	pid_t pid;

	if (fd < 0)
		return PF_ERR_REFUSED;
	if (message->kind != CONNECTION_WELCOME ||
	    !connection_message_unseal(message, &welcome, connection->peer->address.key) ||
	    memcmp(welcome.nonce, connection->nonce, sizeof(welcome.nonce))) {
		close(fd);
		return PF_ERR_REFUSED;
	}
	if (inbox_map(&inbox, fd) != PF_OK)
		return PF_ERR_REFUSED;
	connection->established = true;
	device_join_pair(&service->context->device, &service->context->address,
			 &connection->peer->address);
	pid = connection_pid(connection->socket);
	tell(service, (struct event){ .kind = EVENT_LINKED,
				      .peer = connection->peer,
				      .inbox = inbox.memory,
				      .slot = welcome.slot,
				      .pid = pid,
				      .copy_error = pid ? copy_probe(pid, welcome.cookie_address,
								     welcome.cookie) :
							  ESRCH,
				      .engine = welcome.engine });
	return PF_OK;
}

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

static void tell_resolved(struct service *service, const pf_peer *peer,
			  const struct resolve *result)
{
	tell(service, (struct event){ .kind = EVENT_RESOLVED,
				      .peer = (pf_peer *)(uintptr_t)peer,
				      .token = result->token,
				      .status = result->status == PF_OK ? PF_OK : PF_ERR_FAULT,
				      .fault = (enum fault_kind)(result->kind & 3),
				      .address = result->address });
}

static void give_answer(struct connection *connection, const struct resolve *result)
{
	struct connection_message answer = { .magic = CONNECTION_MAGIC,
					     .kind = CONNECTION_RESOLVED };

	answer.u.resolve = *result;
	post(connection, &answer);
}

/* The thread that resolved it may be any: the asker's connection may be gone meanwhile. */
static void resolved(struct resolution *resolution)
{
	struct asked *asked = (struct asked *)resolution;
	struct service *service = asked->service;
	struct resolve result = { .token = asked->token,
				  .address = resolution->failed,
				  .status = resolution->status,
				  .kind = resolution->kind };

	if (!asked->connection) {
		tell_resolved(service, NULL, &result);
	} else {
		struct command *answer = allocate(sizeof(*answer));

		answer->kind = COMMAND_ANSWER;
		answer->connection = asked->connection;
		answer->resolve = result;
		command(service, answer);
	}
	free(asked);
}

/* connection: whom to answer, 0 for this process itself. */
static void resolve_here(struct service *service, uint64_t connection,
			 const struct resolve *request)
{
	struct asked *asked = allocate(sizeof(*asked));

	*asked = (struct asked){ .resolution = { .address = request->address,
						 .length = request->length,
						 .write = request->write,
						 .done = resolved },
				 .service = service,
				 .connection = connection,
				 .token = request->token };
	resolver_submit(&service->resolver, &asked->resolution);
}

/* PF_OK, or why the connection ends. */
static int handle(struct connection *connection, const struct connection_message *message, int fd)
{
	if (!connection->established)
		return connection->peer ? link_up(connection, message, fd) :
					  admit(connection, message, fd);
	if (fd >= 0)
		close(fd);
	switch (message->kind) {
	case CONNECTION_RESOLVE:
		resolve_here(connection->service, connection->number, &message->u.resolve);
		return PF_OK;
	case CONNECTION_RESOLVED:
		/* Only the side that called asks on this socket. */
		if (!connection->peer)
			return PF_ERR_REFUSED;
		tell_resolved(connection->service, connection->peer, &message->u.resolve);
		return PF_OK;
	case CONNECTION_BYE:
		connection->farewell = true;
		return PF_OK;
	default:
		return PF_ERR_REFUSED;
	}
}

static void on_readable(int socket, short what, void *arg)
{
	struct connection_message refusal = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_REFUSED };
	struct connection *connection = arg;
	struct connection_message message;
	bool stranger = !connection->peer && !connection->established;
	int status, fd;

	if (what & EV_TIMEOUT) {
		connection_lost(connection, PF_ERR_REFUSED);
		return;
	}
	status = connection_message_receive(socket, &message, &fd);
	if (status == PF_ERR_AGAIN)
		return;
	if (status == PF_OK)
		status = handle(connection, &message, fd);
	if (status == PF_OK) {
		/* The deadline was for the handshake. */
		if (stranger)
			event_remove_timer(connection->readable);
		return;
	}
	if (stranger && status == PF_ERR_REFUSED)
		connection_message_send(socket, &refusal, -1);
	connection_lost(connection, status);
}

static struct connection *connection_new(struct service *service, int socket, pf_peer *peer)
{
	const struct timeval deadline = { .tv_sec = HANDSHAKE_SECONDS };
	struct connection *connection = allocate(sizeof(*connection));

	connection->service = service;
	connection->number = ++service->numbers;
	connection->socket = socket;
	connection->peer = peer;
	connection->outbox_last = &connection->outbox;
	connection->readable = event_new(service->base, socket, EV_READ | EV_PERSIST, on_readable,
					 connection);
	connection->writable = event_new(service->base, socket, EV_WRITE | EV_PERSIST, on_writable,
					 connection);
	connection->next = service->connections;
	if (connection->next)
		connection->next->previous = connection;
	service->connections = connection;
	if (!peer)
		service->strangers++;
	/* A peer whose process is stopped may take any time to answer us. */
	event_add(connection->readable, peer ? NULL : &deadline);
	return connection;
}

static struct connection *oldest_stranger(struct service *service)
{
	struct connection *connection, *oldest = NULL;

	for (connection = service->connections; connection; connection = connection->next) {
		if (!connection->peer && !connection->established)
			oldest = connection;
	}
	return oldest;
}

static void on_caller(int listener, short what, void *arg)
{
	struct service *service = arg;
	int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)what;
	if (socket < 0)
		return;
	if (service->strangers >= STRANGERS_MOST)
		connection_close(oldest_stranger(service));
	/* Whoever knows the key has said so by now, so no crowd can keep it out. */
	on_readable(socket, EV_READ, connection_new(service, socket, NULL));
}

static void adopt(struct service *service, const struct command *command)
{
	struct connection *connection = connection_new(service, command->socket, command->peer);

	memcpy(connection->nonce, command->nonce, sizeof(connection->nonce));
	command->peer->connection = connection;
}

static void answer_by_number(struct service *service, const struct command *command)
{
	struct connection *connection = service->connections;

	while (connection && connection->number != command->connection)
		connection = connection->next;
	if (connection)
		give_answer(connection, &command->resolve);
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
		service->faulted = event_new(service->base, command->socket, EV_READ | EV_PERSIST,
					     on_fault, service);
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
		struct device_fault *fault = allocate(sizeof(*fault));

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
	inbox_wake(service->context->inbox.memory, INBOX_SUDDEN);
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
	struct connection_message message = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_RESOLVE };

	switch (command->kind) {
	case COMMAND_ADOPT:
		adopt(service, command);
		break;
	case COMMAND_ANSWER:
		answer_by_number(service, command);
		break;
	case COMMAND_WATCH:
		watch(service, command);
		break;
	case COMMAND_AWAIT:
		event_add(service->device_completed, NULL);
		break;
	case COMMAND_COLLAPSE:
		if (collapse_range(command->resolve.address))
			statistic_add_elsewhere(&service->context->statistics, PF_STAT_COLLAPSED,
						1);
		break;
	case COMMAND_RESOLVE:
		if (!command->peer->connection)
			break;
		message.u.resolve = command->resolve;
		post(command->peer->connection, &message);
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

	slice_ask_short();
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
	/* The analyzer does not see that closing takes it off the list. */
	while (service->connections)
		connection_close(service->connections); /* NOLINT(clang-analyzer-unix.Malloc) */
	while (service->commands) {
		struct command *command = service->commands;

		service->commands = command->next;
		if (command->kind == COMMAND_ADOPT)
			close(command->socket);
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
	struct connection_message bye = { .magic = CONNECTION_MAGIC, .kind = CONNECTION_BYE };
	struct connection *connection;

	pthread_mutex_lock(&service->lock);
	service->stopping = true;
	pthread_mutex_unlock(&service->lock);
	wake(service);
	pthread_join(service->thread, NULL);
	/* What is still being resolved is answered to nobody. */
	resolver_destroy(&service->resolver);
	for (connection = service->connections; connection; connection = connection->next)
		connection_message_send(connection->socket, &bye, -1);
	service_free(service);
}

int service_connect(struct service *service, pf_peer *peer)
{
	pf_context *context = service->context;
	struct command *adopt = calloc(1, sizeof(*adopt));
	struct connection_message message;
	struct sockaddr_un name;
	struct hello hello = { .from = context->address,
			       .cookie_address = (uint64_t)(uintptr_t)&context->cookie,
			       .cookie = context->cookie };
	socklen_t length = address_socket(&peer->address, &name);
	int status = PF_ERR_SYSTEM;

	if (!adopt)
		return PF_ERR_MEMORY;
	adopt->kind = COMMAND_ADOPT;
	adopt->peer = peer;
	adopt->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (adopt->socket < 0)
		goto fail;
	if (connect(adopt->socket, (struct sockaddr *)&name, length) < 0) {
		status = errno == EAGAIN       ? PF_ERR_AGAIN :
			 errno == ECONNREFUSED ? PF_ERR_PEER :
						 PF_ERR_SYSTEM;
		goto fail;
	}
	connection_message_seal(&message, CONNECTION_HELLO, &hello, peer->address.key);
	memcpy(adopt->nonce, message.u.handshake.nonce, sizeof(adopt->nonce));
	status = connection_message_send(adopt->socket, &message, peer->out.fd);
	if (status != PF_OK)
		goto fail;
	command(service, adopt);
	return PF_OK;
fail:
	if (adopt->socket >= 0)
		close(adopt->socket);
	free(adopt);
	return status;
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
	request->socket = userfault;
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
