/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a callback may call: each function of pf.h, from each callback. The script exports compares
 * the table below with pf.h.
 */
#include "page.h"
#include "pair.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/context.h"

#define WINDOW 65536

/* Of this process: the callback under test calls the functions once. */
static struct {
	struct pair *me;
	pf_peer *self; /* this process as a peer: lives on */
	int fd;
	bool called;
	struct pair_done done;
} caller;

static void check_operation(int status)
{
	if (status == PF_OK)
		caller.done.count++;
	else
		assert_pending(status);
}

static void call_address(pf_context *context)
{
	struct address address;
	size_t length = sizeof(address);

	assert_ok(pf_address(context, &address, &length));
}

static void call_arm(pf_context *context)
{
	assert_status(pf_arm(context), PF_ERR_AGAIN);
}

static void call_atomic(pf_context *context)
{
	check_operation(pf_atomic(caller.self, PF_ATOMIC_ADD, 8, remote_address(caller.me->window),
				  1, 0, pair_completed, &caller.done));
}

static void call_calibration_path(pf_context *context)
{
	char path[256];

	assert_true(pf_calibration_path(path, sizeof(path)) > 0);
}

static void call_capabilities(pf_context *context)
{
	pf_capability capability;

	assert_int_equal(pf_capabilities(&capability, sizeof(capability), 1), 1);
}

static void count_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg);

/* Of another context. */
static void call_open(pf_context *context)
{
	pf_context *other;

	assert_ok(pf_open(&caller.me->options, NULL, &other));
	pf_close(other);
}

static void call_descriptor(pf_context *context)
{
	int fd = -1;

	assert_ok(pf_descriptor(context, &fd));
	assert_int_equal(fd, caller.fd);
}

static void call_flush(pf_context *context)
{
	assert_status(pf_flush(context, NULL, PF_FOREVER), PF_ERR_ARGUMENT);
	assert_status(pf_flush(context, caller.self, PF_FOREVER), PF_ERR_ARGUMENT);
}

static void call_flush_test(pf_context *context)
{
	assert_ok(pf_flush_test(context, caller.self, 0));
}

static void call_get(pf_context *context)
{
	check_operation(pf_get(caller.self, caller.me->window + 64,
			       remote_address(caller.me->window), 64, pair_completed,
			       &caller.done));
}

static void call_join(pf_context *context)
{
	pf_join(context, "secret", 6);
}

/* Of tags that no message has. */
static void call_owner(pf_context *context)
{
	const pf_callbacks callbacks = { .size = sizeof(callbacks), .receive = count_message };
	pf_owner *owner;

	assert_ok(pf_owner_add(context, 1000, 1001, &callbacks, &owner));
	assert_ok(pf_owner_set_user(owner, caller.self, &owner));
	assert_ptr_equal(pf_owner_user(owner, caller.self), &owner);
	pf_owner_remove(owner);
}

static void call_option_table(pf_context *context)
{
	assert_non_null(pf_option_table()->name);
}

static void call_text_table(pf_context *context)
{
	assert_non_null(pf_text_table()->name);
}

static void call_options_error(pf_context *context)
{
	assert_int_equal(pf_options_error(&caller.me->options, NULL, 0), 0);
}

static void call_options_init(pf_context *context)
{
	pf_options options;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
}

static void call_options_default(pf_context *context)
{
	pf_options options;

	assert_ok(pf_options_default(&options, sizeof(options)));
}

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	memset(page, 7, length);
	return PF_OK;
}

/* Without the option. */
static void call_expose(pf_context *context)
{
	assert_status(pf_expose(context, caller.me->window, 8, PF_EXPOSE_READ), PF_ERR_ARGUMENT);
	assert_status(pf_unexpose(context, caller.me->window, 8), PF_ERR_ARGUMENT);
}

static void call_pager(pf_context *context)
{
	const size_t page = PAGE;
	uint8_t *memory = test_map(4 * page);
	pf_pager *pager;
	int status = pf_pager_register(context, memory, 4 * page, supply, NULL, &pager);

	/* Without userfaultfd there are no pagers. */
	if (status == PF_OK) {
		assert_ok(pf_pager_set_unit(pager, 2 * page));
		assert_ok(pf_pager_set_ahead(pager, 2 * page));
		assert_int_equal(*(volatile uint8_t *)memory, 7);
		assert_ok(pf_pager_evict(pager, memory, 2 * page));
		pf_pager_unregister(pager);
	} else {
		assert_status(status, PF_ERR_SYSTEM);
	}
	munmap(memory, 4 * page);
}

static void call_peer_open(pf_context *context)
{
	pf_peer *peer = pair_peer(caller.me, 1);

	assert_ptr_equal(pf_peer_user(peer), caller.me);
	pf_peer_close(peer);
}

/* A peer that has failed has the status of its failure. */
static void call_peer_contact(pf_context *context)
{
	int status = pf_peer_contact(caller.me->peer, 1, NULL);

	assert_true(status <= PF_OK && status >= PF_ERR_PROTOCOL);
}

static void call_peer_data(pf_context *context)
{
	size_t length = 1;

	assert_null(pf_peer_data(caller.self, &length));
	assert_int_equal(length, 0);
}

static void call_peer_state(pf_context *context)
{
	assert_true(pf_peer_state(caller.self) <= PF_PEER_CONNECTED);
}

static void call_peer_path(pf_context *context)
{
	assert_non_null(pf_peer_path(caller.me->peer));
}

static void call_posted(pf_context *context)
{
	assert_int_equal(pf_posted(context, caller.self), pf_posted(context, NULL));
}

static void call_progress(pf_context *context)
{
	assert_int_equal(pf_progress(context), 0);
}

static void call_put(pf_context *context)
{
	check_operation(pf_put(caller.self, caller.me->window, remote_address(caller.me->window),
			       64, 0, pair_completed, &caller.done));
}

static void call_put_signal(pf_context *context)
{
	const pf_signal signal = { PF_SIGNAL_NOTICE, 0, 1 };

	check_operation(pf_put_signal(caller.self, caller.me->window + 192,
				      remote_address(caller.me->window), 64, &signal, 0,
				      pair_completed, &caller.done));
}

static void call_vectors(pf_context *context)
{
	const pf_piece piece = { caller.me->window + 128, remote_address(caller.me->window), 64 };

	check_operation(pf_putv(caller.self, &piece, 1, 0, pair_completed, &caller.done));
	check_operation(pf_getv(caller.self, &piece, 1, pair_completed, &caller.done));
}

static void call_query(pf_context *context)
{
	pf_attributes attributes;

	pf_query(context, &attributes, sizeof(attributes));
	assert_true(attributes.send_max > 0);
}

static void call_reachable(pf_context *context)
{
	assert_status(pf_reachable(context, "no address", 10, NULL), PF_ERR_ARGUMENT);
}

static void call_send(pf_context *context)
{
	assert_ok(pf_send(caller.self, 1, "x", 1, NULL, 0));
}

static void pack(void *destination, size_t length, void *arg)
{
	memset(destination, 0, length);
}

static void call_send_pack(pf_context *context)
{
	assert_ok(pf_send_pack(caller.self, 1, NULL, 0, 8, pack, NULL));
}

static void call_stat(pf_context *context)
{
	assert_true(pf_stat(context, PF_STAT_COUNT) == 0);
	assert_true(pf_stat_resolve_time(context, PF_RESOLVE_BUCKETS) == 0);
	assert_non_null(pf_stat_table()->name);
}

static void call_strerror(pf_context *context)
{
	assert_non_null(pf_strerror(PF_OK));
}

static void call_version(pf_context *context)
{
	assert_true(pf_version() > 0);
}

static void call_wait(pf_context *context)
{
	assert_int_equal(pf_wait(context, PF_FOREVER), 0);
}

static void call_wake(pf_context *context)
{
	pf_wake(context);
}

static void call_allow_threads(pf_context *context)
{
	pf_allow_threads(context);
}

/* In this order. A pager is one entry's work, and so are some pairs. */
static const struct {
	const char *name;
	void (*call)(pf_context *context); /* NULL: the entry before calls it */
} functions[] = {
	{ "pf_address", call_address },
	{ "pf_arm", call_arm },
	{ "pf_atomic", call_atomic },
	{ "pf_calibration_path", call_calibration_path },
	{ "pf_capabilities", call_capabilities },
	{ "pf_open", call_open },
	{ "pf_close", NULL },
	{ "pf_descriptor", call_descriptor },
	{ "pf_expose", call_expose },
	{ "pf_unexpose", NULL },
	{ "pf_flush", call_flush },
	{ "pf_flush_test", call_flush_test },
	{ "pf_get", call_get },
	{ "pf_join", call_join },
	{ "pf_option_table", call_option_table },
	{ "pf_text_table", call_text_table },
	{ "pf_options_default", call_options_default },
	{ "pf_options_error", call_options_error },
	{ "pf_options_init", call_options_init },
	{ "pf_owner_add", call_owner },
	{ "pf_owner_remove", NULL },
	{ "pf_owner_set_user", NULL },
	{ "pf_owner_user", NULL },
	{ "pf_pager_register", call_pager },
	{ "pf_pager_set_ahead", NULL },
	{ "pf_pager_set_unit", NULL },
	{ "pf_pager_evict", NULL },
	{ "pf_pager_unregister", NULL },
	{ "pf_peer_open", call_peer_open },
	{ "pf_peer_user", NULL },
	{ "pf_peer_close", NULL },
	{ "pf_peer_contact", call_peer_contact },
	{ "pf_peer_path", call_peer_path },
	{ "pf_peer_data", call_peer_data },
	{ "pf_peer_state", call_peer_state },
	{ "pf_posted", call_posted },
	{ "pf_progress", call_progress },
	{ "pf_put", call_put },
	{ "pf_put_signal", call_put_signal },
	{ "pf_putv", call_vectors },
	{ "pf_getv", NULL },
	{ "pf_query", call_query },
	{ "pf_reachable", call_reachable },
	{ "pf_send", call_send },
	{ "pf_send_pack", call_send_pack },
	{ "pf_stat", call_stat },
	{ "pf_stat_resolve_time", NULL },
	{ "pf_stat_table", NULL },
	{ "pf_strerror", call_strerror },
	{ "pf_version", call_version },
	{ "pf_wait", call_wait },
	{ "pf_wake", call_wake },
	/* Last: the others have run for one thread. */
	{ "pf_allow_threads", call_allow_threads },
};

#define OPERATIONS 6 /* of them: put, get, atomic, signal, vectors */
#define MESSAGES 2   /* to this process: pf_send, pf_send_pack */

static void call_each(pf_context *context)
{
	size_t i;

	assert_ptr_equal(context, caller.me->context);
	if (caller.called)
		return;
	caller.called = true;
	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		if (functions[i].call)
			functions[i].call(context);
	}
}

/* The first message of the own process or of the partner has the tag 1, or 0. */
static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	struct pair *me = arg;

	if (tag)
		++*pair_value(me, me->side, 0);
	else
		call_each(context);
}

static void count_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;

	*pair_value(me, me->side, 0) += tag != 0;
}

static void on_pieces(pf_context *context, pf_peer *from, uint32_t tag, const struct iovec *pieces,
		      unsigned count, void *arg)
{
	call_each(context);
}

static void on_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	call_each(context);
}

static void on_warning(pf_context *context, pf_peer *peer, enum pf_log_level level,
		       const char *text, void *arg)
{
	if (level == PF_LOG_WARNING)
		call_each(context);
}

static void on_room(pf_context *context, pf_peer *peer, void *arg)
{
	call_each(context);
}

static void on_notice(pf_context *context, pf_peer *from, uint64_t remote, size_t length,
		      uint64_t value, void *arg)
{
	call_each(context);
}

static void on_complete(pf_context *context, const pf_completion *completion)
{
	assert_ok(completion->status);
	call_each(context);
}

static void open_descriptor(struct pair *me)
{
	if (!me->side)
		assert_ok(pf_descriptor(me->context, &caller.fd));
	if (pair_on_device(&me->options))
		pf_join(me->context, "tests", strlen("tests"));
}

static struct pair *start(struct pair_setup *setup)
{
	struct pair *pair;

	memset(&caller, 0, sizeof(caller));
	setup->opened = open_descriptor;
	setup->window = WINDOW;
	if (!setup->receive_here)
		setup->receive_here = count_message;
	pair = pair_start(setup);
	caller.me = pair;
	caller.self = pair_peer(pair, 0);
	return pair;
}

/* Progress until the callback was called and all operations of the callback are complete. */
static void finish(struct pair *pair)
{
	while (!caller.called)
		assert_true(pair_progress(pair));
	pair_await_done(pair, &caller.done, OPERATIONS);
	assert_int_equal(caller.done.failed, 0);
	pair_await_value(pair, 0, 0, MESSAGES);
	pair_end(pair);
}

static void test_receive(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .receive_here = on_message };
	struct pair *pair = start(&setup);

	assert_ok(pf_send(caller.self, 0, "x", 1, NULL, 0));
	finish(pair);
}

/*
 * The receiver announces that pieces are welcome with the first read. Over the network pieces depend
 * on which packets are received together, and by which thread: test_message has them there.
 */
static void send_long(struct pair *me)
{
	static const uint8_t bytes[20000];

	while (!*pair_value(me, 0, 1)) {
		pair_check_status(me, pair_send(me, me->peer, 0, bytes, sizeof(bytes)), PF_OK);
		pair_progress(me);
	}
}

static void test_pieces(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .work = send_long,
				    .receive_pieces_here = on_pieces };
	struct pair *pair = start(&setup);

	while (!caller.called)
		assert_true(pair_progress(pair));
	*pair_value(pair, 0, 1) = 1;
	finish(pair);
}

static void test_end(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .peer_event_here = on_end };
	struct pair *pair;

	setup.here.peer_timeout = 2;
	pair = start(&setup);
	pair_connect(pair);
	pair_kill(pair, 1);
	finish(pair);
}

/* Over the network: the partner does not answer. */
static void test_warning(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .log_here = on_warning };
	struct pair *pair;
	int pid;

	setup.here.network = setup.there.network = PF_NETWORK_ALWAYS;
	setup.here.contact_timeout = 1;
	pair = start(&setup);
	pid = pair_pid(pair, 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_ok(pf_send(pair->peer, 0, "x", 1, NULL, 0));
	while (!caller.called)
		assert_true(pair_progress(pair));
	assert_int_equal(kill(pid, SIGCONT), 0);
	finish(pair);
}

static void pause_polling(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 2);
}

static void test_room(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .work = pause_polling,
				    .receive = pair_count_message, .room_here = on_room };
	struct pair *pair = start(&setup);
	static const uint8_t bytes[1000];
	int status = PF_OK;

	pair_connect(pair);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	while (status == PF_OK)
		status = pf_send(pair->peer, 0, bytes, sizeof(bytes), NULL, 0);
	assert_status(status, PF_ERR_AGAIN);
	pair_say(pair, 2);
	finish(pair);
}

static void test_complete(void **state)
{
	struct pair *pair = start(&(struct pair_setup){ PAIR_MODE(state) });

	assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, pair_there(pair, 1, pair->window), 1,
				 0, on_complete, NULL));
	finish(pair);
}

static void test_notice(void **state)
{
	struct pair *pair =
		start(&(struct pair_setup){ PAIR_MODE(state), .notice_here = on_notice });
	const pf_signal signal = { PF_SIGNAL_NOTICE, 0, 2 };

	assert_pending(pf_put_signal(caller.self, NULL, 0, 0, &signal, 0, NULL, NULL));
	finish(pair);
}

#define LAST_MESSAGES 300

static void send_and_close(struct pair *me)
{
	unsigned i;

	for (i = 0; i < LAST_MESSAGES; i++)
		pair_check_status(me, pair_send(me, me->peer, 0, &i, sizeof(i)), PF_OK);
}

/* The end of a peer that closes the context is told once, after all messages of the peer. */
static void test_left(void **state)
{
	struct pair *pair = pair_open(state, .partner = send_and_close,
				      .receive_here = pair_count_message,
				      .peer_event_here = pair_note_end);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *ended = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(ended != MAP_FAILED);
	while (!pair->errors.left)
		pf_progress(pair->context);
	assert_int_equal(pair->errors.received, LAST_MESSAGES);
	assert_int_equal(pf_peer_state(pair->peer), PF_PEER_LEFT);
	assert_string_equal(pf_peer_path(pair->peer), "gone: the peer closed its context");
	/* Nothing reads a message to a peer that is gone. */
	assert_status(pf_send(pair->peer, 0, NULL, 0, ended, page), PF_ERR_PEER);
	munmap(ended, page);
	pair_linger(pair);
	assert_int_equal(pair->errors.left, 1);
	assert_int_equal(pair->errors.count, 0);
	pair_end(pair);
}

/* A program that was built with an older or newer pf.h. */
static void test_size(void **state)
{
	struct {
		pf_callbacks callbacks;
		uint64_t later[2];
	} newer;
	pf_context *context = NULL;

	memset(&newer, 0, sizeof(newer));
	assert_status(pf_open(NULL, &newer.callbacks, &context), PF_ERR_ARGUMENT);
	newer.callbacks.size = SIZE_MAX;
	assert_status(pf_open(NULL, &newer.callbacks, &context), PF_ERR_ARGUMENT);
	newer.callbacks.size = sizeof(newer);
	newer.later[1] = 1;
	assert_status(pf_open(NULL, &newer.callbacks, &context), PF_ERR_ARGUMENT);
	newer.later[1] = 0;
	newer.callbacks.arg = &newer;
	assert_ok(pf_open(NULL, &newer.callbacks, &context));
	assert_ptr_equal(context->callbacks.arg, &newer);
	pf_close(context);
	/* Only the size is known. */
	memset(&newer, 0xff, sizeof(newer));
	newer.callbacks.size = sizeof(size_t);
	assert_ok(pf_open(NULL, &newer.callbacks, &context));
	assert_true(context->callbacks.receive == NULL && context->callbacks.arg == NULL);
	pf_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_MODE(test_receive, DEFAULT),
		IN_MODE(test_receive, THREADS),
		IN_MODE_UNLESS(threads, test_end, DEFAULT),
		IN_MODE_UNLESS(threads, test_end, THREADS),
		IN_MODE_UNLESS(threads, test_warning, DEFAULT),
		IN_MODE_UNLESS(net, test_pieces, DEFAULT),
		IN_MODE_UNLESS(net, test_pieces, THREADS),
		IN_MODE(test_room, DEFAULT),
		IN_MODE(test_room, THREADS),
		IN_MODE(test_complete, DEFAULT),
		IN_MODE(test_complete, THREADS),
		IN_MODE(test_notice, DEFAULT),
		IN_MODE(test_notice, THREADS),
		IN_MODE(test_left, DEFAULT),
		IN_MODE(test_left, THREADS),
		cmocka_unit_test(test_size),
	};

	return pair_run_tests("callbacks", tests);
}
