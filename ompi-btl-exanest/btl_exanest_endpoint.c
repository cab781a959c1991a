/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: the component's view of processes. Each opal_proc_t has an endpoint; a
 * process of the own host has a second endpoint if the module between hosts reaches the
 * process.
 *
 * del_procs retires an endpoint, and btl_finalize frees the endpoint: another thread may
 * be sending pending frags, or delivering a
 * message or a completion of the peer.
 */
#include "btl_exanest.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "opal/class/opal_bitmap.h"
#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include "btl_exanest_check.h"
#include "btl_exanest_frag.h"

static void endpoint_construct(mca_btl_base_endpoint_t *endpoint)
{
	endpoint->module = NULL;
	endpoint->proc = NULL;
	endpoint->peer = NULL;
	endpoint->count = 0;
	endpoint->one_sided = NULL;
	endpoint->owner = NULL;
	endpoint->queue = MCA_BTL_EXANEST_EMPTY;
	endpoint->retired = false;
	endpoint->failed = false;
	atomic_init(&endpoint->contacting, false);
	OBJ_CONSTRUCT(&endpoint->pending, opal_list_t);
}

static void endpoint_destruct(mca_btl_base_endpoint_t *endpoint)
{
	OBJ_DESTRUCT(&endpoint->pending);
}

OBJ_CLASS_INSTANCE(mca_btl_base_endpoint_t, opal_list_item_t, endpoint_construct,
		   endpoint_destruct);

int mca_btl_exanest_error(int status)
{
	switch (status) {
	case PF_OK:
		return OPAL_SUCCESS;
	case PF_ERR_AGAIN:
		return OPAL_ERR_OUT_OF_RESOURCE;
	case PF_ERR_PEER:
	case PF_ERR_UNREACHABLE:
	case PF_ERR_TIMEOUT:
	case PF_ERR_PROTOCOL:
	case PF_ERR_REFUSED:
		return OPAL_ERR_UNREACH;
	case PF_ERR_ARGUMENT:
		return OPAL_ERR_BAD_PARAM;
	case PF_ERR_TOO_LONG:
		return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
	case PF_ERR_SYSTEM:
		return OPAL_ERR_IN_ERRNO;
	default:
		/*
		 * PF_ERR_MEMORY, too: after OPAL_ERR_OUT_OF_RESOURCE callers repeat a
		 * call for ever.
		 */
		return OPAL_ERROR;
	}
}

/* ---- failures ---- */

/* Remedy where UDP packets do not arrive. */
#define FIREWALL_REMEDY                                                                             \
	"Does a firewall between the hosts, or on one of them, let UDP pass? Each process\n"        \
	"receives on a port of its own: to bound them, set btl_exanest_port_min and\n"              \
	"btl_exanest_port_max to the ports that are open. btl_exanest_if_include chooses another\n" \
	"network. With tcp in the list (--mca btl exanest,tcp,self), tcp carries what exanest\n"    \
	"cannot."

static const char *failure_remedy(int status)
{
	switch (status) {
	case PF_ERR_PEER:
		return "It has most likely crashed or been killed: look for its own messages first.";
	case PF_ERR_UNREACHABLE:
		return FIREWALL_REMEDY;
	case PF_ERR_TIMEOUT:
		return "Packets from it did arrive before. Its host or the network may be down, the\n"
		       "process stopped, or a firewall changed. A process that is stopped for longer (by\n"
		       "a debugger) needs a longer btl_exanest_peer_timeout.";
	case PF_ERR_PROTOCOL:
		return "One of the two processes has overwritten memory of libpf, or their versions of\n"
		       "BTL exanest and libpf differ: compare \"pf_info\" on both hosts, and run the\n"
		       "program with a memory checker.";
	case PF_ERR_REFUSED:
		return "All processes of a job need the same version of BTL exanest and libpf, and\n"
		       "the same btl_exanest_auth and btl_exanest_network: compare\n"
		       "\"ompi_info --param btl exanest --level 9\" on both hosts. A peer that is out of\n"
		       "file descriptors (ulimit -n) or of memory refuses connections, too.";
	case PF_ERR_MEMORY:
	case PF_ERR_SYSTEM:
		return "If file descriptors ran out, raise their limit (ulimit -n): each peer on the\n"
		       "same host needs a few. If memory ran out, look at ulimit -v and at the\n"
		       "limits of the job's control group.";
	default:
		return "Run pf_info on both hosts to see what is missing.";
	}
}

static const char *failure_topic(int status)
{
	switch (status) {
	case PF_ERR_PEER:
	case PF_ERR_TIMEOUT:
		return "peer lost";
	case PF_ERR_UNREACHABLE:
		return "peer unreachable";
	case PF_ERR_REFUSED:
		return "peer refused";
	default:
		return "peer failed";
	}
}

/* Return the reason of a failure without a text of libpf's peer event. */
static const char *failure_reason(const pf_peer *peer, int status, char *buffer, size_t size)
{
	if (status == PF_ERR_UNREACHABLE || status == PF_ERR_TIMEOUT)
		return pf_peer_path(peer);
	if (status != PF_ERR_SYSTEM || !errno)
		return pf_strerror(status);
	/* With no descriptor left the remedy may get lost: opal_show_help needs descriptors. */
	snprintf(buffer, size, "%s: %s%s", pf_strerror(status), strerror(errno),
		 errno == EMFILE ? "; raise the limit (ulimit -n)" : "");
	return buffer;
}

/*
 * Return the first endpoint of the peer, marked as failed; NULL: the failure is known, or
 * the endpoint is retired. Both endpoints of a process share the peer.
 */
static mca_btl_base_endpoint_t *endpoint_first_failure(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	bool known;

	if (endpoint->owner)
		endpoint = endpoint->owner;
	OPAL_THREAD_LOCK(&component->lock);
	known = endpoint->failed || endpoint->retired;
	endpoint->failed = true;
	OPAL_THREAD_UNLOCK(&component->lock);
	return known ? NULL : endpoint;
}

/*
 * Tell the PML of a failed peer; false: the PML has no function. ob1 aborts the job,
 * unless 5.0 has ULFM enabled. ob1 takes the text for a format.
 */
static bool endpoint_tell_pml(const mca_btl_base_endpoint_t *endpoint, char *text)
{
	mca_btl_exanest_module_t *module = endpoint->module;

	if (module->error_cb)
		module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, text);
	return module->error_cb;
}

void mca_btl_exanest_fail_peer(mca_btl_base_endpoint_t *endpoint, int status, const char *text)
{
	char host[OPAL_MAXHOSTNAMELEN], buffer[256];

	if (!text)
		text = failure_reason(endpoint->peer, status, buffer, sizeof(buffer));
	endpoint = endpoint_first_failure(endpoint);
	if (!endpoint)
		return;
	mca_btl_exanest_hostname(endpoint->proc, host, sizeof(host));
	mca_btl_exanest_report(MCA_BTL_EXANEST_PROCESS, failure_topic(status),
			       "%s on %s (pid %d) %s %s on %s: %s\n"
			       "\n"
			       "%s\n"
			       "Only the first failure of each peer is reported.",
			       mca_btl_exanest_name(OPAL_PROC_MY_NAME).text,
			       opal_process_info.nodename, (int)getpid(),
			       status == PF_ERR_UNREACHABLE ? "cannot reach" : "has lost",
			       mca_btl_exanest_name(endpoint->proc->proc_name).text, host, text,
			       failure_remedy(status));
	snprintf(buffer, sizeof(buffer), "btl:exanest: connection to process %s lost",
		 OPAL_NAME_PRINT(endpoint->proc->proc_name));
	(void)endpoint_tell_pml(endpoint, buffer);
}

void mca_btl_exanest_fail_operation(mca_btl_base_endpoint_t *endpoint, const char *what)
{
	char buffer[256];

	endpoint = endpoint_first_failure(endpoint);
	if (!endpoint)
		return;
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "fault",
		"%s on %s (pid %d): %s; one-sided data are lost, so the job ends\n"
		"\n"
		"This is usually an error in the program: a buffer or a window that was freed or is too\n"
		"short, or one in read-only memory. Memory that a device gives to no processor, and\n"
		"shared memory of a userfaultfd in user mode only, cannot be used either, nor atomic\n"
		"operations in memory of a driver and of memfd_secret.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), what);
	snprintf(buffer, sizeof(buffer), "btl:exanest: %s", what);
	/* Only ob1 gives an error function: under another PML the job ends here. */
	if (!endpoint_tell_pml(endpoint, buffer))
		mca_btl_exanest_abort_job(buffer);
}

void mca_btl_exanest_peer_event(pf_context *context, pf_peer *peer, enum pf_peer_state reason,
				int status, const char *text, void *arg)
{
	mca_btl_base_endpoint_t *endpoint = pf_peer_user(peer);

	assert_progress(context);
	/*
	 * No endpoint: Open MPI has not named the process, or has disconnected from the
	 * process. Processes leave at different times in MPI_Finalize. Of a contact without an
	 * answer endpoints_drop_unreachable() has the result, too, and chooses another BTL.
	 */
	if (endpoint && reason != PF_PEER_LEFT &&
	    (reason != PF_PEER_UNREACHABLE || !atomic_load(&endpoint->contacting)))
		mca_btl_exanest_fail_peer(endpoint, status, text);
}

/* "rank 0: to rank 1: TEXT", or without a peer "rank 0: TEXT" */
static void log_show(pf_peer *peer, int verbosity, const char *text)
{
	struct mca_btl_exanest_name there = { "" };
	opal_process_name_t name;
	const void *data;
	size_t length;

	if (verbosity > opal_output_get_verbosity(opal_btl_base_framework.framework_output))
		return;
	data = peer ? pf_peer_data(peer, &length) : NULL;
	if (data && length == sizeof(name)) {
		memcpy(&name, data, sizeof(name));
		there = mca_btl_exanest_name(name);
	}
	opal_output(opal_btl_base_framework.framework_output, "btl:exanest: %s: %s%s%s%s",
		    mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, *there.text ? "to " : "",
		    there.text, *there.text ? ": " : "", text);
}

void mca_btl_exanest_log(pf_context *context, pf_peer *peer, enum pf_log_level level,
			 const char *text, void *arg)
{
	mca_btl_base_endpoint_t *endpoint = peer ? pf_peer_user(peer) : NULL;
	char host[OPAL_MAXHOSTNAMELEN];

	assert_progress(context);
	/* Late packets of an earlier job are common: only verbose output has the text. */
	log_show(peer, level == PF_LOG_WARNING ? MCA_BASE_VERBOSE_COMPONENT : MCA_BASE_VERBOSE_INFO,
		 text);
	if (level != PF_LOG_WARNING || !endpoint)
		return;
	mca_btl_exanest_hostname(endpoint->proc, host, sizeof(host));
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "no answer",
		"%s on %s (pid %d) cannot reach %s on %s so far: %s: does a firewall let UDP pass?\n"
		"\n"
		"%s\n"
		"The peer is tried for btl_exanest_peer_timeout (%llu s), as it may be stopped, for\n"
		"example by a debugger. Only the first such peer of each host is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), mca_btl_exanest_name(endpoint->proc->proc_name).text, host, text,
		FIREWALL_REMEDY,
		(unsigned long long)mca_btl_exanest_component.options.peer_timeout);
}

static void endpoint_drop(mca_btl_base_endpoint_t *endpoint);

/* ---- from processes to endpoints ---- */

/* Look up the address of a process. The caller frees the address. */
static int address_find(const opal_process_name_t *name, void **address, size_t *length)
{
	int rc;

	if (opal_compare_proc(*name, OPAL_PROC_MY_NAME) != 0) {
		OPAL_MODEX_RECV(rc, &mca_btl_exanest_component.super.btl_version, name, address,
				length);
		return rc;
	}
	*length = PF_ADDRESS_MAX;
	*address = malloc(*length);
	if (NULL == *address)
		return OPAL_ERR_OUT_OF_RESOURCE;
	return mca_btl_exanest_error(
		pf_address(mca_btl_exanest_component.context, *address, length));
}

/*
 * Return the module for a process. The process itself is a peer, too: osc/rdma of a job
 * on several hosts needs a module that reaches every process. Only the module between
 * hosts may reach the process itself: osc/rdma counts the process for each module with
 * global atomics, and a second module would seem to reach a process more. Messages to
 * self stay with btl/self, because btl/self has a higher exclusivity.
 */
static mca_btl_exanest_module_t *proc_module(const opal_proc_t *proc)
{
	if (mca_btl_exanest_component.options.network != PF_NETWORK_ALWAYS &&
	    proc != opal_proc_local_get() && OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags))
		return &mca_btl_exanest_module;
	return &mca_btl_exanest_net_module;
}

static void proc_report_unreachable(const opal_proc_t *proc, const char *why)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const bool off = component->options.network == PF_NETWORK_OFF &&
			 !OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags);
	char host[OPAL_MAXHOSTNAMELEN];

	mca_btl_exanest_hostname(proc, host, sizeof(host));
	opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT, opal_btl_base_framework.framework_output,
			    "btl:exanest: %s on %s is not reachable: %s",
			    mca_btl_exanest_name(proc->proc_name).text, host, why);
	if (!mca_btl_exanest_is_first(&component->reported.unreachable))
		return;
	/* If the user has turned the network off, a single report for each host is enough. */
	mca_btl_exanest_report(
		off ? MCA_BTL_EXANEST_HOST : MCA_BTL_EXANEST_PROCESS, "peer unreachable",
		"%s on %s (pid %d) cannot reach %s on %s: %s\n"
		"\n"
		"If the parameter btl lists no other transport that reaches it, MPI calls that\n"
		"communicate with it fail. \"pf_info\" on both hosts shows which ways are open;\n"
		"btl_exanest_if_include, btl_exanest_if_exclude and btl_exanest_network choose among\n"
		"them, and btl_exanest_auth has to be the same in all processes of a job.\n"
		"Only the first such peer of a process is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), mca_btl_exanest_name(proc->proc_name).text, host, why);
}

static mca_btl_base_endpoint_t *endpoint_new(opal_proc_t *proc)
{
	pf_context *context = mca_btl_exanest_component.context;
	const char *why = "it does not use BTL exanest";
	mca_btl_base_endpoint_t *endpoint;
	void *address = NULL;
	size_t length = 0;
	int status;

	assert_locked_component();
	endpoint = OBJ_NEW(mca_btl_base_endpoint_t);
	if (NULL == endpoint)
		return NULL;
	endpoint->proc = proc;
	endpoint->module = proc_module(proc);
	if (OPAL_SUCCESS == address_find(&proc->proc_name, &address, &length) &&
	    pf_reachable(context, address, length, &why) == PF_OK) {
		status = pf_peer_open(context, address, length, endpoint, &endpoint->peer);
		why = pf_strerror(status);
	}
	free(address);
	if (endpoint->peer)
		return endpoint;
	proc_report_unreachable(proc, why);
	OBJ_RELEASE(endpoint);
	return NULL;
}

static mca_btl_base_endpoint_t *endpoint_find(opal_proc_t *proc)
{
	opal_hash_table_t *endpoints = &mca_btl_exanest_component.endpoints;
	const uint64_t key = (uintptr_t)proc;
	mca_btl_base_endpoint_t *endpoint;

	assert_locked_component();
	if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(endpoints, key, (void **)&endpoint))
		return endpoint;
	endpoint = endpoint_new(proc);
	if (endpoint &&
	    OPAL_SUCCESS != opal_hash_table_set_value_uint64(endpoints, key, endpoint)) {
		mca_btl_exanest_retire(endpoint);
		endpoint = NULL;
	}
	return endpoint;
}

#if MCA_BTL_EXANEST_AM_RDMA
/* By the name that each process gives its peers (component_open_context). */
mca_btl_base_endpoint_t *mca_btl_exanest_find_sender(const pf_peer *from)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	mca_btl_base_endpoint_t *endpoint;
	opal_process_name_t name;
	opal_proc_t *proc;
	size_t length;
	const void *data = pf_peer_data(from, &length);

	assert_progress(component->context);
	if (length != sizeof(name))
		return NULL;
	memcpy(&name, data, sizeof(name));
	proc = opal_proc_for_name(name);
	if (!proc)
		return NULL;
	OPAL_THREAD_LOCK(&component->lock);
	endpoint = endpoint_find(proc);
	OPAL_THREAD_UNLOCK(&component->lock);
	return endpoint && endpoint->peer == from ? endpoint : NULL;
}
#endif

/* Return the endpoint of the module for a process, and count the use; NULL: none. */
static mca_btl_base_endpoint_t *endpoint_take(const mca_btl_exanest_module_t *module,
					      opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint, *one_sided;

	assert_locked_component();
	/* The PML would send through the first module that reaches the process. */
	if (module == &mca_btl_exanest_module && proc_module(proc) != module)
		return NULL;
	endpoint = endpoint_find(proc);
	if (!endpoint || endpoint->module == module) {
		if (endpoint)
			endpoint->count++;
		return endpoint;
	}
	one_sided = endpoint->one_sided;
	if (!one_sided) {
		one_sided = OBJ_NEW(mca_btl_base_endpoint_t);
		if (NULL == one_sided)
			return NULL;
		one_sided->module = &mca_btl_exanest_net_module;
		one_sided->proc = proc;
		one_sided->peer = endpoint->peer;
		one_sided->owner = endpoint;
		endpoint->one_sided = one_sided;
		endpoint->count++;
	}
	one_sided->count++;
	return one_sided;
}

/*
 * Return the name of another BTL for messages between hosts, if the job has any. The list
 * is complete: BTLs add processes only after all BTLs were initialized.
 */
static const char *fallback_find(void)
{
	static const char *const local[] = { "exanest", "self", "sm", "vader", "smcuda" };
	mca_btl_base_selected_module_t *selected;
	const char *name;
	size_t i;

	OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized,
			  mca_btl_base_selected_module_t) {
		name = selected->btl_component->btl_version.mca_component_name;
		for (i = 0; i < sizeof(local) / sizeof(local[0]) && strcmp(name, local[i]); i++)
			;
		if (i == sizeof(local) / sizeof(local[0]) &&
		    selected->btl_module->btl_flags & MCA_BTL_FLAGS_SEND)
			return name;
	}
	return NULL;
}

static void fallback_report(const opal_proc_t *proc, const char *fallback, const char *why)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	char host[OPAL_MAXHOSTNAMELEN];

	mca_btl_exanest_hostname(proc, host, sizeof(host));
	opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT, opal_btl_base_framework.framework_output,
			    "btl:exanest: %s on %s is left to btl %s: %s",
			    mca_btl_exanest_name(proc->proc_name).text, host, fallback, why);
	if (!mca_btl_exanest_is_first(&component->reported.fallback))
		return;
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "fallback",
		"%s on %s (pid %d) uses btl %s, not exanest, for %s on %s: %s: does a firewall let "
		"UDP pass?\n"
		"\n"
		"%s\n"
		"Only the first such peer of a process is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), fallback, mca_btl_exanest_name(proc->proc_name).text, host, why,
		FIREWALL_REMEDY);
}

static bool endpoint_is_remote(const mca_btl_base_endpoint_t *endpoint)
{
	return endpoint && !OPAL_PROC_ON_LOCAL_NODE(endpoint->proc->proc_flags);
}

/* Descriptors of a peer while both sides connect; fewer afterwards. */
#define PEER_DESCRIPTORS 7

/*
 * Connect the peers of the own host while MPI_Init does other work: few processes of a
 * host are likely to talk to each other, and first messages need not wait then. Where
 * descriptors are few, connect none: a guess could take the descriptors of a peer in use.
 */
static void endpoints_connect_local(size_t nprocs, mca_btl_base_endpoint_t **endpoints)
{
	struct rlimit limit;
	size_t i, count = 0;

	for (i = 0; i < nprocs; i++)
		count += endpoints[i] && endpoints[i]->module == &mca_btl_exanest_module;
	if (count > mca_btl_exanest_component.connect_most || getrlimit(RLIMIT_NOFILE, &limit) ||
	    count * PEER_DESCRIPTORS > limit.rlim_max / 4)
		return;
	for (i = 0; i < nprocs; i++) {
		if (endpoints[i] && endpoints[i]->module == &mca_btl_exanest_module)
			(void)pf_peer_contact(endpoints[i]->peer, 0, NULL);
	}
}

/*
 * Drop remote peers without an answer, if another BTL can take over. bml/r2 chooses the
 * BTLs of a process once, after add_procs, and there is no way back: ob1 aborts when a
 * BTL reports an error. Both ends have to choose the same BTL: in Open MPI 4.1 ob1 aborts
 * at a message that announces a get (RGET) over a BTL not used for the sender.
 * pf_peer_contact lets both ends come to equal results.
 *
 * Runs without the component's lock: a callback of another thread may need the lock
 * meanwhile. Within a callback the answer stays unknown (PF_ERR_AGAIN): the peer is used,
 * as without another BTL.
 */
static void endpoints_drop_unreachable(size_t nprocs, mca_btl_base_endpoint_t **endpoints)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	const char *why, *fallback = fallback_find();
	size_t i;

	if (!fallback)
		return;
	/* Begin all contacts before the first wait. */
	for (i = 0; i < nprocs; i++) {
		if (!endpoint_is_remote(endpoints[i]))
			continue;
		atomic_store(&endpoints[i]->contacting, true);
		(void)pf_peer_contact(endpoints[i]->peer, 0, NULL);
	}
	for (i = 0; i < nprocs; i++) {
		if (!endpoint_is_remote(endpoints[i]))
			continue;
		if (pf_peer_contact(endpoints[i]->peer, 1, &why) != PF_ERR_UNREACHABLE) {
			atomic_store(&endpoints[i]->contacting, false);
			/* An event between the two calls was left to this function. */
			if (pf_peer_state(endpoints[i]->peer) == PF_PEER_UNREACHABLE)
				mca_btl_exanest_fail_peer(endpoints[i], PF_ERR_UNREACHABLE, NULL);
			continue;
		}
		OPAL_THREAD_LOCK(&component->lock);
		fallback_report(endpoints[i]->proc, fallback, why);
		endpoint_drop(endpoints[i]);
		OPAL_THREAD_UNLOCK(&component->lock);
		endpoints[i] = NULL;
	}
}

int mca_btl_exanest_add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
			      mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc = OPAL_SUCCESS;
	size_t i;

	mca_btl_exanest_notice_threads();
	OPAL_THREAD_LOCK(&component->lock);
	for (i = 0; i < nprocs; i++)
		endpoints[i] = endpoint_take((mca_btl_exanest_module_t *)btl, procs[i]);
	OPAL_THREAD_UNLOCK(&component->lock);
	endpoints_drop_unreachable(nprocs, endpoints);
	endpoints_connect_local(nprocs, endpoints);
	OPAL_THREAD_LOCK(&component->lock);
	for (i = 0; i < nprocs && OPAL_SUCCESS == rc; i++) {
		if (!endpoints[i])
			continue;
		if (!OPAL_PROC_ON_LOCAL_NODE(procs[i]->proc_flags))
			component->has_remote_peers = true;
		if (reachable)
			rc = opal_bitmap_set_bit(reachable, (int)i);
	}
	OPAL_THREAD_UNLOCK(&component->lock);
	return rc;
}

/* ---- the end of endpoints ---- */

static time_t clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec;
}

static bool endpoint_has_pending(const mca_btl_base_endpoint_t *endpoint)
{
	return endpoint->queue != MCA_BTL_EXANEST_EMPTY;
}

static void endpoint_report_undelivered(const mca_btl_base_endpoint_t *endpoint, size_t count,
					time_t waited)
{
	char host[OPAL_MAXHOSTNAMELEN];

	mca_btl_exanest_hostname(endpoint->proc, host, sizeof(host));
	mca_btl_exanest_report(
		MCA_BTL_EXANEST_PROCESS, "not delivered",
		"%s on %s (pid %d) gives up %zu messages to %s on %s, which has taken none for %lld s\n"
		"\n"
		"The process lives, but does not call MPI: it is stopped, by a debugger or a signal, or\n"
		"it hangs. This process does not wait any longer for it in order to end. Only the first\n"
		"such peer of a process is reported.",
		mca_btl_exanest_name(OPAL_PROC_MY_NAME).text, opal_process_info.nodename,
		(int)getpid(), count, mca_btl_exanest_name(endpoint->proc->proc_name).text, host,
		(long long)waited);
}

/*
 * Wait until the peer has taken all pending frags. Give up a peer that takes nothing for
 * btl_exanest_peer_timeout; or for a second, once another peer was given up: progress has
 * served all peers meanwhile.
 */
static void endpoint_drain(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	time_t patience = (time_t)component->options.peer_timeout, since = clock_seconds();
	size_t left, before = SIZE_MAX;

	if (atomic_load_explicit(&component->reported.undelivered, memory_order_relaxed))
		patience = 1;
	while (endpoint_has_pending(endpoint)) {
		opal_progress();
		left = opal_list_get_size(&endpoint->pending);
		if (left != before)
			since = clock_seconds();
		before = left;
		if (clock_seconds() - since <= patience)
			continue;
		if (mca_btl_exanest_is_first(&component->reported.undelivered))
			endpoint_report_undelivered(endpoint, left, patience);
		return;
	}
}

/*
 * Send the pending frags of an endpoint before the last use ends, or learn of the end of
 * the process. Open MPI gives endpoints up at its end, and waits neither for sends
 * with freed requests nor for ob1's last answers. With async_mpi_finalize, and after the
 * last session, there is no barrier either during which frags could be sent. Messages
 * held back by ob1 itself for a process given up before are lost: bml/r2 gives processes
 * up in turn.
 */
static void endpoint_deliver(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	bool last;

	for (; endpoint; endpoint = endpoint->owner) {
		OPAL_THREAD_LOCK(&component->lock);
		last = endpoint->count == 1;
		OPAL_THREAD_UNLOCK(&component->lock);
		if (last)
			endpoint_drain(endpoint);
	}
}

/* Under the component's lock: drop the pending frags, and close the peer of a first endpoint. */
void mca_btl_exanest_retire(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	opal_list_item_t *item;

	assert_locked_component();
	endpoint->retired = true;
	/* The thread that sends the pending frags retires the endpoint afterwards. */
	if (endpoint->queue == MCA_BTL_EXANEST_SENDING)
		return;
	if (endpoint->queue == MCA_BTL_EXANEST_WAITING)
		opal_list_remove_item(&component->waiting, &endpoint->super);
	endpoint->queue = MCA_BTL_EXANEST_EMPTY;
	while (NULL != (item = opal_list_remove_first(&endpoint->pending)))
		mca_btl_exanest_frag_return((mca_btl_exanest_frag_t *)item);
	if (!endpoint->owner) {
		opal_output_verbose(MCA_BASE_VERBOSE_INFO, opal_btl_base_framework.framework_output,
				    "btl:exanest: %s was reached: %s",
				    OPAL_NAME_PRINT(endpoint->proc->proc_name),
				    pf_peer_path(endpoint->peer));
		pf_peer_close(endpoint->peer);
	}
	opal_list_append(&component->retired, &endpoint->super);
}

static void endpoint_drop(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_base_endpoint_t *owner = endpoint->owner;

	assert_locked_component();
	assert_that(endpoint->count > 0 && !endpoint->retired);
	if (--endpoint->count)
		return;
	if (owner)
		owner->one_sided = NULL;
	else
		opal_hash_table_remove_value_uint64(&mca_btl_exanest_component.endpoints,
						    (uintptr_t)endpoint->proc);
	mca_btl_exanest_retire(endpoint);
	if (owner)
		endpoint_drop(owner);
}

int mca_btl_exanest_del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
			      mca_btl_base_endpoint_t **endpoints)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	size_t i;

	mca_btl_exanest_notice_threads();
	for (i = 0; i < nprocs; i++)
		endpoint_deliver(endpoints[i]);
	OPAL_THREAD_LOCK(&component->lock);
	for (i = 0; i < nprocs; i++) {
		/*
		 * The pointer is left: bml/r2 finds by the pointer that the endpoint is
		 * deleted already.
		 */
		if (endpoints[i])
			endpoint_drop(endpoints[i]);
	}
	OPAL_THREAD_UNLOCK(&component->lock);
	return OPAL_SUCCESS;
}

/* Free all endpoints. No other thread is inside the component any more. */
void mca_btl_exanest_free_endpoints(void)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	opal_hash_table_t *endpoints = &component->endpoints;
	mca_btl_base_endpoint_t *endpoint;
	opal_list_item_t *item;
	uint64_t key;
	void *node;

	assert_that(component->modules == 0);
	OPAL_THREAD_LOCK(&component->lock);
	while (OPAL_SUCCESS ==
	       opal_hash_table_get_first_key_uint64(endpoints, &key, (void **)&endpoint, &node)) {
		opal_hash_table_remove_value_uint64(endpoints, key);
		if (endpoint->one_sided)
			mca_btl_exanest_retire(endpoint->one_sided);
		mca_btl_exanest_retire(endpoint);
	}
	while (NULL != (item = opal_list_remove_first(&component->retired)))
		OBJ_RELEASE(item);
	OPAL_THREAD_UNLOCK(&component->lock);
}
