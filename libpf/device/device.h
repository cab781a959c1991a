/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context of this process at /dev/exanest. It is opened with the context of libpf, joins a
 * protection domain once that is known, and is closed with the context of libpf, or earlier if
 * the engine fails.
 *
 * Threads: progress owns the submission and completion rings. The service thread reads the
 * fault ring. Any thread may join, read statistics, register pagers and answer page faults.
 *
 * The lock keeps fd and the mapping of the rings while other threads than progress use them:
 * progress closes the device under it. Progress itself needs no lock, because it alone
 * closes. It uses the rings only after device_address returned nonzero, which is stored with
 * release after the rings were mapped and loaded with acquire. Lock order: the lock of the
 * pagers, then this one.
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
#include "base/statistics.h"
#include "memory/pager.h"
#include "pf.h"
#include "ring.h"

/* A submission in flight; part of what is submitted, and freed only once it is done. */
struct device_request {
	TAILQ_ENTRY(device_request) link;
	/* Progress. With status -EIO the device is closed, and whether it was executed is not known. */
	void (*done)(struct device_request *request, const struct exanest_completion *completion);
};

/* The object of that type whose member "request" this is. */
#define DEVICE_REQUEST_OF(type, pointer)                                                           \
	((type *)(void *)((char *)(pointer)-offsetof(type, request)))

struct device {
	int fd; /* of /dev/exanest; -1: no device */
	/* Progress's own: */
	unsigned in_flight;                                   /* requests */
	TAILQ_HEAD(device_requests, device_request) requests; /* in flight */
	bool doorbell_checked; /* since the last submission or completion */
	struct device_ring submissions, completions;
	struct device_ring faults; /* under the lock */
	uint64_t transfer_max;     /* bytes of the longest transfer */
	uint32_t entries;          /* of the longest ring that the device permits */
	uint32_t node;             /* number of this one on the engine's link; 0: it has none */
	bool may_sleep; /* completions have an event, for which progress sleeps; under the lock */
	/*
	 * Of this context, at the engine; 0: no domain joined. Stored last (release): a thread that
	 * loads it (acquire) may use the rings.
	 */
	_Atomic uint64_t address;
	int completion_event, fault_event; /* eventfds that the kernel signals; -1: not open */
	void *memory;                      /* mapping of the rings; NULL: none */
	size_t memory_bytes;
	enum pf_policy policy; /* how the kernel resolves page faults in this memory */
	struct pagers *pagers;
	pthread_mutex_t lock;
	bool refused;                      /* joining failed, and is not tried again */
	struct exanest_statistics counted; /* what device_count has added already */
	uint64_t counted_at;               /* time of the last device_count, ns; progress's own */
	_Atomic(const char *) why;         /* why there is no device, static text; NULL: there is */
	/* Progress: the device failed and is closed; before its requests are done. */
	void (*failed)(void *arg);
	void *failed_arg;
};

/*
 * Open the device. If there is none, that is no error; why says the reason. The pagers are
 * borrowed and must outlive the device.
 */
void device_open(struct device *device, const pf_options *options, struct pagers *pagers);
/* Progress: close the device. Once this returns, the engine accesses no memory of this process. */
void device_close(struct device *device);
/* No other thread may use the device any more. */
void device_destroy(struct device *device);
/*
 * Any thread: join the protection domain of all processes that know this secret, unless this
 * process is in a domain already. length: bytes of the secret, which stays the caller's.
 */
void device_join(struct device *device, const void *secret, size_t length);
/* Any thread: join the domain of two processes that share no secret with others. */
void device_join_pair(struct device *device, const struct address *own,
		      const struct address *other);

/* Any thread: the address of this context at the engine; 0: no domain joined. */
static inline uint64_t device_address(const struct device *device)
{
	return atomic_load_explicit(&((struct device *)device)->address, memory_order_acquire);
}

/* The engine's number of an atomic operation. */
uint16_t device_atomic_op(enum pf_atomic_op op);

/* Progress. */
static inline bool device_full(const struct device *device)
{
	return device_ring_full(&device->submissions);
}

/* Any thread: progress will sleep until a completion. Has no effect once a domain is joined. */
void device_allow_sleep(struct device *device);

/*
 * Any thread: the address for processes of other nodes; 0: no domain joined, or the engine has no
 * link. Such an address has the number of its node in the upper bits.
 */
static inline uint64_t device_node_address(const struct device *device)
{
	return device->node ? device_address(device) : 0;
}

/* Progress: submit; its cookie is set here. False: the ring is full, or there is no device any more. */
bool device_submit(struct device *device, struct device_request *request,
		   struct exanest_submission *submission);

/* Progress: is there a completion to take? */
static inline bool device_has_completion(const struct device *device)
{
	return !device_ring_empty(&device->completions);
}

/*
 * Progress: end the requests whose completions there are. Returns how many. At times the
 * kernel's counters are added to the statistics.
 */
int device_poll(struct device *device, struct statistics *statistics);
/* Progress, after submissions or completions: wake the engine if it sleeps. Returns whether it failed. */
bool device_ring_bell(struct device *device);
/* Progress: give the device up. */
void device_fail(struct device *device);
/* Progress, before it sleeps: reset the completion event, which earlier completions signalled. */
void device_reset_completion_event(struct device *device);
/* Any thread: add what the kernel counted since the last call. */
void device_count(struct device *device, struct statistics *statistics);

/* Service thread: take a page fault that the kernel forwards; false when there is none. */
bool device_take_fault(struct device *device, struct exanest_fault *fault);
/*
 * Any thread: answer the page fault with this ticket. PF_OK: the pages are present. Else they
 * cannot be made present, and the transfer fails.
 */
void device_answer_fault(struct device *device, uint64_t ticket, int status);

/*
 * Describe the device for pf_capabilities, in at most size bytes with the final zero. False:
 * there is none, and text is the reason.
 */
bool device_describe(char *text, size_t size);

#endif
