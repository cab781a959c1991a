/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints and copies. */
#include "smsc_exanest.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "opal/mca/pmix/pmix-internal.h"

OBJ_CLASS_INSTANCE(mca_smsc_exanest_endpoint_t, opal_object_t, NULL, NULL);

/* Read the cookie of the process as a copy would. */
static bool modex_is_true(const mca_smsc_exanest_modex_t *modex)
{
	uint64_t cookie = ~modex->cookie;
	const struct iovec here = { &cookie, sizeof(cookie) };
	const struct iovec there = { (void *)(uintptr_t)modex->cookie_address, sizeof(cookie) };

	return process_vm_readv((pid_t)modex->pid, &here, 1, &there, 1, 0) == sizeof(cookie) &&
	       cookie == modex->cookie;
}

/*
 * Return what the process published, of at least one byte of address, to be freed; NULL: nothing valid.
 * *address_length: bytes of the address.
 */
static mca_smsc_exanest_modex_t *modex_receive(opal_proc_t *proc, size_t *address_length)
{
	const size_t header = offsetof(mca_smsc_exanest_modex_t, address);
	mca_smsc_exanest_modex_t *modex = NULL;
	size_t length = 0;
	int rc;

	OPAL_MODEX_RECV_IMMEDIATE(rc, &mca_smsc_exanest_component.super.smsc_version,
				  &proc->proc_name, (void **)&modex, &length);
	if (OPAL_SUCCESS != rc)
		return NULL;
	if (length > header && length <= sizeof(*modex)) {
		*address_length = length - header;
		return modex;
	}
	free(modex);
	return NULL;
}

/* NULL for a single peer switches RDMA off for all of btl/sm: only if the process cannot be read. */
static mca_smsc_endpoint_t *smsc_get_endpoint(opal_proc_t *proc)
{
	mca_smsc_exanest_endpoint_t *endpoint = NULL;
	mca_smsc_exanest_modex_t *modex;
	size_t length;

	modex = modex_receive(proc, &length);
	if (NULL == modex)
		return NULL;
	if (!modex_is_true(modex)) {
		opal_output_verbose(MCA_BASE_VERBOSE_ERROR,
				    opal_smsc_base_framework.framework_output,
				    "smsc:exanest: no permission to copy to and from %s",
				    OPAL_NAME_PRINT(proc->proc_name));
	} else if (NULL != (endpoint = OBJ_NEW(mca_smsc_exanest_endpoint_t))) {
		endpoint->super.proc = proc;
		endpoint->pid = (pid_t)modex->pid;
		atomic_init(&endpoint->peer, NULL);
		atomic_init(&endpoint->asked, false);
	}
	free(modex);
	return (mca_smsc_endpoint_t *)endpoint;
}

/* Return the peer of libpf, or NULL: see mca_smsc_exanest_endpoint_t. */
static pf_peer *endpoint_peer(mca_smsc_exanest_endpoint_t *endpoint)
{
	mca_smsc_exanest_modex_t *modex;
	pf_peer *peer = NULL;
	size_t length;

	if (OPAL_LIKELY(atomic_load_explicit(&endpoint->asked, memory_order_relaxed)) ||
	    atomic_exchange_explicit(&endpoint->asked, true, memory_order_relaxed))
		return atomic_load_explicit(&endpoint->peer, memory_order_acquire);
	modex = modex_receive(endpoint->super.proc, &length);
	if (NULL == modex)
		return NULL;
	if (pf_peer_open(mca_smsc_exanest_component.context, modex->address, length, NULL, &peer) !=
	    PF_OK)
		peer = NULL;
	free(modex);
	atomic_store_explicit(&endpoint->peer, peer, memory_order_release);
	return peer;
}

static void smsc_return_endpoint(mca_smsc_endpoint_t *super)
{
	mca_smsc_exanest_endpoint_t *endpoint = (mca_smsc_exanest_endpoint_t *)super;
	pf_peer *peer = atomic_load_explicit(&endpoint->peer, memory_order_acquire);

	/* With the context all peers have gone. */
	if (mca_smsc_exanest_component.context && peer)
		pf_peer_close(peer);
	OBJ_RELEASE(endpoint);
}

/*
 * Bytes of the shortest copy by libpf. Of shorter copies the handshake with the other process costs
 * more than a second processor saves: the caller copies alone, as component cma.
 */
#define SHARED_LEAST (256u << 10)

/* process_vm_readv or process_vm_writev. */
typedef ssize_t (*copy_fn)(pid_t pid, const struct iovec *local, unsigned long local_count,
			   const struct iovec *remote, unsigned long remote_count,
			   unsigned long flags);

/* Copy alone, as component cma. Returns OPAL_SUCCESS or OPAL_ERROR. */
static int copy_alone(const mca_smsc_exanest_endpoint_t *endpoint, copy_fn copy, void *local,
		      void *remote, size_t size)
{
	struct iovec here = { local, size }, there = { remote, size };

	while (here.iov_len) {
		const ssize_t count = copy(endpoint->pid, &here, 1, &there, 1, 0);

		if (count <= 0)
			return OPAL_ERROR;
		here.iov_base = (char *)here.iov_base + count;
		there.iov_base = (char *)there.iov_base + count;
		here.iov_len = there.iov_len -= (size_t)count;
	}
	return OPAL_SUCCESS;
}

/* A copy by libpf, completed by any thread; the caller waits. */
struct shared_copy {
	_Atomic bool done;
	int status;
};

static void shared_complete(pf_context *context, const pf_completion *completion)
{
	struct shared_copy *copy = completion->arg;

	copy->status = completion->status;
	/* Behind the store of the status: the waiting thread may leave its function now. */
	atomic_store_explicit(&copy->done, true, memory_order_release);
}

/*
 * Wait for the end of a copy; status: returned by pf_put or pf_get. No time-out: until completion
 * the peer may still copy to the memory of the caller.
 */
static int shared_wait(pf_peer *peer, struct shared_copy *copy, int status)
{
	if (status != PF_PENDING)
		return status;
	while (!atomic_load_explicit(&copy->done, memory_order_acquire))
		(void)pf_flush(mca_smsc_exanest_component.context, peer, -1);
	return copy->status;
}

/* Return the process that takes part in a copy of this size, or NULL. */
static pf_peer *sharing_peer(mca_smsc_exanest_endpoint_t *endpoint, size_t size)
{
	pf_peer *peer;

	if (size < SHARED_LEAST)
		return NULL;
	peer = endpoint_peer(endpoint);
	if (NULL != peer)
		mca_smsc_exanest_note_copy();
	return peer;
}

/* A copy that libpf cannot make, for lack of descriptors for example, is made alone. */
static int smsc_copy_to(mca_smsc_endpoint_t *super, void *local, void *remote, size_t size,
			void *registration)
{
	mca_smsc_exanest_endpoint_t *endpoint = (mca_smsc_exanest_endpoint_t *)super;
	pf_peer *peer = sharing_peer(endpoint, size);
	struct shared_copy copy = { false, PF_OK };

	if (NULL != peer && shared_wait(peer, &copy,
					pf_put(peer, local, (uint64_t)(uintptr_t)remote, size, 0,
					       shared_complete, &copy)) == PF_OK)
		return OPAL_SUCCESS;
	return copy_alone(endpoint, process_vm_writev, local, remote, size);
}

static int smsc_copy_from(mca_smsc_endpoint_t *super, void *local, void *remote, size_t size,
			  void *registration)
{
	mca_smsc_exanest_endpoint_t *endpoint = (mca_smsc_exanest_endpoint_t *)super;
	pf_peer *peer = sharing_peer(endpoint, size);
	struct shared_copy copy = { false, PF_OK };

	if (NULL != peer && shared_wait(peer, &copy,
					pf_get(peer, local, (uint64_t)(uintptr_t)remote, size,
					       shared_complete, &copy)) == PF_OK)
		return OPAL_SUCCESS;
	return copy_alone(endpoint, process_vm_readv, local, remote, size);
}

mca_smsc_module_t mca_smsc_exanest_module = {
	.get_endpoint = smsc_get_endpoint,
	.return_endpoint = smsc_return_endpoint,
	.copy_to = smsc_copy_to,
	.copy_from = smsc_copy_from,
};
