/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake on a host: which connections a context accepts, and that others do no harm. */
#include "peers.h"
#include "stranger.h"

#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/page.h"
#include "context/contents.h"
#include "host/inbox.h"
#include "host/peer.h"
#include "patience.h"

static const size_t hello_length = offsetof(struct connection_message, u.handshake.sealed) +
				   CONNECTION_SEALED_MAX;

/* The other side's descriptors in this process are closed by its service thread. */
static bool descriptors_become(unsigned expected)
{
	unsigned i;

	for (i = 0; i < 20000 && count_descriptors() != expected; i++)
		usleep(1000);
	return count_descriptors() == expected;
}

static int make_channel(void)
{
	_Atomic int64_t allowance = 0;
	struct channel channel;
	int fd;

	assert_ok(channel_create(&channel, 65536, &allowance, NULL));
	fd = dup(channel.fd);
	channel_destroy(&channel);
	return fd;
}

static void make_ends(int ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

/* ---- messages, without a context ---- */

/* As a user whose limit is less than the descriptors that wait to be received. */
static int send_many(void)
{
	struct connection_message message = { .magic = CONNECTION_MAGIC, .kind = CONNECTION_HELLO };
	const struct rlimit limit = { 16, 64 };
	unsigned i;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    setrlimit(RLIMIT_NOFILE, &limit) || (!getuid() && setresuid(65534, 65534, 65534)))
		return 2;
	for (i = 0; i < 40; i++) {
		if (connection_message_send(ends[0], &message, ends[1]) != PF_OK)
			return 1;
	}
	/* The hard limit is the end. */
	for (; i < 100; i++) {
		if (connection_message_send(ends[0], &message, ends[1]) == PF_ERR_AGAIN)
			return 0;
	}
	return 3;
}

static void test_descriptors_in_flight(void **state)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(send_many());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_seal(void **state)
{
	struct address address = stranger_address(), other = stranger_address();
	struct connection_message message = stranger_hello(&address, &other), changed;
	struct hello hello;
	size_t i;

	assert_true(connection_message_unseal(&message, &hello, address.key));
	assert_memory_equal(&hello.from, &other, sizeof(other));
	assert_false(connection_message_unseal(&message, &hello, other.key));
	for (i = offsetof(struct connection_message, u); i < hello_length; i++) {
		changed = message;
		((uint8_t *)&changed)[i] ^= 1;
		assert_false(connection_message_unseal(&changed, &hello, address.key));
	}
	/* Sealing the same again gives other bytes. */
	changed = stranger_hello(&address, &other);
	assert_memory_not_equal(&changed, &message, hello_length);
}

/* Send these bytes from one end and receive a message at the other, without a descriptor. */
static int pass(const int ends[2], const void *bytes, size_t length,
		struct connection_message *message)
{
	int fds[CONNECTION_DESCRIPTORS], status;

	stranger_say(ends[0], bytes, length, NULL, 0);
	status = connection_message_receive(ends[1], message, fds);
	assert_int_equal(fds[0], -1);
	assert_int_equal(fds[1], -1);
	return status;
}

static void test_receive(void **state)
{
	struct address address = stranger_address();
	struct connection_message good = stranger_hello(&address, &address), message, bad;
	uint8_t large[sizeof(good) + 100] = { 0 };
	int ends[2], fds[CONNECTION_DESCRIPTORS], i;
	size_t length;

	make_ends(ends);
	assert_status(connection_message_receive(ends[1], &message, fds), PF_ERR_AGAIN);
	assert_ok(pass(ends, &good, hello_length, &message));
	assert_memory_equal(&message, &good, hello_length);

	for (length = 1; length < hello_length; length++)
		assert_status(pass(ends, &good, length, &message), PF_ERR_REFUSED);
	memcpy(large, &good, sizeof(good));
	assert_status(pass(ends, large, hello_length + 1, &message), PF_ERR_REFUSED);
	assert_status(pass(ends, large, sizeof(large), &message), PF_ERR_REFUSED);
	bad = good;
	bad.magic ^= 1;
	assert_status(pass(ends, &bad, hello_length, &message), PF_ERR_REFUSED);
	bad = good;
	for (i = -1; i < 100; i++) {
		bad.kind = (uint32_t)i;
		length = connection_message_length(bad.kind);
		assert_true(length <= sizeof(message));
		if (!length)
			assert_status(pass(ends, &bad, hello_length, &message), PF_ERR_REFUSED);
	}
	close(ends[0]);
	assert_status(connection_message_receive(ends[1], &message, fds), PF_ERR_PEER);
	close(ends[1]);
}

/* Up to two descriptors may come with a message; all others, and those of bad messages, are closed. */
static void test_descriptors(void **state)
{
	struct address address = stranger_address();
	struct connection_message good = stranger_hello(&address, &address), message;
	const size_t lengths[] = { hello_length, hello_length - 1, 0 };
	int ends[2], sent[16], fds[CONNECTION_DESCRIPTORS], status;
	unsigned before, count, i, j;
	bool taken;

	for (i = 0; i < ARRAY_SIZE(sent); i++)
		sent[i] = STDOUT_FILENO;
	make_ends(ends);
	before = count_descriptors();
	for (count = 1; count <= ARRAY_SIZE(sent); count++) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			stranger_say(ends[0], &good, lengths[i], sent, count);
			status = connection_message_receive(ends[1], &message, fds);
			taken = count <= CONNECTION_DESCRIPTORS && i == 0;
			assert_true((status == PF_OK) == taken);
			for (j = 0; j < CONNECTION_DESCRIPTORS; j++) {
				assert_true((fds[j] >= 0) == (taken && j < count));
				if (fds[j] < 0)
					continue;
				assert_true(fcntl(fds[j], F_GETFD) & FD_CLOEXEC);
				close(fds[j]);
			}
			assert_int_equal(count_descriptors(), before);
		}
	}
	close(ends[0]);
	close(ends[1]);
}

/* A message is received although its sender closed the socket with unread data in it. */
static void test_hang_up_early(void **state)
{
	struct address address = stranger_address();
	struct connection_message good = stranger_hello(&address, &address), message;
	int ends[2], fds[CONNECTION_DESCRIPTORS];

	make_ends(ends);
	stranger_say(ends[1], &good, hello_length, NULL, 0);
	stranger_say(ends[0], &good, hello_length, NULL, 0);
	close(ends[0]);
	assert_ok(connection_message_receive(ends[1], &message, fds));
	assert_status(connection_message_receive(ends[1], &message, fds), PF_ERR_PEER);
	close(ends[1]);
}

/* ---- strangers that connect to a context ---- */

static const struct connection_message bye = { .magic = CONNECTION_MAGIC, .kind = CONNECTION_BYE };

static void test_accepted(void **state)
{
	pf_context *context = stranger_context(NULL);
	struct address to = stranger_address_of(context), from = stranger_address();
	struct connection_message message = stranger_hello(&to, &from), answer;
	struct welcome welcome;
	struct inbox inbox;
	int caller = stranger_dial(&to), channel = make_channel(), fd;

	stranger_say(caller, &message, hello_length, &channel, 1);
	assert_ok(stranger_hear(caller, &answer, &fd));
	assert_int_equal(answer.kind, CONNECTION_WELCOME);
	assert_true(connection_message_unseal(&answer, &welcome, to.key));
	assert_memory_equal(welcome.nonce, message.u.handshake.nonce, sizeof(welcome.nonce));
	assert_ok(inbox_map(&inbox, fd));
	inbox_destroy(&inbox);

	assert_ok(stranger_ask(caller, (struct resolve){ .token = 77,
							 .length = 8,
							 .address = (uintptr_t)&message })
			  .status);
	stranger_say_message(caller, &bye, NULL, 0);
	close(caller);
	close(channel);
	stranger_progress(context, 30);
	assert_int_equal(observed.errors, 0);
	pf_close(context);
}

static bool has_gone(const pf_peer *peer)
{
	return peer && strstr(pf_peer_path(peer), "gone");
}

/* The service thread closes the socket of a peer that ends before it tells progress. */
static void await_gone(pf_context *context, const pf_peer *peer)
{
	unsigned i;

	for (i = 0; i < 5000 * patience() && !has_gone(peer); i++)
		stranger_progress(context, 1);
	assert_true(has_gone(peer));
}

/*
 * A peer that says goodbye at once, and never reads the answer, has closed in order. Its socket may
 * stay open in a child.
 */
static void test_farewell_at_once(void **state)
{
	pf_context *context = stranger_context(NULL);
	struct address to = stranger_address_of(context), from = stranger_address();
	struct connection_message hello = stranger_hello(&to, &from);
	int caller = stranger_dial(&to), channel = make_channel();
	unsigned i;

	shutdown(caller, SHUT_RD);
	stranger_say(caller, &hello, hello_length, &channel, 1);
	stranger_say_message(caller, &bye, NULL, 0);
	for (i = 0; i < 5000 && !has_gone(first_peer(context)); i++)
		stranger_progress(context, 1);
	assert_true(has_gone(first_peer(context)));
	assert_int_equal(observed.errors, 0);
	close(caller);
	close(channel);
	pf_close(context);
}

/* A context that was closed refuses callers, although a child of its process has the listener. */
static void test_closed(void **state)
{
	pf_context *context = stranger_context(NULL), *closed = stranger_context(NULL);
	struct address address = stranger_address_of(closed);
	pid_t child = fork();
	pf_peer *peer;

	assert_true(child >= 0);
	if (!child) {
		for (;;)
			pause();
	}
	pf_close(closed);
	assert_ok(pf_peer_open(context, &address, sizeof(address), NULL, &peer));
	assert_status(pf_send(peer, 1, "x", 1, NULL, 0), PF_ERR_PEER);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	pf_close(context);
}

static void check_refused(pf_context *context, const char *what, const void *message, size_t length,
			  const int *fds, unsigned count)
{
	struct address to = stranger_address_of(context);
	unsigned before = count_descriptors();
	struct connection_message answer;
	int caller = stranger_dial(&to), status, fd;

	stranger_say(caller, message, length, fds, count);
	status = stranger_hear(caller, &answer, &fd);
	if (status == PF_OK && answer.kind != CONNECTION_REFUSED)
		fail_msg("%s: accepted", what);
	if (!stranger_hung_up(caller))
		fail_msg("%s: the connection stays open", what);
	close(caller);
	if (!descriptors_become(before))
		fail_msg("%s: descriptors stay open", what);
}

static void test_refused(void **state)
{
	pf_context *context = stranger_context(NULL);
	struct address to = stranger_address_of(context), from = stranger_address(), bad = from;
	struct connection_message good = stranger_hello(&to, &from), changed = good, welcome = good;
	struct connection_message wrong_key = stranger_hello(&from, &from), version;
	struct connection_message resolve = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_RESOLVE };
	uint8_t large[2 * sizeof(good)] = { 0 };
	const int channel = make_channel(), channels[] = { channel, channel, channel, channel },
		  output = STDOUT_FILENO;
	const struct {
		const char *what;
		const void *message;
		size_t length;
		const int *fds;
		unsigned count;
	} cases[] = {
		{ "no channel", &good, hello_length, NULL, 0 },
		{ "a descriptor that is no channel", &good, hello_length, &output, 1 },
		{ "three channels", &good, hello_length, channels, 3 },
		{ "four channels", &good, hello_length, channels, 4 },
		{ "wrong key", &wrong_key, hello_length, &channel, 1 },
		{ "changed after sealing", &changed, hello_length, &channel, 1 },
		{ "address with another form of what processes share", &version, hello_length,
		  &channel, 1 },
		{ "truncated", &good, hello_length - 1, &channel, 1 },
		{ "one byte", &good, 1, &channel, 1 },
		{ "oversized", large, sizeof(large), &channel, 1 },
		{ "goodbye first", &bye, connection_message_length(CONNECTION_BYE), NULL, 0 },
		{ "resolve first", &resolve, connection_message_length(CONNECTION_RESOLVE), NULL,
		  0 },
		{ "welcome first", &welcome, connection_message_length(CONNECTION_WELCOME),
		  &channel, 1 },
	};
	size_t i;

	bad.host_version++;
	version = stranger_hello(&to, &bad);
	changed.u.handshake.sealed[20] ^= 4;
	welcome.kind = CONNECTION_WELCOME;
	memcpy(large, &good, sizeof(good));
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		check_refused(context, cases[i].what, cases[i].message, cases[i].length,
			      cases[i].fds, cases[i].count);
	stranger_progress(context, 10);
	assert_int_equal(observed.errors, 0);
	close(channel);
	pf_close(context);
}

/* A peer that was accepted and then sends a wrong message is disconnected, with one error. */
static void test_wrong_message(void **state)
{
	static const uint32_t kinds[] = { CONNECTION_HELLO, CONNECTION_WELCOME, CONNECTION_REFUSED,
					  CONNECTION_RESOLVED, 99 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		pf_context *context = stranger_context(NULL);
		struct address to = stranger_address_of(context);
		struct intruder intruder;
		struct connection_message message;
		size_t length = connection_message_length(kinds[i]);

		intruder_enter(&intruder, context);
		message = stranger_hello(&to, &intruder.address);
		message.kind = kinds[i];
		stranger_say(intruder.socket, &message, length ? length : 8, NULL, 0);
		assert_true(stranger_hung_up(intruder.socket));
		assert_true(stranger_await_error(context));
		stranger_progress(context, 10);
		assert_int_equal(observed.errors, 1);
		assert_status(observed.status, PF_ERR_PROTOCOL);
		intruder_leave(&intruder);
		pf_close(context);
	}
}

static void test_hostile_resolve(void **state)
{
	const uint64_t huge = 1ull << 28;
	uint8_t *untouched = test_map(huge);
	const uint64_t ranges[][2] = {
		{ 4096, 0 },
		{ 4096, 8 },
		{ UINT64_MAX, 1 },
		{ UINT64_MAX, 2 },
		{ 4096, UINT64_MAX },
		{ UINT64_MAX - 4095, 4096 },
		{ 0, UINT64_MAX },
		{ 1ull << 63, 1ull << 63 },
		/* More than any block: resolving it would only fill the memory. */
		{ (uintptr_t)untouched, huge },
	};
	pf_context *context = stranger_context(NULL);
	struct intruder intruder;
	size_t i;

	intruder_enter(&intruder, context);
	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		assert_status(stranger_ask(intruder.socket,
					   (struct resolve){ .token = i,
							     .address = ranges[i][0],
							     .length = ranges[i][1],
							     .write = 1 })
				      .status,
			      PF_ERR_FAULT);
	munmap(untouched, huge);
	intruder_leave(&intruder);
	pf_close(context);
}

/* Nothing is resolved for a peer, and no page told of, that is not exposed to the peer. */
static void test_exposed_resolve(void **state)
{
	uint8_t *untouched = test_map(65536);
	const uint64_t start = (uintptr_t)untouched;
	struct resolve answer, request = { .address = start + 4096, .length = 4096, .write = 1 };
	struct intruder intruder;
	pf_options options;
	pf_context *context;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.expose = 1;
	context = stranger_context(&options);
	assert_ok(pf_expose(context, untouched, 8192, PF_EXPOSE_READ));
	intruder_enter(&intruder, context);
	answer = stranger_ask(intruder.socket, request);
	assert_status(answer.status, PF_ERR_REFUSED);
	assert_int_equal(answer.address, start + 4096);
	request.write = 0;
	assert_ok(stranger_ask(intruder.socket, request).status);
	request.length = 8192;
	answer = stranger_ask(intruder.socket, request);
	assert_status(answer.status, PF_ERR_REFUSED);
	assert_int_equal(answer.address, start + 8192);
	assert_int_equal(pf_stat(context, PF_STAT_NOT_EXPOSED), 2);
	munmap(untouched, 65536);
	intruder_leave(&intruder);
	pf_close(context);
}

/* A peer that sends requests and reads no answer is no longer read from; others are not affected. */
static void test_never_reads(void **state)
{
	pf_context *context = stranger_context(NULL);
	struct connection_message message = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_RESOLVE },
				  answer;
	struct resolve resolve = { .address = (uintptr_t)&message, .length = 8, .token = 5 };
	struct intruder deaf, other;
	unsigned i, sent = 0;
	int fd;

	intruder_enter(&deaf, context);
	intruder_enter(&other, context);
	message.u.resolve = resolve;
	fcntl(deaf.socket, F_SETFL, O_NONBLOCK);
	for (i = 0; i < 20000 && sent < 100000; i++) {
		if (send(deaf.socket, &message, connection_message_length(message.kind),
			 MSG_NOSIGNAL) < 0)
			usleep(20);
		else
			sent++;
	}
	assert_true(sent < 10000);
	assert_ok(stranger_ask(other.socket, resolve).status);
	/* When it reads, it gets all answers. */
	for (; sent; sent--) {
		assert_ok(stranger_hear(deaf.socket, &answer, &fd));
		assert_int_equal(answer.kind, CONNECTION_RESOLVED);
	}
	intruder_leave(&deaf);
	intruder_leave(&other);
	pf_close(context);
}

/* ---- a stranger that a context connects to ---- */

enum reply {
	REPLY_RIGHT,
	REPLY_WRONG_KEY,
	REPLY_REPLAYED,
	REPLY_NO_INBOX,
	REPLY_UNSEALED_INBOX,
	REPLY_TRUNCATED,
	REPLY_REFUSED,
	REPLY_HELLO,
	REPLY_FAREWELL,
	REPLY_NOTHING,
	REPLIES
};

/* Answer a hello, or close the socket. */
static void reply_to(int caller, enum reply reply, const struct address *address,
		     const struct connection_message *hello)
{
	static struct connection_message earlier;
	struct address other = stranger_address();
	struct connection_message message = stranger_welcome(address, hello,
							     (struct welcome){ .slot = 3 });
	size_t length = connection_message_length(CONNECTION_WELCOME);
	int inbox = stranger_inbox();

	switch (reply) {
	case REPLY_RIGHT:
		earlier = message;
		break;
	case REPLY_WRONG_KEY:
		message = stranger_welcome(&other, hello, (struct welcome){ .slot = 3 });
		break;
	case REPLY_REPLAYED:
		message = earlier;
		break;
	case REPLY_UNSEALED_INBOX:
		close(inbox);
		inbox = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(ftruncate(inbox, (off_t)page_size()), 0);
		break;
	case REPLY_TRUNCATED:
		length--;
		break;
	case REPLY_REFUSED:
		message = *hello;
		message.kind = CONNECTION_REFUSED;
		length = connection_message_length(CONNECTION_REFUSED);
		break;
	case REPLY_FAREWELL:
		message = bye;
		length = connection_message_length(CONNECTION_BYE);
		break;
	case REPLY_HELLO:
		message = stranger_hello(address, address);
		length = hello_length;
		break;
	default:
		break;
	}
	if (reply == REPLY_NOTHING)
		close(caller);
	else
		stranger_say(caller, &message, length, &inbox,
			     reply != REPLY_NO_INBOX && reply != REPLY_REFUSED &&
				     reply != REPLY_FAREWELL);
	close(inbox);
}

static void test_replies(void **state)
{
	const struct connection_message resolve = { .magic = CONNECTION_MAGIC,
						    .kind = CONNECTION_RESOLVE };
	struct address address = stranger_address();
	int listener = stranger_listen(&address), caller, fd;
	enum reply reply;
	unsigned i;

	for (reply = REPLY_RIGHT; reply < REPLIES; reply++) {
		pf_context *context = stranger_context(NULL);
		struct connection_message hello;
		pf_peer *peer;

		assert_ok(pf_peer_open(context, &address, sizeof(address), NULL, &peer));
		assert_status(pf_send(peer, 1, "hello", 5, NULL, 0), PF_OK);
		caller = stranger_accept(listener);
		assert_ok(stranger_hear(caller, &hello, &fd));
		assert_int_equal(hello.kind, CONNECTION_HELLO);
		close(fd);
		reply_to(caller, reply, &address, &hello);
		if (reply == REPLY_RIGHT) {
			for (i = 0; i < 2000 && strstr(pf_peer_path(peer), "wait"); i++)
				stranger_progress(context, 1);
			/* The cookie is not at its address: no process to copy from. */
			assert_non_null(strstr(pf_peer_path(peer), "through the ring"));
			assert_int_equal(observed.errors, 0);
			/* It has a connection of its own to ask by. */
			stranger_say_message(caller, &resolve, NULL, 0);
			assert_true(stranger_await_error(context));
			assert_status(observed.status, PF_ERR_PROTOCOL);
		} else if (reply == REPLY_FAREWELL) {
			assert_true(stranger_hung_up(caller));
			await_gone(context, peer);
			assert_status(pf_send(peer, 1, "hello", 5, NULL, 0), PF_ERR_PEER);
			assert_int_equal(observed.errors, 0);
		} else {
			assert_true(stranger_await_error(context));
			assert_int_equal(observed.errors, 1);
			assert_status(observed.status,
				      reply == REPLY_NOTHING ? PF_ERR_PEER : PF_ERR_REFUSED);
			assert_status(pf_send(peer, 1, "hello", 5, NULL, 0), observed.status);
		}
		if (reply != REPLY_NOTHING)
			close(caller);
		pf_close(context);
	}
	close(listener);
}

/* ---- many strangers ---- */

static void exchange(pf_context *from, pf_peer *peer, pf_context *to, unsigned count)
{
	unsigned before = observed.messages, i;

	for (i = 0; i < count; i++)
		assert_status(pf_send(peer, 1, "x", 1, NULL, 0), PF_OK);
	/* The channel's descriptor is kept until progress learns that the peer answered. */
	for (i = 0; i < 5000 &&
		    (observed.messages - before < count || peer_state(peer) != PF_PEER_CONNECTED);
	     i++) {
		pf_progress(from);
		if (!pf_progress(to))
			usleep(1000);
	}
	assert_int_equal(observed.messages - before, count);
}

#define STRANGERS 1000
#define STRANGERS_KEPT 300 /* a little more than STRANGERS_MOST */

/*
 * Descriptors of two processes that exchanged messages, with both ends in this process: a socket and a
 * pidfd, and a channel without single copy.
 */
static unsigned pair_descriptors(pf_peer *peer)
{
	return ((struct host_peer *)peer)->copy_error ? 6 : 4;
}

/* Connections that send no hello, in any number: real peers connect and communicate all the same. */
static void test_many_strangers(void **state)
{
	pf_context *a = stranger_context(NULL), *b = stranger_context(NULL),
		   *late = stranger_context(NULL);
	struct address b_address = stranger_address_of(b);
	unsigned before, i, connected = 0;
	pf_peer *a_to_b, *late_to_b;
	int sockets[STRANGERS];
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	assert_ok(pf_peer_open(a, &b_address, sizeof(b_address), NULL, &a_to_b));
	assert_ok(pf_peer_open(late, &b_address, sizeof(b_address), NULL, &late_to_b));
	before = count_descriptors();
	exchange(a, a_to_b, b, 10);
	before += pair_descriptors(a_to_b);
	assert_true(descriptors_become(before));
	for (i = 0; i < STRANGERS && before + 2 * i < files.rlim_cur - 100; i++) {
		sockets[connected++] = stranger_dial(&b_address);
		if (i % 3 == 0)
			stranger_say(sockets[i], "nonsense", 8, NULL, 0);
		if (i % 50 == 0)
			exchange(a, a_to_b, b, 10);
	}
	exchange(a, a_to_b, b, 1000);
	/* A peer that connects only now is accepted. */
	exchange(late, late_to_b, b, 10);
	assert_true(connected < STRANGERS ||
		    count_descriptors() < before + connected + STRANGERS_KEPT);
	assert_int_equal(observed.errors, 0);
	for (i = 0; i < connected; i++)
		close(sockets[i]);
	assert_true(descriptors_become(before + pair_descriptors(late_to_b)));
	exchange(a, a_to_b, b, 10);
	exchange(late, late_to_b, b, 10);
	pf_close(late);
	pf_close(a);
	pf_close(b);
}

/* ---- a peer that calls, sends a message and ends ---- */

struct hold {
	struct task task;
	struct service *service; /* of hold_until_close */
	sem_t begun, over;
};

static void hold(struct task *task, bool dropped)
{
	struct hold *held = (struct hold *)task;

	sem_post(&held->begun);
	sem_wait(&held->over);
}

/*
 * While the service thread is held, a stranger calls, and then a peer calls, sends a message and ends.
 * The thread finds a connection to the peer ended after it has accepted the stranger, and before it
 * accepts the peer; or, without such a connection, a pf_send is refused.
 */
static void call_before_end(bool connected)
{
	pf_context *context = stranger_context(NULL), *other = stranger_context(NULL);
	struct address to = stranger_address_of(context), to_other = stranger_address_of(other);
	struct hold held = { .task.run = hold };
	pf_peer *peer, *back;
	int stranger;

	assert_ok(pf_peer_open(context, &to_other, sizeof(to_other), NULL, &peer));
	assert_ok(pf_peer_open(other, &to, sizeof(to), NULL, &back));
	if (connected)
		exchange(context, peer, other, 1);
	sem_init(&held.begun, 0, 0);
	sem_init(&held.over, 0, 0);
	service_run(&context->service, &held.task);
	sem_wait(&held.begun);
	stranger = stranger_dial(&to);
	assert_status(pf_send(back, 1, "x", 1, NULL, 0), PF_OK);
	pf_close(other);
	if (!connected) {
		assert_status(pf_send(peer, 1, "x", 1, NULL, 0), PF_ERR_PEER);
		/* Progress is not to hear of its end before its call. */
		stranger_progress(context, 10);
	}
	sem_post(&held.over);
	await_gone(context, peer);
	assert_int_equal(observed.messages, 1 + connected);
	assert_int_equal(observed.errors, !connected);
	close(stranger);
	pf_close(context);
	sem_destroy(&held.begun);
	sem_destroy(&held.over);
}

static void test_call_before_end(void **state)
{
	call_before_end(true);
	call_before_end(false);
}

static void hold_until_close(struct task *task, bool dropped)
{
	struct hold *held = (struct hold *)task;
	struct service *service = held->service;
	bool stopping = false;

	sem_post(&held->begun);
	while (!stopping) {
		pthread_mutex_lock(&service->lock);
		stopping = service->stopping;
		pthread_mutex_unlock(&service->lock);
		usleep(100);
	}
}

/* A context that closes says goodbye also to callers that its service thread has not accepted yet. */
static void test_close_at_call(void **state)
{
	pf_context *context = stranger_context(NULL), *closing = stranger_context(NULL);
	struct address to = stranger_address_of(closing);
	struct hold held = { .task.run = hold_until_close, .service = &closing->service };
	pf_peer *peer;

	assert_ok(pf_peer_open(context, &to, sizeof(to), NULL, &peer));
	sem_init(&held.begun, 0, 0);
	service_run(&closing->service, &held.task);
	sem_wait(&held.begun);
	assert_status(pf_send(peer, 1, "x", 1, NULL, 0), PF_OK);
	pf_close(closing);
	await_gone(context, peer);
	assert_int_equal(peer_state(peer), PF_PEER_LEFT);
	assert_int_equal(observed.errors, 0);
	pf_close(context);
	sem_destroy(&held.begun);
}

/* While progress takes none. */
static unsigned notices_count(const struct notices *notices)
{
	const struct notice *notice = atomic_load(&notices->newest);
	unsigned count = 0;

	for (; notice; notice = notice->next)
		count++;
	return count;
}

/*
 * While the service thread is held, a peer closes, and then another one calls. The thread admits the
 * caller before it reports the end, and progress hears of both at once: the slot of the peer that is
 * gone must not have become the caller's, whose marks progress would miss.
 */
static void test_call_at_end(void **state)
{
	pf_context *context = stranger_context(NULL), *first = stranger_context(NULL),
		   *second = stranger_context(NULL);
	struct address to = stranger_address_of(context);
	const struct polling *polling = &host_of(context)->polling;
	struct hold held = { .task.run = hold };
	const struct bell *bell;
	pf_peer *back;
	unsigned i;

	assert_ok(pf_peer_open(first, &to, sizeof(to), NULL, &back));
	exchange(first, back, context, 1);
	sem_init(&held.begun, 0, 0);
	sem_init(&held.over, 0, 0);
	service_run(&context->service, &held.task);
	sem_wait(&held.begun);
	pf_close(first);
	assert_ok(pf_peer_open(second, &to, sizeof(to), NULL, &back));
	assert_status(pf_send(back, 1, "x", 1, NULL, 0), PF_OK);
	sem_post(&held.over);
	for (i = 0; i < 5000 && !host_peer_bell((struct host_peer *)back); i++)
		usleep(1000);
	bell = host_peer_bell((struct host_peer *)back);
	assert_non_null(bell);
	/* Of the call, and of the end. */
	for (i = 0; i < 5000 && notices_count(&context->host->notices) < 2; i++)
		usleep(1000);
	for (i = 0; i < 5000 && observed.messages < 2; i++) {
		if (!pf_progress(context))
			usleep(1000);
	}
	assert_int_equal(observed.messages, 2);
	assert_true(bell->slot < polling->slots && polling->by_slot[bell->slot]);
	assert_memory_equal(polling->by_slot[bell->slot]->from.id, second->address.id,
			    sizeof(second->address.id));
	/* The first one's slot is free again. */
	assert_int_equal(polling->all_count, 1);
	for (i = 0; i < INBOX_SLOTS; i++)
		assert_true(context->host->connections.slots[i] == (i == bell->slot));
	pf_close(second);
	pf_close(context);
	sem_destroy(&held.begun);
	sem_destroy(&held.over);
}

/* ---- the name of a context that ended, taken by another process ---- */

static bool foreign; /* the process belongs to another user */

int __wrap_getsockopt(int socket, int level, int name, void *value, socklen_t *length);
int __real_getsockopt(int socket, int level, int name, void *value, socklen_t *length);

/* The linker replaces the function by this. */
int __wrap_getsockopt(int socket, int level, int name, void *value, socklen_t *length)
{
	int status = __real_getsockopt(socket, level, name, value, length);

	if (!status && foreign && level == SOL_SOCKET && name == SO_PEERCRED)
		((struct ucred *)value)->uid++;
	return status;
}

/* A process that says nothing: the call ends if it is another user's. The peer's may be stopped. */
static void check_silent_callee(bool of_other)
{
	struct address address = stranger_address();
	int listener = stranger_listen(&address), socket;
	pf_context *context;
	pf_peer *peer;

	foreign = of_other;
	context = stranger_context(NULL);
	/* No bound: the shortest time that shows that there is a limit. */
	context->host->connections.handshake = (struct timeval){ .tv_usec = 1000 };
	assert_ok(pf_peer_open(context, &address, sizeof(address), NULL, &peer));
	pf_send(peer, 0, NULL, 0, NULL, 0);
	socket = stranger_accept(listener);
	if (of_other) {
		assert_true(stranger_await_error(context));
		assert_status(observed.status, PF_ERR_PEER);
		assert_true(stranger_hung_up(socket));
	} else {
		stranger_progress(context, 50);
		assert_int_equal(observed.errors, 0);
	}
	pf_close(context);
	close(socket);
	close(listener);
	foreign = false;
}

static void test_silent_callee(void **state)
{
	check_silent_callee(true);
	check_silent_callee(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seal),
		cmocka_unit_test(test_receive),
		cmocka_unit_test(test_descriptors_in_flight),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_hang_up_early),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_farewell_at_once),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_wrong_message),
		cmocka_unit_test(test_hostile_resolve),
		cmocka_unit_test(test_exposed_resolve),
		cmocka_unit_test(test_never_reads),
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_many_strangers),
		cmocka_unit_test(test_call_before_end),
		cmocka_unit_test(test_call_at_end),
		cmocka_unit_test(test_close_at_call),
		cmocka_unit_test(test_silent_callee),
	};

	return cmocka_run_group_tests_name("connection", tests, stranger_set_up, NULL);
}
