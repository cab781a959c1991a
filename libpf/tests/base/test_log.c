/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of pf_callbacks.log: of pf_open, of a peer from the first use to the end, and their bound. */
#include "pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "common/context.h"

#define MESSAGES 300
#define LINES 32

static struct {
	struct {
		pf_peer *peer;
		enum pf_log_level level;
		char text[512];
	} lines[LINES];
	unsigned count, at_end;
} told;

static void note_line(pf_context *context, pf_peer *peer, enum pf_log_level level, const char *text,
		      void *arg)
{
	assert_true(told.count < LINES);
	assert_null(strchr(text, '\n'));
	told.lines[told.count].peer = peer;
	told.lines[told.count].level = level;
	snprintf(told.lines[told.count++].text, sizeof(told.lines->text), "%s", text);
}

static void note_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		     const char *text, void *arg)
{
	told.at_end = told.count;
	pair_note_end(context, peer, reason, status, text, arg);
}

static void echo_and_close(struct pair *me)
{
	unsigned i;

	pair_await(me, 0, 1);
	for (i = 0; i < MESSAGES; i++)
		pair_check_status(me, pair_send(me, me->peer, 0, &i, sizeof(i)), PF_OK);
}

static unsigned count_lines(const pf_peer *peer, const char *start)
{
	unsigned count = 0, i;

	for (i = 0; i < told.count; i++)
		count += told.lines[i].peer == peer &&
			 !strncmp(told.lines[i].text, start, strlen(start));
	return count;
}

static void test_lines(void **state)
{
	struct pair *pair;
	unsigned i;

	memset(&told, 0, sizeof(told));
	pair = pair_open(state, .partner = echo_and_close, .receive_here = pair_count_message,
			 .log_here = note_line, .peer_event_here = note_end);
	/* pf_open calls no callback. */
	if (!told.count)
		(void)pair_progress(pair);
	assert_int_equal(count_lines(NULL, "calibration: "), 1);
	assert_int_equal(count_lines(NULL, "engine: "), 1);
	assert_int_equal(count_lines(NULL, "network: "), 1);
	assert_ok(pf_send(pair->peer, 0, "x", 1, NULL, 0));
	pair_say(pair, 1);
	while (!pair->errors.left)
		pf_progress(pair->context);
	assert_int_equal(pair->errors.received, MESSAGES);
	/* The path, and the end, before the callback of the end; messages add no line. */
	assert_int_equal(told.count, told.at_end);
	assert_int_equal(count_lines(pair->peer, "gone: the peer closed its context"), 1);
	assert_string_equal(told.lines[told.count - 1].text, pf_peer_path(pair->peer));
	assert_in_range(count_lines(pair->peer, ""), 2, 5);
	for (i = 0; i < told.count; i++)
		assert_int_equal(told.lines[i].level, PF_LOG_INFO);
	pair_end(pair);
}

/* A thread that adds lines does not wait for progress. */
static void test_lost(void **state)
{
	struct log log = { .wanted = false };
	_Atomic bool news = false;
	struct log_line *line;
	char text[16];
	unsigned i;

	log_add(&log, NULL, PF_LOG_INFO, "no callback");
	assert_false(news);
	log_open(&log, PF_LOG_INFO, &news);
	assert_null(log_take(&log));
	for (i = 0; i < LOG_LINES_MOST + 44; i++)
		log_add(&log, NULL, PF_LOG_INFO, "line %u", i);
	assert_true(news);
	for (i = 0; i < LOG_LINES_MOST; i++) {
		line = log_take(&log);
		assert_non_null(line);
		snprintf(text, sizeof(text), "line %u", i);
		assert_string_equal(line->text, text);
		free(line);
	}
	line = log_take(&log);
	assert_non_null(line);
	assert_non_null(strstr(line->text, "44 lines"));
	assert_int_equal(line->level, PF_LOG_INFO);
	free(line);
	assert_null(log_take(&log));
	log_add(&log, NULL, PF_LOG_WARNING, "dropped");
	log_close(&log);

	log_open(&log, PF_LOG_WARNING, &news);
	log_add(&log, NULL, PF_LOG_INFO, "not wanted");
	assert_null(log_take(&log));
	for (i = 0; i < LOG_LINES_MOST + 1; i++)
		log_add(&log, NULL, PF_LOG_WARNING, "line %u", i);
	for (i = 0; i < LOG_LINES_MOST; i++)
		free(log_take(&log));
	line = log_take(&log);
	assert_non_null(line);
	assert_int_equal(line->level, PF_LOG_WARNING);
	free(line);
	log_close(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_lines),
		cmocka_unit_test(test_lost),
	};

	return pair_run_tests("log", tests);
}
