/* SPDX-License-Identifier: BSD-3-Clause */
/* The modules: the table of functions, error function, end and dump of a module. */
#include "btl_exanest.h"

#include "opal/util/output.h"

#include "btl_exanest_check.h"
#include "btl_exanest_comparison.h"

static int module_register_error(mca_btl_base_module_t *btl,
				 mca_btl_base_module_error_cb_fn_t cbfunc)
{
	((mca_btl_exanest_module_t *)btl)->error_cb = cbfunc;
	return OPAL_SUCCESS;
}

static int module_finalize(mca_btl_base_module_t *btl)
{
	mca_btl_exanest_module_t *module = (mca_btl_exanest_module_t *)btl;
	mca_btl_exanest_component_t *component = &mca_btl_exanest_component;
	pf_context *context = component->context;

	assert_that(component->modules > 0 && context);
	module->error_cb = NULL;
	if (--component->modules)
		return OPAL_SUCCESS;
	mca_btl_exanest_free_endpoints();
	component->context = NULL;
	pf_close(context);
	mca_btl_exanest_comparison_finalize();
	return OPAL_SUCCESS;
}

static void module_dump(mca_btl_base_module_t *btl, mca_btl_base_endpoint_t *endpoint, int verbose)
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

/* Copy of the host module with the limits between hosts: see net_module_init(). */
mca_btl_exanest_module_t mca_btl_exanest_net_module;

mca_btl_exanest_module_t mca_btl_exanest_module = {
	.super = {
		.btl_component = &mca_btl_exanest_component.super,
		.btl_add_procs = mca_btl_exanest_add_procs,
		.btl_del_procs = mca_btl_exanest_del_procs,
		.btl_finalize = module_finalize,
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
		.btl_register_error = module_register_error,
		.btl_dump = module_dump,
	},
};
