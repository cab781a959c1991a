/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

/* Entries of the submission and completion rings, and of the fault ring. */
#define RING_ENTRIES 256
#define FAULT_ENTRIES 64
/* Time between two reads of the driver's counters, for pf_info --job, ns. */
#define COUNT_NANOSECONDS 10000000
/*
 * Time for which the engine polls for the next submission before its sleep, if progress polls too,
 * us.
 */
#define POLL_MICROSECONDS 20

static void device_set_why(struct device *device, const char *why)
{
	atomic_store_explicit(&device->why, why, memory_order_relaxed);
}

/* Return a static text for an errno of open(2). */
static const char *device_open_refusal(int error)
{
	switch (error) {
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return "there is no " EXANEST_DEVICE ": the module exanest is not loaded";
	case EACCES:
	case EPERM:
		return "this user has no permission to open " EXANEST_DEVICE;
	default:
		return EXANEST_DEVICE " cannot be opened";
	}
}

/* Return a descriptor, or -1 with *why, a static text. */
static int device_open_descriptor(struct exanest_query *query, const char **why)
{
	int fd = open(EXANEST_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		*why = device_open_refusal(errno);
		return -1;
	}
	*query = (struct exanest_query){ .size = sizeof(*query) };
	if (ioctl(fd, EXANEST_IOC_QUERY, query) < 0)
		*why = EXANEST_DEVICE " is not a device of the module exanest";
	else if (query->abi_version != EXANEST_ABI_VERSION)
		*why = "the module exanest and libpf are of different versions";
	else if (!(query->features & EXANEST_FEATURE_ATOMICS) || !query->transfer_max)
		*why = "the engine of " EXANEST_DEVICE " lacks what libpf needs";
	else
		return fd;
	close(fd);
	return -1;
}

bool device_describe(char *text, size_t size)
{
	struct exanest_query query;
	const char *why;
	int fd = device_open_descriptor(&query, &why);

	if (fd < 0) {
		snprintf(text, size, "%s", why);
		return false;
	}
	close(fd);
	snprintf(text, size, "engine %.*s, blocks of %u bytes%s", (int)sizeof(query.engine),
		 query.engine, query.block_size, query.node ? ", to other nodes, too" : "");
	return true;
}

void device_open(struct device *device, const pf_options *options, struct pagers *pagers)
{
	struct exanest_query query = { 0 };
	const char *why = NULL;

	*device = (struct device){ .fd = -1,
				   .completion_event = -1,
				   .fault_event = -1,
				   .pagers = pagers,
				   .doorbell_checked = true };
	TAILQ_INIT(&device->requests);
	pthread_mutex_init(&device->lock, NULL);
	device->policy = (enum pf_policy)options->policy;
	device->may_sleep = options->wake;
	if (options->transport == PF_TRANSPORT_HOST) {
		device_set_why(device, "transport is host");
		return;
	}
	if (!options->single_copy && options->transport == PF_TRANSPORT_AUTO) {
		device_set_why(device, "single_copy is 0");
		return;
	}
	/* The engine checks no ranges: a context without a domain cannot be reached by an engine. */
	if (options->expose) {
		device_set_why(device, "expose is 1, and the engine of " EXANEST_DEVICE
				       " would reach all memory");
		return;
	}
	device->fd = device_open_descriptor(&query, &why);
	device_set_why(device, why);
	if (device->fd < 0)
		return;
	device->transfer_max = query.transfer_max;
	device->entries = query.ring_entries;
	device->node = query.node;
	device->completion_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	device->fault_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (device->completion_event >= 0 && device->fault_event >= 0)
		return;
	device_close(device);
	device_set_why(device, "no eventfd can be created: out of file descriptors or memory");
}

void device_allow_sleep(struct device *device)
{
	pthread_mutex_lock(&device->lock);
	if (!device_address(device))
		device->may_sleep = true;
	pthread_mutex_unlock(&device->lock);
}

void device_close(struct device *device)
{
	assert_progress(device->pagers->context);
	pthread_mutex_lock(&device->lock);
	atomic_store_explicit(&device->address, 0, memory_order_relaxed);
	/*
	 * Transfers in flight end here, also if a child of fork holds the descriptor or the rings.
	 */
	if (device->fd >= 0) {
		ioctl(device->fd, EXANEST_IOC_LEAVE);
		close(device->fd);
	}
	device->fd = -1;
	if (device->memory)
		munmap(device->memory, device->memory_bytes);
	device->memory = NULL;
	pthread_mutex_unlock(&device->lock);
}

void device_destroy(struct device *device)
{
	device_close(device);
	if (device->completion_event >= 0)
		close(device->completion_event);
	if (device->fault_event >= 0)
		close(device->fault_event);
	pthread_mutex_destroy(&device->lock);
}

static struct device_ring device_ring_at(const struct device *device, uint64_t head,
					 uint64_t entries, uint32_t count)
{
	return (struct device_ring){ .head = (void *)((char *)device->memory + head),
				     .entries = (char *)device->memory + entries,
				     .count = count };
}

/* Under the lock: make and map the rings. Return NULL, or the reason of the failure. */
static const char *device_make_rings(struct device *device)
{
	struct exanest_rings rings = {
		.size = sizeof(rings),
		.submissions = device->entries < RING_ENTRIES ? device->entries : RING_ENTRIES,
		.faults = device->entries < FAULT_ENTRIES ? device->entries : FAULT_ENTRIES,
		.completion_eventfd = device->may_sleep ? device->completion_event : -1,
		.fault_eventfd = device->fault_event,
		.poll_us = device->may_sleep ? 0 : POLL_MICROSECONDS,
	};

	assert_locked(&device->lock, true);
	rings.completions = rings.submissions;
	if (ioctl(device->fd, EXANEST_IOC_RINGS, &rings) < 0)
		return EXANEST_DEVICE " refused its rings";
	device->memory_bytes = rings.map_bytes;
	device->memory = mmap(NULL, device->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			      device->fd, 0);
	if (device->memory == MAP_FAILED) {
		device->memory = NULL;
		return EXANEST_DEVICE " cannot be mapped";
	}
	device->submissions = device_ring_at(device, rings.submission_head,
					     rings.submission_entries, rings.submissions);
	device->completions = device_ring_at(device, rings.completion_head,
					     rings.completion_entries, rings.completions);
	device->faults = device_ring_at(device, rings.fault_head, rings.fault_entries,
					rings.faults);
	return NULL;
}

/* The compiler names a policy that has no case. */
static uint32_t device_policy(enum pf_policy policy)
{
	switch (policy) {
	case PF_POLICY_TOUCH:
		return EXANEST_POLICY_TOUCH;
	case PF_POLICY_AHEAD:
		return EXANEST_POLICY_AHEAD;
	case PF_POLICY_HUGE:
		return EXANEST_POLICY_HUGE;
	case PF_POLICY_ADAPTIVE:
		break;
	}
	return EXANEST_POLICY_DEFAULT;
}

/* Under the lock: join the domain of a secret. Return NULL, or the reason of the failure. */
static const char *device_join_domain(struct device *device,
				      const uint8_t secret[EXANEST_SECRET_BYTES])
{
	struct exanest_join request = { .size = sizeof(request),
					.policy = device_policy(device->policy) };
	const char *why;

	assert_locked(&device->lock, true);
	memcpy(request.secret, secret, sizeof(request.secret));
	if (ioctl(device->fd, EXANEST_IOC_JOIN, &request) < 0) {
		sodium_memzero(request.secret, sizeof(request.secret));
		return EXANEST_DEVICE " refused to join a protection domain";
	}
	sodium_memzero(request.secret, sizeof(request.secret));
	why = device_make_rings(device);
	if (!why)
		atomic_store_explicit(&device->address, request.address, memory_order_release);
	return why;
}

/*
 * Tell the kernel of a pager, under the lock of the pagers. Before a domain is joined there is
 * nothing to forward.
 */
static int device_forward_pager(void *arg, uint64_t start, uint64_t length, bool enable)
{
	struct device *device = arg;
	struct exanest_pager request = {
		.size = sizeof(request), .enable = enable, .address = start, .length = length
	};
	int status = PF_OK;

	pthread_mutex_lock(&device->lock);
	if (device_address(device) && ioctl(device->fd, EXANEST_IOC_PAGER, &request) < 0)
		status = PF_ERR_SYSTEM;
	pthread_mutex_unlock(&device->lock);
	return status;
}

/* Join a domain, unless joined or refused before. bytes: a secret of the domain, of any length. */
static void device_join_once(struct device *device, const uint8_t *bytes, size_t length)
{
	uint8_t secret[EXANEST_SECRET_BYTES];
	bool joined = false;
	const char *why;

	pthread_mutex_lock(&device->lock);
	if (device->fd >= 0 && !device_address(device) && !device->refused) {
		crypto_generichash(secret, sizeof(secret), bytes, length, NULL, 0);
		why = device_join_domain(device, secret);
		sodium_memzero(secret, sizeof(secret));
		device->refused = why != NULL;
		joined = !why;
		device_set_why(device, why);
	}
	pthread_mutex_unlock(&device->lock);
	/*
	 * Forward the ranges of earlier pagers. No peer knows the address yet, hence no transfer
	 * met these ranges.
	 */
	if (joined)
		pagers_forward(device->pagers, device_forward_pager, device);
}

void device_join(struct device *device, const void *secret, size_t length)
{
	device_join_once(device, secret, length);
}

void device_join_pair(struct device *device, const struct address *own, const struct address *other)
{
	/* Both processes choose the same key, whichever of them called. */
	const struct address *first = memcmp(own->id, other->id, sizeof(own->id)) < 0 ? own : other;

	device_join_once(device, first->key, sizeof(first->key));
}

uint16_t device_atomic_op(enum pf_atomic_op op)
{
	static const uint16_t ops[] = {
		[PF_ATOMIC_ADD] = EXANEST_ATOMIC_ADD,
		[PF_ATOMIC_AND] = EXANEST_ATOMIC_AND,
		[PF_ATOMIC_OR] = EXANEST_ATOMIC_OR,
		[PF_ATOMIC_XOR] = EXANEST_ATOMIC_XOR,
		[PF_ATOMIC_SWAP] = EXANEST_ATOMIC_SWAP,
		[PF_ATOMIC_COMPARE_SWAP] = EXANEST_ATOMIC_COMPARE_SWAP,
	};

	return ops[op];
}

bool device_submit(struct device *device, struct device_request *request,
		   struct exanest_submission *submission)
{
	assert_progress(device->pagers->context);
	submission->cookie = (uint64_t)(uintptr_t)request;
	if (!device->memory || !device_ring_put(&device->submissions, submission))
		return false;
	TAILQ_INSERT_TAIL(&device->requests, request, link);
	device->in_flight++;
	device->doorbell_checked = false;
	return true;
}

static void device_request_finish(struct device *device, struct device_request *request,
				  const struct exanest_completion *completion)
{
	assert_progress(device->pagers->context);
	TAILQ_REMOVE(&device->requests, request, link);
	device->in_flight--;
	/* A slot is free again; the engine may sleep for lack of slots. */
	device->doorbell_checked = false;
	request->done(request, completion);
}

void device_fail(struct device *device)
{
	const struct exanest_completion lost = { .status = -EIO };
	struct device_request *request;

	assert_progress(device->pagers->context);
	device_close(device);
	device_set_why(device, "the engine of " EXANEST_DEVICE " is out of order");
	if (device->failed)
		device->failed(device->failed_arg);
	while ((request = TAILQ_FIRST(&device->requests)))
		device_request_finish(device, request, &lost);
}

static void device_count_at_times(struct device *device, struct statistics *statistics)
{
	uint64_t now = clock_nanoseconds(CLOCK_MONOTONIC);

	assert_progress(device->pagers->context);
	if (now - device->counted_at < COUNT_NANOSECONDS)
		return;
	device->counted_at = now;
	device_count(device, statistics);
}

int device_poll(struct device *device, struct statistics *statistics)
{
	struct exanest_completion completion;
	bool failed = false;
	int count = 0;

	assert_progress(device->pagers->context);
	while (device->memory && device_ring_take_completion(&device->completions, &completion)) {
		failed |= completion.status == -EIO;
		device_request_finish(device, (void *)(uintptr_t)completion.cookie, &completion);
		count++;
	}
	if (failed)
		device_fail(device);
	else if (count)
		device_count_at_times(device, statistics);
	return count;
}

bool device_ring_bell(struct device *device)
{
	assert_progress(device->pagers->context);
	if (device->doorbell_checked)
		return false;
	device->doorbell_checked = true;
	if (!device->in_flight || !device_ring_asleep(&device->submissions))
		return false;
	while (ioctl(device->fd, EXANEST_IOC_DOORBELL) < 0) {
		if (errno != EINTR && errno != EAGAIN) {
			device_fail(device);
			return true;
		}
	}
	return false;
}

void device_reset_completion_event(struct device *device)
{
	uint64_t count;

	assert_progress(device->pagers->context);
	while (read(device->completion_event, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

void device_count(struct device *device, struct statistics *statistics)
{
	struct exanest_statistics now = { .size = sizeof(now) }, *before = &device->counted;
	uint64_t faults, failed, pager;

	if (!device_address(device))
		return;
	pthread_mutex_lock(&device->lock);
	if (device->fd >= 0 && !ioctl(device->fd, EXANEST_IOC_STATISTICS, &now)) {
		faults = now.faults - before->faults;
		failed = now.faults_failed - before->faults_failed;
		pager = now.faults_pager - before->faults_pager;
		statistic_add_concurrent(statistics, PF_STAT_LOCAL_FAULTS, faults);
		statistic_add_concurrent(statistics, PF_STAT_LOCAL_PERMISSION, failed);
		statistic_add_concurrent(statistics, PF_STAT_LOCAL_PAGER, pager);
		if (faults > failed + pager)
			statistic_add_concurrent(statistics, PF_STAT_LOCAL_MINOR,
						 faults - failed - pager);
		statistic_add_concurrent(statistics, PF_STAT_RETRANSMITS,
					 now.retransmits - before->retransmits);
		*before = now;
	}
	pthread_mutex_unlock(&device->lock);
}

bool device_take_fault(struct device *device, struct exanest_fault *fault)
{
	uint64_t count;
	bool taken;

	while (read(device->fault_event, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&device->lock);
	taken = device_address(device) && device_ring_take_fault(&device->faults, fault);
	pthread_mutex_unlock(&device->lock);
	return taken;
}

void device_answer_fault(struct device *device, uint64_t ticket, int status)
{
	struct exanest_resolved answer = { .size = sizeof(answer),
					   .status = status == PF_OK ? 0 : -EFAULT,
					   .ticket = ticket };

	pthread_mutex_lock(&device->lock);
	/* Errors are ignored: the transfer that waited for the page may have ended. */
	if (device->fd >= 0)
		ioctl(device->fd, EXANEST_IOC_RESOLVED, &answer);
	pthread_mutex_unlock(&device->lock);
}
