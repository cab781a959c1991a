/* SPDX-License-Identifier: BSD-3-Clause */
#include "window.h"

#include "base/check.h"

static bool window_test(const struct window *window, uint64_t number)
{
	return window->bits[number / 64 % (WINDOW_NUMBERS / 64)] >> number % 64 & 1;
}

void window_init(struct window *window)
{
	unsigned i;

	*window = (struct window){ .due = NET_NEVER, .due_whole = NET_NEVER };
	for (i = 0; i < WINDOW_REPEAT; i++)
		window->news[i] = NET_NEVER;
}

bool window_seen(const struct window *window, uint64_t number)
{
	if (number >= window->next)
		return false;
	return window->next - number > WINDOW_NUMBERS || window_test(window, number);
}

/* Clear the places of the numbers [from, to), in use by numbers WINDOW_NUMBERS earlier. */
static void window_clear(struct window *window, uint64_t from, uint64_t to)
{
	assert_that(from <= to);
	if (to - from >= WINDOW_NUMBERS) {
		memset(window->bits, 0, sizeof(window->bits));
		return;
	}
	for (; from < to; from++)
		window->bits[from / 64 % (WINDOW_NUMBERS / 64)] &= ~(1ull << from % 64);
}

/* Send an acknowledgement by time. part: the packet ends with a part of a message. */
static void due_by(struct window *window, uint64_t time, bool part)
{
	if (time < window->due)
		window->due = time;
	if (!part && time < window->due_whole)
		window->due_whole = time;
}

void window_demand(struct window *window, uint64_t now)
{
	due_by(window, now, false);
}

void window_take(struct window *window, uint64_t number, uint64_t now, uint64_t arrived,
		 enum window_ask ask, bool mark, uint64_t delay)
{
	bool gap = number != window->next;
	unsigned most = ask == WINDOW_PROMPT ? 1 : WINDOW_ANSWERED;

	assert_that(!window_seen(window, number) && arrived <= now);
	if (number >= window->next) {
		window_clear(window, window->next, number + 1);
		window->next = number + 1;
		window->largest_time = arrived;
	}
	window->bits[number / 64 % (WINDOW_NUMBERS / 64)] |= 1ull << number % 64;
	if (number < window->news[0])
		window->news[0] = number;
	if (mark)
		window->marks++;
	if (ask == WINDOW_NOTHING)
		return;
	if (ask == WINDOW_WHOLE)
		window->due = window->due_whole;
	if (gap || mark) {
		window_demand(window, now);
		return;
	}
	if (++window->unacknowledged > most && delay > WINDOW_MOMENT)
		delay = WINDOW_MOMENT;
	due_by(window, now + delay, ask == WINDOW_PART);
}

/* Return the bits of number, number - 1, ... number - 63, from bit 0 on. */
static uint64_t window_backwards(const struct window *window, uint64_t number)
{
	unsigned word = (unsigned)(number / 64 % (WINDOW_NUMBERS / 64)), shift = number % 64;
	uint64_t bits = window->bits[word] << (63 - shift);

	if (shift < 63)
		bits |= window->bits[(word + WINDOW_NUMBERS / 64 - 1) % (WINDOW_NUMBERS / 64)] >>
			(shift + 1);
	/* Bit 63 is now the bit of number: reverse the bits. */
	bits = __builtin_bswap64(bits);
	bits = (bits & 0x0f0f0f0f0f0f0f0full) << 4 | (bits >> 4 & 0x0f0f0f0f0f0f0f0full);
	bits = (bits & 0x3333333333333333ull) << 2 | (bits >> 2 & 0x3333333333333333ull);
	return (bits & 0x5555555555555555ull) << 1 | (bits >> 1 & 0x5555555555555555ull);
}

void window_acknowledge(struct window *window, uint64_t now, struct wire_frame *frame,
			struct net_owed *before)
{
	uint64_t largest = window->next - 1, lowest = largest, delay = now - window->largest_time;
	unsigned i, words;

	assert_that(window->next && now >= window->largest_time);
	for (i = 0; i < WINDOW_REPEAT; i++) {
		if (window->news[i] < lowest)
			lowest = window->news[i];
	}
	words = (unsigned)((largest - lowest) / 64) + 1;
	if (words > WIRE_ACK_WORDS)
		words = WIRE_ACK_WORDS;
	frame->type = FRAME_ACK;
	frame->ack.words = (uint8_t)words;
	frame->ack.delay = delay < UINT32_MAX ? (uint32_t)delay : UINT32_MAX;
	frame->ack.largest = (uint32_t)largest;
	frame->ack.marks = window->marks;
	for (i = 0; i < words; i++)
		frame->ack.bits[i] = window_backwards(window, largest - 64 * (uint64_t)i);
	*before = (struct net_owed){ .due = window->due,
				     .forgotten = window->news[WINDOW_REPEAT - 1],
				     .unacknowledged = window->unacknowledged };
	memmove(window->news + 1, window->news, (WINDOW_REPEAT - 1) * sizeof(window->news[0]));
	window->news[0] = NET_NEVER;
	window->unacknowledged = 0;
	window->due = window->due_whole = NET_NEVER;
}

/*
 * Each number is in WINDOW_REPEAT acknowledgements because acknowledgements may be lost. An
 * acknowledgement that did not leave must not count: while the socket is full, several in a row do
 * not leave, and the peer would never learn of the packets before.
 */
void window_unsent(struct window *window, const struct net_owed *before)
{
	assert_that(before->due != NET_NEVER);
	if (window->news[1] < window->news[0])
		window->news[0] = window->news[1];
	memmove(window->news + 1, window->news + 2, (WINDOW_REPEAT - 2) * sizeof(window->news[0]));
	window->news[WINDOW_REPEAT - 1] = before->forgotten;
	window->unacknowledged += before->unacknowledged;
	due_by(window, before->due, false);
}
