/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get and atomics. No address needs to be registered: registration handles are
 * passed back to the caller and not looked at.
 */
#include "btl_exanest.h"

#include <errno.h>
#include <inttypes.h>

#include "opal/util/output.h"

#include "btl_exanest_check.h"

OBJ_CLASS_INSTANCE(mca_btl_exanest_operation_t, opal_free_list_item_t, NULL, NULL);

/*
 * Does the caller move the data another way if the operation fails? ob1 sends the data.
 * Further callers, osc/rdma first of all, ignore the status: MPI would return success and
 * wrong data. No argument names the caller. ob1's cbdata is ob1's record of the
 * operation, and ob1's context is the mca_bml_base_btl_t of the endpoint. The context of
 * another caller with a cbdata is an object with a class, and lives until the callback.
 */
static bool operation_is_recoverable(const mca_btl_exanest_operation_t *operation)
{
	const mca_btl_exanest_bml_t *bml = operation->cbcontext;

	return operation->cbdata && bml && !((uintptr_t)bml & (sizeof(void *) - 1)) &&
	       bml->btl == &operation->endpoint->module->super &&
	       bml->btl_endpoint == operation->endpoint;
}

/*
 * Report a lost result: end the job or, if the job is to survive failures, have the peer
 * counted as failed.
 */
static void operation_lose(const mca_btl_exanest_operation_t *operation, const char *where)
{
	mca_btl_base_endpoint_t *endpoint = operation->endpoint;
	const struct mca_btl_exanest_name peer = mca_btl_exanest_name(endpoint->proc->proc_name);
	char what[200];

	snprintf(what, sizeof(what), "%s with %s failed%s", operation->name, peer.text, where);
	mca_btl_exanest_fail_operation(endpoint, what);
}

static void operation_fault(const mca_btl_exanest_operation_t *operation,
			    const pf_completion *completion)
{
	const mca_btl_base_endpoint_t *endpoint = operation->endpoint;
	char where[100];

	if (endpoint->retired)
		return;
	snprintf(where, sizeof(where), " at address 0x%" PRIx64 " of %s", completion->address,
		 completion->side == PF_SIDE_LOCAL ? "this process" : "the peer");
	if (!operation_is_recoverable(operation)) {
		operation_lose(operation, where);
		return;
	}
	opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT, opal_btl_base_framework.framework_output,
			    "btl:exanest: %s with %s cannot move the data%s: ob1 sends them",
			    operation->name, mca_btl_exanest_name(endpoint->proc->proc_name).text,
			    where);
}

static void operation_call_back(mca_btl_exanest_operation_t *operation, int rc)
{
	const mca_btl_exanest_operation_t done = *operation;

	opal_free_list_return(&mca_btl_exanest_component.operations, &operation->super);
	if (done.cbfunc)
		done.cbfunc(&done.endpoint->module->super, done.endpoint, done.local_address,
			    done.local_handle, done.cbcontext, done.cbdata, rc);
}

/*
 * Report an operation that ended with an error but no page fault; error: errno, or 0 if
 * unknown.
 */
static void operation_fail_peer(const mca_btl_exanest_operation_t *operation, int status, int error)
{
	assert_that(status < 0 && status != PF_ERR_AGAIN);
	errno = error;
	mca_btl_exanest_fail_peer(operation->endpoint, status, NULL);
}

/* Store the old value of a fetching atomic operation. */
static void operation_store_result(const mca_btl_exanest_operation_t *operation, uint64_t value)
{
	assert_that(!operation->result_width || operation->local_address);
	if (operation->result_width == sizeof(uint64_t))
		*(uint64_t *)operation->local_address = value;
	else if (operation->result_width == sizeof(uint32_t))
		*(uint32_t *)operation->local_address = (uint32_t)value;
}

static void completion_handle(pf_context *context, const pf_completion *completion)
{
	mca_btl_exanest_operation_t *operation = completion->arg;

	assert_progress(context);
	assert_that(completion->status <= PF_OK);
	if (OPAL_UNLIKELY(completion->status == PF_ERR_FAULT))
		operation_fault(operation, completion);
	else if (OPAL_UNLIKELY(completion->status < 0))
		operation_fail_peer(operation, completion->status, 0);
	operation_store_result(operation, OPAL_LIKELY(completion->status >= 0) ?
						  completion->value :
						  operation->expected);
	operation_call_back(operation, mca_btl_exanest_error(completion->status));
}

static mca_btl_exanest_operation_t *
operation_new(const char *name, mca_btl_base_endpoint_t *endpoint, void *local_address,
	      mca_btl_base_registration_handle_t *local_handle,
	      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	mca_btl_exanest_operation_t *operation;

	assert_that(endpoint && !endpoint->retired);
	mca_btl_exanest_note_post();
	operation = (mca_btl_exanest_operation_t *)opal_free_list_get(
		&mca_btl_exanest_component.operations);
	if (OPAL_UNLIKELY(NULL == operation))
		return NULL;
	operation->name = name;
	operation->endpoint = endpoint;
	operation->local_address = local_address;
	operation->result_width = 0;
	operation->local_handle = local_handle;
	operation->cbfunc = cbfunc;
	operation->cbcontext = cbcontext;
	operation->cbdata = cbdata;
	return operation;
}

/*
 * Settle an operation not taken by libpf. PF_ERR_AGAIN (operations_max) becomes
 * OPAL_ERR_OUT_OF_RESOURCE: osc/rdma calls progress and repeats the call; ob1 tries
 * again, or sends the data instead. Nothing waits here.
 *
 * Any further error goes to the callback, as if the operation had failed later. After an
 * error as the return value, osc/rdma repeats for ever a put or a get of contiguous
 * memory, an accumulation, and the acquisition of a lock (ompi_osc_rdma_master,
 * ompi_osc_rdma_gacc_amo, ompi_osc_rdma_lock_atomic_internal), and aborts at the release
 * of an exclusive lock. ob1 handles both alike. osc/rdma ignores the status of the
 * callback: the job ends before the callback.
 */
static int operation_refuse(mca_btl_exanest_operation_t *operation, int status)
{
	const int rc = mca_btl_exanest_error(status);

	assert_that(status < 0);
	if (status == PF_ERR_AGAIN) {
		opal_free_list_return(&mca_btl_exanest_component.operations, &operation->super);
		return rc;
	}
	/* PF_ERR_ARGUMENT stands for an address range that wraps. */
	if (status != PF_ERR_ARGUMENT)
		operation_fail_peer(operation, status, errno);
	else if (!operation_is_recoverable(operation))
		operation_lose(operation, ": the end of its addresses is before their beginning");
	operation_store_result(operation, operation->expected);
	operation_call_back(operation, rc);
	return OPAL_SUCCESS;
}

/*
 * Return the answer of the BTL for the status of a call of libpf. Not every caller
 * understands the interface's 1 for "complete": call back instead.
 */
static int operation_settle(mca_btl_exanest_operation_t *operation, int status)
{
	if (OPAL_LIKELY(status == PF_PENDING))
		return OPAL_SUCCESS;
	if (OPAL_UNLIKELY(status != PF_OK))
		return operation_refuse(operation, status);
	operation_call_back(operation, OPAL_SUCCESS);
	return OPAL_SUCCESS;
}

int mca_btl_exanest_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			void *local_address, uint64_t remote_address,
			mca_btl_base_registration_handle_t *local_handle,
			mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
			int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			void *cbdata)
{
	mca_btl_exanest_operation_t *operation;

	operation = operation_new("put", endpoint, local_address, local_handle, cbfunc, cbcontext,
				  cbdata);
	if (OPAL_UNLIKELY(NULL == operation))
		return OPAL_ERR_OUT_OF_RESOURCE;
	return operation_settle(operation, pf_put(endpoint->peer, local_address, remote_address,
						  size, 0, completion_handle, operation));
}

int mca_btl_exanest_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			void *local_address, uint64_t remote_address,
			mca_btl_base_registration_handle_t *local_handle,
			mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
			int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			void *cbdata)
{
	mca_btl_exanest_operation_t *operation;

	operation = operation_new("get", endpoint, local_address, local_handle, cbfunc, cbcontext,
				  cbdata);
	if (OPAL_UNLIKELY(NULL == operation))
		return OPAL_ERR_OUT_OF_RESOURCE;
	return operation_settle(operation, pf_get(endpoint->peer, local_address, remote_address,
						  size, completion_handle, operation));
}

/* Return the function of libpf; -1: btl_atomic_flags does not offer the operation. */
static int atomic_function(mca_btl_base_atomic_op_t op)
{
	switch (op) {
	case MCA_BTL_ATOMIC_ADD:
		return PF_ATOMIC_ADD;
	case MCA_BTL_ATOMIC_AND:
		return PF_ATOMIC_AND;
	case MCA_BTL_ATOMIC_OR:
		return PF_ATOMIC_OR;
	case MCA_BTL_ATOMIC_XOR:
		return PF_ATOMIC_XOR;
	case MCA_BTL_ATOMIC_SWAP:
		return PF_ATOMIC_SWAP;
	default:
		return -1;
	}
}

static int operation_post_atomic(mca_btl_exanest_operation_t *operation, int op, bool fetch,
				 uint64_t remote_address, uint64_t operand, uint64_t compare,
				 int flags)
{
	const unsigned width = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? sizeof(uint32_t) :
								   sizeof(uint64_t);

	if (OPAL_UNLIKELY(NULL == operation))
		return OPAL_ERR_OUT_OF_RESOURCE;
	if (fetch)
		operation->result_width = width;
	operation->expected = compare;
	return operation_settle(operation,
				pf_atomic(operation->endpoint->peer, op, width, remote_address,
					  operand, compare, completion_handle, operation));
}

/*
 * Can libpf do the operation? For an operation that a BTL does not have, btl.h wants
 * OPAL_ERR_NOT_AVAILABLE. osc/rdma tries operations without checking btl_atomic_flags,
 * and repeats an operation for ever on any error but OPAL_ERR_NOT_SUPPORTED.
 */
static bool atomic_is_supported(int op, uint64_t remote_address, int flags)
{
	const uint64_t mask = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 3 : 7;

	return op >= 0 && !(flags & MCA_BTL_ATOMIC_FLAG_FLOAT) && !(remote_address & mask);
}

int mca_btl_exanest_atomic_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			      uint64_t remote_address,
			      mca_btl_base_registration_handle_t *remote_handle,
			      mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
			      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			      void *cbdata)
{
	const int pf_op = atomic_function(op);

	if (!atomic_is_supported(pf_op, remote_address, flags))
		return OPAL_ERR_NOT_SUPPORTED;
	return operation_post_atomic(operation_new("atomic", endpoint, NULL, NULL, cbfunc,
						   cbcontext, cbdata),
				     pf_op, false, remote_address, operand, 0, flags);
}

int mca_btl_exanest_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			       void *local_address, uint64_t remote_address,
			       mca_btl_base_registration_handle_t *local_handle,
			       mca_btl_base_registration_handle_t *remote_handle,
			       mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
			       mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			       void *cbdata)
{
	const int pf_op = atomic_function(op);

	if (!atomic_is_supported(pf_op, remote_address, flags))
		return OPAL_ERR_NOT_SUPPORTED;
	return operation_post_atomic(operation_new("fetching atomic", endpoint, local_address,
						   local_handle, cbfunc, cbcontext, cbdata),
				     pf_op, true, remote_address, operand, 0, flags);
}

int mca_btl_exanest_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
				 void *local_address, uint64_t remote_address,
				 mca_btl_base_registration_handle_t *local_handle,
				 mca_btl_base_registration_handle_t *remote_handle,
				 uint64_t compare, uint64_t value, int flags, int order,
				 mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
				 void *cbdata)
{
	/*
	 * The address may be wrong, and the own rank has no endpoint (see
	 * MCA_BTL_EXANEST_CSWAP_MISUSED). If all ranks of the window are on the own host,
	 * osc/rdma has locks and window in shared memory, or does without
	 * compare-and-swap: refusing costs little. osc/rdma chooses the host module only
	 * for a window on the own host; with network=always there is only the module
	 * between hosts.
	 */
	if (MCA_BTL_EXANEST_CSWAP_MISUSED &&
	    (btl == &mca_btl_exanest_module.super || NULL == endpoint ||
	     !mca_btl_exanest_component.has_remote_peers))
		return OPAL_ERR_NOT_SUPPORTED;
	if (!atomic_is_supported(PF_ATOMIC_COMPARE_SWAP, remote_address, flags))
		return OPAL_ERR_NOT_SUPPORTED;
	return operation_post_atomic(operation_new("compare-and-swap", endpoint, local_address,
						   local_handle, cbfunc, cbcontext, cbdata),
				     PF_ATOMIC_COMPARE_SWAP, true, remote_address, value, compare,
				     flags);
}

/*
 * Flush puts, gets and atomics. A flush does not cover sends; pending frags are tried all
 * the same.
 */
int mca_btl_exanest_flush(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint)
{
	int status;

	mca_btl_exanest_notice_threads();
	status = pf_flush(mca_btl_exanest_component.context, endpoint ? endpoint->peer : NULL,
			  PF_FOREVER);
	(void)mca_btl_exanest_send_pending();
	return mca_btl_exanest_error(status);
}
