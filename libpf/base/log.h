/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines for pf_callbacks.log: any thread adds lines, also under a lock; progress delivers. A log
 * without the callback costs a load.
 */
#ifndef PF_LOG_H
#define PF_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <libpf/pf.h>

/* Lines that wait at a time; pf.h promises the bound. */
#define LOG_LINES_MOST 256

struct log_line {
	STAILQ_ENTRY(log_line) next;
	pf_peer *peer; /* NULL: of the context */
	enum pf_log_level level;
	char text[];
};

struct log {
	bool wanted; /* false: nothing below is set */
	enum pf_log_level most;
	_Atomic bool *news; /* set when a line waits */
	pthread_mutex_t lock;
	STAILQ_HEAD(, log_line) lines;
	unsigned count, lost;
};

/* most: lines of later levels are dropped at once. */
void log_open(struct log *log, enum pf_log_level most, _Atomic bool *news);
/* Drop the lines that wait. */
void log_close(struct log *log);
static inline bool log_wants(const struct log *log, enum pf_log_level level)
{
	return log->wanted && level <= log->most;
}

/* Any thread: add a line, or count it as lost without room or memory. */
void log_add(struct log *log, pf_peer *peer, enum pf_log_level level, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Return the oldest line, or NULL. The caller frees the line. */
struct log_line *log_take(struct log *log);

#endif
