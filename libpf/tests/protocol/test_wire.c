/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the wire format, and the streams of control entries and messages. */
#include "unit.h"

#include "protocol/stream.h"
#include "protocol/wire.h"

static void test_header(void **state)
{
	static const struct wire_header header = { .type = WIRE_DATA_GET,
						   .path = 3,
						   .control = 16,
						   .index = 0x01020304,
						   .number = 0xfffefdfc,
						   .transfer = 0x11223344 };
	static const uint8_t bytes[] = { 0x35, 3,    16,   0,    4,    3,    2,    1,
					 0xfc, 0xfd, 0xfe, 0xff, 0x44, 0x33, 0x22, 0x11 };
	/* Offset and value: version, types that do not exist, path, control length. */
	static const uint8_t bad[][2] = {
		{ 16, 0x25 }, { 16, 0x30 }, { 16, 0x37 }, { 17, 4 }, { 18, 12 }
	};
	struct wire_header back;
	uint8_t packet[48] = { 0 };
	size_t length, i;

	wire_put_header(packet, &header);
	assert_memory_equal(packet + WIRE_TAG, bytes, sizeof(bytes));
	assert_true(wire_get_header(packet, sizeof(packet), &back));
	assert_memory_equal(&header, &back, sizeof(header));
	/* The control section must be complete. */
	for (length = 0; length < 48; length++)
		assert_false(wire_get_header(packet, length, &back));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		wire_put_header(packet, &header);
		packet[bad[i][0]] = bad[i][1];
		assert_false(wire_get_header(packet, sizeof(packet), &back));
	}
}

/* The newest that both speak. */
static void test_versions(void **state)
{
	static const unsigned ranges[][3] = {
		{ 3, 3, 3 }, { 1, 3, 3 }, { 3, 255, 3 }, { 0, 255, 3 },
		{ 0, 0, 0 }, { 1, 2, 0 }, { 4, 9, 0 },   { 9, 1, 0 },
	};
	size_t i;

	assert_int_equal(NET_VERSION_OLDEST, 3);
	assert_int_equal(NET_VERSION_NEWEST, 3);
	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		assert_int_equal(net_version_shared(ranges[i][0], ranges[i][1]), ranges[i][2]);
}

static void test_hello(void **state)
{
	struct wire_hello hello = { .index = 7,
				    .block_size = 16384,
				    .auth = 2,
				    .oldest = 3,
				    .newest = 5,
				    .info_length = 11,
				    .info = (const uint8_t *)"information" };
	struct wire_hello back;
	uint8_t bytes[WIRE_HELLO_BYTES + NET_INFO_MOST];
	size_t length, i;

	memset(hello.id, 1, sizeof(hello.id));
	memset(hello.nonce, 2, sizeof(hello.nonce));
	memset(hello.echo, 3, sizeof(hello.echo));
	length = wire_put_hello(bytes, &hello);
	assert_int_equal(length, WIRE_HELLO_BYTES + 16);
	assert_true(wire_get_hello(bytes, length, &back));
	assert_memory_equal(back.id, hello.id, sizeof(hello.id));
	assert_memory_equal(back.nonce, hello.nonce, sizeof(hello.nonce));
	assert_memory_equal(back.echo, hello.echo, sizeof(hello.echo));
	assert_int_equal(back.index, 7);
	assert_int_equal(back.block_size, 16384);
	assert_int_equal(back.auth, 2);
	assert_int_equal(back.oldest, 3);
	assert_int_equal(back.newest, 5);
	assert_int_equal(back.info_length, 11);
	assert_memory_equal(back.info, "information", 11);
	for (i = 0; i < length; i++)
		assert_false(wire_get_hello(bytes, i, &back));
	wire_put16(bytes + 66, NET_INFO_MOST + 1);
	assert_false(wire_get_hello(bytes, sizeof(bytes), &back));
}

/* A frame is read as it was written; a shorter one is refused without reading behind its end. */
static void check_frame(const struct wire_frame *frame)
{
	uint8_t *bytes = malloc(wire_frame_length(frame));
	size_t length = wire_put_frame(bytes, frame), i;
	struct wire_frame back;

	assert_int_equal(length, wire_frame_length(frame));
	assert_int_equal(length % 8, 0);
	assert_int_equal(wire_get_frame(bytes, length, &back), length);
	assert_int_equal(back.type, frame->type);
	for (i = 0; i < length; i++) {
		/* A sanitizer would notice a read behind the end. */
		uint8_t *cut = malloc(i + 1);

		memcpy(cut, bytes, i);
		assert_int_equal(wire_get_frame(cut, i, &back), 0);
		free(cut);
	}
	free(bytes);
}

static void test_frames(void **state)
{
	struct wire_frame frame = { .type = FRAME_ACK, .ack = { .path = 1, .words = 2 } }, back;
	uint8_t bytes[256];
	unsigned i;

	frame.ack.delay = 12345;
	frame.ack.largest = 99;
	frame.ack.marks = 5;
	frame.ack.bits[0] = 0x8000000000000001;
	frame.ack.bits[1] = 0x123456789abcdef0;
	check_frame(&frame);
	wire_put_frame(bytes, &frame);
	wire_get_frame(bytes, sizeof(bytes), &back);
	assert_int_equal(back.ack.path, 1);
	assert_int_equal(back.ack.words, 2);
	assert_int_equal(back.ack.delay, 12345);
	assert_int_equal(back.ack.largest, 99);
	assert_int_equal(back.ack.marks, 5);
	assert_memory_equal(back.ack.bits, frame.ack.bits, 16);
	bytes[2] = 0;
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), 0);
	bytes[2] = WIRE_ACK_WORDS + 1;
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), 0);

	check_frame(&(struct wire_frame){
		.type = FRAME_CREDIT,
		.credit = { .pauses = 3, .senders = 1024, .window = 7, .messages = 1ull << 40 } });
	for (i = 1; i < 20; i++)
		check_frame(&(struct wire_frame){
			.type = FRAME_CONTROL,
			.stream = { .length = (uint16_t)i, .offset = 77, .bytes = bytes } });
	check_frame(&(struct wire_frame){ .type = FRAME_MESSAGE, .stream = { .length = 8 } });
	check_frame(&(struct wire_frame){ .type = FRAME_PING });
	frame = (struct wire_frame){ .type = FRAME_GOODBYE, .goodbye = { .failed = true } };
	check_frame(&frame);
	wire_put_frame(bytes, &frame);
	wire_get_frame(bytes, sizeof(bytes), &back);
	assert_true(back.goodbye.failed);
	frame = (struct wire_frame){ .type = FRAME_SIGNAL,
				     .signal = { PF_SIGNAL_SET, 0xfedcba9876543210, 77 } };
	check_frame(&frame);
	wire_put_frame(bytes, &frame);
	wire_get_frame(bytes, sizeof(bytes), &back);
	assert_int_equal(back.signal.op, PF_SIGNAL_SET);
	assert_true(back.signal.remote == 0xfedcba9876543210);
	assert_int_equal(back.signal.value, 77);
	bytes[1] = PF_SIGNAL_NOTICE + 1;
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), 0);
	/* A word is aligned; a notice has the first byte of the put instead. */
	bytes[8] |= 4;
	bytes[1] = PF_SIGNAL_SET;
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), 0);
	bytes[1] = PF_SIGNAL_NOTICE;
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), WIRE_SIGNAL);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), 0);
	bytes[0] = FRAME_SIGNAL + 1;
	assert_int_equal(wire_get_frame(bytes, sizeof(bytes), &back), 0);
}

static void test_entries(void **state)
{
	unsigned type;

	for (type = ENTRY_GET; type < ENTRY_TYPES; type++) {
		struct wire_entry entry = { .type = (uint8_t)type, .transfer = 0xabcdef01 }, back;
		uint8_t bytes[WIRE_ENTRY_MOST];
		size_t length, i;

		if (type == ENTRY_DONE || type == ENTRY_NACK || type == ENTRY_AGAIN)
			entry.get = true;
		if (type == ENTRY_NACK || type == ENTRY_AGAIN)
			entry.block = 63;
		if (type == ENTRY_GET)
			entry.length = 0x87654321;
		if (type == ENTRY_ATOMIC) {
			entry.op = 5;
			entry.width = 8;
			entry.operand = 1;
			entry.compare = 2;
		}
		if (wire_entry_length((enum wire_entry_type)type) >= 16)
			entry.address = 0xfedcba9876543210;
		length = wire_put_entry(bytes, &entry);
		assert_int_equal(length, wire_entry_length((enum wire_entry_type)type));
		assert_int_equal(wire_get_entry(bytes, length, &back), length);
		assert_int_equal(back.type, type);
		assert_int_equal(back.transfer, entry.transfer);
		assert_int_equal(back.address, entry.address);
		assert_int_equal(back.length, entry.length);
		assert_int_equal(back.operand, entry.operand);
		assert_int_equal(back.compare, entry.compare);
		assert_int_equal(back.op, entry.op);
		assert_int_equal(back.width, entry.width);
		if (entry.get)
			assert_true(back.get);
		for (i = 0; i < length; i++)
			assert_int_equal(wire_get_entry(bytes, i, &back), 0);
		if (type == ENTRY_NACK || type == ENTRY_AGAIN) {
			bytes[2] = 64;
			assert_int_equal(wire_get_entry(bytes, length, &back), -1);
		}
		bytes[0] = ENTRY_TYPES;
		assert_int_equal(wire_get_entry(bytes, length, &back), -1);
	}
}

static void test_status_of_entries(void **state)
{
	struct wire_entry entry = { .type = ENTRY_DONE, .status = PF_ERR_FAULT }, back;
	static const uint8_t others[] = { 1, 127, (uint8_t)PF_ERR_AGAIN, (uint8_t)PF_ERR_PEER };
	uint8_t bytes[WIRE_ENTRY_MOST];
	unsigned i;

	assert_int_equal(wire_get_entry(bytes, wire_put_entry(bytes, &entry), &back), 16);
	assert_status(back.status, PF_ERR_FAULT);
	/* Other values that a peer sends become PF_ERR_FAULT. */
	for (i = 0; i < sizeof(others); i++) {
		bytes[2] = others[i];
		assert_int_equal(wire_get_entry(bytes, 16, &back), 16);
		assert_status(back.status, PF_ERR_FAULT);
	}
	entry.status = PF_ERR_REFUSED;
	assert_int_equal(wire_get_entry(bytes, wire_put_entry(bytes, &entry), &back), 16);
	assert_status(back.status, PF_ERR_REFUSED);
}

static void test_widen(void **state)
{
	assert_int_equal(wire_widen(0, 5), 5);
	assert_int_equal(wire_widen(5, 0), 0);
	assert_true(wire_widen(0xfffffffe, 3) == 0x100000003);
	assert_true(wire_widen(0x100000003, 0xfffffffe) == 0xfffffffe);
	/* There is no number below 0. */
	assert_true(wire_widen(2, 0xffffffff) == 0xffffffff);
}

#define RING 1024

/* Send bytes through a stream whose pieces are lost, duplicated and reordered. */
static void test_stream(void **state)
{
	struct random_numbers numbers = random_start("stream");
	struct stream_out out;
	struct stream_in in;
	struct {
		uint64_t position;
		uint32_t length;
		uint8_t bytes[64];
	} way[32];
	struct iovec pieces[STREAM_PIECES_MOST];
	uint64_t written = 0, read = 0, position;
	unsigned count = 0, i, pieces_count;
	uint8_t *bytes, elsewhere[128];
	bool memory;

	stream_out_init(&out, RING, 128, 1000);
	stream_in_init(&in, RING, 128, 1000);
	out.limit = NET_NEVER;
	while (read < REPEAT(400000)) {
		uint32_t length = (uint32_t)random_below(&numbers, 128) + 1;

		bytes = stream_out_reserve(&out, length, &memory);
		if (!bytes && out.size < 4 * RING && random_below(&numbers, 100) == 0)
			assert_true(stream_out_grow(&out));
		if (bytes) {
			/* Some of it lies elsewhere until it is kept. */
			stream_out_keep(&out);
			if (random_below(&numbers, 4) == 0) {
				memset(bytes, 0xee, length);
				bytes = elsewhere;
				stream_out_lend(&out, out.end, elsewhere, length);
			}
			for (i = 0; i < length; i++)
				bytes[i] = (uint8_t)((written + i) * 13);
			stream_out_commit(&out, length);
			written += length;
			if (random_below(&numbers, 2))
				stream_out_keep(&out);
		}
		length = stream_out_next(&out, (uint32_t)random_below(&numbers, 64) + 1, &position);
		if (length && count < 32) {
			way[count].position = position;
			way[count].length = length;
			pieces_count = stream_out_pieces(&out, position, length, pieces);
			for (i = 0, length = 0; i < pieces_count; i++) {
				memcpy(way[count].bytes + length, pieces[i].iov_base,
				       pieces[i].iov_len);
				length += (uint32_t)pieces[i].iov_len;
			}
			assert_int_equal(length, way[count].length);
			stream_out_sent(&out, position, length);
			count++;
		}
		if (!count || (count < 32 && random_below(&numbers, 2)))
			continue;
		i = (unsigned)random_below(&numbers, count);
		/* Without room for it the piece is lost. */
		if (random_below(&numbers, 100) == 0)
			(void)stream_in_grow(&in, way[i].position + way[i].length, 4 * RING);
		if (random_below(&numbers, 5) &&
		    stream_in_add(&in, way[i].position, way[i].bytes, way[i].length)) {
			if (random_below(&numbers, 8) == 0)
				continue;
			stream_out_acknowledged(&out, way[i].position, way[i].length);
		} else {
			stream_out_lost(&out, way[i].position, way[i].length);
		}
		way[i] = way[--count];
		while (in.taken < in.next) {
			length = (uint32_t)random_below(&numbers, 128) + 1;
			if (length > in.next - in.taken)
				length = (uint32_t)(in.next - in.taken);
			bytes = stream_in_peek(&in, length);
			for (i = 0; i < length; i++)
				assert_int_equal(bytes[i], (uint8_t)((read + i) * 13));
			read += length;
			in.taken += length;
		}
	}
	stream_out_destroy(&out);
	stream_in_destroy(&in);
}

/* A retransmitted piece covers one that has arrived and ends where the next one starts. */
static void test_other_pieces(void **state)
{
	static const uint8_t bytes[64];
	struct stream_out out;
	struct stream_in in;
	bool memory;

	stream_in_init(&in, RING, 128, 0);
	assert_true(stream_in_add(&in, 8, bytes, 8));
	assert_true(stream_in_add(&in, 24, bytes, 8));
	assert_true(stream_in_add(&in, 0, bytes, 24));
	assert_int_equal(in.next, 32);
	assert_int_equal(in.ahead.count, 0);
	stream_in_destroy(&in);

	stream_out_init(&out, RING, 128, 0);
	out.limit = NET_NEVER;
	assert_non_null(stream_out_reserve(&out, 64, &memory));
	stream_out_commit(&out, 64);
	stream_out_sent(&out, 0, 64);
	stream_out_acknowledged(&out, 8, 8);
	stream_out_acknowledged(&out, 24, 8);
	stream_out_acknowledged(&out, 0, 24);
	assert_int_equal(out.base, 32);
	assert_int_equal(out.acknowledged.count, 0);
	stream_out_destroy(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),       cmocka_unit_test(test_versions),
		cmocka_unit_test(test_hello),        cmocka_unit_test(test_frames),
		cmocka_unit_test(test_entries),      cmocka_unit_test(test_status_of_entries),
		cmocka_unit_test(test_widen),        cmocka_unit_test(test_stream),
		cmocka_unit_test(test_other_pieces),
	};

	return cmocka_run_group_tests_name("net_wire", tests, NULL, NULL);
}
