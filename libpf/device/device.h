/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context of this process at /dev/exanest. The context is opened with the context of libpf,
 * joins a protection domain once the domain is known, and is closed with the context of libpf, or
 * earlier if the engine fails.
 *
 * Threads: progress owns the submission and completion rings. The service thread reads the fault
 * ring. Any thread may join, read statistics, register pagers and answer page faults.
 *
 * The lock keeps fd and the mapping of the rings while other threads than progress use them:
 * progress closes the device under the lock. Progress itself needs no lock, because progress alone
 * closes. Progress uses the rings only after device_address returned nonzero. The address is stored
 * with release after the rings were mapped, and loaded with acquire. Lock order: the lock of the
 * pagers, then device.lock.
 */
#ifndef PF_DEVICE_H
#define PF_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/address.h"
#include "base/check.h"
#include "base/statistics.h"
#include "memory/pager.h"
#include <libpf/pf.h>
#include "ring.h"

/* A submission in flight; part of the submitted object, and freed only once done is called. */
struct device_request {
	TAILQ_ENTRY(device_request) link;
	/*
	 * Progress: handle the completion. With status -EIO the device is closed, and the
	 * submission may have been executed or not.
	 */
	void (*done)(struct device_request *request, const struct exanest_completion *completion);
};

/* The object of a type from a pointer to its member "request". */
#define DEVICE_REQUEST_OF(type, pointer)                                                           \
	((type *)(void *)((char *)(pointer)-offsetof(type, request)))

struct device {
	int fd; /* of /dev/exanest; -1: no device */
	/* Fields owned by progress: */
	unsigned in_flight;                                   /* number of requests */
	TAILQ_HEAD(device_requests, device_request) requests; /* requests in flight */
	bool doorbell_checked; /* since the last submission or completion */
	struct device_ring submissions, completions;
	struct device_ring faults; /* under the lock */
	uint64_t transfer_max;     /* bytes of the longest transfer */
	uint32_t entries;          /* entries of the longest ring that the device permits */
	uint32_t node;             /* number of this machine on the engine's link; 0: no link */
	bool may_sleep; /* completions have an event, for which progress sleeps; under the lock */
	/*
	 * Address of this context at the engine; 0: no domain joined. Stored last (release): a
	 * thread that loads the address (acquire) may use the rings.
	 */
	_Atomic uint64_t address;
	int completion_event, fault_event; /* eventfds that the kernel signals; -1: not open */
	void *memory;                      /* mapping of the rings; NULL: none */
	size_t memory_bytes;
	enum pf_policy policy; /* how the kernel resolves page faults in this process's memory */
	struct pagers *pagers;
	pthread_mutex_t lock;
	bool refused;                      /* joining failed, and is not tried again */
	struct exanest_statistics counted; /* counts that device_count has added already */
	uint64_t counted_at;       /* time of the last device_count, ns; owned by progress */
	_Atomic(const char *) why; /* reason for having no device, static text; NULL: it is there */
	/* Progress: the device failed and is closed; called before its requests are done. */
	void (*failed)(void *arg);
	void *failed_arg;
};

/*
 * Open the device. A missing device is no error; "why" has the reason. The pagers are borrowed and
 * must outlive the device.
 */
void device_open(struct device *device, const pf_options *options, struct pagers *pagers);
/* Progress: close the device. After the return, the engine accesses no memory of this process. */
void device_close(struct device *device);
/* Close the device, and free everything. No other thread may use the device any more. */
void device_destroy(struct device *device);
/*
 * Any thread: join the protection domain of all processes that know the secret, unless this process
 * is in a domain already. length: bytes of the secret, which remains the property of the caller.
 */
void device_join(struct device *device, const void *secret, size_t length);
/* Any thread: join the domain of two processes that share no secret with others. */
void device_join_pair(struct device *device, const struct address *own,
		      const struct address *other);

/* Any thread: return the address of this context at the engine; 0: no domain joined. */
static inline uint64_t device_address(const struct device *device)
{
	return atomic_load_explicit(&((struct device *)device)->address, memory_order_acquire);
}

/* Return the engine's number of an atomic operation. */
uint16_t device_atomic_op(enum pf_atomic_op op);

/* Progress: is the submission ring full? */
static inline bool device_full(const struct device *device)
{
	assert_progress(device->pagers->context);
	return device_ring_full(&device->submissions);
}

/* Any thread: progress will sleep until a completion. Has no effect once a domain is joined. */
void device_allow_sleep(struct device *device);

/*
 * Any thread: return the address for processes of other nodes; 0: no domain joined, or the engine
 * has no link. The upper bits of the address hold the number of the node.
 */
static inline uint64_t device_node_address(const struct device *device)
{
	return device->node ? device_address(device) : 0;
}

/*
 * Progress: submit, with the cookie set here. Return false if the ring is full, or if the device
 * has failed.
 */
bool device_submit(struct device *device, struct device_request *request,
		   struct exanest_submission *submission);

/* Progress: is there a completion to take? */
static inline bool device_has_completion(const struct device *device)
{
	assert_progress(device->pagers->context);
	return !device_ring_empty(&device->completions);
}

/*
 * Progress: end the completed requests. Return their number. Add the kernel's counters to the
 * statistics from time to time.
 */
int device_poll(struct device *device, struct statistics *statistics);
/*
 * Progress, after submissions or completions: wake the engine if it sleeps. Return whether the
 * engine failed.
 */
bool device_ring_bell(struct device *device);
/* Progress: give the device up. */
void device_fail(struct device *device);
/* Progress, before a sleep: reset the completion event, which earlier completions signalled. */
void device_reset_completion_event(struct device *device);
/* Any thread: add the kernel's counts since the last call to the statistics. */
void device_count(struct device *device, struct statistics *statistics);

/* Service thread: take a page fault that the kernel forwards. Return false if there is none. */
bool device_take_fault(struct device *device, struct exanest_fault *fault);
/*
 * Any thread: answer the page fault with this ticket. PF_OK: the pages are present. Otherwise the
 * pages cannot be made present, and the transfer fails.
 */
void device_answer_fault(struct device *device, uint64_t ticket, int status);

/*
 * Describe the device for pf_capabilities, in at most size bytes with the final zero. Return false
 * if there is no device; text is the reason.
 */
bool device_describe(char *text, size_t size);

#endif
