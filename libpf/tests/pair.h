/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test and its partners: other processes, or threads with contexts of their own. They know each
 * other's addresses and share some memory.
 *
 * Sides are numbered: 0 is the test, partners follow from 1. When a partner fails, the test fails.
 * When nothing ends it within PAIR_SECONDS, the program says which test hung and fails. No partner
 * outlives its test.
 *
 * A variant of a program is a symbolic link to it, whose name says after '-' what differs:
 * test_send-threads has every partner in a thread, test_send-net reaches them over the network of
 * this host, and test_fault-net-full and test_fault-net-encrypt set pf_options.auth too. Any other
 * word ends the program with an error.
 *
 * pair_* functions can be called by any side: in the test a failure is a cmocka failure, in a
 * partner it ends the partner and fails the test.
 */
#ifndef PF_TESTS_PAIR_H
#define PF_TESTS_PAIR_H

#include <stdatomic.h>

#include "unit.h"

#define PAIR_SIDES 17
#define PAIR_VALUES 8
#define PAIR_ARGUMENTS 8
#define PAIR_SECONDS 60
#define PAIR_DONE (UINT32_MAX - 1) /* the step of a partner whose setup.work has returned */

/* Configurations that tests are repeated in. */
enum pair_mode {
	MODE_DEFAULT,
	MODE_SHORT,     /* the default; the test takes short buffers */
	MODE_SHARE_ALL, /* both ends move even short transfers */
	MODE_ALONE,     /* the initiator moves every block */
	MODE_STREAM,    /* through the ring, no single copy */
	MODE_SMALL_RING,
	MODE_SMALL_RING_STREAM,
	MODE_NO_GROWTH, /* rings stay at their first size */
	MODE_SHORT_RUNS,
	MODE_SMALL_BLOCKS,
	MODE_THREADS, /* pf_options.threads */
	MODE_WAIT,    /* pair_progress calls pf_wait */
};

/* Ends of peers reported by the context, if setup.peer_event is pair_note_end. */
struct pair_errors {
	unsigned count;    /* peers that failed */
	unsigned left;     /* peers that closed the context */
	int status;        /* of the last one that failed */
	pf_peer *peer;     /* of the last one that failed */
	unsigned received; /* number 0 of the side at the last end */
};

struct pair {
	pf_context *context;
	pf_peer *peer; /* partners: the test; the test: its first partner */
	unsigned side, partners;
	pf_options options; /* of this side's context */
	struct pair_errors errors;
	/*
	 * Memory that every side has mapped from the same file: each side sees what another one
	 * writes, and can change its own mapping. Processes have it at the same address, threads
	 * have not.
	 */
	uint8_t *window;
	struct pair_shared *shared;
	void *user; /* for the side's own use */
	/*
	 * pair_progress sleeps, for up to 1 ms, after a row of polls in vain. It never does where awake:
	 * what such a side waits for is there for a moment only.
	 */
	bool awake;
	unsigned in_vain;
};

struct pair_setup {
	unsigned partners; /* 0: one */
	bool thread;
	pf_options here, there;           /* of the test, of the partners */
	size_t window;                    /* bytes */
	void (*prepare)(struct pair *me); /* of the partner, before it opens its context */
	void (*opened)(struct pair *me);  /* of each side, before its address is known */
	/*
	 * What a partner does: work, then pair_serve after step PAIR_DONE; or partner, at whose
	 * end it closes its context. Neither: pair_serve.
	 */
	void (*work)(struct pair *me);
	void (*partner)(struct pair *me);
	/* Run by a partner in pair_serve for each pair_command. */
	void (*command)(struct pair *me, const uint64_t *arguments);
	/* Of the partner, and of the test; arg is the struct pair of the side. */
	pf_receive_fn receive, receive_here;
	pf_receive_pieces_fn receive_pieces, receive_pieces_here;
	pf_peer_event_fn peer_event, peer_event_here;
	pf_notice_fn notice, notice_here;
	pf_log_fn log_here;   /* of the test alone */
	pf_room_fn room_here; /* of the test alone */
};

/*
 * The default options, independent of the environment except for LIBPF_TRANSPORT: with
 * LIBPF_TRANSPORT=device the tests of transfers run over /dev/exanest.
 */
pf_options pair_options(void);
/* The same, changed as the mode says that is the state of a cmocka test. */
pf_options pair_mode_options(void **state);
static inline enum pair_mode pair_mode(void **state)
{
	return (enum pair_mode)(uintptr_t)*state;
}
static inline bool pair_on_device(const pf_options *options)
{
	return options->transport == PF_TRANSPORT_DEVICE;
}
static inline bool pair_over_net(const pf_options *options)
{
	return options->network == PF_NETWORK_ALWAYS;
}

/* For a program whose pairs are always over the network: call it first. */
void pair_use_net(void);

struct pair *pair_start(const struct pair_setup *setup);
/* The options of both sides for a struct pair_setup. */
#define PAIR_MODE(state) .here = pair_mode_options(state), .there = pair_mode_options(state)
/* pair_start in the mode of the test, with more fields of struct pair_setup. */
#define pair_open(state, ...) pair_start(&(struct pair_setup){ PAIR_MODE(state), __VA_ARGS__ })
/* Tell the partners to end, check that they ended well, free everything. */
void pair_end(struct pair *pair);
/* The cmocka teardown: needed when a test failed before pair_end. */
int pair_teardown(void **state);
#define PAIR_TEST(test) cmocka_unit_test_teardown(test, pair_teardown)
/* A cmocka test in one mode. */
#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}

/*
 * Cases that a variant does not have: over the net, in threads, or either. Their setup function
 * does nothing: pair_run_tests knows them by it, and leaves them out of the group.
 */
#define PAIR_TEST_UNLESS(mark, test)                                                               \
	cmocka_unit_test_setup_teardown(test, pair_unless_##mark, pair_teardown)
#define IN_MODE_UNLESS(mark, test, mode)                                                           \
	{                                                                                          \
#test " " #mode, test, pair_unless_##mark, pair_teardown,                          \
			(void *)(uintptr_t)MODE_##mode                                             \
	}
int pair_unless_net(void **state);
int pair_unless_threads(void **state);
int pair_unless_either(void **state);
/* In place of cmocka_run_group_tests_name: a test that hangs is named. */
#define pair_run_tests(group, cases) pair_run_cases(group, cases, ARRAY_SIZE(cases))
int pair_run_cases(const char *group, const struct CMUnitTest *cases, size_t count);

/* SIGKILL, and wait until it is dead. */
void pair_kill(struct pair *pair, unsigned side);
/* Wait until a partner ends on its own; pair_end does not wait for it then. */
void pair_wait_exit(struct pair *pair, unsigned side);
int pair_pid(const struct pair *pair, unsigned side);

/* The peer that stands for another side, or for this one. */
pf_peer *pair_peer(struct pair *me, unsigned side);
/* Use the connection to the first partner once, in both directions. */
void pair_connect(struct pair *me);

/* Numbers that all sides see, PAIR_VALUES for each side. */
_Atomic uint64_t *pair_value(struct pair *me, unsigned side, unsigned which);
/* Progress until the number is at least this. */
void pair_await_value(struct pair *me, unsigned side, unsigned which, uint64_t least);
/* A pf_receive_fn that adds 1 to the side's own number 0. */
void pair_count_message(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
			void *arg);
/* A pf_peer_event_fn for the side's struct pair_errors. */
void pair_note_end(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
		   const char *text, void *arg);

/* Have partner 1 run setup.command with up to PAIR_ARGUMENTS numbers, and wait until it has. */
#define pair_command(me, ...) pair_run_command(me, (const uint64_t[PAIR_ARGUMENTS]){ __VA_ARGS__ })
void pair_run_command(struct pair *me, const uint64_t *arguments);

/* Announce a step that other sides may wait for. Steps only grow. */
void pair_say(struct pair *me, unsigned step);
/* Wait for another side's step, calling pf_progress; and without calling it. */
void pair_await(struct pair *me, unsigned side, unsigned step);
void pair_watch(struct pair *me, unsigned side, unsigned step);
/* pair_await for all partners. */
void pair_await_all(struct pair *me, unsigned step);
/* Progress once; false when the test has told its partners to end. Fails when another side failed. */
bool pair_progress(struct pair *me);
/* Progress, and run commands, until the test tells its partners to end. */
void pair_serve(struct pair *me);
/* Progress for 10 ms, in which no event is expected. */
void pair_linger(struct pair *me);
/* Use the processor for so long, without progress. */
void pair_compute(uint64_t nanoseconds);
/* Check that this process has no locked and no pinned memory. */
void pair_check_not_pinned(struct pair *me);

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
#define pair_check_pattern(me, memory, length, seed)                                               \
	pair_check(me, pattern_differs(memory, length, seed) == (length))

/* Count of completions, the last one, and the last one without success. */
struct pair_done {
	unsigned count, failed;
	pf_completion last, failure;
};
/* A pf_complete_fn; arg is a struct pair_done. */
void pair_completed(pf_context *context, const pf_completion *completion);
void pair_await_done(struct pair *me, const struct pair_done *done, unsigned count);

enum pair_direction { PUT, GET };

/* Post a transfer that must be accepted. done counts it also if it is complete at once. */
void pair_post(struct pair *me, pf_peer *peer, enum pair_direction direction, void *local,
	       uint64_t remote, size_t length, struct pair_done *done);
/* Post and wait. An error on posting becomes the status of the completion. */
pf_completion pair_transfer(struct pair *me, pf_peer *peer, enum pair_direction direction,
			    void *local, uint64_t remote, size_t length);
/* The same with pieces, of which the array is overwritten after the call. */
void pair_post_vector(struct pair *me, pf_peer *peer, enum pair_direction direction,
		      pf_piece *pieces, unsigned count, struct pair_done *done);
pf_completion pair_transfer_vector(struct pair *me, pf_peer *peer, enum pair_direction direction,
				   pf_piece *pieces, unsigned count);
pf_completion pair_put_signal(struct pair *me, pf_peer *peer, const void *local, uint64_t remote,
			      size_t length, pf_signal signal);
pf_completion pair_put(struct pair *me, pf_peer *peer, const void *local, uint64_t remote,
		       size_t length);
pf_completion pair_get(struct pair *me, pf_peer *peer, void *local, uint64_t remote, size_t length);
pf_completion pair_atomic(struct pair *me, pf_peer *peer, enum pf_atomic_op op, unsigned width,
			  uint64_t remote, uint64_t operand, uint64_t compare);
/* Does the completion report a fault of this side at this address? */
bool pair_is_fault(const pf_completion *completion, enum pf_side side, uint64_t address);
#define assert_fault(completion, side, address)                                                    \
	assert_true(pair_is_fault(&(completion), side, address))
/*
 * Transfer the pattern of a seed between local memory and this part of side's window, whose other
 * contents get lost, and check what has arrived. pair_exchange: put, then get.
 */
#define pair_verify(me, side, direction, local, window, length, seed)                              \
	pair_verify_at(__FILE__, __LINE__, me, side, direction, local, window, length, seed)
#define pair_exchange(me, side, local, window, length, seed)                                       \
	do {                                                                                       \
		pair_verify(me, side, PUT, local, window, length, seed);                           \
		pair_verify(me, side, GET, local, window, length, (seed) + 1);                     \
	} while (0)
void pair_verify_at(const char *file, int line, struct pair *me, unsigned side,
		    enum pair_direction direction, void *local, void *window, size_t length,
		    uint64_t seed);
/* Send, with progress while there is no room; return the final status. */
int pair_send(struct pair *me, pf_peer *peer, uint32_t tag, const void *data, size_t length);

/* Where another side has this part of the window. */
uint64_t pair_there(struct pair *me, unsigned side, const void *mine);

enum pair_change { PAIR_PROTECT, PAIR_UNMAP, PAIR_DROP };

/* For pair_setup.command, where pair_change_side changes the partner. */
void pair_change(struct pair *me, const uint64_t *arguments);
/* Change a part of the mappings of this side, or of partner 1 at the same place. */
void pair_change_side(struct pair *me, enum pf_side side, enum pair_change what, const void *start,
		      size_t length, int protection);

static inline uint64_t remote_address(const void *address)
{
	return (uint64_t)(uintptr_t)address;
}

static inline uint64_t load64(const void *address)
{
	return __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
}

#endif
