/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checker for code without locks, which runs the real functions of the library on a simulated
 * machine with weakly ordered memory, through every execution that this machine can have.
 *
 * Included before the code under test, this header replaces the macros of <stdatomic.h>, so that
 * each access becomes a step of the simulation. Threads are coroutines. At each step the checker
 * chooses which thread goes on, which stored value becomes visible, and which value a load
 * returns; it takes all choices in turn, and does not visit a state twice.
 *
 * The machine:
 *   - A store waits in its thread's buffer and leaves it in any order, except after an earlier
 *     store to the same place; and a release store only after all earlier stores. It becomes
 *     visible to all other threads at once (as on arm64, x86 and RISC-V, not on POWER).
 *   - A load may be performed early: it returns any value that the place had since the last
 *     acquire or fence of its thread was performed, but none older than the thread has seen there.
 *   - A read-modify-write is performed at once, with release after all earlier stores; a
 *     sequentially consistent fence, after all earlier stores and before all later loads.
 *   - A futex as the kernel's, without time limits.
 *   - Plain data (weak_write, weak_read) may be accessed by one thread after another only if a
 *     release store or read-modify-write, and the acquire that read it, are between: the rule of
 *     C11. That also finds loads that are performed after a later store became visible.
 *
 * Not covered: atomic loads performed after later atomic stores of their thread; order by
 * dependent addresses, which does not count as order; sequentially consistent loads and stores.
 *
 * Each place in the code that asks for an order is a site. weak_check runs the scenario as it is,
 * in which nothing may fail, then once for each site with that order taken away, which has to fail.
 */
#ifndef PF_TESTS_WEAK_H
#define PF_TESTS_WEAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weak_site {
	const char *function, *access;
	struct weak_site *next;
	bool listed;
};

#define WEAK_THREADS 3

struct weak_scenario {
	const char *name;
	/* There is plain data. Without, the states are fewer. */
	bool plain;
	/* Set memory up: directly, not by atomic operations. */
	void (*start)(void);
	void (*threads[WEAK_THREADS])(void);
};

/* All executions; false if one fails, or if none fails without the order of a site. Prints why. */
bool weak_check(const struct weak_scenario *scenario);

/* For the threads of a scenario. */
void weak_require(bool condition, const char *what);
/* Go on only after some store of another thread became visible, with all that is visible now. */
void weak_pause(void);
/* Of all that the thread has read before, only this matters from here on. */
void weak_remember(uint64_t all);
/* Plain data of 8 bytes. */
void weak_write(void *place, uint64_t value);
uint64_t weak_read(void *place);
/* Replaces syscall(2): FUTEX_WAIT and FUTEX_WAKE. */
long weak_futex(long number, void *word, int operation, int value, ...);

uint64_t weak_load(struct weak_site *site, void *place, size_t size, memory_order order);
void weak_store(struct weak_site *site, void *place, size_t size, uint64_t value,
		memory_order order);
void weak_fence(struct weak_site *site, memory_order order);
/* An addition (exchange: a replacement). Returns the value before. */
uint64_t weak_modify(struct weak_site *site, void *place, size_t size, uint64_t value,
		     bool exchange, memory_order order);
bool weak_compare_exchange(struct weak_site *site, void *place, size_t size, uint64_t *expected,
			   uint64_t value, memory_order order);

#define WEAK_SITE(name)                                                                            \
	({                                                                                         \
		static struct weak_site site_;                                                     \
		site_.function = __func__;                                                         \
		site_.access = (name);                                                             \
		&site_;                                                                            \
	})
/* Without the qualifier _Atomic; in braces, because the value may be unused. */
#define WEAK_VALUE(place, value) ({ (__typeof__(*(place) + 0))(value); })

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_thread_fence
#define atomic_load_explicit(place, order)                                                         \
	WEAK_VALUE(place, weak_load(WEAK_SITE("load"), (void *)(place), sizeof(*(place)), order))
#define atomic_store_explicit(place, value, order)                                                 \
	weak_store(WEAK_SITE("store"), (void *)(place), sizeof(*(place)), (uint64_t)(value), order)
#define WEAK_MODIFY(name, place, value, exchange, order)                                           \
	WEAK_VALUE(place, weak_modify(WEAK_SITE(name), (void *)(place), sizeof(*(place)), value,   \
				      exchange, order))
#define atomic_exchange_explicit(place, value, order)                                              \
	WEAK_MODIFY("exchange", place, (uint64_t)(value), true, order)
#define atomic_fetch_add_explicit(place, value, order)                                             \
	WEAK_MODIFY("add", place, (uint64_t)(value), false, order)
#define atomic_fetch_sub_explicit(place, value, order)                                             \
	WEAK_MODIFY("subtract", place, -(uint64_t)(value), false, order)
#define atomic_compare_exchange_weak_explicit(place, expected, value, order, failure)              \
	weak_compare_exchange(WEAK_SITE("compare and exchange"), (void *)(place),                  \
			      sizeof(*(place)), expected, (uint64_t)(value), order)
#define atomic_thread_fence(order) weak_fence(WEAK_SITE("fence"), order)

#endif
