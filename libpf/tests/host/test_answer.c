/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that wait for room in the rings of the peers that asked. */
#include "unit.h"

#include "base/check.h"
#include "context/contents.h"
#include "host/answer.h"
#include "host/incoming.h"
#include "host/message.h"
#include "host/peer.h"

#define RING_SIZE (64u << 10)
#define LONG (16u << 10) /* bytes of the first get, more than the room that comes */
#define ROOM (8u << 10)

static _Atomic int64_t allowance = INT64_MAX;
static uint8_t asked_for[LONG];

/* A peer that asks, and reads its answers when the test says so. */
struct asker {
	struct host_peer peer;
	struct incoming incoming;
	struct ring reader; /* of the answers */
};

static void asker_open(struct asker *asker, pf_context *context)
{
	int status;

	memset(asker, 0, sizeof(*asker));
	asker->peer.peer.context = context;
	asker->incoming.peer = &asker->peer;
	assert_ok(channel_create(&asker->peer.out, RING_SIZE, &allowance, NULL));
	asker->reader = asker->peer.out.ring;
	/* Fill the ring. */
	while (host_peer_reserve(&asker->peer, ROOM / 8, &status))
		host_peer_commit(&asker->peer, ROOM / 8, MESSAGE_USER, 0);
}

static void asker_get(struct asker *asker, struct answers *answers, uint64_t length)
{
	struct message_block block = { .address = (uintptr_t)asked_for, .length = length };
	const struct ring_entry entry = { .payload = (uint8_t *)&block,
					  .length = sizeof(block),
					  .kind = MESSAGE_GET_BLOCK };

	assert_true(answers_prepare(answers));
	assert_true(answer_request(answers, &asker->incoming, &entry));
}

static void asker_read(struct asker *asker, size_t bytes)
{
	uint64_t end = asker->reader.position + bytes;
	struct ring_entry entry = { 0 };

	while (asker->reader.position < end) {
		assert_int_equal(ring_peek(&asker->reader, &entry), 1);
		ring_consume(&asker->reader, &entry);
	}
	ring_publish(&asker->reader);
}

static void asker_close(struct asker *asker)
{
	channel_destroy(&asker->peer.out);
}

/*
 * With more than one peer that has too little room for its first answer, the later and shorter answers
 * of each wait behind it: else it might never be sent.
 */
static void test_order(void **state)
{
	struct asker first, second;
	struct answers answers = { 0 };
	const void *outer;
	pf_options options;
	pf_context *context;

	pf_options_init(&options, sizeof(options), NULL);
	options.network = PF_NETWORK_OFF;
	assert_ok(pf_open(&options, NULL, &context));
	outer = check_enter(progress, context);
	answers_init(&answers, context);
	asker_open(&first, context);
	asker_open(&second, context);
	asker_get(&first, &answers, LONG);
	asker_get(&second, &answers, LONG);
	asker_get(&first, &answers, 8);
	asker_get(&second, &answers, 8);
	asker_read(&first, ROOM);
	asker_read(&second, ROOM);
	assert_int_equal(answers_advance(&answers), 0);
	asker_read(&first, 2 * LONG);
	assert_int_equal(answers_advance(&answers), 2);
	assert_int_equal(first.peer.answers_waiting, 0);
	assert_int_equal(second.peer.answers_waiting, 2);
	answers_destroy(&answers);
	asker_close(&first);
	asker_close(&second);
	check_leave(progress, outer);
	pf_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
