/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BTL exanest: Open MPI over libpf. Memory is neither registered nor pinned,
 * so there is no btl_register_mem (but for comparison, see btl_exanest_mode), no
 * rcache and no mpool; every protocol decision (ring, single copy, faults,
 * retransmission) is libpf's.
 */
#ifndef MCA_BTL_EXANEST_H
#define MCA_BTL_EXANEST_H

#include "btl_exanest_compat.h"

#include <pf.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"
#include "opal/mca/btl/base/base.h"

BEGIN_C_DECLS

#define MCA_BTL_EXANEST_HELP "help-mpi-btl-exanest.txt"

/*
 * The PML's eager limit counts its header, libpf's does not. This is what we
 * add, so that a payload of exactly libpf's limit is still sent eagerly.
 */
#define MCA_BTL_EXANEST_HEADER_ROOM 64

typedef struct mca_btl_exanest_component_t {
	mca_btl_base_component_t super;

	pf_context *context;
	pf_options options;
	/* MCA variables whose values have names must be ints: of all options, in their order. */
	int choices[sizeof(pf_options) / sizeof(uint64_t)];
	bool automatic;                /* used without being named in the parameter btl */
	int idle_polls_index;          /* MCA variable, to see whether the user has set it */
	const pf_option_info *culprit; /* PF_* environment variable that could not be used */

	/* Of the module between hosts. */
	size_t net_eager_limit;
	size_t net_max_send_size;

	int free_list_num;
	int free_list_max;
	int free_list_inc;
	opal_free_list_t control_frags; /* PML headers alone, or before a payload sent in place */
	opal_free_list_t packed_frags;  /* buffers for packed payloads */
	opal_free_list_t operations;    /* put, get and atomics in flight */

	opal_mutex_t lock;             /* of all below */
	opal_list_t waiting;           /* endpoints with pending frags */
	volatile size_t waiting_count; /* of them, and those being worked on */
	opal_hash_table_t endpoints;   /* by opal_proc_t */
	bool has_remote_peers;         /* there was an endpoint of another host */
	unsigned modules;              /* not finalized yet */
	bool fault_reported;
	bool stray_reported;
	bool registration_reported;
} mca_btl_exanest_component_t;

/*
 * Two modules over one context, because Open MPI has one set of limits for each:
 * one for processes of this host, one for all others. The second reaches those
 * of this host, too, but for one-sided communication only: osc/rdma wants one
 * module that reaches every process of a job.
 */
typedef struct mca_btl_exanest_module_t {
	mca_btl_base_module_t super;
	mca_btl_base_module_error_cb_fn_t error_cb;
} mca_btl_exanest_module_t;

OPAL_DECLSPEC extern mca_btl_exanest_component_t mca_btl_exanest_component;
extern mca_btl_exanest_module_t mca_btl_exanest_module;
extern mca_btl_exanest_module_t mca_btl_exanest_net_module;

/* One for each opal_proc_t, counted by add_procs and del_procs. */
typedef struct mca_btl_base_endpoint_t {
	opal_list_item_t super; /* on component.waiting */
	mca_btl_exanest_module_t *module;
	opal_proc_t *proc;
	pf_peer *peer;
	int count;
	/* The other module's for a process of this host: has our peer, and is one of our count. */
	struct mca_btl_base_endpoint_t *one_sided;
	struct mca_btl_base_endpoint_t *owner; /* whose one_sided this is */
	volatile bool is_waiting;              /* sends must queue behind pending */
	bool error_reported;
	opal_list_t pending; /* frags the ring had no room for, oldest first */
} mca_btl_base_endpoint_t;

OBJ_CLASS_DECLARATION(mca_btl_base_endpoint_t);

typedef struct mca_btl_exanest_frag_t {
	mca_btl_base_descriptor_t base;
	mca_btl_base_segment_t segments[2];
	mca_btl_base_endpoint_t *endpoint;
	opal_free_list_t *list;
	mca_btl_base_tag_t tag;
} mca_btl_exanest_frag_t;

OBJ_CLASS_DECLARATION(mca_btl_exanest_frag_t);

typedef struct mca_btl_exanest_operation_t {
	opal_free_list_item_t super;
	const char *name;
	mca_btl_base_endpoint_t *endpoint;
	void *local_address;
	uint8_t result_width; /* atomics: bytes of the old value to store, or 0 */
	mca_btl_base_registration_handle_t *local_handle;
	mca_btl_base_rdma_completion_fn_t cbfunc;
	void *cbcontext;
	void *cbdata;
} mca_btl_exanest_operation_t;

OBJ_CLASS_DECLARATION(mca_btl_exanest_operation_t);

/* btl_exanest_module.c */
/* An OPAL_* code for a pf_status. */
int mca_btl_exanest_error(int status);
/* Tell the user, once an endpoint, that its process cannot be reached any more. */
void mca_btl_exanest_report_peer(mca_btl_base_endpoint_t *endpoint, int status);

void mca_btl_exanest_peer_error(pf_context *context, pf_peer *peer, int status, const char *text,
				void *arg);

/* btl_exanest_registration.c */
/* Give the module functions for registration, if the mode is one that registers. */
void mca_btl_exanest_init_registration(mca_btl_base_module_t *btl);

/* btl_exanest_pvar.c */
int mca_btl_exanest_register_pvars(void);

/* btl_exanest_frag.c */
mca_btl_base_descriptor_t *mca_btl_exanest_alloc(mca_btl_base_module_t *btl,
						 mca_btl_base_endpoint_t *endpoint, uint8_t order,
						 size_t size, uint32_t flags);
int mca_btl_exanest_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
mca_btl_base_descriptor_t *mca_btl_exanest_prepare_src(mca_btl_base_module_t *btl,
						       mca_btl_base_endpoint_t *endpoint,
						       opal_convertor_t *convertor, uint8_t order,
						       size_t reserve, size_t *size,
						       uint32_t flags);

/* btl_exanest_send.c */
int mca_btl_exanest_send(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			 mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int mca_btl_exanest_sendi(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			  opal_convertor_t *convertor, void *header, size_t header_size,
			  size_t payload_size, uint8_t order, uint32_t flags,
			  mca_btl_base_tag_t tag, mca_btl_base_descriptor_t **descriptor);
/* Send what is pending, as far as there is room. Returns how many. */
int mca_btl_exanest_send_pending(void);
void mca_btl_exanest_receive(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			     size_t length, void *arg);

/* btl_exanest_rdma.c */
int mca_btl_exanest_put(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			void *local_address, uint64_t remote_address,
			mca_btl_base_registration_handle_t *local_handle,
			mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
			int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			void *cbdata);
int mca_btl_exanest_get(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			void *local_address, uint64_t remote_address,
			mca_btl_base_registration_handle_t *local_handle,
			mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
			int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			void *cbdata);
int mca_btl_exanest_atomic_op(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			      uint64_t remote_address,
			      mca_btl_base_registration_handle_t *remote_handle,
			      mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
			      mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			      void *cbdata);
int mca_btl_exanest_atomic_fop(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
			       void *local_address, uint64_t remote_address,
			       mca_btl_base_registration_handle_t *local_handle,
			       mca_btl_base_registration_handle_t *remote_handle,
			       mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
			       mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
			       void *cbdata);
int mca_btl_exanest_atomic_cswap(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint,
				 void *local_address, uint64_t remote_address,
				 mca_btl_base_registration_handle_t *local_handle,
				 mca_btl_base_registration_handle_t *remote_handle,
				 uint64_t compare, uint64_t value, int flags, int order,
				 mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
				 void *cbdata);
int mca_btl_exanest_flush(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint);

END_C_DECLS

#endif
