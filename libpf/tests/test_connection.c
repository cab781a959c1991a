/* SPDX-License-Identifier: BSD-3-Clause */
/* Who gets in and who does not, and that those who do not are of no consequence. */
#include "stranger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/context.h"
#include "host/inbox.h"

static const size_t hello_length = offsetof(struct connection_message, u.handshake.sealed) +
				   CONNECTION_SEALED_MAX;

static struct {
	unsigned count;
	int status;
} error;

static void on_error(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	error.count++;
	error.status = status;
}

static pf_context *open_context(void)
{
	pf_context *context;

	memset(&error, 0, sizeof(error));
	assert_int_equal(pf_open(NULL, &context), PF_OK);
	pf_set_error(context, on_error, NULL);
	return context;
}

static void progress_for(pf_context *context, unsigned milliseconds)
{
	for (; milliseconds; milliseconds--) {
		pf_progress(context);
		usleep(1000);
	}
}

static void await_error(pf_context *context)
{
	unsigned i;

	for (i = 0; i < 5000 && !error.count; i++)
		progress_for(context, 1);
	assert_int_equal(error.count, 1);
}

static bool descriptors_are(unsigned expected)
{
	unsigned i;

	/* Those of the other side are closed by its thread. */
	for (i = 0; i < 2000 && count_descriptors() != expected; i++)
		usleep(1000);
	return count_descriptors() == expected;
}

static int make_channel(void)
{
	_Atomic int64_t allowance = 0;
	struct channel channel;
	int fd;

	assert_int_equal(channel_create(&channel, 65536, &allowance), PF_OK);
	fd = dup(channel.fd);
	channel_destroy(&channel);
	return fd;
}

/* ---- messages, without a context ---- */

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
	/* Never twice the same. */
	changed = stranger_hello(&address, &other);
	assert_memory_not_equal(&changed, &message, hello_length);
}

static void test_receive(void **state)
{
	struct address address = stranger_address();
	struct connection_message good = stranger_hello(&address, &address), message;
	uint8_t large[sizeof(good) + 100] = { 0 };
	int ends[2], fd, i;
	size_t length;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_ERR_AGAIN);
	stranger_say(ends[0], &good, hello_length, NULL, 0);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_OK);
	assert_int_equal(fd, -1);
	assert_memory_equal(&message, &good, hello_length);

	for (length = 1; length < hello_length; length++) {
		stranger_say(ends[0], &good, length, NULL, 0);
		assert_int_equal(connection_message_receive(ends[1], &message, &fd),
				 PF_ERR_REFUSED);
	}
	memcpy(large, &good, sizeof(good));
	stranger_say(ends[0], large, hello_length + 1, NULL, 0);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_ERR_REFUSED);
	stranger_say(ends[0], large, sizeof(large), NULL, 0);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_ERR_REFUSED);
	message = good;
	message.magic ^= 1;
	stranger_say(ends[0], &message, hello_length, NULL, 0);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_ERR_REFUSED);
	for (i = -1; i < 100; i++) {
		length = connection_message_length((uint32_t)i);
		assert_true(length <= sizeof(message));
		if (length)
			continue;
		message = good;
		message.kind = (uint32_t)i;
		stranger_say(ends[0], &message, hello_length, NULL, 0);
		assert_int_equal(connection_message_receive(ends[1], &message, &fd),
				 PF_ERR_REFUSED);
	}
	close(ends[0]);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_ERR_PEER);
	close(ends[1]);
}

/* However many descriptors come along, with whatever: none stays open unnoticed. */
static void test_descriptors(void **state)
{
	struct address address = stranger_address();
	struct connection_message good = stranger_hello(&address, &address), message;
	int ends[2], fds[16], fd, status;
	unsigned before, count, i;

	for (i = 0; i < 16; i++)
		fds[i] = STDOUT_FILENO;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	before = count_descriptors();
	for (count = 1; count <= 16; count++) {
		stranger_say(ends[0], &good, hello_length, fds, count);
		status = connection_message_receive(ends[1], &message, &fd);
		if (count == 1) {
			assert_int_equal(status, PF_OK);
			assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
			close(fd);
		} else {
			assert_int_equal(fd, -1);
		}
		assert_int_equal(count_descriptors(), before);

		stranger_say(ends[0], &good, hello_length - 1, fds, count);
		assert_int_equal(connection_message_receive(ends[1], &message, &fd),
				 PF_ERR_REFUSED);
		assert_int_equal(count_descriptors(), before);
		stranger_say(ends[0], &good, 0, fds, count);
		assert_int_not_equal(connection_message_receive(ends[1], &message, &fd), PF_OK);
		assert_int_equal(count_descriptors(), before);
	}
	close(ends[0]);
	close(ends[1]);
}

/* What the other side said before it hung up is heard, though it did not wait for our answer. */
static void test_hang_up_early(void **state)
{
	struct address address = stranger_address();
	struct connection_message good = stranger_hello(&address, &address), message;
	int ends[2], fd;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	stranger_say(ends[1], &good, hello_length, NULL, 0);
	stranger_say(ends[0], &good, hello_length, NULL, 0);
	close(ends[0]);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_OK);
	assert_int_equal(connection_message_receive(ends[1], &message, &fd), PF_ERR_PEER);
	close(ends[1]);
}

/* ---- strangers that call a context ---- */

static void test_let_in(void **state)
{
	pf_context *context = open_context();
	struct address to = stranger_address_of(context), from = stranger_address();
	struct connection_message message = stranger_hello(&to, &from), answer;
	struct welcome welcome;
	struct inbox inbox;
	int caller = stranger_dial(&to), channel = make_channel(), fd;

	stranger_say(caller, &message, hello_length, &channel, 1);
	assert_int_equal(stranger_hear(caller, &answer, &fd), PF_OK);
	assert_int_equal(answer.kind, CONNECTION_WELCOME);
	assert_true(connection_message_unseal(&answer, &welcome, to.key));
	assert_memory_equal(welcome.nonce, message.u.handshake.nonce, sizeof(welcome.nonce));
	assert_int_equal(inbox_map(&inbox, fd), PF_OK);
	inbox_destroy(&inbox);

	/* Established: the resolver answers. */
	message = (struct connection_message){ .magic = CONNECTION_MAGIC,
					       .kind = CONNECTION_RESOLVE };
	message.u.resolve = (struct resolve){ .token = 77,
					      .length = 8,
					      .address = (uint64_t)(uintptr_t)&message };
	stranger_say(caller, &message, connection_message_length(CONNECTION_RESOLVE), NULL, 0);
	assert_int_equal(stranger_hear(caller, &answer, &fd), PF_OK);
	assert_int_equal(answer.kind, CONNECTION_RESOLVED);
	assert_int_equal(answer.u.resolve.token, 77);
	assert_int_equal(answer.u.resolve.status, PF_OK);

	message.kind = CONNECTION_BYE;
	stranger_say(caller, &message, connection_message_length(CONNECTION_BYE), NULL, 0);
	close(caller);
	close(channel);
	progress_for(context, 30);
	assert_int_equal(error.count, 0);
	pf_close(context);
}

/* Its end is no accident, though it never read our answer. */
static void test_farewell_at_once(void **state)
{
	pf_context *context = open_context();
	struct address to = stranger_address_of(context), from = stranger_address();
	struct connection_message hello = stranger_hello(&to, &from);
	struct connection_message bye = { .magic = CONNECTION_MAGIC, .kind = CONNECTION_BYE };
	int caller = stranger_dial(&to), channel = make_channel();

	shutdown(caller, SHUT_RD);
	stranger_say(caller, &hello, hello_length, &channel, 1);
	stranger_say(caller, &bye, connection_message_length(CONNECTION_BYE), NULL, 0);
	close(caller);
	close(channel);
	progress_for(context, 30);
	/* It was let in, and it is gone. */
	assert_non_null(context->peers.first);
	assert_non_null(strstr(pf_peer_path(context->peers.first), "gone"));
	assert_int_equal(error.count, 0);
	pf_close(context);
}

static void refused(pf_context *context, const struct connection_message *message, size_t length,
		    const int *fds, unsigned count, const char *what)
{
	struct address to = stranger_address_of(context);
	unsigned before = count_descriptors();
	struct connection_message answer;
	int caller = stranger_dial(&to), status, fd;

	stranger_say(caller, message, length, fds, count);
	status = stranger_hear(caller, &answer, &fd);
	if (status == PF_OK && answer.kind != CONNECTION_REFUSED)
		fail_msg("let in: %s", what);
	if (!stranger_hung_up(caller))
		fail_msg("not hung up on: %s", what);
	close(caller);
	if (!descriptors_are(before))
		fail_msg("descriptors left: %s", what);
}

static void test_refused(void **state)
{
	pf_context *context = open_context();
	struct address to = stranger_address_of(context), from = stranger_address(), bad = from;
	struct connection_message good = stranger_hello(&to, &from), message;
	uint8_t large[2 * sizeof(good)] = { 0 };
	int channel = make_channel(), others[4], i;

	refused(context, &good, hello_length, NULL, 0, "no channel");
	others[0] = STDOUT_FILENO;
	refused(context, &good, hello_length, others, 1, "channel that is none");
	for (i = 0; i < 4; i++)
		others[i] = channel;
	refused(context, &good, hello_length, others, 2, "two channels");
	refused(context, &good, hello_length, others, 4, "four channels");
	message = stranger_hello(&from, &from);
	refused(context, &message, hello_length, &channel, 1, "wrong key");
	message = good;
	message.u.handshake.sealed[20] ^= 4;
	refused(context, &message, hello_length, &channel, 1, "changed on the way");
	bad.version++;
	message = stranger_hello(&to, &bad);
	refused(context, &message, hello_length, &channel, 1, "address of another version");
	refused(context, &good, hello_length - 1, &channel, 1, "truncated");
	refused(context, &good, 1, &channel, 1, "one byte");
	memcpy(large, &good, sizeof(good));
	refused(context, (void *)large, sizeof(large), &channel, 1, "oversized");
	message = (struct connection_message){ .magic = CONNECTION_MAGIC, .kind = CONNECTION_BYE };
	refused(context, &message, connection_message_length(CONNECTION_BYE), NULL, 0,
		"good-bye first");
	message.kind = CONNECTION_RESOLVE;
	refused(context, &message, connection_message_length(CONNECTION_RESOLVE), NULL, 0,
		"resolve first");
	message = good;
	message.kind = CONNECTION_WELCOME;
	refused(context, &message, connection_message_length(CONNECTION_WELCOME), &channel, 1,
		"welcome first");
	progress_for(context, 10);
	assert_int_equal(error.count, 0);
	close(channel);
	pf_close(context);
}

/* Those who were let in and then talk nonsense are thrown out, once and for all. */
static void test_nonsense(void **state)
{
	static const uint32_t kinds[] = { CONNECTION_HELLO, CONNECTION_WELCOME, CONNECTION_REFUSED,
					  CONNECTION_RESOLVED, 99 };
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		pf_context *context = open_context();
		struct address to = stranger_address_of(context);
		struct intruder intruder;
		struct connection_message message;
		size_t length;

		intruder_enter(&intruder, context);
		message = stranger_hello(&to, &intruder.address);
		message.kind = kinds[i];
		length = connection_message_length(kinds[i]);
		stranger_say(intruder.socket, &message, length ? length : 8, NULL, 0);
		assert_true(stranger_hung_up(intruder.socket));
		await_error(context);
		assert_int_equal(error.status, PF_ERR_REFUSED);
		progress_for(context, 10);
		assert_int_equal(error.count, 1);
		intruder_leave(&intruder);
		pf_close(context);
	}
}

static void test_hostile_resolve(void **state)
{
	static const struct {
		uint64_t address, length;
	} ranges[] = { { 4096, 0 },          { 4096, 8 },
		       { UINT64_MAX, 1 },    { UINT64_MAX, 2 },
		       { 4096, UINT64_MAX }, { UINT64_MAX - 4095, 4096 },
		       { 0, UINT64_MAX },    { 1ull << 63, 1ull << 63 } };
	pf_context *context = open_context();
	struct connection_message message, answer;
	struct intruder intruder;
	uint8_t *sparse;
	size_t i;
	int fd;

	intruder_enter(&intruder, context);
	message = (struct connection_message){ .magic = CONNECTION_MAGIC,
					       .kind = CONNECTION_RESOLVE };
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		message.u.resolve = (struct resolve){ .token = i,
						      .address = ranges[i].address,
						      .length = ranges[i].length,
						      .write = 1 };
		stranger_say(intruder.socket, &message, connection_message_length(message.kind),
			     NULL, 0);
		assert_int_equal(stranger_hear(intruder.socket, &answer, &fd), PF_OK);
		assert_int_equal(answer.u.resolve.token, i);
		assert_int_equal(answer.u.resolve.status, PF_ERR_FAULT);
	}
	/* More than any block: it would fill our memory for nothing. */
	sparse = mmap(NULL, 1ull << 28, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sparse != MAP_FAILED) {
		message.u.resolve = (struct resolve){ .token = i,
						      .length = 1ull << 28,
						      .write = 1,
						      .address = (uint64_t)(uintptr_t)sparse };
		stranger_say(intruder.socket, &message, connection_message_length(message.kind),
			     NULL, 0);
		assert_int_equal(stranger_hear(intruder.socket, &answer, &fd), PF_OK);
		assert_int_equal(answer.u.resolve.status, PF_ERR_FAULT);
		munmap(sparse, 1ull << 28);
	}
	intruder_leave(&intruder);
	pf_close(context);
}

/* Asks without end and never reads an answer: it stops being read from, and nobody else suffers. */
static void test_never_reads(void **state)
{
	pf_context *context = open_context();
	struct connection_message message = { .magic = CONNECTION_MAGIC,
					      .kind = CONNECTION_RESOLVE };
	struct intruder deaf, other;
	struct connection_message answer;
	unsigned i, sent = 0;
	int fd;

	intruder_enter(&deaf, context);
	intruder_enter(&other, context);
	message.u.resolve = (struct resolve){ .address = (uint64_t)(uintptr_t)&message,
					      .length = 8 };
	fcntl(deaf.socket, F_SETFL, O_NONBLOCK);
	for (i = 0; i < 20000 && sent < 100000; i++) {
		if (send(deaf.socket, &message, connection_message_length(message.kind),
			 MSG_NOSIGNAL) < 0)
			usleep(20);
		else
			sent++;
	}
	assert_true(sent < 10000);
	message.u.resolve.token = 5;
	stranger_say(other.socket, &message, connection_message_length(message.kind), NULL, 0);
	assert_int_equal(stranger_hear(other.socket, &answer, &fd), PF_OK);
	assert_int_equal(answer.u.resolve.token, 5);
	/* When it does read, it gets all it asked for. */
	while (sent) {
		assert_int_equal(stranger_hear(deaf.socket, &answer, &fd), PF_OK);
		assert_int_equal(answer.kind, CONNECTION_RESOLVED);
		sent--;
	}
	intruder_leave(&deaf);
	intruder_leave(&other);
	pf_close(context);
}

/* ---- a stranger that is called ---- */

enum reply {
	ANSWER_RIGHT,
	ANSWER_WRONG_KEY,
	ANSWER_REPLAYED,
	ANSWER_NO_INBOX,
	ANSWER_BAD_INBOX,
	ANSWER_TRUNCATED,
	ANSWER_REFUSED,
	ANSWER_HELLO,
	ANSWER_NOTHING,
	ANSWERS
};

static int make_inbox(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, sizeof(struct inbox_memory)), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static struct connection_message make_welcome(const struct address *address, const uint8_t *nonce)
{
	struct welcome welcome = { .slot = 3 };
	struct connection_message message;

	memset(&message, 0, sizeof(message));
	memcpy(welcome.nonce, nonce, sizeof(welcome.nonce));
	connection_message_seal(&message, CONNECTION_WELCOME, &welcome, address->key);
	return message;
}

static void test_called(void **state)
{
	struct connection_message earlier = { 0 };
	struct address address = stranger_address(), other = stranger_address();
	int listener = stranger_listen(&address), inbox = make_inbox(), unsealed;
	unsigned which;

	unsealed = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(unsealed, sizeof(struct inbox_memory)), 0);
	for (which = 0; which < ANSWERS; which++) {
		pf_context *context = open_context();
		size_t length = connection_message_length(CONNECTION_WELCOME);
		struct connection_message message;
		unsigned i;
		pf_peer *peer;
		int caller, fd;

		assert_int_equal(pf_peer_open(context, &address, sizeof(address), NULL, &peer),
				 PF_OK);
		assert_int_equal(pf_send(peer, 1, "hello", 5, NULL, 0), PF_DONE);
		caller = stranger_accept(listener);
		assert_int_equal(stranger_hear(caller, &message, &fd), PF_OK);
		assert_int_equal(message.kind, CONNECTION_HELLO);
		close(fd);
		fd = inbox;
		switch ((enum reply)which) {
		case ANSWER_WRONG_KEY:
			message = make_welcome(&other, message.u.handshake.nonce);
			break;
		case ANSWER_REPLAYED:
			message = earlier;
			break;
		case ANSWER_NO_INBOX:
			message = make_welcome(&address, message.u.handshake.nonce);
			fd = -1;
			break;
		case ANSWER_BAD_INBOX:
			message = make_welcome(&address, message.u.handshake.nonce);
			fd = unsealed;
			break;
		case ANSWER_TRUNCATED:
			message = make_welcome(&address, message.u.handshake.nonce);
			length--;
			break;
		case ANSWER_REFUSED:
			message.kind = CONNECTION_REFUSED;
			length = connection_message_length(CONNECTION_REFUSED);
			fd = -1;
			break;
		case ANSWER_HELLO:
			message = stranger_hello(&address, &address);
			length = hello_length;
			break;
		default:
			message = make_welcome(&address, message.u.handshake.nonce);
			earlier = message;
		}
		if (which == ANSWER_NOTHING)
			close(caller);
		else
			stranger_say(caller, &message, length, &fd, fd >= 0);
		if (which == ANSWER_RIGHT) {
			for (i = 0; i < 2000 && strstr(pf_peer_path(peer), "wait"); i++)
				progress_for(context, 1);
			/* Our cookie is not where it says: so it is no process that may be copied from. */
			assert_non_null(strstr(pf_peer_path(peer), "through the ring"));
			assert_int_equal(error.count, 0);
		} else {
			await_error(context);
			assert_int_equal(error.status,
					 which == ANSWER_NOTHING ? PF_ERR_PEER : PF_ERR_REFUSED);
			assert_int_equal(pf_send(peer, 1, "hello", 5, NULL, 0), error.status);
		}
		if (which != ANSWER_NOTHING)
			close(caller);
		pf_close(context);
	}
	close(listener);
	close(inbox);
	close(unsealed);
}

/* ---- the crowd ---- */

static unsigned arrived;

static void count_arrival(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	arrived++;
}

static void exchange(pf_context *a, pf_peer *to, pf_context *b, unsigned count)
{
	unsigned before = arrived, i;

	for (i = 0; i < count; i++)
		assert_int_equal(pf_send(to, 1, "x", 1, NULL, 0), PF_DONE);
	for (i = 0; i < 5000 && arrived - before < count; i++) {
		pf_progress(a);
		if (!pf_progress(b))
			usleep(1000);
	}
	assert_int_equal(arrived - before, count);
}

#define CROWD 1000

/* Silent strangers in any number: those who know the key come through, at once and later. */
static void test_crowd(void **state)
{
	pf_context *a = open_context(), *b = open_context(), *late = open_context();
	struct address b_address = stranger_address_of(b);
	unsigned before, i, connected = 0;
	pf_peer *to_b, *late_to_b;
	int crowd[CROWD];
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	arrived = 0;
	pf_set_receive(b, count_arrival, NULL);
	assert_int_equal(pf_peer_open(a, &b_address, sizeof(b_address), NULL, &to_b), PF_OK);
	assert_int_equal(pf_peer_open(late, &b_address, sizeof(b_address), NULL, &late_to_b),
			 PF_OK);
	exchange(a, to_b, b, 10);
	before = count_descriptors();
	for (i = 0; i < CROWD && before + 2 * i < files.rlim_cur - 100; i++) {
		crowd[connected++] = stranger_dial(&b_address);
		if (i % 3 == 0)
			stranger_say(crowd[i], "nonsense", 8, NULL, 0);
		if (i % 50 == 0)
			exchange(a, to_b, b, 10);
	}
	exchange(a, to_b, b, 1000);
	/* One that only now gets in touch is not mistaken for one of them. */
	exchange(late, late_to_b, b, 10);
	assert_int_equal(error.count, 0);
	for (i = 0; i < connected; i++)
		close(crowd[i]);
	/* The late one's: a socket, a channel and a pidfd, both ends of each in this process. */
	assert_true(descriptors_are(before + 6));
	exchange(a, to_b, b, 10);
	exchange(late, late_to_b, b, 10);
	pf_close(late);
	pf_close(a);
	pf_close(b);
}

static int set_up(void **state)
{
	alarm(60);
	return sodium_init() < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seal),
		cmocka_unit_test(test_receive),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_hang_up_early),
		cmocka_unit_test(test_let_in),
		cmocka_unit_test(test_farewell_at_once),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_hostile_resolve),
		cmocka_unit_test(test_never_reads),
		cmocka_unit_test(test_called),
		cmocka_unit_test(test_crowd),
	};

	return cmocka_run_group_tests_name("connection", tests, set_up, NULL);
}
