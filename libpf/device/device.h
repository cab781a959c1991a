/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's context at /dev/exanest: opened with ours, joined to a
 * protection domain when that is known, closed with ours or when the engine
 * is found to be out of order.
 *
 * Who may touch what: the submission and completion rings are progress's, the
 * fault ring is the service thread's; joining, counting and pagers may be any
 * thread's.
 */
#ifndef PF_DEVICE_H
#define PF_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "memory/pager.h"
#include "pf.h"
#include "base/statistics.h"
#include "ring.h"

struct device {
	int fd;             /* -1: there is none */
	unsigned in_flight; /* submissions without a completion yet */
	bool rung;          /* no submission since the doorbell was looked at */
	struct device_ring submissions, completions, faults;
	uint64_t transfer_max;
	uint32_t entries;        /* most of one ring */
	bool sleepy;             /* progress sleeps at times */
	_Atomic uint64_t engine; /* our engine address; 0: not joined */
	int completion_event, fault_event;
	void *memory;
	size_t memory_bytes;
	enum pf_policy policy;
	struct pagers *pagers;
	pthread_mutex_t lock; /* joining, counting */
	bool refused;         /* joining failed: not tried again */
	struct exanest_statistics counted;
	uint64_t counted_at;       /* ns; progress's own */
	_Atomic(const char *) why; /* there is none, static text; NULL: there is one */
};

/* policy: how the kernel resolves faults in our memory. No device is no error. */
void device_open(struct device *device, const pf_options *options, struct pagers *pagers);
/* Progress: once it returns, the engine reads and writes nothing of ours any more. */
void device_close(struct device *device);
/* Nobody else is left. */
void device_destroy(struct device *device);
/* Any thread: join the protection domain of whoever knows this secret, unless we are in one. */
void device_join(struct device *device, const void *secret, size_t length);
/* Any thread: join the domain that two processes make which know no other. */
void device_join_pair(struct device *device, const struct address *own,
		      const struct address *other);

static inline uint64_t device_engine(const struct device *device)
{
	return atomic_load_explicit(&((struct device *)device)->engine, memory_order_acquire);
}

static inline bool device_full(const struct device *device)
{
	return device_ring_full(&device->submissions);
}

/* Progress: false when there is no room. */
bool device_submit(struct device *device, const struct exanest_submission *submission);
static inline bool device_completed(const struct device *device)
{
	return !device_ring_empty(&device->completions);
}

/* Progress: false when there is none. */
bool device_complete(struct device *device, struct exanest_completion *completion);
/* Progress, after submissions or completions: false when the engine is out of order. */
bool device_ring_bell(struct device *device);
/* Before a sleep: forget what the completion event told so far. */
void device_settle(struct device *device);
/* Any thread: what the kernel counted since. */
void device_count(struct device *device, struct statistics *statistics);

/* Service thread: false when there is no fault event. */
bool device_take_fault(struct device *device, struct exanest_fault *fault);
/* Any thread: the pages of a fault event are there, or cannot be had. */
void device_resolved(struct device *device, uint64_t ticket, int status);

/* For pf_capabilities: opens the device and looks. */
bool device_describe(char *text, size_t size);

#endif
