/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs of the suite have in common. */
#ifndef CONFORMANCE_TEST_H
#define CONFORMANCE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "guest.h"
#include "wire.h"

#define NODE 1u  /* the engine under test */
#define OTHER 2u /* a peer, played by the test or another engine */
#define THIRD 3u

/* The state of a test: a guest that is enabled. */
static inline int test_open(void **state)
{
	struct guest *guest = malloc(sizeof(*guest));

	if (!guest)
		return -1;
	guest_open(guest, &conformance_adapter, NODE);
	guest_enable(guest);
	*state = guest;
	return 0;
}

static inline int test_close(void **state)
{
	guest_close(*state);
	free(*state);
	return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, test_open, test_close)

/* Bytes that differ at each place and for each seed. */
static inline void test_fill(void *bytes, size_t length, unsigned int seed)
{
	uint8_t *byte = bytes;
	size_t i;

	for (i = 0; i < length; i++)
		byte[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + seed);
}

/* Reads and writes of a space's memory, page by page. */
static inline void test_store(struct guest *guest, const struct tables *tables, uint64_t address,
			      const void *bytes, size_t length)
{
	const uint8_t *from = bytes;

	for (; length; length--)
		*(uint8_t *)guest_at(guest, tables, address++) = *from++;
}

static inline bool test_equal(struct guest *guest, const struct tables *tables, uint64_t address,
			      const void *bytes, size_t length)
{
	const uint8_t *expected = bytes;

	for (; length; length--)
		if (*(uint8_t *)guest_at(guest, tables, address++) != *expected++)
			return false;
	return true;
}

/* The next packet of the engine is of that type, and its header is right. */
static inline void test_expect(struct guest *guest, struct wire *wire, uint8_t type)
{
	wire->length = guest_transmit(guest, wire->bytes);
	if (!wire->length)
		fail_msg("no packet where one of type %u is due", type);
	assert_int_equal(wire->bytes[0], 1);
	assert_int_equal(wire->bytes[1], type);
	assert_int_equal(wire_get32(wire, 4), wire->length);
	assert_int_equal(wire->bytes[2] | wire->bytes[3] | wire_get32(wire, 44), 0);
	assert_int_equal(wire_get32(wire, 8), NODE);
	assert_int_equal(wire_get32(wire, 12), OTHER);
	assert_int_equal(wire_get64(wire, 16), 1000 + NODE);
}

static inline void test_expect_nothing(struct guest *guest)
{
	uint8_t packet[GUEST_PACKET];

	assert_int_equal(guest_transmit(guest, packet), 0);
}

#endif
