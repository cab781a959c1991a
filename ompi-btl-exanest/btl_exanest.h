/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BTL exanest: Open MPI over libpf. Memory is neither registered nor pinned: there is no
 * rcache and no mpool, and btl_register_mem registers only in builds for comparison
 * (btl_exanest_comparison.h). libpf makes every protocol decision (ring, single copy, page
 * faults, retransmission).
 *
 * Accelerators: the component does not know memory of an accelerator. ob1 packs buffers
 * there, and messages work; one-sided communication with a buffer there ends the job.
 */
#ifndef MCA_BTL_EXANEST_H
#define MCA_BTL_EXANEST_H

#include "btl_exanest_compat.h"
#include "btl_exanest_idle.h"

#include <libpf/pf.h>

#include "opal/class/opal_bitmap.h"
#include <stdatomic.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/btl/base/base.h"

/* Declare a function by a type of pointers to functions, from btl.h or pf.h. */
#define MCA_BTL_EXANEST_DECLARE(pointer, name) __typeof__(*(pointer)NULL) name

BEGIN_C_DECLS

typedef struct mca_btl_exanest_component_t {
	mca_btl_base_component_t super;

	pf_context *context; /* NULL unless the job uses exanest */
	bool yields;         /* the component yields the processor, in place of opal_progress */
	_Atomic bool
		threads; /* several threads may call libpf; release, acquire: the context allows threads */
	pf_options options;
	pf_options defaults; /* of libpf on the machine, before the parameters are read */
	/*
	 * Values of options with names and of switches, in the order of the fields of
	 * pf_options.
	 */
	mca_base_var_storage_t choices[sizeof(pf_options) / sizeof(uint64_t)];
	bool automatic; /* used without being named in the parameter btl */

	/* Waiting: see btl_exanest_idle.h. */
	unsigned long long idle_polls;    /* before the first sleep; 0: never */
	unsigned long long idle_sleep;    /* microseconds */
	bool idle_polls_set;              /* by the user */
	atomic_bool waits;                /* a thread is inside progress; with threads only */
	atomic_bool posted;               /* by the application since the last poll */
	struct mca_btl_exanest_idle idle; /* of the thread inside progress */

	size_t eager_limit; /* of the host module, bytes without a header */
	/* Limits and choices of the module between hosts. */
	size_t net_eager_limit; /* bytes without a header */
	size_t net_max_send_size;
	size_t net_rndv_eager_limit;
	unsigned net_exclusivity;
	unsigned net_latency;   /* microseconds */
	unsigned net_bandwidth; /* Mbit/s */

	size_t connect_most; /* most local peers to connect in MPI_Init */

	int free_list_num;
	int free_list_max;
	int free_list_inc;
	opal_free_list_t control_frags; /* PML headers alone */
	opal_free_list_t header_frags;  /* PML headers before a payload sent in place */
	opal_free_list_t packed_frags;  /* buffers for packed payloads */
	opal_free_list_t operations;    /* put, get and atomics in flight */

	opal_mutex_t lock;           /* protects all fields below */
	opal_list_t waiting;         /* endpoints whose queue is WAITING */
	opal_list_t retired;         /* endpoints given up, until btl_finalize */
	opal_hash_table_t endpoints; /* in use, by opal_proc_t */
	bool has_remote_peers;       /* there was an endpoint of another host */
	unsigned modules;            /* number of modules not finalized yet */
	/* Reports made once by a process in an MPI session; not under the lock. */
	struct {
		_Atomic bool stray, registration, unreachable, fallback, undelivered;
	} reported;
} mca_btl_exanest_component_t;

/*
 * Two modules share the context, because Open MPI has a set of limits for each module:
 * the host module for processes of the own host, the module between hosts for remote
 * processes. The module between hosts also reaches processes of the own host, for
 * one-sided communication only: osc/rdma needs a module that reaches every process of a
 * job.
 */
typedef struct mca_btl_exanest_module_t {
	mca_btl_base_module_t super;
	mca_btl_base_module_error_cb_fn_t error_cb;
} mca_btl_exanest_module_t;

OPAL_DECLSPEC extern mca_btl_exanest_component_t mca_btl_exanest_component;
extern mca_btl_exanest_module_t mca_btl_exanest_module;
extern mca_btl_exanest_module_t mca_btl_exanest_net_module;

/* Is the report still to be made? reported: a member of component.reported */
static inline bool mca_btl_exanest_is_first(_Atomic bool *reported)
{
	return !atomic_exchange_explicit(reported, true, memory_order_relaxed);
}

void mca_btl_exanest_allow_threads(void);

/*
 * Call before libpf in each function of the BTL. Open MPI may begin to use threads after
 * the context was opened for a single thread: another session asks for threads, or a
 * thread of BTL tcp or of the failure detector starts. Until then a single thread was in
 * MPI: at the call, the thread is inside libpf only if the caller is a callback of libpf.
 */
static inline void mca_btl_exanest_notice_threads(void)
{
	if (OPAL_UNLIKELY(opal_using_threads() &&
			  !atomic_load_explicit(&mca_btl_exanest_component.threads,
						memory_order_acquire)))
		mca_btl_exanest_allow_threads();
}

/* Call for each send, put, get and atomic of the application: a wait begins anew. */
static inline void mca_btl_exanest_note_post(void)
{
	mca_btl_exanest_notice_threads();
	atomic_store_explicit(&mca_btl_exanest_component.posted, true, memory_order_relaxed);
}

/* State of the sends of an endpoint. */
enum {
	MCA_BTL_EXANEST_EMPTY,   /* sends go to libpf: none is pending */
	MCA_BTL_EXANEST_REFUSED, /* sends are queued; libpf will tell when there is room */
	MCA_BTL_EXANEST_WAITING, /* sends are queued; the endpoint is on component.waiting */
	MCA_BTL_EXANEST_SENDING, /* sends are queued; a thread sends the pending frags */
};

/* Endpoint of an opal_proc_t, with the number of uses by add_procs and del_procs. */
typedef struct mca_btl_base_endpoint_t {
	opal_list_item_t super; /* on component.waiting or component.retired */
	mca_btl_exanest_module_t *module;
	opal_proc_t *proc; /* not to be used once the endpoint is retired */
	pf_peer *peer;
	int count;
	/*
	 * Second endpoint of a process of the own host, in the module between hosts. The
	 * second endpoint shares the peer, and counts as a use of the first.
	 */
	struct mca_btl_base_endpoint_t *one_sided;
	struct mca_btl_base_endpoint_t *owner; /* of a second endpoint: the first; else NULL */
	volatile int queue;    /* state: MCA_BTL_EXANEST_EMPTY to MCA_BTL_EXANEST_SENDING */
	volatile bool retired; /* given up by del_procs */
	bool failed;           /* the failure of the peer was reported */
	atomic_bool
		contacting; /* add_procs may choose another BTL: an unreachable peer is no failure */
	opal_list_t pending; /* frags not yet taken by libpf, oldest first */
} mca_btl_base_endpoint_t;

OBJ_CLASS_DECLARATION(mca_btl_base_endpoint_t);

typedef struct mca_btl_exanest_frag_t {
	mca_btl_base_descriptor_t base;
	mca_btl_base_segment_t segments[2];
	mca_btl_base_endpoint_t *endpoint;
	opal_free_list_t *list;
	/* If not NULL: until the send returns, the payload is what the convertor packs. */
	opal_convertor_t *convertor;
	size_t payload_size; /* bytes that the convertor packs */
	mca_btl_base_tag_t tag;
} mca_btl_exanest_frag_t;

OBJ_CLASS_DECLARATION(mca_btl_exanest_frag_t);

typedef struct mca_btl_exanest_operation_t {
	opal_free_list_item_t super;
	const char *name;
	mca_btl_base_endpoint_t *endpoint;
	void *local_address;
	uint8_t result_width; /* atomics: bytes of the old value to store, or 0 */
	/*
	 * Old value to store if an atomic operation fails. osc/rdma ignores the status: a
	 * compare-and-swap is repeated until the old value is the expected value, and the
	 * acquisition of a lock until the old value is 0.
	 */
	uint64_t expected;
	mca_btl_base_registration_handle_t *local_handle;
	mca_btl_base_rdma_completion_fn_t cbfunc;
	void *cbcontext;
	void *cbdata;
} mca_btl_exanest_operation_t;

OBJ_CLASS_DECLARATION(mca_btl_exanest_operation_t);

/* btl_exanest_parameter.c */
int mca_btl_exanest_register_parameters(void);

/* btl_exanest_setting.c */
/* Report each wrong setting. False: a setting is wrong, and exanest cannot be used. */
bool mca_btl_exanest_check_settings(void);
/* Report each value that pf_open has refused with PF_ERR_ARGUMENT. */
void mca_btl_exanest_report_refused(void);

/* btl_exanest_secret.c */
/* Join the protection domain of the job, before the address is published. */
void mca_btl_exanest_join_job(pf_context *context);

/* btl_exanest_report.c */
enum mca_btl_exanest_scope {
	MCA_BTL_EXANEST_PROCESS, /* concerns a single process */
	MCA_BTL_EXANEST_HOST,    /* concerns all processes of the host: the first reports */
};
/* Look for the help file, while file descriptors are left. */
void mca_btl_exanest_find_help(void);
/* The first line of the text is the event with place and reason; the rest is the remedy. */
__attribute__((format(printf, 3, 4))) void mca_btl_exanest_report(enum mca_btl_exanest_scope scope,
								  const char *topic,
								  const char *format, ...);
struct mca_btl_exanest_name {
	char text[64];
};
/* "rank 3" */
struct mca_btl_exanest_name mca_btl_exanest_name(opal_process_name_t process);

/* btl_exanest_endpoint.c */
/* Return the OPAL_* code of a pf_status. */
int mca_btl_exanest_error(int status);
/*
 * Report the final failure of an endpoint's peer to the user and to the PML, once. text:
 * the reason; NULL: the reason follows from status and errno (0: unknown).
 */
void mca_btl_exanest_fail_peer(mca_btl_base_endpoint_t *endpoint, int status, const char *text);
/*
 * Report one-sided data that neither the BTL nor the caller can move, and have the PML
 * end the job; if the job survives failures, the peer counts as failed. Reports once for
 * each peer.
 */
void mca_btl_exanest_fail_operation(mca_btl_base_endpoint_t *endpoint, const char *what);
MCA_BTL_EXANEST_DECLARE(pf_peer_event_fn, mca_btl_exanest_peer_event);
/* Report a peer that has not answered yet; verbose output has all lines. */
MCA_BTL_EXANEST_DECLARE(pf_log_fn, mca_btl_exanest_log);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_add_procs_fn_t, mca_btl_exanest_add_procs);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_del_procs_fn_t, mca_btl_exanest_del_procs);
/* Under the component's lock: drop the pending frags, and close the peer. */
void mca_btl_exanest_retire(mca_btl_base_endpoint_t *endpoint);
void mca_btl_exanest_free_endpoints(void);
#if MCA_BTL_EXANEST_AM_RDMA
/* Return the endpoint of a sender not named by Open MPI; NULL: unknown. */
mca_btl_base_endpoint_t *mca_btl_exanest_find_sender(const pf_peer *from);
#endif

/* btl_exanest_registration.c */
/*
 * Give the modules functions for registration: the host module always, the module between
 * hosts if the mode of a build for comparison asks for registration.
 */
void mca_btl_exanest_init_registration(void);

/* btl_exanest_pvar.c */
int mca_btl_exanest_register_pvars(void);

/* btl_exanest_frag.c */
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_alloc_fn_t, mca_btl_exanest_alloc);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_free_fn_t, mca_btl_exanest_free);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_prepare_fn_t, mca_btl_exanest_prepare_src);

/* btl_exanest_send.c */
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_send_fn_t, mca_btl_exanest_send);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_sendi_fn_t, mca_btl_exanest_sendi);
/*
 * Send the pending frags of endpoints with room, and report failed endpoints. Returns the
 * number of messages.
 */
int mca_btl_exanest_send_pending(void);
MCA_BTL_EXANEST_DECLARE(pf_room_fn, mca_btl_exanest_room);
MCA_BTL_EXANEST_DECLARE(pf_receive_pieces_fn, mca_btl_exanest_receive_pieces);
MCA_BTL_EXANEST_DECLARE(pf_receive_fn, mca_btl_exanest_receive);

/* btl_exanest_rdma.c */
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_put_fn_t, mca_btl_exanest_put);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_get_fn_t, mca_btl_exanest_get);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_atomic_op64_fn_t, mca_btl_exanest_atomic_op);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_atomic_fop64_fn_t, mca_btl_exanest_atomic_fop);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_atomic_cswap64_fn_t, mca_btl_exanest_atomic_cswap);
MCA_BTL_EXANEST_DECLARE(mca_btl_base_module_flush_fn_t, mca_btl_exanest_flush);

END_C_DECLS

#endif
