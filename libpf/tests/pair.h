/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test and its partners: other processes, or threads with contexts of their
 * own, which know each other's addresses and share some memory besides.
 *
 * Sides are numbered: 0 is the test, partners follow from 1. A partner's
 * failure is the test's, a hang is a failure after PAIR_SECONDS, and no
 * partner outlives the test that started it.
 */
#ifndef PF_TESTS_PAIR_H
#define PF_TESTS_PAIR_H

#include <stdatomic.h>

#include "pf.h"
#include "unit.h"

#define PAIR_SIDES 17
#define PAIR_VALUES 8
#define PAIR_SECONDS 60

struct pair {
	pf_context *context;
	pf_peer *peer; /* partners: the test; the test: its first partner */
	unsigned side, partners;
	/*
	 * Memory that every side has mapped, the same file behind it: so either
	 * side can fill it and look what became of it, but each may change its
	 * own mapping. Processes have it at the same address, threads do not.
	 */
	uint8_t *window;
	struct pair_shared *shared;
	void *user; /* of the side itself */
};

struct pair_setup {
	unsigned partners; /* 0: one */
	bool thread;
	pf_options here, there;           /* of the test, of the partners; from pair_options */
	size_t window;                    /* bytes */
	void (*prepare)(struct pair *me); /* of the partner, before it opens its context */
	void (*opened)(struct pair *me);  /* of each side, before its address is known */
	void (*partner)(struct pair *me); /* NULL: pair_serve */
	/* Of the partner, and of the test; arg is the struct pair of the side. */
	pf_receive_fn receive, receive_here;
	pf_error_fn error, error_here;
};

/*
 * The defaults, whatever the environment says, but for PF_TRANSPORT: with
 * PF_TRANSPORT=device the tests of transfers run over /dev/exanest.
 */
pf_options pair_options(void);
/* Do they? */
static inline bool pair_on_device(const pf_options *options)
{
	return options->transport == PF_TRANSPORT_DEVICE;
}
struct pair *pair_start(const struct pair_setup *setup);
/* Tells the partners to end, and sees that they ended well. */
void pair_end(struct pair *pair);
/* For cmocka: after a test that did not come to pair_end. */
int pair_teardown(void **state);
/* SIGKILL, and wait until it is dead. */
void pair_kill(struct pair *pair, unsigned side);
/* Wait for it to end by itself; pair_end does not wait for it then. */
void pair_wait_exit(struct pair *pair, unsigned side);
/* The process of a partner. */
int pair_pid(const struct pair *pair, unsigned side);

/* The peer that stands for another side (or for this one). */
pf_peer *pair_peer(struct pair *me, unsigned side);

/* Numbers that all sides see, PAIR_VALUES for each. */
_Atomic uint64_t *pair_value(struct pair *me, unsigned side, unsigned which);

/* Steps that a side has come to, for the others to wait for. They only grow. */
void pair_say(struct pair *me, unsigned step);
/* Wait in pf_progress; and without it. */
void pair_await(struct pair *me, unsigned side, unsigned step);
void pair_watch(struct pair *me, unsigned side, unsigned step);
/* Progress once; false when the test has told its partners to end. Fails when another side failed. */
bool pair_progress(struct pair *me);
/* What a partner does that has nothing else to do: progress until the end. */
void pair_serve(struct pair *me);

/* End a partner, and fail the test, with this text. In the test itself: fail_msg. */
void pair_fail(struct pair *me, const char *file, int line, const char *text);
#define pair_check(me, condition)                                                                  \
	do {                                                                                       \
		if (!(condition))                                                                  \
			pair_fail(me, __FILE__, __LINE__, #condition);                             \
	} while (0)

#define pair_check_status(me, call, expected)                                                      \
	do {                                                                                       \
		int found_ = (call);                                                               \
		if (found_ != (expected))                                                          \
			pair_fail(me, __FILE__, __LINE__, pf_strerror(found_));                    \
	} while (0)

/* Completions that came for it, the last of them, and the last that was none of success. */
struct pair_done {
	unsigned count, failed;
	pf_completion last, failure;
};
/* A pf_complete_fn; arg is a struct pair_done. */
void pair_completed(pf_context *context, const pf_completion *completion);
/* Wait for so many completions. */
void pair_await_done(struct pair *me, const struct pair_done *done, unsigned count);
/* Transfer and wait; an error at posting comes as the completion's status. */
pf_completion pair_put(struct pair *me, pf_peer *peer, const void *local, uint64_t remote,
		       size_t length);
pf_completion pair_get(struct pair *me, pf_peer *peer, void *local, uint64_t remote, size_t length);
pf_completion pair_atomic(struct pair *me, pf_peer *peer, enum pf_atomic_op op, unsigned width,
			  uint64_t remote, uint64_t operand, uint64_t compare);
/* Send, with progress while there is no room; the status in the end. */
int pair_send(struct pair *me, pf_peer *peer, uint8_t tag, const void *data, size_t length);

/* Where another side has what is here in this side's window. */
uint64_t pair_there(struct pair *me, unsigned side, const void *mine);

static inline uint64_t remote_address(const void *address)
{
	return (uint64_t)(uintptr_t)address;
}

#endif
