/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: processes and their endpoints, errors, the function table.
 */
#include "btl_exanest.h"

#include <errno.h>
#include <string.h>

#include "opal/class/opal_bitmap.h"
#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include "btl_exanest_frag.h"

static void endpoint_construct(mca_btl_base_endpoint_t *endpoint)
{
	endpoint->module = NULL;
	endpoint->one_sided = NULL;
	endpoint->owner = NULL;
	endpoint->proc = NULL;
	endpoint->peer = NULL;
	endpoint->count = 0;
	endpoint->is_waiting = false;
	endpoint->error_reported = false;
	OBJ_CONSTRUCT(&endpoint->pending, opal_list_t);
}

static void endpoint_destruct(mca_btl_base_endpoint_t *endpoint)
{
	opal_list_item_t *item;

	if (endpoint->peer && !endpoint->owner)
		pf_peer_close(endpoint->peer);
	if (endpoint->one_sided)
		OBJ_RELEASE(endpoint->one_sided);
	while (NULL != (item = opal_list_remove_first(&endpoint->pending)))
		mca_btl_exanest_frag_return((mca_btl_exanest_frag_t *)item);
	OBJ_DESTRUCT(&endpoint->pending);
}

OBJ_CLASS_INSTANCE(mca_btl_base_endpoint_t, opal_list_item_t, endpoint_construct,
		   endpoint_destruct);

int mca_btl_exanest_error(int status)
{
	switch (status) {
	case PF_OK:
	case PF_DONE:
		return OPAL_SUCCESS;
	case PF_ERR_AGAIN:
	case PF_ERR_MEMORY:
		return OPAL_ERR_OUT_OF_RESOURCE;
	case PF_ERR_PEER:
	case PF_ERR_UNREACHABLE:
	case PF_ERR_REFUSED:
		return OPAL_ERR_UNREACH;
	case PF_ERR_ARGUMENT:
		return OPAL_ERR_BAD_PARAM;
	case PF_ERR_TOO_LONG:
		return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
	case PF_ERR_SYSTEM:
		return OPAL_ERR_IN_ERRNO;
	default:
		return OPAL_ERROR;
	}
}

void mca_btl_exanest_report_peer(mca_btl_base_endpoint_t *endpoint, int status)
{
	char host[OPAL_MAXHOSTNAMELEN];

	if (endpoint->error_reported)
		return;
	endpoint->error_reported = true;
	mca_btl_exanest_hostname(endpoint->proc, host, sizeof(host));
	opal_show_help(MCA_BTL_EXANEST_HELP, status == PF_ERR_REFUSED ? "refused" : "peer lost",
		       true, opal_process_info.nodename, OPAL_NAME_PRINT(OPAL_PROC_MY_NAME),
		       (int)getpid(), host, OPAL_NAME_PRINT(endpoint->proc->proc_name),
		       pf_strerror(status));
}

/* The PML decides what becomes of the job; ob1 of 4.1 aborts it. */
void mca_btl_exanest_peer_error(pf_context *context, pf_peer *peer, int status, const char *text,
				void *arg)
{
	mca_btl_base_endpoint_t *endpoint = pf_peer_user(peer);
	mca_btl_exanest_module_t *module;
	char info[128];

	/* Nobody here has named this process, or it has been disconnected from. */
	if (!endpoint)
		return;
	mca_btl_exanest_report_peer(endpoint, status);
	module = endpoint->module;
	if (!module->error_cb)
		return;
	/* ob1 takes this for a format. */
	snprintf(info, sizeof(info), "btl:exanest: connection to process %s lost",
		 OPAL_NAME_PRINT(endpoint->proc->proc_name));
	module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, info);
}

static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t cbfunc)
{
	((mca_btl_exanest_module_t *)btl)->error_cb = cbfunc;
	return OPAL_SUCCESS;
}

/* The caller frees the address. */
static int find_address(opal_proc_t *proc, void **address, size_t *length)
{
	int rc;

	if (proc != opal_proc_local_get()) {
		OPAL_MODEX_RECV(rc, &mca_btl_exanest_component.super.btl_version, &proc->proc_name,
				address, length);
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
 * This process is a peer of its own, too: osc/rdma of a job on several hosts
 * wants one module that reaches every process. It must be that one alone: a
 * module with global atomics counts as one that reaches this process anyhow, and
 * one that does besides would seem to reach another process more. Messages to
 * self stay with btl/self, whose exclusivity is higher.
 */
static mca_btl_exanest_module_t *module_of(const opal_proc_t *proc)
{
	if (mca_btl_exanest_component.options.network != PF_NETWORK_ALWAYS &&
	    proc != opal_proc_local_get() && OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags))
		return &mca_btl_exanest_module;
	return &mca_btl_exanest_net_module;
}

static mca_btl_base_endpoint_t *new_endpoint(opal_proc_t *proc)
{
	pf_context *context = mca_btl_exanest_component.context;
	const char *why = "it did not load this component";
	mca_btl_base_endpoint_t *endpoint = NULL;
	void *address = NULL;
	size_t length = 0;

	if (OPAL_SUCCESS != find_address(proc, &address, &length) ||
	    pf_reachable(context, address, length, &why) != PF_OK) {
		opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT,
				    opal_btl_base_framework.framework_output,
				    "btl:exanest: %s is not reachable: %s",
				    OPAL_NAME_PRINT(proc->proc_name), why);
		goto free_address;
	}
	endpoint = OBJ_NEW(mca_btl_base_endpoint_t);
	if (NULL == endpoint)
		goto free_address;
	endpoint->proc = proc;
	endpoint->module = module_of(proc);
	if (pf_peer_open(context, address, length, endpoint, &endpoint->peer) < 0) {
		OBJ_RELEASE(endpoint);
		endpoint = NULL;
	}
free_address:
	free(address);
	return endpoint;
}

static mca_btl_base_endpoint_t *find_endpoint(opal_proc_t *proc)
{
	opal_hash_table_t *endpoints = &mca_btl_exanest_component.endpoints;
	const uint64_t key = (uintptr_t)proc;
	mca_btl_base_endpoint_t *endpoint;

	if (OPAL_SUCCESS == opal_hash_table_get_value_uint64(endpoints, key, (void **)&endpoint))
		return endpoint;
	endpoint = new_endpoint(proc);
	if (endpoint &&
	    OPAL_SUCCESS != opal_hash_table_set_value_uint64(endpoints, key, endpoint)) {
		OBJ_RELEASE(endpoint);
		endpoint = NULL;
	}
	return endpoint;
}

/* The endpoint of a process as this module has it, counted; NULL: none. */
static mca_btl_base_endpoint_t *take_endpoint(const mca_btl_exanest_module_t *module,
					      opal_proc_t *proc)
{
	mca_btl_base_endpoint_t *endpoint, *one_sided;

	/* The PML would send through the first module that says it can. */
	if (module == &mca_btl_exanest_module && module_of(proc) != module)
		return NULL;
	endpoint = find_endpoint(proc);
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

static int add_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     mca_btl_base_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	int rc = OPAL_SUCCESS;
	size_t i;

	OPAL_THREAD_LOCK(&component->lock);
	for (i = 0; i < nprocs && OPAL_SUCCESS == rc; i++) {
		endpoints[i] = take_endpoint((mca_btl_exanest_module_t *)btl, procs[i]);
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

static void release_endpoint(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;

	if (!endpoint->owner)
		opal_output_verbose(MCA_BASE_VERBOSE_INFO, opal_btl_base_framework.framework_output,
				    "btl:exanest: %s was reached: %s",
				    OPAL_NAME_PRINT(endpoint->proc->proc_name),
				    pf_peer_path(endpoint->peer));
	if (endpoint->is_waiting) {
		opal_list_remove_item(&component->waiting, &endpoint->super);
		component->waiting_count--;
	}
	OBJ_RELEASE(endpoint);
}

static void drop_endpoint(mca_btl_base_endpoint_t *endpoint)
{
	mca_btl_base_endpoint_t *owner = endpoint->owner;

	if (--endpoint->count)
		return;
	if (owner) {
		owner->one_sided = NULL;
		release_endpoint(endpoint);
		drop_endpoint(owner);
		return;
	}
	opal_hash_table_remove_value_uint64(&mca_btl_exanest_component.endpoints,
					    (uintptr_t)endpoint->proc);
	release_endpoint(endpoint);
}

static int del_procs(mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     mca_btl_base_endpoint_t **endpoints)
{
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	size_t i;

	OPAL_THREAD_LOCK(&component->lock);
	for (i = 0; i < nprocs; i++) {
		/* Left as it is: bml/r2 finds by it that the endpoint is deleted already. */
		if (endpoints[i])
			drop_endpoint(endpoints[i]);
	}
	OPAL_THREAD_UNLOCK(&component->lock);
	return OPAL_SUCCESS;
}

static int finalize(mca_btl_base_module_t *btl)
{
	mca_btl_exanest_module_t *module = (mca_btl_exanest_module_t *)btl;
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	opal_hash_table_t *endpoints = &component->endpoints;
	pf_context *context = component->context;
	mca_btl_base_endpoint_t *endpoint;
	uint64_t key;
	void *node;

	module->error_cb = NULL;
	if (--component->modules)
		return OPAL_SUCCESS;
	while (OPAL_SUCCESS ==
	       opal_hash_table_get_first_key_uint64(endpoints, &key, (void **)&endpoint, &node)) {
		opal_hash_table_remove_value_uint64(endpoints, key);
		release_endpoint(endpoint);
	}
	component->context = NULL;
	pf_close(context);
	return OPAL_SUCCESS;
}

static void dump(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, int verbose)
{
	const pf_stat_info *table = pf_stat_table();
	int stat;

	if (endpoint)
		opal_output(0, "btl:exanest: peer %s: %s, %zu messages wait for room",
			    OPAL_NAME_PRINT(endpoint->proc->proc_name),
			    pf_peer_path(endpoint->peer), opal_list_get_size(&endpoint->pending));
	if (!verbose)
		return;
	for (stat = 0; stat < PF_STAT_COUNT; stat++)
		opal_output(0, "btl:exanest: %s %llu", table[stat].name,
			    (unsigned long long)pf_stat(mca_btl_exanest_component.context, stat));
}

/* Filled in from the other one, with other limits. */
mca_btl_exanest_module_t mca_btl_exanest_net_module;

mca_btl_exanest_module_t mca_btl_exanest_module = {
	.super = {
		.btl_component = &mca_btl_exanest_component.super,
		.btl_add_procs = add_procs,
		.btl_del_procs = del_procs,
		.btl_finalize = finalize,
		.btl_alloc = mca_btl_exanest_alloc,
		.btl_free = mca_btl_exanest_free,
		.btl_prepare_src = mca_btl_exanest_prepare_src,
		.btl_send = mca_btl_exanest_send,
		.btl_sendi = mca_btl_exanest_sendi,
		.btl_put = mca_btl_exanest_put,
		.btl_get = mca_btl_exanest_get,
		.btl_atomic_op = mca_btl_exanest_atomic_op,
		.btl_atomic_fop = mca_btl_exanest_atomic_fop,
		.btl_atomic_cswap = mca_btl_exanest_atomic_cswap,
		.btl_flush = mca_btl_exanest_flush,
		.btl_register_error = register_error,
		.btl_dump = dump,
	},
};
