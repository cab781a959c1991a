/* SPDX-License-Identifier: BSD-3-Clause */
/* Owners of tags: who gets which message, what waits for an owner, ends and room told to each. */
#include "page.h"
#include "pair.h"

#include <pthread.h>

#include "common/context.h"

#define EVENTS 64

/* An owner of this process, and what it got. */
struct library {
	struct pair *me;
	pf_owner *owner;
	uint32_t first, last;
	unsigned count;
	uint32_t tags[EVENTS];
	uint64_t numbers[EVENTS];
	size_t length; /* of the last message */
	unsigned ends, rooms, pieces;
	struct library *next; /* added by the first message, in place of this one */
};

static void add_library(struct library *library);

static void on_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	struct library *library = arg;

	assert_in_range(tag, library->first, library->last);
	assert_ptr_equal(from, library->me->peer);
	assert_true(length >= sizeof(uint64_t) && (uintptr_t)data % 8 == 0);
	library->tags[library->count % EVENTS] = tag;
	memcpy(&library->numbers[library->count % EVENTS], data, sizeof(uint64_t));
	assert_int_equal(pattern_differs((uint8_t *)data + 8, length - 8, tag), length - 8);
	library->length = length;
	library->count++;
	if (library->next) {
		struct library *next = library->next;

		pf_owner_remove(library->owner);
		library->next = NULL;
		add_library(next);
	}
}

static void on_pieces(pf_context *context, pf_peer *from, uint32_t tag, const struct iovec *pieces,
		      unsigned count, void *arg)
{
	struct library *library = arg;

	library->pieces++;
}

static void on_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg)
{
	struct library *library = arg;

	library->ends++;
}

static void on_room(pf_context *context, pf_peer *peer, void *arg)
{
	struct library *library = arg;

	library->rooms++;
}

static int try_add(struct library *library)
{
	const pf_callbacks callbacks = { .size = sizeof(callbacks),
					 .receive = on_message,
					 .peer_event = on_end,
					 .room = on_room,
					 .arg = library };

	return pf_owner_add(library->me->context, library->first, library->last, &callbacks,
			    &library->owner);
}

static void add_library(struct library *library)
{
	assert_ok(try_add(library));
}

/* Partner: send count messages of the length with the tag, numbered from first on. */
static void send_numbers(struct pair *me, const uint64_t *arguments)
{
	const uint32_t tag = (uint32_t)arguments[0];
	uint64_t count = arguments[1], first = arguments[2], i;
	size_t length = arguments[3] ? arguments[3] : 16;
	uint8_t *bytes = test_alloc(length);

	pattern_fill(bytes + 8, length - 8, tag);
	for (i = first; i < first + count; i++) {
		memcpy(bytes, &i, sizeof(i));
		/* The receiver may have given this process up. */
		if (pair_send(me, me->peer, tag, bytes, length) != PF_OK)
			break;
	}
	free(bytes);
}

static void await(struct pair *me, const unsigned *count, unsigned least)
{
	while (*count < least)
		assert_true(pair_progress(me));
}

static void await_messages(struct pair *me, uint64_t count)
{
	while (pf_stat(me->context, PF_STAT_RECEIVES) < count)
		assert_true(pair_progress(me));
}

/* Numbers from first on, the newest last. */
static void check_numbers(const struct library *library, unsigned count, uint64_t first)
{
	unsigned i;

	assert_int_equal(library->count, count);
	for (i = 0; i < count; i++)
		assert_int_equal(library->numbers[i], first + i);
}

static void test_ranges(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers,
				    .receive_here = pair_count_message);
	const pf_callbacks deaf = { .size = sizeof(deaf), .room = on_room };
	const uint32_t tags[] = { 0, 99, 100, 150, 199, 200, UINT32_MAX - 1, UINT32_MAX };
	struct library one = { me, .first = 100, .last = 199 };
	struct library other = { me, .first = UINT32_MAX, .last = UINT32_MAX }, wrong;
	size_t i;

	add_library(&one);
	add_library(&other);
	wrong = (struct library){ me, .first = 199, .last = 250 };
	assert_status(try_add(&wrong), PF_ERR_ARGUMENT);
	wrong.last = 198;
	assert_status(try_add(&wrong), PF_ERR_ARGUMENT);
	assert_status(pf_owner_add(me->context, 1, 1, NULL, &wrong.owner), PF_ERR_ARGUMENT);
	assert_status(pf_owner_add(me->context, 1, 1, &deaf, &wrong.owner), PF_ERR_ARGUMENT);
	wrong = (struct library){ me, .first = 0, .last = UINT32_MAX };
	assert_status(try_add(&wrong), PF_ERR_ARGUMENT);
	for (i = 0; i < ARRAY_SIZE(tags); i++)
		pair_command(me, tags[i], 1, i);
	await_messages(me, ARRAY_SIZE(tags));
	check_numbers(&one, 3, 2);
	assert_int_equal(one.tags[0], 100);
	assert_int_equal(one.tags[2], 199);
	check_numbers(&other, 1, 7);
	assert_int_equal(*pair_value(me, 0, 0), 4);
	/* The tags of a removed owner are those of pf_open's callbacks again. */
	pf_owner_remove(one.owner);
	pair_command(me, 150, 1, 0);
	pair_await_value(me, 0, 0, 5);
	assert_int_equal(one.count, 3);
	pair_end(me);
}

/* As many owners as there may be, and again in the place of one. */
static void test_most(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers);
	struct library libraries[PF_OWNERS_MOST], more = { me, .first = 1000, .last = 1000 };
	uint32_t i;

	for (i = 0; i < PF_OWNERS_MOST; i++) {
		libraries[i] = (struct library){ me, .first = i, .last = i };
		add_library(&libraries[i]);
		assert_null(pf_owner_user(libraries[i].owner, me->peer));
		assert_ok(pf_owner_set_user(libraries[i].owner, me->peer, &libraries[i]));
	}
	assert_status(try_add(&more), PF_ERR_MEMORY);
	for (i = 0; i < PF_OWNERS_MOST; i++)
		assert_ptr_equal(pf_owner_user(libraries[i].owner, me->peer), &libraries[i]);
	pf_owner_remove(libraries[3].owner);
	add_library(&more);
	assert_null(pf_owner_user(more.owner, me->peer));
	pair_command(me, 1000, 1, 0);
	await(me, &more.count, 1);
	pair_end(me);
}

/* Messages wait in their order for owners that come in another, and come before newer ones. */
static void test_wait(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers);
	struct library one = { me, .first = 5, .last = 5 };
	struct library other = { me, .first = 6, .last = UINT32_MAX };
	unsigned i;

	for (i = 0; i < 10; i++) {
		pair_command(me, 5, 1, i);
		pair_command(me, 6, 1, i, i % 2 ? 3000 : 16);
	}
	await_messages(me, 20);
	pair_command(me, 5, 3, 10);
	add_library(&one);
	assert_int_equal(one.count, 0);
	await(me, &one.count, 13);
	check_numbers(&one, 13, 0);
	add_library(&other);
	pair_command(me, 6, 3, 10);
	await(me, &other.count, 13);
	check_numbers(&other, 13, 0);
	assert_int_equal(me->peer->waiting, 0);
	pair_end(me);
}

/* An owner that leaves in its own callback, and one that comes there, for which messages wait. */
static void test_change_in_callback(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers);
	struct library second = { me, .first = 5, .last = 6 };
	struct library first = { me, .first = 5, .last = 5, .next = &second };

	pair_command(me, 6, 2, 0);
	pair_command(me, 5, 1, 0);
	pair_command(me, 6, 2, 2);
	await_messages(me, 5);
	add_library(&first);
	await(me, &second.count, 4);
	check_numbers(&first, 1, 0);
	check_numbers(&second, 4, 0);
	pair_command(me, 5, 1, 4);
	await(me, &second.count, 5);
	check_numbers(&second, 5, 0);
	pair_end(me);
}

/* Both owners, and pf_open's callbacks. What waits of the peer is dropped. */
static void test_end(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers,
				    .peer_event_here = pair_note_end);
	struct library one = { me, .first = 5, .last = 5 }, other = { me, .first = 7, .last = 7 };

	add_library(&one);
	add_library(&other);
	pair_command(me, 6, 2, 0);
	await_messages(me, 2);
	assert_true(me->peer->waiting > 0);
	pair_kill(me, 1);
	await(me, &me->errors.count, 1);
	assert_int_equal(one.ends, 1);
	assert_int_equal(other.ends, 1);
	assert_int_equal(me->peer->waiting, 0);
	assert_true(STAILQ_EMPTY(&me->context->owners.waiting));
	pair_end(me);
}

static void watch(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 2);
}

static void test_room(void **state)
{
	struct pair *me = pair_open(state, .work = watch, .window = 4096,
				    .receive = pair_count_message);
	struct library one = { me, .first = 5, .last = 5 }, other = { me, .first = 7, .last = 7 };
	static const uint8_t bytes[1000];
	int status = PF_OK;

	add_library(&one);
	add_library(&other);
	pair_connect(me);
	pair_say(me, 1);
	pair_await(me, 1, 1);
	while (status == PF_OK)
		status = pf_send(me->peer, 0, bytes, sizeof(bytes), NULL, 0);
	assert_status(status, PF_ERR_AGAIN);
	pair_say(me, 2);
	await(me, &one.rooms, 1);
	await(me, &other.rooms, 1);
	pair_end(me);
}

/* Messages for nobody, without an end: the peer fails, and others of it still arrive before. */
static void test_flood(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers,
				    .peer_event_here = pair_note_end);
	struct library one = { me, .first = 5, .last = 5 };

	add_library(&one);
	pair_command(me, 5, 1, 0);
	pair_command(me, 6, PF_UNOWNED_MOST / 3000 - 10, 0, 3000);
	await(me, &one.count, 1);
	assert_int_equal(me->errors.count, 0);
	pair_command(me, 6, 100, 0, 3000);
	await(me, &me->errors.count, 1);
	assert_status(me->errors.status, PF_ERR_MEMORY);
	assert_int_equal(pf_peer_state(me->peer), PF_PEER_FAILED);
	assert_int_equal(me->peer->waiting, 0);
	pair_end(me);
}

/* An owner that takes no pieces beside callbacks that do. */
static void test_pieces(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers,
				    .receive_here = pair_count_message,
				    .receive_pieces_here = on_pieces);
	struct library one = { me, .first = 5, .last = 5 };
	unsigned i;

	add_library(&one);
	for (i = 0; i < 20; i++) {
		pair_command(me, 5, 1, i, 20000);
		await(me, &one.count, i + 1);
		assert_int_equal(one.length, 20000);
	}
	check_numbers(&one, 20, 0);
	pair_end(me);
}

static void *sleep_in_wait(void *arg)
{
	struct pair *me = arg;

	while (!*pair_value(me, 0, 2))
		pf_wait(me->context, PF_FOREVER);
	return NULL;
}

/* Owners come and go while another thread is in pf_wait, and no message gets lost. */
static void test_other_thread(void **state)
{
	struct pair *me = pair_open(state, .command = send_numbers, .window = 4096,
				    .receive_here = pair_count_message);
	struct library one = { me, .first = 5, .last = 5 };
	const unsigned rounds = REPEAT(300);
	pthread_t thread;
	unsigned i;

	pair_connect(me);
	pf_allow_threads(me->context);
	assert_int_equal(pthread_create(&thread, NULL, sleep_in_wait, me), 0);
	for (i = 0; i < rounds; i++) {
		add_library(&one);
		pf_owner_set_user(one.owner, me->peer, &one);
		assert_ptr_equal(pf_owner_user(one.owner, me->peer), &one);
		if (i % 16 == 0)
			pair_command(me, 5, 1, i);
		pf_owner_remove(one.owner);
	}
	await_messages(me, (rounds + 15) / 16);
	*pair_value(me, 0, 2) = 1;
	pf_wake(me->context);
	pthread_join(thread, NULL);
	assert_int_equal(one.count + *pair_value(me, 0, 0), (rounds + 15) / 16);
	pair_end(me);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_MODE(test_ranges, DEFAULT),
		IN_MODE(test_ranges, SMALL_RING),
		IN_MODE(test_ranges, THREADS),
		IN_MODE(test_most, DEFAULT),
		IN_MODE(test_wait, DEFAULT),
		IN_MODE(test_wait, THREADS),
		IN_MODE(test_change_in_callback, DEFAULT),
		IN_MODE(test_change_in_callback, THREADS),
		IN_MODE_UNLESS(threads, test_end, DEFAULT),
		IN_MODE(test_room, DEFAULT),
		IN_MODE_UNLESS(threads, test_flood, DEFAULT),
		IN_MODE_UNLESS(net, test_pieces, DEFAULT),
		IN_MODE(test_other_thread, DEFAULT),
	};

	return pair_run_tests("owners", tests);
}
