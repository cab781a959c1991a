/* SPDX-License-Identifier: BSD-3-Clause */
/* Differences between Open MPI 4.1 (BTL 3.1) and 5.0 and later (BTL 3.3). */
#ifndef MCA_BTL_EXANEST_COMPAT_H
#define MCA_BTL_EXANEST_COMPAT_H

#include "opal_config.h"

/* Inline functions of an Open MPI compiled with -mcx16 need the flag here, too. */
#if defined(__x86_64__) && OPAL_HAVE_SYNC_BUILTIN_CSWAP_INT128 &&                                  \
	!defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
#ifdef __clang__
#error "Open MPI was compiled with -mcx16: add that to CFLAGS"
#endif
#pragma GCC target("cx16")
#endif

#include <stdio.h>
#include <stdlib.h>

#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#if BTL_VERSION != 310 && BTL_VERSION != 330
#error "the component is written for versions 3.1 and 3.3 of the BTL interface"
#endif

/*
 * MCA_BTL_EXANEST_HEADER_ROOM: the PML's eager limit counts the longest header of ob1
 * (mca_pml_ob1_hdr_t: 56 bytes in Open MPI 4.1, 88 in 5.0), libpf's limit does not. The
 * room is added to libpf's limit: a payload of exactly the limit is still sent eagerly.
 * The room is also the least value of a limit: ob1 puts a header into each piece.
 */

#if BTL_VERSION >= 330

#define MCA_BTL_EXANEST_HEADER_ROOM 96

#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"

#define MCA_BTL_EXANEST_MODEX_SCOPE PMIX_GLOBAL
/* The pthread_mutex_t of an opal_mutex_t. */
#define MCA_BTL_EXANEST_PTHREAD_MUTEX(lock) (&(lock)->m_lock)

/* Tell all processes of the job a value. */
static inline void mca_btl_exanest_publish(const char *key, const void *bytes, size_t length)
{
	int rc;

	OPAL_MODEX_SEND_STRING(rc, MCA_BTL_EXANEST_MODEX_SCOPE, key, bytes, length);
	if (PMIX_SUCCESS == rc)
		PMIx_Commit();
}

/*
 * Learn the value that a process has told, and wait for the process if need be. False: no
 * value of the length came in time.
 */
static inline bool mca_btl_exanest_learn(const opal_process_name_t *name, const char *key,
					 int seconds, void *bytes, size_t length)
{
	pmix_value_t *value = NULL;
	pmix_info_t timeout;
	pmix_proc_t proc;
	bool learned;

	OPAL_PMIX_CONVERT_NAME(&proc, name);
	PMIX_INFO_LOAD(&timeout, PMIX_TIMEOUT, &seconds, PMIX_INT);
	learned = PMIX_SUCCESS == PMIx_Get(&proc, key, &timeout, 1, &value) && value &&
		  PMIX_BYTE_OBJECT == value->type && value->data.bo.size == length;
	if (learned)
		memcpy(bytes, value->data.bo.bytes, length);
	if (value)
		PMIX_VALUE_RELEASE(value);
	PMIX_INFO_DESTRUCT(&timeout);
	return learned;
}

/* pf_put completes when the bytes are in the peer's memory. */
#define MCA_BTL_EXANEST_FLAGS MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
/* Open MPI makes put, get and atomics of messages (AM-RDMA). */
#define MCA_BTL_EXANEST_AM_RDMA 1

/*
 * Is a message with the tag answered through the sender's endpoint? AM-RDMA aborts
 * without an endpoint.
 */
static inline bool mca_btl_exanest_is_answered(mca_btl_base_tag_t tag)
{
	return tag >= MCA_BTL_TAG_BTL_BASE && tag < MCA_BTL_TAG_BTL;
}

/*
 * Does ob1 write behind the end of a short message with the tag? The answer to the first
 * message over a communicator of a session (MCA_PML_OB1_HDR_TYPE_CID) is a single header:
 * mca_pml_ob1_recv_frag_callback_cid stores 2 bytes in a second header before the length
 * is checked.
 */
static inline bool mca_btl_exanest_is_written_behind(mca_btl_base_tag_t tag)
{
	return tag == MCA_BTL_TAG_PML + 10;
}

/*
 * Is the buffer in memory of an accelerator? Packing may then wait for the device, and
 * may fail.
 */
static inline bool mca_btl_exanest_is_on_device(const opal_convertor_t *convertor)
{
	return opal_convertor_on_device(convertor);
}

static inline bool mca_btl_exanest_must_pack(const opal_convertor_t *convertor)
{
	return opal_convertor_need_buffers(convertor) || mca_btl_exanest_is_on_device(convertor);
}

static inline void mca_btl_exanest_deliver(mca_btl_base_module_t *btl,
					   struct mca_btl_base_endpoint_t *from,
					   mca_btl_base_tag_t tag, mca_btl_base_segment_t *segments,
					   size_t count)
{
	const mca_btl_active_message_callback_t *reg = mca_btl_base_active_message_trigger + tag;
	const mca_btl_base_receive_descriptor_t message = {
		.endpoint = from,
		.des_segments = segments,
		.des_segment_count = count,
		.tag = tag,
		.cbdata = reg->cbdata,
	};

	reg->cbfunc(btl, &message);
}

static inline void mca_btl_exanest_hostname(const opal_proc_t *proc, char *buffer, size_t size)
{
	char *name = opal_get_proc_hostname(proc);

	snprintf(buffer, size, "%s", name ? name : "unknown");
	free(name);
}

static inline void mca_btl_exanest_abort_job(const char *why)
{
	PMIx_Abort(1, why, NULL, 0);
}

#else /* BTL 3.1 */

#define MCA_BTL_EXANEST_HEADER_ROOM 64

#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"

#define MCA_BTL_EXANEST_MODEX_SCOPE OPAL_PMIX_GLOBAL
/* The pthread_mutex_t of an opal_mutex_t. */
#define MCA_BTL_EXANEST_PTHREAD_MUTEX(lock) (&(lock)->m_lock_pthread)

/*
 * Not needed: mpirun gives the processes of a job a secret; under srun each host has a
 * secret of its own.
 */
static inline void mca_btl_exanest_publish(const char *key, const void *bytes, size_t length)
{
}

static inline bool mca_btl_exanest_learn(const opal_process_name_t *name, const char *key,
					 int seconds, void *bytes, size_t length)
{
	return false;
}

#define MCA_BTL_EXANEST_FLAGS 0
#define MCA_BTL_EXANEST_AM_RDMA 0

static inline bool mca_btl_exanest_is_written_behind(mca_btl_base_tag_t tag)
{
	return false;
}

/* In Open MPI 4.1 need_buffers knows devices. */
static inline bool mca_btl_exanest_is_on_device(const opal_convertor_t *convertor)
{
#if OPAL_CUDA_SUPPORT
	return convertor->flags & CONVERTOR_CUDA;
#else
	return false;
#endif
}

static inline bool mca_btl_exanest_must_pack(const opal_convertor_t *convertor)
{
	return opal_convertor_need_buffers(convertor);
}

static inline void mca_btl_exanest_deliver(mca_btl_base_module_t *btl,
					   struct mca_btl_base_endpoint_t *from,
					   mca_btl_base_tag_t tag, mca_btl_base_segment_t *segments,
					   size_t count)
{
	const mca_btl_active_message_callback_t *reg = mca_btl_base_active_message_trigger + tag;
	mca_btl_base_descriptor_t message;

	/*
	 * Receivers read only four fields, and clearing the rest would double the cost of
	 * the call.
	 */
	message.des_segments = segments;
	message.des_segment_count = count;
	message.des_cbdata = NULL;
	message.des_flags = 0;
	reg->cbfunc(btl, tag, &message, reg->cbdata);
}

static inline void mca_btl_exanest_hostname(const opal_proc_t *proc, char *buffer, size_t size)
{
	const char *name = opal_get_proc_hostname(proc);

	snprintf(buffer, size, "%s", name ? name : "unknown");
}

static inline void mca_btl_exanest_abort_job(const char *why)
{
	if (opal_pmix.abort)
		opal_pmix.abort(1, why, NULL);
}

#endif /* BTL_VERSION */

/*
 * Beginning of mca_bml_base_btl_t, equal in 4.1, 5.0 and 6.0. A BTL belongs to OPAL, and
 * the header of mca_bml_base_btl_t lies above OPAL.
 */
typedef struct mca_btl_exanest_bml_t {
	uint32_t btl_flags;
	float btl_weight;
	mca_btl_base_module_t *btl;
	struct mca_btl_base_endpoint_t *btl_endpoint;
} mca_btl_exanest_bml_t;

/*
 * Before 4.1.5, osc/rdma passes MPI_Compare_and_swap on a window from MPI_Win_allocate to
 * the BTL with an address valid only in the caller (open-mpi/ompi#10513). See
 * mca_btl_exanest_atomic_cswap.
 */
#define MCA_BTL_EXANEST_CSWAP_MISUSED                                                              \
	(OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION == 1 && OPAL_RELEASE_VERSION < 5)

/* Open MPI 6.0 has no parser of help files, and knows only help files compiled into Open MPI. */
#if __has_include("opal/util/show_help_lex.h")
#define MCA_BTL_EXANEST_SHOW_HELP_READS_FILES 1
#else
#define MCA_BTL_EXANEST_SHOW_HELP_READS_FILES 0
#endif

#endif
