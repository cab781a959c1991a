/* SPDX-License-Identifier: BSD-3-Clause */
#include "connection.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/descriptor.h"
#include "copy.h"
#include "incoming.h"
#include "process.h"

/* Linux 6.5; older C libraries do not name it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Strangers: time to prove knowledge of the key, and how many callers are kept. */
#define HANDSHAKE_SECONDS 30
#define STRANGERS_MOST 256
/* Requests of a peer are not read while more answers wait for the peer. */
#define OUTBOX_MOST 1024
/*
 * Time to the next attempt to send a welcome, us. The welcome's descriptor is one too many while
 * processes of the user have more in flight than the limit of this process; no event tells when
 * descriptors are received.
 */
#define WELCOME_MICROSECONDS 1000
/* Time for which callers wait while there is no descriptor to answer by. */
#define PAUSE_MICROSECONDS 100000

struct outgoing {
	STAILQ_ENTRY(outgoing) next;
	struct connection_message message;
};

struct connection {
	struct connection *next, *previous;
	struct connections *connections;
	uint64_t number; /* never used again, from 1 */
	int socket;
	struct event *readable, *writable;
	STAILQ_HEAD(, outgoing) outbox;
	unsigned outbox_count;
	pf_peer *peer;             /* on the calling side; NULL on the called side */
	struct connection **owner; /* on the calling side: the peer's pointer to this connection */
	bool established;
	bool farewell;                      /* a BYE came: the process ends in good order */
	struct address from;                /* on the called side: the caller */
	struct connection_message *welcome; /* on the called side: not sent yet; NULL: none */
	uint8_t nonce[crypto_secretbox_NONCEBYTES];
	struct process *process; /* of the peer; NULL: a stranger; a reference */
	int pidfd;               /* readable once the process has ended; -1: not watched here */
	struct event *ended;
};

/*
 * Give the writer of the channel a slot. Acquire: progress has forgotten the last owner before the
 * slot was given back (incoming_destroy).
 */
static void slot_take(struct connections *connections, struct incoming *incoming)
{
	uint32_t slot;

	incoming->slot = INBOX_NO_SLOT;
	incoming->slot_taken = NULL;
	for (slot = 0; slot < INBOX_SLOTS; slot++) {
		if (atomic_load_explicit(&connections->slots[slot], memory_order_acquire))
			continue;
		incoming->slot = slot;
		incoming->slot_taken = &connections->slots[slot];
		atomic_store_explicit(incoming->slot_taken, true, memory_order_relaxed);
		return;
	}
}

static void connection_close(struct connection *connection)
{
	struct connections *connections = connection->connections;

	pthread_mutex_lock(&connections->lock);
	if (connection->peer) {
		*connection->owner = NULL;
	} else if (!connection->established) {
		connections->strangers--;
	}
	*(connection->previous ? &connection->previous->next :
				 &connections->newest) = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	/* From here on no other thread finds the connection. */
	pthread_mutex_unlock(&connections->lock);
	while (!STAILQ_EMPTY(&connection->outbox)) {
		struct outgoing *outgoing = STAILQ_FIRST(&connection->outbox);

		STAILQ_REMOVE_HEAD(&connection->outbox, next);
		free(outgoing);
	}
	free(connection->welcome);
	event_free(connection->readable);
	event_free(connection->writable);
	if (connection->ended)
		event_free(connection->ended);
	if (connection->pidfd >= 0)
		close(connection->pidfd);
	process_put(connection->process);
	close(connection->socket);
	free(connection);
}

static void admit_callers(struct connections *connections);

/* The peer is gone, or must go: tell progress, unless the peer was never admitted. */
static void connection_lost(struct connection *connection, int status, const char *why)
{
	struct connections *connections = connection->connections;
	const bool admitted = connection->peer || connection->established;
	const struct notice notice = { .kind = NOTICE_GONE,
				       .peer = connection->peer,
				       .from = connection->from,
				       .status = status,
				       .why = why,
				       .farewell = connection->farewell };

	assert_service(&connection->connections->context->service);
	/* First: from here on no byte is copied to or from the process. */
	if (connection->process)
		atomic_store_explicit(&connection->process->dead, true, memory_order_relaxed);
	/* Close before a caller needs the descriptors. */
	connection_close(connection);
	if (!admitted)
		return;
	admit_callers(connections);
	notices_report(connections->notices, &notice);
}

static void on_writable(int socket, short what, void *arg)
{
	struct connection *connection = arg;
	pthread_mutex_t *lock = &connection->connections->lock;
	struct outgoing *outgoing;

	assert_service(&connection->connections->context->service);
	(void)what;
	pthread_mutex_lock(lock);
	while ((outgoing = STAILQ_FIRST(&connection->outbox))) {
		if (connection_message_send(socket, &outgoing->message, -1) == PF_ERR_AGAIN)
			break;
		STAILQ_REMOVE_HEAD(&connection->outbox, next);
		connection->outbox_count--;
		free(outgoing);
	}
	pthread_mutex_unlock(lock);
	if (outgoing)
		return;
	event_del(connection->writable);
	event_add(connection->readable, NULL);
}

/* Under the lock: send, unless earlier messages wait. False: there is no room. */
static bool connection_send(struct connection *connection, const struct connection_message *message)
{
	assert_locked(&connection->connections->lock, true);
	return STAILQ_EMPTY(&connection->outbox) &&
	       connection_message_send(connection->socket, message, -1) != PF_ERR_AGAIN;
}

static void connection_post(struct connection *connection, const struct connection_message *message)
{
	pthread_mutex_t *lock = &connection->connections->lock;
	struct outgoing *outgoing;
	bool sent;

	assert_service(&connection->connections->context->service);
	pthread_mutex_lock(lock);
	sent = connection_send(connection, message);
	pthread_mutex_unlock(lock);
	if (sent)
		return;
	outgoing = allocate_or_wait(sizeof(*outgoing));
	outgoing->message = *message;
	pthread_mutex_lock(lock);
	STAILQ_INSERT_TAIL(&connection->outbox, outgoing, next);
	pthread_mutex_unlock(lock);
	event_add(connection->writable, NULL);
	/*
	 * On the called side alone, which answers: two processes that both stopped reading would
	 * wait for ever.
	 */
	if (++connection->outbox_count > OUTBOX_MOST && !connection->peer)
		event_del(connection->readable);
}

static const uint8_t *other_side(const struct connection *connection)
{
	return connection->peer ? connection->peer->id : connection->from.id;
}

static void on_ended(int pidfd, short what, void *arg);

/*
 * The end of the socket does not always show the end of the process: a child that was forked
 * without exec keeps the socket open. Therefore the process is watched, where the kernel can
 * (SO_PEERPIDFD is Linux 6.5, pidfd_open 5.3). The process may have ended before: a child keeps the
 * listener open, too.
 */
static void watch_process(struct connection *connection)
{
	socklen_t length = sizeof(connection->pidfd);

	if (getsockopt(connection->socket, SOL_SOCKET, SO_PEERPIDFD, &connection->pidfd, &length) <
		    0 &&
	    errno == ENOPROTOOPT && connection->process->pid)
		/* An old kernel. Else the number may be another process's by now. */
		connection->pidfd = (int)syscall(SYS_pidfd_open, connection->process->pid, 0);
	if (connection->pidfd < 0 && (errno != ESRCH || !connection->process->pid))
		return;
	connection->pidfd = descriptor_lift(connection->pidfd);
	connection->ended = service_event(&connection->connections->context->service,
					  connection->pidfd, EV_READ | EV_PERSIST, on_ended,
					  connection);
	if (connection->pidfd >= 0)
		event_add(connection->ended, NULL);
	else
		event_active(connection->ended, EV_READ, 0);
}

/*
 * Find or make the record of the peer's process: one record, and one watch, for all connections
 * with the process.
 */
static void identify_process(struct connection *connection)
{
	struct ucred credentials = { 0 };
	socklen_t length = sizeof(credentials);
	struct connection *other;

	for (other = connection->connections->newest; other; other = other->next) {
		if (other->process &&
		    !memcmp(other_side(other), other_side(connection), ADDRESS_ID_BYTES)) {
			connection->process = process_get(other->process);
			return;
		}
	}
	/* The number in the PID namespace of this process; 0 if the peer has no number there. */
	if (getsockopt(connection->socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
		credentials.pid = 0;
	connection->process = process_new(credentials.pid);
	watch_process(connection);
}

/*
 * Return the address of the cookie, by which peers test single copy; 0 with the option expose: a
 * peer with an earlier version of libpf reads at the address 0, in vain, and copies nothing.
 */
static uint64_t connections_cookie(const struct connections *connections)
{
	const bool exposes = connections->context->options.expose;

	return exposes ? 0 : (uint64_t)(uintptr_t)connections->cookie;
}

/* Return 0, or the errno for which single copy to and from the peer is impossible. */
static int copy_check(const struct connection *connection, uint64_t cookie_address, uint64_t cookie)
{
	pid_t pid = process_is_dead(connection->process) ? 0 : connection->process->pid;

	if (!cookie_address)
		return COPY_EXPOSED;
	return pid ? copy_probe(pid, cookie_address, cookie) : ESRCH;
}

/*
 * Send the welcome, or try again later, by the timer of readable; a caller waits without a limit.
 * If the caller has ended meanwhile, earlier messages of the caller, such as a farewell, are still
 * read.
 */
static void send_welcome(struct connection *connection)
{
	const struct timeval pause = { .tv_usec = WELCOME_MICROSECONDS };

	assert_service(&connection->connections->context->service);
	if (connection_message_send(connection->socket, connection->welcome,
				    connection->connections->inbox_fd) == PF_ERR_AGAIN) {
		event_add(connection->readable, &pause);
		return;
	}
	event_remove_timer(connection->readable);
	free(connection->welcome);
	connection->welcome = NULL;
}

/* On the called side: admit the caller. PF_OK, or the reason for a refusal. */
static int connection_admit(struct connection *connection, const struct connection_message *message,
			    int fd, int inbox)
{
	struct connections *connections = connection->connections;
	pf_context *context = connections->context;
	struct incoming *incoming;
	struct welcome welcome;
	struct hello hello;

	assert_service(&connection->connections->context->service);
	if (fd < 0)
		return PF_ERR_REFUSED;
	if (message->kind != CONNECTION_HELLO ||
	    !connection_message_unseal(message, &hello, context->address.key) ||
	    address_parse(&hello.from, hello.data, &hello.from, address_length(&hello.from)) !=
		    PF_OK ||
	    /* The option network differs: this process reaches the caller by another transport. */
	    context->transport_back(context, &hello.from) != &transport_host) {
		close(fd);
		return PF_ERR_REFUSED;
	}
	incoming = allocate_or_wait(sizeof(*incoming));
	if (channel_map(&incoming->channel, fd) != PF_OK) {
		free(incoming);
		return PF_ERR_REFUSED;
	}
	connection->from = hello.from;
	connection->established = true;
	connections->strangers--;
	identify_process(connection);
	if (inbox >= 0)
		process_watch_life(connection->process, inbox);
	incoming->from = hello.from;
	memcpy(incoming->data, hello.data, sizeof(incoming->data));
	incoming->process = process_get(connection->process);
	/* With the option expose the owner answers, and checks, each block of the peer. */
	incoming->copy_error = context->options.single_copy && !context->options.expose ?
				       copy_check(connection, hello.cookie_address, hello.cookie) :
				       ENOSYS;
	/* Only the route stream needs the file. */
	if (!incoming->copy_error)
		channel_drop_file(&incoming->channel);
	slot_take(connections, incoming);
	/*
	 * A mark by the slot's last owner, who is gone, is not by the new owner. Relaxed: the new
	 * owner learns of the slot by a message from this thread.
	 */
	if (incoming->slot < INBOX_SLOTS)
		atomic_store_explicit(&connections->notices->inbox->pending[incoming->slot], 0,
				      memory_order_relaxed);
	device_join_pair(&context->device, &context->address, &hello.from);

	welcome = (struct welcome){ .cookie_address = connections_cookie(connections),
				    .cookie = *connections->cookie,
				    .engine = device_address(&context->device),
				    .slot = incoming->slot };
	memcpy(welcome.nonce, message->u.handshake.nonce, sizeof(welcome.nonce));
	connection->welcome = allocate_or_wait(sizeof(*connection->welcome));
	connection_message_seal(connection->welcome, CONNECTION_WELCOME, &welcome,
				context->address.key);
	/*
	 * Before the caller can know the inbox: inbox_ring_always. arm64 may make a release store,
	 * even a sequentially consistent store, visible after later stores: hence a fence.
	 */
	atomic_store_explicit(&connections->inbox_known, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	send_welcome(connection);
	/* Last: progress, which the notice wakes, may take the processor from this thread. */
	notices_report(connections->notices,
		       &(struct notice){ .kind = NOTICE_INCOMING, .incoming = incoming });
	return PF_OK;
}

/* On the calling side: the peer has admitted this process. */
static int link_up(struct connection *connection, const struct connection_message *message, int fd)
{
	pf_context *context = connection->connections->context;
	struct inbox inbox;
	struct welcome welcome;

	assert_service(&connection->connections->context->service);
	if (fd < 0)
		return PF_ERR_REFUSED;
	if (message->kind != CONNECTION_WELCOME ||
	    !connection_message_unseal(message, &welcome, connection->peer->address->key) ||
	    memcmp(welcome.nonce, connection->nonce, sizeof(welcome.nonce))) {
		close(fd);
		return PF_ERR_REFUSED;
	}
	process_watch_life(connection->process, fd);
	if (inbox_map(&inbox, fd) != PF_OK)
		return PF_ERR_REFUSED;
	connection->established = true;
	event_remove_timer(connection->readable);
	device_join_pair(&context->device, &context->address, connection->peer->address);
	connection->connections->give_bell(connection->peer, inbox.memory, welcome.slot);
	notices_report(connection->connections->notices,
		       &(struct notice){ .kind = NOTICE_LINKED,
					 .peer = connection->peer,
					 .process = process_get(connection->process),
					 .copy_error = copy_check(connection,
								  welcome.cookie_address,
								  welcome.cookie),
					 .engine = welcome.engine });
	return PF_OK;
}

static void report_answer(const struct connection *connection, const struct resolve *result)
{
	notices_report(connection->connections->notices,
		       &(struct notice){ .kind = NOTICE_RESOLVED,
					 .peer = connection->peer,
					 .token = result->token,
					 .status = resolve_status_received(result->status),
					 .fault = fault_kind_received(result->kind),
					 .address = result->address });
}

/* Return PF_OK, or why the connection ends. inbox: of a caller; -1: none; inbox stays open. */
static int connection_handle(struct connection *connection,
			     const struct connection_message *message, int fd, int inbox)
{
	struct connections *connections = connection->connections;

	/*
	 * The last message, whatever came before. Do not wait for the end of the socket: a child
	 * forked without exec keeps the socket open.
	 */
	if (message->kind == CONNECTION_BYE) {
		if (fd >= 0)
			close(fd);
		connection->farewell = true;
		return PF_ERR_PEER;
	}
	if (!connection->established)
		return connection->peer ? link_up(connection, message, fd) :
					  connection_admit(connection, message, fd, inbox);
	if (fd >= 0)
		close(fd);
	switch (message->kind) {
	case CONNECTION_RESOLVE:
		/*
		 * Only from the calling side: connection_post() limits the answers of the called
		 * side alone.
		 */
		if (connection->peer)
			return PF_ERR_REFUSED;
		connections->resolve(connections->resolve_arg, connection->number,
				     &message->u.resolve);
		return PF_OK;
	case CONNECTION_RESOLVED:
		if (!connection->peer)
			return PF_ERR_REFUSED;
		report_answer(connection, &message->u.resolve);
		return PF_OK;
	default:
		return PF_ERR_REFUSED;
	}
}

static const char *why_lost(int status)
{
	switch (status) {
	case PF_ERR_REFUSED:
		return "refused in the handshake: another protection domain or version of libpf";
	case PF_ERR_PROTOCOL:
		return "malformed message on the connection from the peer";
	case PF_ERR_SYSTEM:
		return "out of file descriptors in this process: raise its limit (ulimit -n)";
	default:
		return "the peer's process is gone";
	}
}

enum received { RECEIVED_NOTHING, RECEIVED_MESSAGE, RECEIVED_END /* the connection is freed */ };

static enum received connection_receive(struct connection *connection)
{
	struct connection_message refusal = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_REFUSED };
	bool stranger = !connection->peer && !connection->established;
	struct connection_message message;
	int status, fds[CONNECTION_DESCRIPTORS];

	assert_service(&connection->connections->context->service);
	status = connection_message_receive(connection->socket, &message, fds);
	if (status == PF_ERR_AGAIN)
		return RECEIVED_NOTHING;
	if (status == PF_OK && message.kind == CONNECTION_EXHAUSTED && connection->peer) {
		connection_message_drop(fds);
		connection_lost(connection, PF_ERR_SYSTEM,
				"the peer's process is out of file descriptors: raise its limit "
				"(ulimit -n)");
		return RECEIVED_END;
	}
	if (status == PF_OK)
		status = connection_handle(connection, &message, fds[0], fds[1]);
	if (fds[1] >= 0)
		close(fds[1]);
	if (status == PF_OK)
		return RECEIVED_MESSAGE;
	if (status == PF_ERR_REFUSED && connection->established)
		status = PF_ERR_PROTOCOL;
	if (stranger && status == PF_ERR_SYSTEM)
		refusal.kind = CONNECTION_EXHAUSTED;
	if (stranger && status != PF_ERR_PEER)
		connection_message_send(connection->socket, &refusal, -1);
	connection_lost(connection, status,
			connection->farewell ? "gone: the peer closed its context" :
					       why_lost(status));
	return RECEIVED_END;
}

static void on_readable(int socket, short what, void *arg)
{
	struct connection *connection = arg;

	assert_service(&connection->connections->context->service);
	(void)socket;
	if (!(what & EV_TIMEOUT))
		connection_receive(connection);
	else if (connection->welcome)
		send_welcome(connection);
	else if (connection->peer)
		connection_lost(connection, PF_ERR_PEER,
				"no answer from the process that has the peer's address, which is "
				"another user's");
	else
		connection_lost(connection, PF_ERR_REFUSED, why_lost(PF_ERR_REFUSED));
}

/* The peer's process has ended, and with the process all its connections. */
static void on_ended(int pidfd, short what, void *arg)
{
	struct connections *connections = ((struct connection *)arg)->connections;
	struct process *process = process_get(((struct connection *)arg)->process);
	struct connection *connection = connections->newest;
	enum received received;

	assert_service(&connections->context->service);
	(void)pidfd;
	(void)what;
	while (connection) {
		if (connection->process != process) {
			connection = connection->next;
			continue;
		}
		/* Read the messages from before the end: a farewell, above all. */
		do {
			received = connection_receive(connection);
		} while (received == RECEIVED_MESSAGE);
		if (received == RECEIVED_NOTHING)
			connection_lost(connection, PF_ERR_PEER, why_lost(PF_ERR_PEER));
		connection = connections->newest;
	}
	process_put(process);
}

/*
 * Does a process of another user listen where this process called? The name of an ended context is
 * free, and any process of the host can take the name.
 */
static bool callee_is_foreign(int socket)
{
	struct ucred credentials;
	socklen_t length = sizeof(credentials);

	return !getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) &&
	       credentials.uid != geteuid();
}

static struct connection *connection_new(struct connections *connections, int socket, pf_peer *peer)
{
	struct connection *connection = allocate_or_wait(sizeof(*connection));

	connection->connections = connections;
	connection->number = ++connections->numbers;
	connection->socket = socket;
	connection->peer = peer;
	connection->pidfd = -1;
	STAILQ_INIT(&connection->outbox);
	connection->readable = service_event(&connections->context->service, socket,
					     EV_READ | EV_PERSIST, on_readable, connection);
	connection->writable = service_event(&connections->context->service, socket,
					     EV_WRITE | EV_PERSIST, on_writable, connection);
	pthread_mutex_lock(&connections->lock);
	connection->next = connections->newest;
	if (connection->next)
		connection->next->previous = connection;
	connections->newest = connection;
	pthread_mutex_unlock(&connections->lock);
	if (!peer)
		connections->strangers++;
	/*
	 * A peer may be stopped (SIGSTOP) for any time before the answer, if the process is of this
	 * user.
	 */
	event_add(connection->readable,
		  peer && !callee_is_foreign(socket) ? NULL : &connections->handshake);
	return connection;
}

static struct connection *oldest_stranger(struct connections *connections)
{
	struct connection *connection, *oldest = NULL;

	for (connection = connections->newest; connection; connection = connection->next) {
		if (!connection->peer && !connection->established)
			oldest = connection;
	}
	return oldest;
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

static void on_pause_over(int fd, short what, void *arg);

/* Without a spare descriptor callers have to wait, but this thread must not spin. */
static void keep_spare(struct connections *connections)
{
	const struct timeval pause = { .tv_usec = PAUSE_MICROSECONDS };

	connections->spare = fcntl(connections->listener, F_DUPFD_CLOEXEC, 0);
	if (connections->spare >= 0)
		return;
	event_del(connections->acceptable);
	event_base_once(connections->context->service.base, -1, EV_TIMEOUT, on_pause_over,
			connections, &pause);
}

static void on_pause_over(int fd, short what, void *arg)
{
	struct connections *connections = arg;

	(void)fd;
	(void)what;
	event_add(connections->acceptable, NULL);
	keep_spare(connections);
}

/*
 * Out of descriptors: tell the caller by way of the spare descriptor, instead of leaving the caller
 * to wait.
 */
static void turn_away(struct connections *connections)
{
	const struct connection_message exhausted = { .magic = CONNECTION_MAGIC,
						      .kind = CONNECTION_EXHAUSTED };
	int socket;

	close(connections->spare);
	socket = accept4(connections->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (socket >= 0) {
		connection_message_send(socket, &exhausted, -1);
		close(socket);
	}
	keep_spare(connections);
}

/* Accept a caller. False: no caller, or none can be accepted now; errno says why. */
static bool accept_caller(struct connections *connections)
{
	struct connection *oldest;
	int socket;

	do {
		socket = accept4(connections->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (socket < 0 && descriptor_limit_raised(errno));
	if (socket < 0)
		return false;
	socket = descriptor_lift(socket);
	/*
	 * Without room for the descriptor of the caller's channel, the kernel would drop the
	 * descriptor.
	 */
	descriptor_limit_ensure(socket);
	/* Strangers cannot keep out a caller with the key, whose HELLO comes at once. */
	oldest = connections->strangers >= STRANGERS_MOST ? oldest_stranger(connections) : NULL;
	if (oldest && connection_receive(oldest) == RECEIVED_NOTHING)
		connection_close(oldest);
	connection_receive(connection_new(connections, socket, NULL));
	return true;
}

static void on_caller(int listener, short what, void *arg)
{
	struct connections *connections = arg;

	assert_service(&connections->context->service);
	(void)listener;
	(void)what;
	if (!accept_caller(connections) && (errno == EMFILE || errno == ENFILE))
		turn_away(connections);
}

/*
 * A process may call this process, send a message and end. The call is on the way before the end
 * is, but epoll may show the socket with the end first, and no message is read from a peer that is
 * gone. Therefore callers are admitted before an end is told, as far as there are descriptors.
 * Frees strangers only.
 */
static void admit_callers(struct connections *connections)
{
	struct connection *connection, *next;
	unsigned calls = 0;

	for (connection = connections->newest; connection; connection = next) {
		next = connection->next;
		if (!connection->peer && !connection->established)
			connection_receive(connection);
	}
	while (calls < SOMAXCONN && accept_caller(connections))
		calls++;
}

void connections_report_refused(struct connections *connections, pf_peer *peer)
{
	assert_service(&connections->context->service);
	admit_callers(connections);
	notices_report(connections->notices, &(struct notice){ .kind = NOTICE_GONE,
							       .peer = peer,
							       .status = PF_ERR_PEER,
							       .why = why_lost(PF_ERR_PEER) });
}

/* The first use of the cipher loads its code: now, not while two processes wait for each other. */
static void load_cipher(const struct address *address)
{
	struct connection_message message;
	struct hello hello = { 0 };

	connection_message_seal(&message, CONNECTION_HELLO, &hello, address->key);
	(void)connection_message_unseal(&message, &hello, address->key);
}

int connections_open(struct connections *connections, pf_context *context, struct notices *notices,
		     int inbox_fd, const uint64_t *cookie, connections_resolve_fn resolve,
		     void *resolve_arg, connections_bell_fn give_bell)
{
	memset(connections, 0, sizeof(*connections));
	connections->context = context;
	connections->handshake = (struct timeval){ .tv_sec = HANDSHAKE_SECONDS };
	connections->notices = notices;
	connections->inbox_fd = inbox_fd;
	connections->cookie = cookie;
	connections->resolve = resolve;
	connections->resolve_arg = resolve_arg;
	connections->give_bell = give_bell;
	load_cipher(&context->address);
	connections->listener = listen_on(&context->address);
	if (connections->listener < 0)
		return PF_ERR_SYSTEM;
	pthread_mutex_init(&connections->lock, NULL);
	connections->spare = fcntl(connections->listener, F_DUPFD_CLOEXEC, 0);
	connections->acceptable = event_new(context->service.base, connections->listener,
					    EV_READ | EV_PERSIST, on_caller, connections);
	if (connections->acceptable && !event_add(connections->acceptable, NULL))
		return PF_OK;
	connections_close(connections);
	return PF_ERR_SYSTEM;
}

static const struct connection_message bye = { .magic = CONNECTION_MAGIC, .kind = CONNECTION_BYE };

/*
 * A child that was forked without exec has the listener too. Callers that wait there learn here
 * that this process closes, and the kernel refuses later callers.
 */
static void close_listener(int listener)
{
	int socket;

	shutdown(listener, SHUT_RDWR);
	while ((socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		connection_message_send(socket, &bye, -1);
		close(socket);
	}
	close(listener);
}

void connections_close(struct connections *connections)
{
	if (!connections->context)
		return;
	/* The analyzer does not see that closing takes the connection off the list. */
	while (connections->newest)
		connection_close(connections->newest); /* NOLINT(clang-analyzer-unix.Malloc) */
	if (connections->acceptable)
		event_free(connections->acceptable);
	/* First: without the spare there may be no descriptor for a caller that waits. */
	if (connections->spare >= 0)
		close(connections->spare);
	close_listener(connections->listener);
	pthread_mutex_destroy(&connections->lock);
	connections->context = NULL;
}

void connections_say_bye(struct connections *connections)
{
	struct connection *connection;

	assert_service(&connections->context->service);
	for (connection = connections->newest; connection; connection = connection->next)
		connection_message_send(connection->socket, &bye, -1);
}

int connection_dial(const struct connections *connections, const struct address *address,
		    int channel, struct call *call)
{
	struct connection_message message;
	struct sockaddr_un name;
	struct hello hello = { .from = connections->context->address,
			       .cookie_address = connections_cookie(connections),
			       .cookie = *connections->cookie };
	socklen_t length = address_socket(address, &name);
	int status;

	memcpy(hello.data, connections->context->data, sizeof(hello.data));
	do {
		call->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	} while (call->socket < 0 && descriptor_limit_raised(errno));
	if (call->socket < 0)
		return PF_ERR_SYSTEM;
	call->socket = descriptor_lift(call->socket);
	descriptor_limit_ensure(call->socket);
	if (connect(call->socket, (struct sockaddr *)&name, length) < 0) {
		status = errno == EAGAIN       ? PF_ERR_AGAIN :
			 errno == ECONNREFUSED ? PF_ERR_PEER :
						 PF_ERR_SYSTEM;
		goto fail;
	}
	connection_message_seal(&message, CONNECTION_HELLO, &hello, address->key);
	memcpy(call->nonce, message.u.handshake.nonce, sizeof(call->nonce));
	status = connection_message_send_with(call->socket, &message,
					      (int[]){ channel, connections->inbox_fd },
					      CONNECTION_DESCRIPTORS);
	/* The peer has closed the socket already: the service thread reads why. */
	if (status == PF_OK || status == PF_ERR_PEER)
		return PF_OK;
fail:
	close(call->socket);
	return status;
}

void connections_adopt(struct connections *connections, pf_peer *peer, const struct call *call,
		       struct connection **owner)
{
	struct connection *connection = connection_new(connections, call->socket, peer);

	assert_service(&connections->context->service);
	memcpy(connection->nonce, call->nonce, sizeof(connection->nonce));
	connection->owner = owner;
	pthread_mutex_lock(&connections->lock);
	*owner = connection;
	pthread_mutex_unlock(&connections->lock);
	identify_process(connection);
}

void connections_drop(struct connections *connections, const uint8_t id[ADDRESS_ID_BYTES])
{
	struct connection *connection = connections->newest, *next;

	assert_service(&connections->context->service);
	for (; connection; connection = next) {
		next = connection->next;
		/* Strangers have no id yet. */
		if (connection->process && !memcmp(other_side(connection), id, ADDRESS_ID_BYTES))
			connection_close(connection);
	}
}

static struct connection_message message_of_resolve(enum connection_message_kind kind,
						    const struct resolve *resolve)
{
	struct connection_message message = { .magic = CONNECTION_MAGIC, .kind = kind };

	message.u.resolve = *resolve;
	return message;
}

/* Under the lock, or on the service thread. NULL: the connection has ended. */
static struct connection *connection_find(const struct connections *connections, uint64_t number)
{
	struct connection *connection = connections->newest;

	while (connection && connection->number != number)
		connection = connection->next;
	return connection;
}

bool connections_ask_now(struct connections *connections, struct connection *const *owner,
			 const struct resolve *request)
{
	const struct connection_message message = message_of_resolve(CONNECTION_RESOLVE, request);
	bool sent;

	/* A holder may have lost the processor: progress does not wait. */
	if (pthread_mutex_trylock(&connections->lock))
		return false;
	/* A connection that has ended is reported to progress separately. */
	sent = !*owner || connection_send(*owner, &message);
	pthread_mutex_unlock(&connections->lock);
	return sent;
}

bool connections_answer_now(struct connections *connections, uint64_t number,
			    const struct resolve *result)
{
	const struct connection_message answer = message_of_resolve(CONNECTION_RESOLVED, result);
	struct connection *connection;
	bool sent;

	pthread_mutex_lock(&connections->lock);
	connection = connection_find(connections, number);
	sent = !connection || connection_send(connection, &answer);
	pthread_mutex_unlock(&connections->lock);
	return sent;
}

void connection_ask(struct connection *connection, const struct resolve *request)
{
	const struct connection_message message = message_of_resolve(CONNECTION_RESOLVE, request);

	assert_service(&connection->connections->context->service);
	connection_post(connection, &message);
}

void connections_answer(struct connections *connections, uint64_t number,
			const struct resolve *result)
{
	const struct connection_message answer = message_of_resolve(CONNECTION_RESOLVED, result);
	struct connection *connection = connection_find(connections, number);

	assert_service(&connections->context->service);
	if (connection)
		connection_post(connection, &answer);
}
