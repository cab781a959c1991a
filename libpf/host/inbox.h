/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inbox of a process: a page of shared memory that every sending process maps. A writer marks
 * there the channel that has messages. The end of the page tells whether the process lives
 * (life.h).
 *
 * A reader polls only the few channels that had messages lately ("polled" in channel.h). The writer
 * of any other channel sets its mark and rings the bell, two stores: the cost of an idle poll does
 * not grow with the number of silent peers. A reader with nothing to do may sleep on the futex word
 * "sleeping".
 *
 * Order of memory accesses, on x86 and arm64 alike:
 *
 *     writer                              reader
 *     W1  header = ...   release          R1  bell = 0      exchange, seq_cst
 *     W2  polled?        relaxed          R2  mark = 0      exchange, acquire
 *     W3  mark = 1       release          R3  header?       acquire
 *     W4  bell = 1       release
 *     W5  fence          seq_cst          S1  sleeping = 1  relaxed
 *     W6  sleeping?      relaxed          S2  fence         seq_cst
 *                                         S3  bell?         relaxed
 *
 *   - W1 before W3: a reader that takes the mark finds the message. If the mark became
 *     visible first, a reader brought here by another writer's bell would take the mark, find
 *     no message, and later find a bell without a mark (a relaxed W3 on arm64; x86 keeps
 *     stores in order).
 *   - W3 before W4, R1 before R2: a reader that takes the bell finds the mark. A mark set
 *     after R2 rings the bell after R1, and the reader comes back. If a second writer's W4
 *     overwrites the W4 of the first before R1, the C11 rules order R1 after the second W4
 *     only. x86 and arm64 order R1 after both: a store becomes visible to all other
 *     processors at once.
 *   - W4, W5, W6 and S1, S2, S3: each side stores, then loads the word of the other side, with
 *     a full fence between. Either the reader sees the bell, or the writer sees that
 *     the reader sleeps and wakes the reader.
 *   - W1 and W2 are a store and a load without a fence, which would cost every message: a
 *     writer may see "polled" when the reader has just stopped polling. The reader visits
 *     all other channels in rotation and finds the message. A reader that ever sleeps
 *     does not rely on the rotation: its writers do not look at "polled" and always ring.
 *
 * A reader that announces sleep INBOX_ANNOUNCED_NANOSECONDS ahead spares the writers W5 (7 % of a
 * barrier of 64 ranks on two cores). By S3, a writer's stores before W6 have left the store buffer.
 * If not, because the writer was stopped just there, the reader finds the stores at the end of the
 * sleep's time. (The reader could spare the writers W5 with membarrier(2) as well, but membarrier
 * took 15 us for each sleep in a virtual machine.)
 *
 * An announcement may stand while the reader wakes in vain, looks, and sleeps again (inbox_wait).
 * Then S1 and S2 were long before S3. A writer that rings after S3 finds sleeping == 1, and the
 * writer's exchange lets the futex return at once, or another writer's did.
 *
 * A sleeper may be progress, or the thread that waits for a program that polls a descriptor
 * (context/waiter.h), or both. Therefore a writer wakes all, and only progress, which announced a
 * sleep, takes the announcement back.
 *
 * tests/host/test_weak.c runs the functions on a simulated weakly ordered machine: no message is
 * lost, and a message is lost if any order of W3 to W5, R1, R2 or S2 is taken away.
 */
#ifndef PF_INBOX_H
#define PF_INBOX_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/slept.h"
#include "life.h"

/* Fills a page of 4 KiB; a multiple of 8, because the reader looks at 8 marks at a time. */
#define INBOX_SLOTS (4096 - 8 - INBOX_LINE - 8 - LIFE_BYTES - INBOX_REST)
/* Bytes of a line for one word, and before the line of sleeping. */
#define INBOX_LINE 64
#define INBOX_REST 48
#define INBOX_NO_SLOT UINT32_MAX

/*
 * Time between the announcement of a sleep and the sleep, ns: the stores of a writer leave the store
 * buffer within some ten transfers of a cache line, of up to 170 ns (benchmarks/promises). The load
 * of sleeping does not wait for the stores.
 */
#define INBOX_ANNOUNCED_NANOSECONDS 5000

enum inbox_sleeper {
	INBOX_NEVER_SLEEPS,
	INBOX_SLEEPS_AT_ONCE,   /* at the announcement: a writer needs a fence */
	INBOX_SLEEPS_ANNOUNCED, /* INBOX_ANNOUNCED_NANOSECONDS later */
};

/*
 * A writer that rings stores to the bell and to a mark: for the first 56 peers in one cache line.
 * Then the writer loads sleeping, which lies in another line: a load of the line just stored to would
 * wait until the line has come from the other writers and the reader, the stores do not.
 */
struct inbox_memory {
	_Atomic uint32_t bell;    /* 1: marks were set since the reader looked last */
	_Atomic uint8_t overflow; /* the common mark of all writers without a slot */
	alignas(8) _Atomic uint8_t pending[INBOX_SLOTS]; /* marks by slot */
	/*
	 * 1: the reader copies own transfers, and takes no part in the transfers of peers (share.h). A
	 * hint, in a line of its own: copies load the line behind.
	 */
	_Atomic uint32_t moving;
	uint32_t unused[(INBOX_LINE + INBOX_REST) / 4 - 1];
	_Atomic uint32_t sleeping; /* 1: the reader sleeps, or is about to; a futex */
	_Atomic uint32_t sleeper;  /* enum inbox_sleeper; constant once a writer knows the inbox */
};

struct inbox {
	struct inbox_memory *memory; /* in the reader, a private page follows: life_begin */
	int fd;                      /* -1 in a writer */
};

/* Returns PF_OK, PF_ERR_MEMORY or PF_ERR_SYSTEM. */
int inbox_create(struct inbox *inbox, enum inbox_sleeper sleeper);
/* Map a peer's inbox; fd stays the caller's. PF_ERR_ARGUMENT: not an inbox. */
int inbox_view(struct inbox *inbox, int fd);
/* Map a peer's inbox, and close fd, also on failure. */
int inbox_map(struct inbox *inbox, int fd);
void inbox_destroy(struct inbox *inbox);

static inline enum inbox_sleeper inbox_sleeper(const struct inbox_memory *memory)
{
	return (enum inbox_sleeper)atomic_load_explicit(
		&((struct inbox_memory *)(uintptr_t)memory)->sleeper, memory_order_relaxed);
}

static inline bool inbox_is_moving(const struct inbox_memory *memory)
{
	return atomic_load_explicit(&((struct inbox_memory *)(uintptr_t)memory)->moving,
				    memory_order_relaxed) != 0;
}

/* Writer: set the mark of the slot and ring the bell. */
static inline void inbox_ring(struct inbox_memory *memory, uint32_t slot)
{
	atomic_store_explicit(slot < INBOX_SLOTS ? &memory->pending[slot] : &memory->overflow, 1,
			      memory_order_release);
	atomic_store_explicit(&memory->bell, 1, memory_order_release);
}

void inbox_wake_sleeper(struct inbox_memory *memory);

/*
 * Wake the reader if asleep: after inbox_ring, or after another store that the reader looks at
 * before sleep. sleeper: the reader's, or INBOX_SLEEPS_AT_ONCE for a fence in any case.
 */
static inline void inbox_wake(struct inbox_memory *memory, enum inbox_sleeper sleeper)
{
	if (sleeper != INBOX_SLEEPS_ANNOUNCED)
		atomic_thread_fence(memory_order_seq_cst);
	else
		/* The store comes first in the program, and leaves the processor by itself. */
		atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&memory->sleeping, memory_order_relaxed))
		inbox_wake_sleeper(memory);
}

/*
 * Reader: clear the bell, before looking at the marks: a writer that marks later rings again.
 */
static inline void inbox_take_bell(struct inbox_memory *memory)
{
	atomic_exchange_explicit(&memory->bell, 0, memory_order_seq_cst);
}

/*
 * Reader, with the bell taken: may one of the eight marks from slot on be set? One relaxed load; a
 * mark set meanwhile is found at the next bell.
 */
static inline bool inbox_any_mark(struct inbox_memory *memory, uint32_t slot)
{
	return atomic_load_explicit((_Atomic uint64_t *)(void *)&memory->pending[slot],
				    memory_order_relaxed) != 0;
}

/* Reader, with the bell taken: clear the mark. False if the mark was not set. */
static inline bool inbox_take_mark(_Atomic uint8_t *mark)
{
	return atomic_exchange_explicit(mark, 0, memory_order_acquire);
}

/* The data of a writer to announce a message. */
struct bell {
	struct inbox_memory *inbox; /* of the reader, mapped */
	uint32_t slot;              /* of the writer in inbox */
	enum inbox_sleeper sleeper; /* may the reader be asleep? */
};

/* Writer: did the reader sleep a moment ago? */
static inline bool bell_sleeps(const struct bell *bell)
{
	return atomic_load_explicit(&bell->inbox->sleeping, memory_order_relaxed);
}

/* Writer: announce a message to a reader that may be asleep. */
static inline void bell_ring(const struct bell *bell)
{
	inbox_ring(bell->inbox, bell->slot);
	inbox_wake(bell->inbox, bell->sleeper);
}

/*
 * Reader: announce sleep. A later store of a writer, if the reader does not find the store in one
 * more look at the bell, wakes the reader. Then call inbox_wait, unless there was something to
 * find, and inbox_stay_awake.
 */
void inbox_announce_sleep(struct inbox *inbox);
/*
 * Sleep for at most the given time; a writer that saw the announcement ends the sleep. The
 * announcement stays. Another thread of the reader may sleep in place of the reader.
 */
enum slept inbox_wait(struct inbox *inbox, uint64_t microseconds);
/* Take the announcement back. */
void inbox_stay_awake(struct inbox *inbox);
/* Take the announcement back, and end all sleeps. */
void inbox_end_sleeps(struct inbox *inbox);

#endif
