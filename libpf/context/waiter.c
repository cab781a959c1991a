/* SPDX-License-Identifier: BSD-3-Clause */
#include "waiter.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/slice.h"
#include "base/thread.h"
#include "common/transport.h"
#include <libpf/pf.h>

static void signal_descriptor(struct waiter *waiter)
{
	const uint64_t one = 1;

	/* The write can only fail with a full counter, when the descriptor is readable. */
	if (write(atomic_load_explicit(&waiter->fd, memory_order_acquire), &one, sizeof(one)) < 0)
		return;
}

/* T1 to T4. */
static void *waiter_main(void *arg)
{
	struct waiter *waiter = arg;

	slice_request_short();
	for (;;) {
		while (sem_wait(&waiter->go) < 0 && errno == EINTR)
			;
		if (atomic_load_explicit(&waiter->stopping, memory_order_relaxed))
			return NULL;
		waiter->sleeper->transport->sleep(waiter->sleeper->state,
						  atomic_load_explicit(&waiter->microseconds,
								       memory_order_relaxed));
		atomic_store_explicit(&waiter->waiting, false, memory_order_seq_cst);
		signal_descriptor(waiter);
	}
}

void waiter_init(struct waiter *waiter, const struct transport_slot *sleeper)
{
	waiter->sleeper = sleeper;
	atomic_init(&waiter->fd, -1);
}

int waiter_open(struct waiter *waiter)
{
	int fd, error;

	do {
		fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	} while (fd < 0 && descriptor_limit_raised(errno));
	if (fd < 0)
		return PF_ERR_SYSTEM;
	sem_init(&waiter->go, 0, 0);
	/* Store the descriptor before the thread uses it. */
	atomic_store_explicit(&waiter->fd, fd, memory_order_release);
	error = thread_start(&waiter->thread, "libpf waiter", waiter_main, waiter);
	if (error) {
		atomic_store_explicit(&waiter->fd, -1, memory_order_relaxed);
		sem_destroy(&waiter->go);
		close(fd);
		errno = error;
		return PF_ERR_SYSTEM;
	}
	return PF_OK;
}

void waiter_destroy(struct waiter *waiter)
{
	if (!waiter_is_open(waiter))
		return;
	/*
	 * The waiter sees "stopping" in T1, and does not stay in T2: nothing announces a sleep
	 * any more.
	 */
	atomic_store_explicit(&waiter->stopping, true, memory_order_relaxed);
	waiter->sleeper->transport->sleep_end(waiter->sleeper->state);
	sem_post(&waiter->go);
	pthread_join(waiter->thread, NULL);
	sem_destroy(&waiter->go);
	close(waiter->fd);
}

void waiter_reset(struct waiter *waiter)
{
	uint64_t count;

	/* The descriptor is a counter: EAGAIN if the counter is 0. */
	if (read(atomic_load_explicit(&waiter->fd, memory_order_relaxed), &count, sizeof(count)) <
	    0)
		return;
}

int waiter_arm(struct waiter *waiter, uint64_t microseconds)
{
	/* The time is never shorter than the present sleep of the waiter. */
	uint64_t before = atomic_load_explicit(&waiter->microseconds, memory_order_relaxed);

	if (atomic_load_explicit(&waiter->waiting, memory_order_seq_cst) && microseconds < before) {
		waiter->sleeper->transport->sleep_end(waiter->sleeper->state);
		return PF_ERR_AGAIN;
	}
	atomic_store_explicit(&waiter->microseconds, microseconds, memory_order_relaxed);
	if (!atomic_exchange_explicit(&waiter->waiting, true, memory_order_seq_cst))
		sem_post(&waiter->go);
	return PF_OK;
}

void waiter_wake(struct waiter *waiter)
{
	/* Release: see waiter_take_wake. */
	atomic_store_explicit(&waiter->woken, true, memory_order_release);
	if (waiter_is_open(waiter))
		signal_descriptor(waiter);
}
