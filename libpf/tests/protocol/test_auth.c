/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys, tags and encryption of packets; the window of packet numbers received. */
#include "unit.h"

#include "protocol/auth.h"
#include "protocol/window.h"

#define LENGTH 200
#define CONTROL 40

static struct auth_keys opener, accepter;

static void make_keys(struct auth_keys *first, struct auth_keys *second, uint8_t key_byte,
		      uint8_t nonce_byte, uint8_t id_byte)
{
	uint8_t key[NET_KEY_BYTES], id[2][NET_ID_BYTES] = { { id_byte }, { 2 } }, nonce[WIRE_NONCE];
	struct auth_party open = { id[0], nonce }, accept = { id[1], nonce };

	memset(key, key_byte, sizeof(key));
	memset(nonce, nonce_byte, sizeof(nonce));
	auth_session(first, second, key, &open, &accept);
}

static void make_packet(uint8_t *packet)
{
	struct wire_header header = { .type = WIRE_FRAMES, .control = CONTROL, .index = 3 };

	memset(packet, 0x77, LENGTH);
	wire_put_header(packet, &header);
}

static void test_keys_differ(void **state)
{
	/* Key, nonce, id. */
	static const uint8_t differ[][3] = { { 9, 8, 7 }, { 1, 1, 7 }, { 1, 8, 8 } };
	struct auth_keys other;
	size_t i;

	make_keys(&opener, &accepter, 1, 8, 7);
	assert_memory_not_equal(&opener, &accepter, sizeof(opener));
	assert_memory_not_equal(opener.hash, opener.payload, AUTH_HASH_KEY);
	for (i = 0; i < ARRAY_SIZE(differ); i++) {
		make_keys(&other, &accepter, differ[i][0], differ[i][1], differ[i][2]);
		assert_memory_not_equal(&opener, &other, sizeof(opener));
	}
}

/* The tag covers each bit of header and control section, and the high half of the number. */
static void test_tag(void **state)
{
	_Alignas(8) uint8_t packet[LENGTH], copy[LENGTH];
	unsigned bit;

	make_keys(&opener, &accepter, 1, 8, 7);
	make_packet(packet);
	auth_tag(packet, CONTROL, opener.hash, 5);
	for (bit = 0; bit < 8 * (WIRE_HEADER + CONTROL); bit++) {
		memcpy(copy, packet, LENGTH);
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(auth_check(copy, CONTROL, opener.hash, 5));
	}
	memcpy(copy, packet, LENGTH);
	assert_false(auth_check(copy, CONTROL, opener.hash, 5 + (1ull << 32)));
	memcpy(copy, packet, LENGTH);
	assert_false(auth_check(copy, CONTROL, accepter.hash, 5));
	memcpy(copy, packet, LENGTH);
	assert_true(auth_check(copy, CONTROL, opener.hash, 5));
	assert_memory_equal(copy, packet, LENGTH);
}

static void test_digest(void **state)
{
	uint8_t payload[64] = { 1 };
	uint64_t digest;

	make_keys(&opener, &accepter, 1, 8, 7);
	digest = auth_digest(&opener, payload, sizeof(payload));
	assert_true(digest == auth_digest(&opener, payload, sizeof(payload)));
	assert_true(digest != auth_digest(&accepter, payload, sizeof(payload)));
	payload[63] ^= 1;
	assert_true(digest != auth_digest(&opener, payload, sizeof(payload)));
}

static void test_encrypt(void **state)
{
	_Alignas(8) uint8_t packet[LENGTH + WIRE_MAC], copy[LENGTH + WIRE_MAC];
	size_t inside = LENGTH - WIRE_HEADER, i;

	make_keys(&opener, &accepter, 1, 8, 7);
	make_packet(packet);
	auth_encrypt(&opener, packet, 5, inside);
	for (i = WIRE_HEADER; i + 8 < LENGTH; i += 8)
		assert_memory_not_equal(packet + i, "\x77\x77\x77\x77\x77\x77\x77\x77", 8);
	for (i = WIRE_TAG; i < sizeof(packet); i++) {
		memcpy(copy, packet, sizeof(packet));
		copy[i] ^= 1;
		assert_false(auth_decrypt(&opener, copy, 5, inside + WIRE_MAC));
	}
	memcpy(copy, packet, sizeof(packet));
	assert_false(auth_decrypt(&opener, copy, 6, inside + WIRE_MAC));
	assert_false(auth_decrypt(&opener, copy, 5, WIRE_MAC - 1));
	memcpy(copy, packet, sizeof(packet));
	assert_true(auth_decrypt(&opener, copy, 5, inside + WIRE_MAC));
	for (i = WIRE_HEADER; i < LENGTH; i++)
		assert_int_equal(copy[i], 0x77);
}

/* Compare the window with a list of all numbers taken. */
static void test_replay(void **state)
{
	struct random_numbers numbers = random_start("replay");
	static bool taken[100000];
	struct window window;
	uint64_t highest = 0;
	unsigned i;

	memset(taken, 0, sizeof(taken));
	window_init(&window);
	assert_false(window_seen(&window, 0));
	for (i = 0; i < 90000; i++) {
		uint64_t number = highest + random_below(&numbers, 3);
		bool seen;

		if (random_below(&numbers, 3))
			number -= random_below(&numbers, number < 2000 ? number + 1 : 2000);
		if (random_below(&numbers, 5000) == 0)
			number = highest + random_below(&numbers, 3000);
		if (number >= sizeof(taken))
			break;
		seen = highest >= number + WINDOW_NUMBERS || taken[number];
		assert_int_equal(window_seen(&window, number), seen);
		if (seen)
			continue;
		window_take(&window, number, i, i, WINDOW_PROMPT, false, 10);
		taken[number] = true;
		if (number > highest)
			highest = number;
	}
	assert_true(highest > 20000);
}

/* Acknowledgements name the numbers taken and no others, each at least WINDOW_REPEAT times. */
static void test_acknowledgement(void **state)
{
	struct random_numbers numbers = random_start("acknowledgement");
	static uint8_t taken[40000], told[40000];
	struct window window;
	uint64_t next = 0;
	unsigned i, w, b;

	memset(taken, 0, sizeof(taken));
	memset(told, 0, sizeof(told));
	window_init(&window);
	while (next < 39000) {
		struct wire_frame frame;
		struct net_owed owed;
		unsigned burst = (unsigned)random_below(&numbers, 100) + 1;

		for (i = 0; i < burst; i++) {
			uint64_t number = next++;

			if (random_below(&numbers, 10) == 0)
				continue;
			if (random_below(&numbers, 20) == 0 && number > 60)
				number -= random_below(&numbers, 60);
			if (window_seen(&window, number))
				continue;
			window_take(&window, number, next, next, WINDOW_PROMPT, false, 10);
			taken[number] = 1;
		}
		/* Nothing of the burst arrived that was new. */
		if (window.due == NET_NEVER)
			continue;
		window_acknowledge(&window, next, &frame, &owed);
		assert_true(window.due == NET_NEVER);
		/* One that did not leave is due again, and told nothing. */
		if (random_below(&numbers, 4) == 0) {
			window_unsent(&window, &owed);
			assert_true(window.due == owed.due);
			continue;
		}
		for (w = 0; w < frame.ack.words; w++) {
			for (b = 0; b < 64; b++) {
				int64_t number = (int64_t)frame.ack.largest - 64 * w - b;

				if (!(frame.ack.bits[w] >> b & 1))
					continue;
				assert_true(number >= 0);
				assert_int_equal(taken[number], 1);
				told[number]++;
			}
		}
	}
	for (i = 0; i < 38000; i++) {
		if (taken[i])
			assert_true(told[i] >= WINDOW_REPEAT);
	}
}

static void test_when_to_acknowledge(void **state)
{
	struct wire_frame frame;
	struct net_owed owed;
	struct window window;

	window_init(&window);
	window_take(&window, 0, 100, 100, WINDOW_NOTHING, false, 10);
	assert_true(window.due == NET_NEVER);
	window_take(&window, 1, 100, 100, WINDOW_PROMPT, false, 100000);
	assert_int_equal(window.due, 100100);
	/* The second one waits for a moment only, unless the first has waited for longer. */
	window_take(&window, 2, 103, 103, WINDOW_PROMPT, false, 100000);
	assert_int_equal(window.due, 103 + WINDOW_MOMENT);
	window_take(&window, 3, 104, 104, WINDOW_PROMPT, false, 100000);
	assert_int_equal(window.due, 103 + WINDOW_MOMENT);
	window_acknowledge(&window, 105, &frame, &owed);
	assert_int_equal(frame.ack.delay, 1);
	/* A gap is acknowledged at once, and so is the packet that fills it, and a mark. */
	window_take(&window, 5, 200, 200, WINDOW_PROMPT, false, 10);
	assert_int_equal(window.due, 200);
	window_acknowledge(&window, 205, &frame, &owed);
	window_take(&window, 4, 300, 300, WINDOW_PROMPT, false, 10);
	assert_int_equal(window.due, 300);
	window_acknowledge(&window, 305, &frame, &owed);
	window_take(&window, 6, 400, 400, WINDOW_PROMPT, true, 10);
	assert_int_equal(window.due, 400);
	window_acknowledge(&window, 405, &frame, &owed);
	assert_int_equal(frame.ack.marks, 1);
}

/* What a message's last packet asks for stands for its others, but not for what came before it. */
static void test_messages(void **state)
{
	const uint64_t answer = 1000000, soon = 1000;
	struct wire_frame frame;
	struct net_owed owed;
	struct window window;
	unsigned i;

	window_init(&window);
	window_take(&window, 0, 100, 100, WINDOW_PART, false, soon);
	assert_int_equal(window.due, 100 + soon);
	window_take(&window, 1, 200, 200, WINDOW_WHOLE, false, answer);
	assert_int_equal(window.due, 200 + answer);
	/* Not of very many. */
	for (i = 2; i < WINDOW_ANSWERED; i++)
		window_take(&window, i, 300, 300, WINDOW_WHOLE, false, answer);
	assert_int_equal(window.due, 200 + answer);
	window_take(&window, i++, 400, 400, WINDOW_WHOLE, false, answer);
	assert_int_equal(window.due, 400 + WINDOW_MOMENT);
	window_acknowledge(&window, 405, &frame, &owed);
	assert_int_equal(window.due, NET_NEVER);

	window_take(&window, i++, 500, 500, WINDOW_PROMPT, false, soon);
	window_take(&window, i++, 600, 600, WINDOW_PART, false, soon);
	window_take(&window, i++, 700, 700, WINDOW_WHOLE, false, answer);
	assert_int_equal(window.due, 500 + soon);
	window_acknowledge(&window, 705, &frame, &owed);
	/* One that was missing. */
	window_take(&window, i + 1, 800, 800, WINDOW_PART, false, soon);
	window_take(&window, i + 2, 900, 900, WINDOW_WHOLE, false, answer);
	assert_int_equal(window.due, 800);
	window_acknowledge(&window, 905, &frame, &owed);
	/* Credit that is to be told. */
	window_demand(&window, 1000);
	window_take(&window, i + 3, 1000, 1000, WINDOW_WHOLE, false, answer);
	assert_int_equal(window.due, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys_differ),
		cmocka_unit_test(test_tag),
		cmocka_unit_test(test_digest),
		cmocka_unit_test(test_encrypt),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_acknowledgement),
		cmocka_unit_test(test_when_to_acknowledge),
		cmocka_unit_test(test_messages),
	};

	return cmocka_run_group_tests_name("net_auth", tests, NULL, NULL);
}
