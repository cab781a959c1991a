/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_LONGEST 1024 /* bytes */

void log_open(struct log *log, enum pf_log_level most, _Atomic bool *news)
{
	log->wanted = true;
	log->most = most;
	log->news = news;
	pthread_mutex_init(&log->lock, NULL);
	STAILQ_INIT(&log->lines);
}

void log_close(struct log *log)
{
	if (!log->wanted)
		return;
	log->lost = 0;
	while (!STAILQ_EMPTY(&log->lines))
		free(log_take(log));
	pthread_mutex_destroy(&log->lock);
	log->wanted = false;
}

static struct log_line *log_line_new(pf_peer *peer, enum pf_log_level level, const char *text)
{
	const size_t length = strlen(text) + 1;
	struct log_line *line = malloc(sizeof(*line) + length);

	if (!line)
		return NULL;
	line->peer = peer;
	line->level = level;
	memcpy(line->text, text, length);
	return line;
}

void log_add(struct log *log, pf_peer *peer, enum pf_log_level level, const char *format, ...)
{
	char text[LINE_LONGEST];
	struct log_line *line;
	va_list arguments;

	if (!log_wants(log, level))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	line = log_line_new(peer, level, text);
	pthread_mutex_lock(&log->lock);
	if (line && log->count < LOG_LINES_MOST) {
		STAILQ_INSERT_TAIL(&log->lines, line, next);
		log->count++;
		line = NULL;
	} else {
		log->lost++;
	}
	pthread_mutex_unlock(&log->lock);
	free(line);
	atomic_store_explicit(log->news, true, memory_order_relaxed);
}

struct log_line *log_take(struct log *log)
{
	struct log_line *line;
	unsigned lost = 0;
	char text[64];

	pthread_mutex_lock(&log->lock);
	line = STAILQ_FIRST(&log->lines);
	if (line) {
		STAILQ_REMOVE_HEAD(&log->lines, next);
		log->count--;
	} else {
		lost = log->lost;
		log->lost = 0;
	}
	pthread_mutex_unlock(&log->lock);
	if (!lost)
		return line;
	snprintf(text, sizeof(text), "%u lines of the log were lost: call pf_progress", lost);
	return log_line_new(NULL, log->most, text);
}
