/* SPDX-License-Identifier: GPL-2.0 */
/* What tests of the module share: the device driven by hand, a second process, checks. */
#ifndef EXANEST_TESTS_DEVICE_H
#define EXANEST_TESTS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "../uapi/exanest.h"

/* Bytes of a page of this machine: 4 KiB on x86; 4, 16 or 64 KiB on arm64. */
#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* Says what did not hold, and ends the process. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			check_failed(__FILE__, __LINE__, #condition);                              \
	} while (0)
#define CHECK_EQUAL(a, b) check_equal(__FILE__, __LINE__, #a " == " #b, (int64_t)(a), (int64_t)(b))

void check_failed(const char *file, int line, const char *what) __attribute__((noreturn));
void check_equal(const char *file, int line, const char *what, int64_t a, int64_t b);

struct test {
	const char *name;
	void (*run)(void);
};

/* Each test in a process of its own; TAP. Arguments name the tests to run, none: all. */
int tests_run(const char *program, const struct test *tests, int argc, char **argv);
/* Ends a test that this machine cannot run. */
_Noreturn void test_skip(const char *why);

/* Seeded by EXANEST_TEST_SEED or the clock; prints the seed. */
void random_seed(void);
/* The same numbers as another process's, or not. */
void random_set(uint64_t seed);
uint64_t random_next(void);
uint64_t random_below(uint64_t limit);

/* Bytes that follow from their position and from what they are. */
void pattern_fill(void *memory, size_t length, uint64_t what);
/* The first position that differs, length if none. */
size_t pattern_differs(const void *memory, size_t length, uint64_t what);

uint64_t clock_ns(clockid_t clock);

/* Repetitions: fewer with EXANEST_TEST_QUICK in the environment. */
unsigned int quick_or(unsigned int quick, unsigned int full);

/* VmLck and VmPin of this process, KiB. */
unsigned long pinned_kib(void);

bool write_file(const char *path, const char *text);
/* Of the module. */
unsigned int parameter_get(const char *name);
void parameter_set(const char *name, unsigned int value);

/* Zeros. Not huge: pages that are absent whatever their neighbours are. */
void *map_private(size_t length, bool huge);

struct device {
	int fd;
	uint64_t address;
	struct exanest_rings rings;
	char *map;
	unsigned int submitted, reaped;
};

struct device_options {
	unsigned char secret;                          /* every byte of it; 0: 's' */
	unsigned int submissions, completions, faults; /* 0: 64, 64, none */
	int completion_eventfd, fault_eventfd;         /* 0: none */
	unsigned int policy, poll_us;
};

/* NULL: defaults. */
void device_open(struct device *device, const struct device_options *options);
void device_close(struct device *device);

struct exanest_ring_head *device_submission_head(const struct device *device);
struct exanest_ring_head *device_completion_head(const struct device *device);

/* Waits for a place. The submission's doorbell is rung if need be. */
void device_submit(struct device *device, const struct exanest_submission *submission);
bool device_reap(struct device *device, struct exanest_completion *completion);
/* Fails the test after a minute without any. */
void device_wait(struct device *device, struct exanest_completion *completion);
/* Submits and waits. Nothing else is under way. */
struct exanest_completion device_do(struct device *device,
				    const struct exanest_submission *submission);
/* The same: op is EXANEST_OP_PUT or _GET. Returns the status. */
int device_transfer(struct device *device, unsigned int op, uint64_t peer, const void *local,
		    uint64_t remote, size_t length, struct exanest_completion *completion);

/* Submits as device_transfer, and does not wait. */
void device_post(struct device *device, unsigned int op, uint64_t peer, const void *local,
		 uint64_t remote, size_t length);
/* Waits for a completion asleep, where waiting must not be counted. Its status is 0. */
void device_wait_asleep(struct device *device);

bool device_fault(struct device *device, struct exanest_fault *fault);
int device_resolved(struct device *device, uint64_t ticket, int status);
struct exanest_statistics device_statistics(const struct device *device);
/* Of its engine. Valid until the next call. */
const char *device_engine(const struct device *device);
/* A number of an engine's line in debugfs, e.g. "resets"; -1: there is no such engine, or number. */
long engine_count(const char *engine, const char *name);

/*
 * Another process, with a device of its own, that does with its memory what it
 * is told.
 */
enum partner_request {
	PARTNER_MAP,   /* length, protection, flags -> address; private and anonymous if flags 0 */
	PARTNER_UNMAP, /* address, length */
	PARTNER_PROTECT, /* address, length, protection */
	PARTNER_ADVISE,  /* address, length, advice -> 0 or -errno */
	PARTNER_FILL,    /* address, length, what */
	PARTNER_DIFFERS, /* address, length, what -> position */
	PARTNER_FORK,    /* -> pid of a child that shares all pages, and sleeps */
	PARTNER_FILE, /* length, 1: shared, protection -> address of an unlinked file's mapping */
	PARTNER_CALL, /* function, a, b: for what only one test needs */
};

struct partner {
	pid_t pid; /* 0: on another node */
	int socket;
	uint64_t address; /* of its engine */
};

/*
 * If EXANEST_TEST_PARTNERS is set, ADDRESS:PORT of another node, it is a process there, of the
 * same program, which serves (partners_serve).
 */
void partner_start(struct partner *partner, const struct device_options *options);
int partners_serve(unsigned int port);
bool partner_is_far(const struct partner *partner);
uint64_t partner_ask(struct partner *partner, unsigned int request, uint64_t a, uint64_t b,
		     uint64_t c);
/* Asks it to end, and checks that it ended well. */
void partner_stop(struct partner *partner);
void partner_kill(struct partner *partner);
/* Its wait status, once it has ended. */
int partner_wait(struct partner *partner);
/* In a partner: its own device. */
extern struct device partner_device;

#endif
