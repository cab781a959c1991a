/* SPDX-License-Identifier: BSD-3-Clause */
#include "activity.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Processor time since the last look above which a thread computes, ns. */
#define STARVED_MOST 1000000

enum activity_state activity_observe(const struct activity *activity,
				     struct activity_observer *observer)
{
	uint64_t polls = activity_read(&activity->polls);
	uint64_t moved_at = activity_read(&activity->moved_at);
	bool polled = polls != observer->polls, moved = moved_at != observer->moved_at;

	observer->polls = polls;
	observer->moved_at = moved_at;
	if (atomic_load_explicit(&((struct activity *)(uintptr_t)activity)->sleeps,
				 memory_order_relaxed))
		return ACTIVITY_WAITING;
	/* Signed: progress may have polled, and moved, between the two loads. */
	if (polled && (int64_t)(polls - moved_at) >= ACTIVITY_WAITING_POLLS)
		return ACTIVITY_WAITING;
	return moved ? ACTIVITY_POLLING : ACTIVITY_COMPUTING;
}

/*
 * Return the clock of a thread of the process by its number, as encoded by the kernel
 * (posix-timers.h) and made by pthread_getcpuclockid of a pthread_t, which may be gone.
 */
static clockid_t processor_clock(int thread)
{
	const unsigned per_thread = 4, scheduler = 2;

	return (clockid_t)(~(unsigned)thread << 3 | per_thread | scheduler);
}

static bool thread_processor_time(int thread, uint64_t *used)
{
	struct timespec time;

	if (clock_gettime(processor_clock(thread), &time))
		return false;
	*used = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
	return true;
}

bool activity_thread(int thread, bool *runnable, uint64_t *used)
{
	char path[64], text[512], state;
	const char *rest;
	FILE *file;

	if (!runnable)
		return thread_processor_time(thread, used);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	/* The name in brackets before the state may hold anything. */
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest + 1, " %c", &state) != 1)
		return false;
	*runnable = state == 'R';
	return thread_processor_time(thread, used);
}

bool activity_starved(int thread, uint64_t before, uint64_t used, uint64_t passed)
{
	bool runnable;

	return used - before < passed / 2 && used - before < STARVED_MOST &&
	       activity_thread(thread, &runnable, &used) && runnable;
}
