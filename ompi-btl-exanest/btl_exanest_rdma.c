/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get and atomics. No address needs to be registered: registration handles
 * are passed back to the caller and not looked at.
 */
#include "btl_exanest.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

OBJ_CLASS_INSTANCE(mca_btl_exanest_operation_t, opal_free_list_item_t, NULL, NULL);

/* The first one says enough: a program with one usually has thousands. */
static void report_fault(const mca_btl_exanest_operation_t *operation,
			 const pf_completion *completion)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const mca_btl_base_endpoint_t *endpoint = operation->endpoint;
	const bool local = completion->side == PF_SIDE_LOCAL;

	if (endpoint->retired || !mca_btl_exanest_is_first(&component->reported.fault))
		return;
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "fault",
		"%s on %s (pid %d): %s with %s failed at address 0x%" PRIx64
		" of %s, which is not mapped or may not be accessed so\n"
		"\n"
		"This is usually an error in the program: a buffer that was freed or is too short, or\n"
		"one in read-only memory. Memory of an accelerator cannot be a buffer of one-sided\n"
		"communication either. Only the first such failure of a process is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), operation->name,
		mca_btl_exanest_name(endpoint->proc->proc_name).text, completion->address,
		local ? "this process" : "the peer");
}

static void finish(mca_btl_exanest_operation_t *operation, int rc)
{
	const mca_btl_exanest_operation_t done = *operation;

	opal_free_list_return(&mca_btl_exanest_component.operations, &operation->super);
	if (done.cbfunc)
		done.cbfunc(&done.endpoint->module->super, done.endpoint, done.local_address,
			    done.local_handle, done.cbcontext, done.cbdata, rc);
}

/* An operation that ended with an error which is no page fault; error: errno, if it is known. */
static void fail(const mca_btl_exanest_operation_t *operation, int status, int error)
{
	errno = error;
	mca_btl_exanest_fail_peer(operation->endpoint, status, NULL);
}

/* The old value of a fetching atomic operation. */
static void store_result(const mca_btl_exanest_operation_t *operation, uint64_t value)
{
	if (operation->result_width == sizeof(uint64_t))
		*(uint64_t *)operation->local_address = value;
	else if (operation->result_width == sizeof(uint32_t))
		*(uint32_t *)operation->local_address = (uint32_t)value;
}

static void complete(pf_context *context, const pf_completion *completion)
{
	mca_btl_exanest_operation_t *operation = completion->arg;

	if (OPAL_UNLIKELY(completion->status == PF_ERR_FAULT))
		report_fault(operation, completion);
	else if (OPAL_UNLIKELY(completion->status < 0))
		fail(operation, completion->status, 0);
	store_result(operation, OPAL_LIKELY(completion->status >= 0) ? completion->value :
								       operation->expected);
	finish(operation, mca_btl_exanest_error(completion->status));
}

static mca_btl_exanest_operation_t *
new_operation(const char *name, mca_btl_base_endpoint_t *endpoint, void *local_address,
	      mca_btl_base_registration_handle_t *local_handle,
	      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
	mca_btl_exanest_operation_t *operation;

	mca_btl_exanest_notice_threads();
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
 * An operation that libpf does not take. With OPAL_ERR_OUT_OF_RESOURCE, for PF_ERR_AGAIN
 * (operations_max), osc/rdma calls progress and repeats the call; ob1 tries again, or sends
 * the data instead. So nothing waits here.
 *
 * Any other error goes to the callback, as if the operation had failed later. If it is
 * returned, osc/rdma repeats for ever a put or a get of contiguous memory, an accumulation,
 * and the acquisition of a lock (ompi_osc_rdma_master, ompi_osc_rdma_gacc_amo,
 * ompi_osc_rdma_lock_atomic_internal), and it aborts where it releases an exclusive lock. ob1
 * handles both alike. The price: ompi_osc_get_data_blocking, with which osc/rdma reads about a window
 * before it first uses it, looks at what is returned, and ignores the callback's status.
 */
static int refused(mca_btl_exanest_operation_t *operation, int status)
{
	const int rc = mca_btl_exanest_error(status);

	if (status == PF_ERR_AGAIN) {
		opal_free_list_return(&mca_btl_exanest_component.operations, &operation->super);
		return rc;
	}
	/* A wrong argument, as an address range that wraps, is no failure of the peer. */
	if (status != PF_ERR_ARGUMENT)
		fail(operation, status, errno);
	store_result(operation, operation->expected);
	finish(operation, rc);
	return OPAL_SUCCESS;
}

/* Not every caller understands the interface's 1 for "complete": call back instead. */
static int started(mca_btl_exanest_operation_t *operation, int status)
{
	if (OPAL_LIKELY(status == PF_OK))
		return OPAL_SUCCESS;
	if (OPAL_UNLIKELY(status != PF_DONE))
		return refused(operation, status);
	finish(operation, OPAL_SUCCESS);
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

	operation = new_operation("put", endpoint, local_address, local_handle, cbfunc, cbcontext,
				  cbdata);
	if (OPAL_UNLIKELY(NULL == operation))
		return OPAL_ERR_OUT_OF_RESOURCE;
	return started(operation, pf_put(endpoint->peer, local_address, remote_address, size,
					 complete, operation));
}

int mca_btl_exanest_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			void *local_address, uint64_t remote_address,
			mca_btl_base_registration_handle_t *local_handle,
			mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
			int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			void *cbdata)
{
	mca_btl_exanest_operation_t *operation;

	operation = new_operation("get", endpoint, local_address, local_handle, cbfunc, cbcontext,
				  cbdata);
	if (OPAL_UNLIKELY(NULL == operation))
		return OPAL_ERR_OUT_OF_RESOURCE;
	return started(operation, pf_get(endpoint->peer, local_address, remote_address, size,
					 complete, operation));
}

/* -1: an operation that btl_atomic_flags does not offer. */
static int atomic_op(mca_btl_base_atomic_op_t op)
{
	switch (op) {
	case MCA_BTL_ATOMIC_ADD:
		return PF_ADD;
	case MCA_BTL_ATOMIC_AND:
		return PF_AND;
	case MCA_BTL_ATOMIC_OR:
		return PF_OR;
	case MCA_BTL_ATOMIC_XOR:
		return PF_XOR;
	case MCA_BTL_ATOMIC_SWAP:
		return PF_SWAP;
	default:
		return -1;
	}
}

static int atomic(mca_btl_exanest_operation_t *operation, int op, bool fetch,
		  uint64_t remote_address, uint64_t operand, uint64_t compare, int flags)
{
	const unsigned width = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? sizeof(uint32_t) :
								   sizeof(uint64_t);

	if (OPAL_UNLIKELY(NULL == operation))
		return OPAL_ERR_OUT_OF_RESOURCE;
	if (fetch)
		operation->result_width = width;
	operation->expected = compare;
	return started(operation, pf_atomic(operation->endpoint->peer, op, width, fetch,
					    remote_address, operand, compare, complete, operation));
}

/*
 * btl.h wants OPAL_ERR_NOT_AVAILABLE for an operation that a BTL does not have.
 * osc/rdma tries operations without checking btl_atomic_flags, and repeats them
 * for ever on any error but OPAL_ERR_NOT_SUPPORTED.
 */
static bool atomic_supported(int op, uint64_t remote_address, int flags)
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
	const int pf_op = atomic_op(op);

	if (!atomic_supported(pf_op, remote_address, flags))
		return OPAL_ERR_NOT_SUPPORTED;
	return atomic(new_operation("atomic", endpoint, NULL, NULL, cbfunc, cbcontext, cbdata),
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
	const int pf_op = atomic_op(op);

	if (!atomic_supported(pf_op, remote_address, flags))
		return OPAL_ERR_NOT_SUPPORTED;
	return atomic(new_operation("fetching atomic", endpoint, local_address, local_handle,
				    cbfunc, cbcontext, cbdata),
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
	 * MCA_BTL_EXANEST_CSWAP_MISUSED). If all ranks of the window are on this host,
	 * osc/rdma has its locks and the window in shared memory, or does without this
	 * function: refusing costs little. It chooses the module of this host for such
	 * a window only; with network=always there is only the other module.
	 */
	if (MCA_BTL_EXANEST_CSWAP_MISUSED &&
	    (btl == &mca_btl_exanest_module.super || NULL == endpoint ||
	     !mca_btl_exanest_component.has_remote_peers))
		return OPAL_ERR_NOT_SUPPORTED;
	if (!atomic_supported(PF_COMPARE_SWAP, remote_address, flags))
		return OPAL_ERR_NOT_SUPPORTED;
	return atomic(new_operation("compare-and-swap", endpoint, local_address, local_handle,
				    cbfunc, cbcontext, cbdata),
		      PF_COMPARE_SWAP, true, remote_address, value, compare, flags);
}

/* A flush does not cover sends; try to send what waits all the same. */
int mca_btl_exanest_flush(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint)
{
	int status;

	mca_btl_exanest_notice_threads();
	status = pf_flush(mca_btl_exanest_component.context, endpoint ? endpoint->peer : NULL);
	(void)mca_btl_exanest_send_pending();
	return mca_btl_exanest_error(status);
}
