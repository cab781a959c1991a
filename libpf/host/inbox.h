/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a process is called when it does not look: one page of shared memory
 * that every process that sends to it maps.
 *
 * A reader polls the few channels that carried something lately. The writer
 * of any other channel marks its slot and rings the bell (two plain stores),
 * so the cost of an idle poll does not grow with the number of silent peers.
 * A reader with nothing to do may sleep on the futex word.
 *
 * The writer's order is: message, then a look at "polled", mark and bell, and,
 * if the reader ever sleeps, a fence and a look at "sleeping". The reader's is:
 * "sleeping", a fence, then a last look at the bell. So one of them sees the
 * other. A reader that announces its sleep INBOX_ANNOUNCED_POLLS polls ahead needs no
 * fence of its writers, which is 7 % of a barrier of 64 ranks on two cores:
 * what they wrote before they looked at "sleeping" has left their store buffers
 * by then, or, if one was stopped just there, is found when the sleep's time is
 * over. There is no fence before "polled", as it would cost every message: a
 * bell that is not rung for that reason is made up for by the reader's rotation
 * over all channels; one that ever sleeps never claims to poll. (membarrier by
 * the reader would spare the writer its fence too, but was measured at 15 us in
 * a virtual machine, for every sleep.)
 */
#ifndef PF_INBOX_H
#define PF_INBOX_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A multiple of 8. */
#define INBOX_SLOTS (4096 - 16)
#define INBOX_NO_SLOT UINT32_MAX

#define INBOX_ANNOUNCED_POLLS 32

enum inbox_sleeper {
	INBOX_NEVER_SLEEPS,    /* always */
	INBOX_SLEEPS_AT_ONCE,  /* it falls asleep with the announcement */
	INBOX_SLEEPS_ANNOUNCED /* INBOX_ANNOUNCED_POLLS polls after it */
};

/* A writer that rings touches all of them: for the first few peers that is one cache line. */
struct inbox_memory {
	_Atomic uint32_t bell;
	uint32_t sleeper; /* enum inbox_sleeper; constant */
	_Atomic uint32_t sleeping;
	_Atomic uint8_t overflow; /* a writer without a slot has rung */
	alignas(8) _Atomic uint8_t pending[INBOX_SLOTS];
};

struct inbox {
	struct inbox_memory *memory;
	int fd; /* -1 in those who only map it */
};

int inbox_create(struct inbox *inbox, enum inbox_sleeper sleeper);
/* Takes over fd, also when it fails. */
int inbox_map(struct inbox *inbox, int fd);
void inbox_destroy(struct inbox *inbox);

static inline void inbox_ring(struct inbox_memory *memory, uint32_t slot)
{
	atomic_store_explicit(slot < INBOX_SLOTS ? &memory->pending[slot] : &memory->overflow, 1,
			      memory_order_relaxed);
	atomic_store_explicit(&memory->bell, 1, memory_order_release);
}

void inbox_wake_sleeper(struct inbox_memory *memory);

/* After a message to a reader that sleeps at times, or after any other news for it. */
static inline void inbox_wake(struct inbox_memory *memory, enum inbox_sleeper sleeper)
{
	if (sleeper != INBOX_SLEEPS_ANNOUNCED)
		atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&memory->sleeping, memory_order_relaxed))
		inbox_wake_sleeper(memory);
}

/*
 * Reader: announce sleep, so that every message not seen after this call
 * returns will wake it; then look around once more, then inbox_sleep or
 * inbox_stay_awake.
 */
void inbox_announce_sleep(struct inbox *inbox);
void inbox_sleep(struct inbox *inbox, uint64_t microseconds);
void inbox_stay_awake(struct inbox *inbox);

#endif
